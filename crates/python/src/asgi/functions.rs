//! `receive` and `send` as Python calls them: built-in functions bound to an exchange,
//! or to a session of WebSocket.
//!
//! Made by hand because they are called for every event: a bound method of a class would be looked
//! up and made anew each time.

use std::ptr;

use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, ffi};

use super::exchange::Exchange;
use super::failed::awaited;
use super::server::Server;
use super::websocket::WebSocket;

/// A method table entry that never changes.
struct Definition(ffi::PyMethodDef);

// SAFETY: nothing in it is written after it is made.
unsafe impl Sync for Definition {}

static RECEIVE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"receive".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: receive_function },
    ml_flags: ffi::METH_NOARGS,
    ml_doc: ptr::null(),
});

static SEND: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"send".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: send_function },
    ml_flags: ffi::METH_O,
    ml_doc: ptr::null(),
});

static TALK_RECEIVE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"receive".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: talk_receive_function },
    ml_flags: ffi::METH_NOARGS,
    ml_doc: ptr::null(),
});

static TALK_SEND: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"send".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: talk_send_function },
    ml_flags: ffi::METH_O,
    ml_doc: ptr::null(),
});

static TALK_ENDED: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"ended".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: talk_ended_function },
    ml_flags: ffi::METH_O,
    ml_doc: ptr::null(),
});

pub(super) fn receive<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, PyAny>> {
    bound(&RECEIVE, exchange)
}

pub(super) fn send<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, PyAny>> {
    bound(&SEND, exchange)
}

/// The `receive` of a session.
pub(super) fn talk_receive<'py>(socket: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
    bound(&TALK_RECEIVE, socket)
}

/// The `send` of a session.
pub(super) fn talk_send<'py>(socket: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
    bound(&TALK_SEND, socket)
}

/// What the Task of a session calls when it has ended.
pub(super) fn talk_ended<'py>(socket: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
    bound(&TALK_ENDED, socket)
}

fn bound<'py, T>(
    definition: &'static Definition,
    object: &Bound<'py, T>,
) -> PyResult<Bound<'py, PyAny>> {
    let entry = (&raw const definition.0).cast_mut();
    // SAFETY: the entry lives as long as the process and Python does not write to it.
    unsafe {
        let function = ffi::PyCFunction_New(entry, object.as_ptr());
        Bound::from_owned_ptr_or_err(object.py(), function)
    }
}

/// What the functions are bound to.
pub(super) trait Served {
    fn server(&self) -> &Py<Server>;
}

impl Served for Exchange {
    fn server(&self) -> &Py<Server> {
        &self.server
    }
}

impl Served for WebSocket {
    fn server(&self) -> &Py<Server> {
        &self.server
    }
}

/// Calls `with` for the object a function is bound to, as Python calls it.
// SAFETY: whoever calls it passes on what Python gave, and has bound the function to a `T`.
unsafe fn called<T: PyClass<Frozen = True> + Sync + Served>(
    object: *mut ffi::PyObject,
    with: impl for<'py> FnOnce(&Bound<'py, T>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller has said so.
    let object = unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<T>() };
    let result = with(&object);
    // Whatever was said to the worker, it hears of it soon.
    let flushed = Server::flush_soon(object.get().server(), py);
    match flushed.and(result) {
        Ok(result) => result.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn receive_function(
    object: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it with the exchange it is bound to.
    unsafe { called(object, |exchange| awaited(exchange.py(), Exchange::receive(exchange))) }
}

unsafe extern "C" fn send_function(
    object: *mut ffi::PyObject,
    message: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the message is alive for as long as the call.
    unsafe {
        called(object, |exchange| {
            let message = Bound::from_borrowed_ptr(exchange.py(), message);
            awaited(exchange.py(), Exchange::send(exchange, &message))
        })
    }
}

unsafe extern "C" fn talk_receive_function(
    object: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it with the session it is bound to.
    unsafe { called(object, |socket| awaited(socket.py(), WebSocket::receive(socket))) }
}

unsafe extern "C" fn talk_send_function(
    object: *mut ffi::PyObject,
    message: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the message is alive for as long as the call.
    unsafe {
        called(object, |socket| {
            let message = Bound::from_borrowed_ptr(socket.py(), message);
            awaited(socket.py(), WebSocket::send(socket, &message))
        })
    }
}

unsafe extern "C" fn talk_ended_function(
    object: *mut ffi::PyObject,
    task: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the Task is alive for as long as the call.
    unsafe {
        called(object, |socket| {
            let task = Bound::from_borrowed_ptr(socket.py(), task);
            WebSocket::ended(socket, &task)
        })
    }
}
