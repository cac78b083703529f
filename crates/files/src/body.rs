//! Content on its way: pieces of memory and file, none of which a worker waits for.
//!
//! A large file is sent in windows. Before each the page cache is asked; a window that is not in
//! memory is read on the blocking pool first, and only then handed on to `sendfile`.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use exchange::{Body, BodyStream, Fault, Frame};
use net::{Blocking, FileRange};

use crate::limits::WINDOW_BYTES;
use crate::resource::{Content, Variant};

/// The bytes from `first` on, `length` of them, as a body.
pub(crate) fn part(variant: &Variant, first: u64, length: u64) -> Body {
    match &variant.content {
        Content::Memory(bytes) => Body::from(slice(bytes, first, length)),
        // Files of one window are known to be in memory.
        Content::File(file) if variant.length <= WINDOW_BYTES => {
            Body::File(FileRange { file: file.clone(), offset: first, length })
        }
        Content::File(_) => {
            let mut pieces = Pieces::default();
            pieces.push_part(variant, first, length);
            Body::stream(pieces)
        }
    }
}

fn slice(bytes: &Bytes, first: u64, length: u64) -> Bytes {
    let first = usize::try_from(first).unwrap_or(usize::MAX).min(bytes.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len() - first);
    bytes.slice(first..first + length)
}

/// Pieces in order.
pub(crate) struct Pieces {
    waiting: VecDeque<Piece>,
    length: u64,
    warming: Option<Blocking<io::Result<()>>>,
    /// `net::files::is_resident`, except where a test wants a slow disk.
    is_resident: fn(&File, u64, u64) -> bool,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces {
            waiting: VecDeque::new(),
            length: 0,
            warming: None,
            is_resident: net::files::is_resident,
        }
    }
}

enum Piece {
    Bytes(Bytes),
    File(FileRange),
}

impl Pieces {
    pub(crate) fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.length += bytes.len() as u64;
        self.waiting.push_back(Piece::Bytes(bytes));
    }

    pub(crate) fn push_part(&mut self, variant: &Variant, first: u64, length: u64) {
        match &variant.content {
            Content::Memory(bytes) => self.push(slice(bytes, first, length)),
            Content::File(file) => {
                self.length += length;
                let range = FileRange { file: file.clone(), offset: first, length };
                self.waiting.push_back(Piece::File(range));
            }
        }
    }
}

impl BodyStream for Pieces {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let warmed = self.warming.is_some();
        if let Some(warming) = &mut self.warming {
            let done = ready!(Pin::new(warming).poll(cx));
            self.warming = None;
            if let Err(error) = done.flatten() {
                let fault = Fault::internal(format!("a file cannot be read: {error}"));
                return Poll::Ready(Some(Err(fault)));
            }
        }
        match self.waiting.pop_front() {
            None => Poll::Ready(None),
            Some(Piece::Bytes(bytes)) => {
                self.length -= bytes.len() as u64;
                Poll::Ready(Some(Ok(Frame::Data(bytes))))
            }
            Some(Piece::File(mut range)) => {
                let window = FileRange { length: range.length.min(WINDOW_BYTES), ..range.clone() };
                if !warmed && !(self.is_resident)(&window.file, window.offset, window.length) {
                    self.waiting.push_front(Piece::File(range));
                    self.warming = Some(net::blocking(move || {
                        net::files::warm(&window.file, window.offset, window.length)
                    }));
                    return self.poll_frame(cx);
                }
                range.offset += window.length;
                range.length -= window.length;
                if range.length > 0 {
                    self.waiting.push_front(Piece::File(range));
                }
                self.length -= window.length;
                Poll::Ready(Some(Ok(Frame::File(window))))
            }
        }
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_slow_disk(file: File) -> Pieces {
        let length = WINDOW_BYTES + 5;
        let range = FileRange { file: file.into(), offset: 0, length };
        let waiting = VecDeque::from([Piece::File(range)]);
        Pieces { is_resident: |_, _, _| false, waiting, length, ..Pieces::default() }
    }

    #[test]
    fn what_is_not_in_memory_is_read_on_the_pool_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(WINDOW_BYTES + 5).unwrap();
        net::worker::block_on_local(async {
            let mut body = Body::stream(on_a_slow_disk(file.reopen().unwrap()));
            let mut windows = Vec::new();
            while let Some(frame) = body.frame().await {
                let Frame::File(range) = frame.unwrap() else { panic!("not a file") };
                windows.push((range.offset, range.length));
            }
            assert_eq!(windows, [(0, WINDOW_BYTES), (WINDOW_BYTES, 5)]);
            assert_eq!(body.length(), Some(0));
            // A file that cannot be read shows that somebody tried.
            let write_only = File::options().write(true).open(file.path()).unwrap();
            let fault = Body::stream(on_a_slow_disk(write_only)).frame().await.unwrap();
            assert!(fault.unwrap_err().detail.contains("cannot be read"));
        });
    }
}
