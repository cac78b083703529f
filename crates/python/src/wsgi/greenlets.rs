//! WSGI for greenlets: requests, and their responses, for Python code that runs each of them in a
//! greenlet of gevent's (`tidegate/_gevent.py`).
//!
//! A switch of greenlets moves the C stack. So no function of this file calls the application or
//! any other Python code that may switch, none waits, and no borrow outlives a call: the caller
//! asks for room before it sends a piece, and waits itself until the number of its wait is ended.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use offload::{Arrival, Event, Head, Incoming, OffloadedRequest, RequestQueue};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use wire::Method;

use super::application::Application;
use super::file;
use super::functions::{body_bytes, early_hints, start_response};
use super::input::{Input, Source};
use super::limits::JOINED_BYTES;
use super::reply::{AfterPiece, Reply};
use super::server::{AppOptions, application, count_begin, count_end, deny};
use super::thread_pool::ThreadPool;
use crate::app_status::AppStatus;
use crate::gil::GilCell;

/// The requests of a WSGI application that runs in greenlets.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct GreenletServer(Arc<Application>);

impl GreenletServer {
    pub fn new(
        py: Python<'_>,
        status: Arc<AppStatus>,
        pool: Arc<ThreadPool>,
        options: AppOptions,
    ) -> PyResult<GreenletServer> {
        // Bodies are complete before a request is queued, as for threads.
        status.queue().serve_threads();
        application(py, status, pool, options).map(GreenletServer)
    }

    fn queue(&self) -> &Arc<RequestQueue> {
        self.0.status.queue()
    }
}

#[pymethods]
impl GreenletServer {
    /// The descriptor that is readable when [`GreenletServer::take`] must be called.
    fn fileno(&self) -> i32 {
        self.0.status.event().as_fd().as_raw_fd()
    }

    /// True once the process stops: all requests have ended, or may be cut off.
    #[getter]
    fn is_stopping(&self) -> bool {
        self.0.status.is_stopping()
    }

    /// Returns at most `limit` new requests, and the numbers of the waits that have ended. If the
    /// limit is reached, the caller calls again when it can begin more.
    fn take(&self, limit: usize) -> PyResult<(Vec<GreenletRequest>, Vec<u64>)> {
        let (status, queue) = (&self.0.status, self.queue());
        status.event().reset();
        queue.mark_awake();
        let (mut requests, mut ended) = (Vec::new(), Vec::new());
        loop {
            ended.extend(std::iter::from_fn(|| queue.take_ended()));
            if requests.len() >= limit {
                if queue.sleep_until_ended() {
                    break;
                }
                continue;
            }
            match queue.take_arrival() {
                Some(Event::Arrived(Arrival::Exchange(request), at_us)) => {
                    let now_us = net::clock::precise_us();
                    count_begin(&self.0, now_us.saturating_sub(at_us));
                    requests.push(GreenletRequest::new(self.0.clone(), *request, now_us));
                }
                Some(Event::Arrived(Arrival::Session(session), _)) => deny(*session),
                Some(Event::Ended(number)) => ended.push(number),
                None if queue.sleep() => break,
                None => {}
            }
        }
        Ok((requests, ended))
    }

    /// Reports that the hub runs. Without another report within this time it is blocked.
    fn beat(&self, within_ms: u64) {
        let due_us = net::clock::precise_us().saturating_add(within_ms.saturating_mul(1000));
        self.0.status.set_blocked(due_us, 0);
    }
}

/// A request that a greenlet handles.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct GreenletRequest {
    application: Arc<Application>,
    request: GilCell<Option<OffloadedRequest>>,
    reply: GilCell<Option<Py<Reply>>>,
    began_us: u64,
}

impl GreenletRequest {
    fn new(
        application: Arc<Application>,
        request: OffloadedRequest,
        began_us: u64,
    ) -> GreenletRequest {
        let request = GilCell::new(Some(request));
        GreenletRequest { application, request, reply: GilCell::default(), began_us }
    }

    fn reply(&self, py: Python<'_>) -> PyResult<Py<Reply>> {
        let reply = self.reply.get().as_ref().map(|reply| reply.clone_ref(py));
        reply.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the request has not begun"))
    }
}

#[pymethods]
impl GreenletRequest {
    /// Returns `environ` and `start_response`.
    fn begin<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let request = self.request.take();
        let Some(OffloadedRequest { head, body, answer }) = request else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err("the request has begun"));
        };
        let reply = Bound::new(py, Reply::new(self.application.clone()))?;
        reply.get().begin(answer, head.method == Method::Head);
        *self.reply.get() = Some(reply.clone().unbind());
        let environ = self.environ(&reply, &head, body)?;
        Ok((environ, start_response(&reply)?))
    }

    /// Sends a body that is a list or tuple of bytes and needs no waiting; returns whether it is.
    fn send_whole(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<bool> {
        let items: Vec<_> = if let Ok(list) = body.cast_exact::<PyList>() {
            list.iter().collect()
        } else if let Ok(tuple) = body.cast_exact::<PyTuple>() {
            tuple.iter().collect()
        } else {
            return Ok(false);
        };
        let reply = self.reply(py)?;
        let reply = reply.get();
        let pieces: Vec<&[u8]> =
            items.iter().map(|item| Ok(body_bytes(item)?.as_bytes())).collect::<PyResult<_>>()?;
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if !reply.is_open() || (pieces.len() > 1 && length > JOINED_BYTES) {
            return Ok(false);
        }
        match pieces.as_slice() {
            _ if length == 0 => {}
            [piece] => drop(reply.piece(py, piece, true)?),
            pieces => drop(reply.piece(py, &pieces.concat(), true)?),
        }
        Ok(true)
    }

    /// Sends the rest of a regular file, in the kernel; returns whether it is one.
    fn send_file(&self, py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<bool> {
        let reply = self.reply(py)?;
        if !reply.get().is_open() {
            return Ok(false);
        }
        file::send_file(reply.get(), file)
    }

    /// True if a piece can be sent without waiting. Otherwise the wait of this number ends when it
    /// can.
    fn has_room(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        let waker = self.application.status.queue().waker(number);
        Ok(self.reply(py)?.get().has_room(&waker))
    }

    /// Sends a piece of the body, for which there is room; `is_whole` is true if there is no other.
    /// False if the body is complete, or the client has disconnected.
    fn piece(&self, py: Python<'_>, data: &Bound<'_, PyAny>, is_whole: bool) -> PyResult<bool> {
        let reply = self.reply(py)?;
        let data = body_bytes(data)?.as_bytes();
        if data.is_empty() {
            return Ok(!reply.get().is_unwanted());
        }
        Ok(reply.get().piece(py, data, is_whole)? == AfterPiece::Continue)
    }

    /// Completes the response when the application has returned, or has `failed`.
    fn end(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        let status = &self.application.status;
        count_end(status, net::clock::precise_us().saturating_sub(self.began_us));
        let reply = self.reply(py)?;
        let ended = reply.get().end(py, failed);
        // The reply and its `write` refer to each other.
        let write = reply.get().write.take();
        drop(write);
        ended
    }
}

impl GreenletRequest {
    fn environ<'py>(
        &self,
        reply: &Bound<'py, Reply>,
        head: &Head,
        body: Incoming,
    ) -> PyResult<Bound<'py, PyAny>> {
        use message::BodyStream;

        let py = reply.py();
        let input = match body.length() {
            Some(0) => None,
            _ => Some(Bound::new(py, Input::new(Source::new(body)))?.into_any()),
        };
        let early_hints = early_hints(reply)?;
        Ok(self.application.environs.environ(py, head, input, &early_hints)?.into_any())
    }
}
