//! The unread part of a request body.

use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use message::{BodyStream, Fault, Frame};
use net::FileRange;
use offload::{Incoming, wait, wake_batch};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::wsgi::limits::BLOCK_BYTES;

/// Bytes in memory, then a part of a file, then bytes that arrive.
#[derive(Default)]
pub(in crate::wsgi) struct Source {
    data: Bytes,
    file: Option<FileRange>,
    incoming: Option<Incoming>,
    /// The error that ended the body: every read that needs more bytes fails with it.
    fault: Option<Fault>,
}

impl Source {
    /// Takes the part of a body that is available without waiting.
    pub(in crate::wsgi) fn new(mut body: Incoming) -> Source {
        let mut source = Source::default();
        if body.length() == Some(0) {
            return source;
        }
        match body.poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(Frame::Data(data)))) => source.data = data,
            // Nothing follows a body in a file.
            Poll::Ready(Some(Ok(Frame::File(range)))) => {
                source.file = Some(range);
                return source;
            }
            Poll::Ready(Some(Ok(Frame::Trailers(_))) | None) => return source,
            Poll::Ready(Some(Err(fault))) => source.fault = Some(fault),
            Poll::Pending => {}
        }
        if body.length() != Some(0) {
            source.incoming = Some(body);
        }
        source
    }

    /// Reads `most` bytes; fewer only at the end.
    pub(super) fn read<'py>(
        &mut self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if self.incoming.is_some() && self.available() < most {
            let mut data = Vec::from(std::mem::take(&mut self.data));
            while data.len() < most
                && let Some(more) = self.receive(py)?
            {
                data.extend_from_slice(&more);
            }
            self.data = data.into();
        }
        let length = self.available().min(most);
        let from_memory = self.data.split_to(self.data.len().min(length));
        let rest = (length - from_memory.len()) as u64;
        let Some(range) = self.file.as_mut().filter(|_| rest > 0) else {
            return Ok(PyBytes::new(py, &from_memory));
        };
        let bytes = PyBytes::new_with(py, length, |bytes| {
            let (memory, file) = bytes.split_at_mut(from_memory.len());
            memory.copy_from_slice(&from_memory);
            Ok(py.detach(|| range.file.read_exact_at(file, range.offset))?)
        })?;
        range.offset += rest;
        range.length -= rest;
        Ok(bytes)
    }

    /// Reads to the end of a line, but at most `most` bytes.
    pub(super) fn line<'py>(
        &mut self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut line = Vec::new();
        loop {
            let window = &self.data[..self.data.len().min(most - line.len())];
            let end = window.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(window.len(), |end| end + 1);
            let is_done = end.is_some() || line.len() + taken == most;
            if is_done && line.is_empty() {
                let bytes = PyBytes::new(py, &window[..taken]);
                self.data.advance(taken);
                return Ok(bytes);
            }
            line.extend_from_slice(&window[..taken]);
            self.data.advance(taken);
            if is_done || !self.load(py)? {
                return Ok(PyBytes::new(py, &line));
            }
        }
    }

    /// The number of bytes that can be read without waiting.
    fn available(&self) -> usize {
        let in_file = self.file.as_ref().map_or(0, |range| range.length);
        self.data.len().saturating_add(usize::try_from(in_file).unwrap_or(usize::MAX))
    }

    /// Loads more of the body into memory; false at its end.
    fn load(&mut self, py: Python<'_>) -> PyResult<bool> {
        while self.data.is_empty() {
            if let Some(range) = self.file.as_mut().filter(|range| range.length > 0) {
                let mut block = vec![0; range.length.min(BLOCK_BYTES) as usize];
                py.detach(|| range.file.read_exact_at(&mut block, range.offset))?;
                range.offset += block.len() as u64;
                range.length -= block.len() as u64;
                self.data = block.into();
            } else {
                match self.receive(py)? {
                    Some(data) => self.data = data,
                    None => return Ok(self.available() > 0),
                }
            }
        }
        Ok(true)
    }

    /// Waits for more bytes; `None` at the end, or if the rest is in a file.
    fn receive(&mut self, py: Python<'_>) -> PyResult<Option<Bytes>> {
        if let Some(fault) = &self.fault {
            return Err(incomplete(fault));
        }
        let Some(body) = &mut self.incoming else { return Ok(None) };
        wake_batch::flush();
        let frame = py.detach(|| wait(body.frame()));
        if body.length() == Some(0) {
            self.incoming = None;
        }
        match frame {
            Some(Ok(Frame::Data(data))) => return Ok(Some(data)),
            Some(Ok(Frame::File(range))) => self.file = Some(range),
            Some(Ok(Frame::Trailers(_))) | None => {}
            Some(Err(fault)) => {
                let error = incomplete(&fault);
                self.fault = Some(fault);
                return Err(error);
            }
        }
        self.incoming = None;
        Ok(None)
    }
}

/// The exception for a body that ended too early.
fn incomplete(fault: &Fault) -> PyErr {
    PyOSError::new_err(format!("the body of the request is incomplete: {}", fault.slug()))
}
