//! Waiting in a `receive` or `send` for which there is nothing yet.
//!
//! The coroutine's Task waits for a future of the loop; the desk says which wait has ended, and the
//! drain then completes the future. Cancelling the Task takes the wait back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll};

use bytes::Bytes;
use net::FileRange;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::exchange::Exchange;
use super::send::gone;
use crate::gil::GilCell;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The next event of the request.
    Receive,
    /// Room for more of the response.
    Room,
}

/// The awaitable.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Wait {
    exchange: Py<Exchange>,
    what: What,
    under_way: GilCell<Option<UnderWay>>,
}

struct UnderWay {
    number: u64,
    /// The future's own iterator.
    future: Py<PyAny>,
}

/// An awaitable for `what`.
pub(super) fn wait<'py>(
    exchange: &Bound<'py, Exchange>,
    what: What,
) -> PyResult<Bound<'py, PyAny>> {
    let wait = Wait { exchange: exchange.clone().unbind(), what, under_way: GilCell::default() };
    Ok(Bound::new(exchange.py(), wait)?.into_any())
}

#[pymethods]
impl Wait {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.go_on(py)
    }

    fn send(&self, py: Python<'_>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.go_on(py)
    }

    #[pyo3(signature = (*arguments))]
    fn throw(&self, py: Python<'_>, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let under_way = self.under_way.take();
        let Some(UnderWay { number, future }) = under_way else {
            let error = arguments.get_item(0)?;
            return Err(PyErr::from_value(error));
        };
        self.forget(py, number);
        future.call_method1(py, "throw", arguments)
    }

    fn close(&self, py: Python<'_>) {
        if let Some(under_way) = self.under_way.take() {
            self.forget(py, under_way.number);
        }
    }
}

impl Wait {
    fn go_on(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        loop {
            let future =
                self.under_way.get().as_ref().map(|under_way| under_way.future.clone_ref(py));
            if let Some(future) = future
                && let Some(yielded) = step(py, &future)?
            {
                return Ok(yielded);
            }
            // It was completed: whatever it waited for, the exchange says what there is.
            if let Some(under_way) = self.under_way.take() {
                self.forget(py, under_way.number);
            }
            self.look(py)?;
        }
    }

    /// Ends the wait, or begins another one.
    fn look(&self, py: Python<'_>) -> PyResult<()> {
        let exchange = self.exchange.get();
        let server = exchange.server.get();
        let number = server.next_wait();
        let waker = server.desk().waker(number);
        let mut cx = Context::from_waker(&waker);
        let ended = match self.what {
            What::Receive => match exchange.poll_receive(&mut cx) {
                Poll::Ready(event) => Some(event.into_event(py)?.unbind()),
                Poll::Pending => None,
            },
            What::Room => match exchange.poll_room(&mut cx) {
                Poll::Ready(Ok(())) => Some(py.None()),
                Poll::Ready(Err(_)) => return Err(gone()),
                Poll::Pending => None,
            },
        };
        if let Some(value) = ended {
            return Err(PyStopIteration::new_err((value,)));
        }
        let future = server.begin_wait(py, number)?;
        if self.what == What::Receive {
            exchange.state.get().receiving = Some(number);
        }
        *self.under_way.get() = Some(UnderWay { number, future });
        Ok(())
    }

    fn forget(&self, py: Python<'_>, number: u64) {
        let exchange = self.exchange.get();
        exchange.server.get().forget_wait(py, number);
        let mut state = exchange.state.get();
        if state.receiving == Some(number) {
            state.receiving = None;
        }
    }
}

/// Asks a future's iterator: what it yields while it is not done.
fn step(py: Python<'_>, iterator: &Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let mut result = std::ptr::null_mut();
    // SAFETY: the iterator is alive and the result is a place of ours; a result is owned by us.
    unsafe {
        match ffi::PyIter_Send(iterator.as_ptr(), ffi::Py_None(), &raw mut result) {
            ffi::PySendResult::PYGEN_NEXT => Ok(Some(Bound::from_owned_ptr(py, result).unbind())),
            ffi::PySendResult::PYGEN_RETURN => {
                drop(Bound::from_owned_ptr(py, result).unbind());
                Ok(None)
            }
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
        }
    }
}

/// What lies in a part of a file: the body of a request that was kept there.
pub(super) fn read(range: &FileRange) -> io::Result<Bytes> {
    let file: &File = &range.file;
    let mut bytes = vec![0; usize::try_from(range.length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, range.offset)?;
    Ok(bytes.into())
}
