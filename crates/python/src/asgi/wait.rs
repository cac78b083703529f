//! Waiting in a `receive` or `send` for which there is nothing yet.
//!
//! The coroutine's Task waits for a future of the loop; the desk says which wait has ended, and the
//! drain then completes the future. Cancelling the Task takes the wait back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use net::FileRange;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::exchange::Exchange;
use super::functions::Served;
use super::send::gone;
use super::server::Server;
use super::websocket::WebSocket;
use crate::gil::GilCell;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The next event of the request.
    Receive,
    /// Room for more of the response.
    Room,
}

/// Whose `receive` or `send` waits.
pub(super) enum Owner {
    Exchange(Py<Exchange>),
    WebSocket(Py<WebSocket>),
}

impl From<Py<Exchange>> for Owner {
    fn from(exchange: Py<Exchange>) -> Owner {
        Owner::Exchange(exchange)
    }
}

impl From<Py<WebSocket>> for Owner {
    fn from(socket: Py<WebSocket>) -> Owner {
        Owner::WebSocket(socket)
    }
}

impl Owner {
    fn server(&self) -> &Py<Server> {
        match self {
            Owner::Exchange(exchange) => exchange.get().server(),
            Owner::WebSocket(socket) => socket.get().server(),
        }
    }

    /// What there is now.
    fn look(&self, py: Python<'_>, what: What, cx: &mut Context<'_>) -> Poll<PyResult<Py<PyAny>>> {
        let event = match (self, what) {
            (Owner::Exchange(exchange), What::Receive) => {
                ready!(exchange.get().poll_receive(cx)).into_event(py)
            }
            (Owner::WebSocket(socket), What::Receive) => {
                ready!(socket.get().poll_receive(cx)).into_event(py)
            }
            (Owner::Exchange(exchange), What::Room) => {
                let room = ready!(exchange.get().poll_room(cx));
                return Poll::Ready(room.map(|()| py.None()).map_err(|_| gone()));
            }
            (Owner::WebSocket(socket), What::Room) => {
                let room = ready!(socket.get().poll_room(cx));
                return Poll::Ready(room.map(|()| py.None()).map_err(|_| gone()));
            }
        };
        Poll::Ready(event.map(Bound::unbind))
    }

    fn began(&self, what: What, number: u64) {
        match self {
            Owner::Exchange(exchange) => exchange.get().state.get().waits.began(what, number),
            Owner::WebSocket(socket) => socket.get().state.get().waits.began(what, number),
        }
    }

    fn ended(&self, py: Python<'_>, what: What, number: u64) {
        let server = self.server().get();
        server.forget_wait(py, number);
        let others = match self {
            Owner::Exchange(exchange) => exchange.get().state.get().waits.ended(what, number),
            Owner::WebSocket(socket) => socket.get().state.get().waits.ended(what, number),
        };
        for other in others {
            server.end_wait(py, other);
        }
    }
}

/// The awaitable.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Wait {
    owner: Owner,
    what: What,
    under_way: GilCell<Option<UnderWay>>,
}

struct UnderWay {
    number: u64,
    /// The future's own iterator.
    future: Py<PyAny>,
}

/// An awaitable for `what`.
pub(super) fn wait(
    owner: impl Into<Owner>,
    py: Python<'_>,
    what: What,
) -> PyResult<Bound<'_, PyAny>> {
    let wait = Wait { owner: owner.into(), what, under_way: GilCell::default() };
    Ok(Bound::new(py, wait)?.into_any())
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
        self.owner.ended(py, self.what, number);
        future.call_method1(py, "throw", arguments)
    }

    fn close(&self, py: Python<'_>) {
        if let Some(under_way) = self.under_way.take() {
            self.owner.ended(py, self.what, under_way.number);
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
                self.owner.ended(py, self.what, under_way.number);
            }
            let looked = self.look(py);
            // A worker that waited for room may have it now.
            Server::flush_soon(self.owner.server(), py)?;
            looked?;
        }
    }

    /// Ends the wait, or begins another one.
    fn look(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.owner.server().get();
        let number = server.next_wait();
        let waker = server.desk().waker(number);
        let mut cx = Context::from_waker(&waker);
        if let Poll::Ready(ended) = self.owner.look(py, self.what, &mut cx) {
            return Err(PyStopIteration::new_err((ended?,)));
        }
        let future = server.begin_wait(py, number)?;
        self.owner.began(self.what, number);
        *self.under_way.get() = Some(UnderWay { number, future });
        Ok(())
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
