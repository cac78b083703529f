//! `receive` and `send`: built-in functions bound to an exchange or a WebSocket session.
//!
//! They use the C API because they are created for every request: looking up a bound method of a
//! class would cost more.

use std::ptr;

use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, ffi};

use super::app_loop::AppLoop;
use super::exchange::Exchange;
use super::failed_awaitable::into_awaitable;
use super::websocket::WebSocket;

/// A method table entry that never changes.
struct Definition(ffi::PyMethodDef);

// SAFETY: the entry is never written after its creation.
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

static WEBSOCKET_RECEIVE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"receive".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: websocket_receive_function },
    ml_flags: ffi::METH_NOARGS,
    ml_doc: ptr::null(),
});

static WEBSOCKET_SEND: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"send".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: websocket_send_function },
    ml_flags: ffi::METH_O,
    ml_doc: ptr::null(),
});

static WEBSOCKET_ENDED: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"ended".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: websocket_ended_function },
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
pub(super) fn websocket_receive<'py>(
    socket: &Bound<'py, WebSocket>,
) -> PyResult<Bound<'py, PyAny>> {
    bound(&WEBSOCKET_RECEIVE, socket)
}

/// The `send` of a session.
pub(super) fn websocket_send<'py>(socket: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
    bound(&WEBSOCKET_SEND, socket)
}

/// The done callback of a session's Task.
pub(super) fn websocket_ended<'py>(socket: &Bound<'py, WebSocket>) -> PyResult<Bound<'py, PyAny>> {
    bound(&WEBSOCKET_ENDED, socket)
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

/// An object that the functions are bound to.
trait Bindable {
    fn app(&self) -> &Py<AppLoop>;
}

impl Bindable for Exchange {
    fn app(&self) -> &Py<AppLoop> {
        &self.app
    }
}

impl Bindable for WebSocket {
    fn app(&self) -> &Py<AppLoop> {
        &self.app
    }
}

/// Calls `with` for the object that a function is bound to.
///
/// # Safety
///
/// `object` must be the bound object that Python passed to the function, a `T`.
unsafe fn with_bound_object<T: PyClass<Frozen = True> + Sync + Bindable>(
    object: *mut ffi::PyObject,
    with: impl for<'py> FnOnce(&Bound<'py, T>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller guarantees the type.
    let object = unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<T>() };
    let result = with(&object);
    // The call may have sent something to the worker.
    let flushed = AppLoop::flush_soon(object.get().app(), py);
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
    unsafe {
        with_bound_object(object, |exchange| {
            into_awaitable(exchange.py(), Exchange::receive(exchange))
        })
    }
}

unsafe extern "C" fn send_function(
    object: *mut ffi::PyObject,
    message: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the message is alive for as long as the call.
    unsafe {
        with_bound_object(object, |exchange| {
            let message = Bound::from_borrowed_ptr(exchange.py(), message);
            into_awaitable(exchange.py(), Exchange::send(exchange, &message))
        })
    }
}

unsafe extern "C" fn websocket_receive_function(
    object: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it with the session it is bound to.
    unsafe {
        with_bound_object(object, |socket| into_awaitable(socket.py(), WebSocket::receive(socket)))
    }
}

unsafe extern "C" fn websocket_send_function(
    object: *mut ffi::PyObject,
    message: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the message is alive for as long as the call.
    unsafe {
        with_bound_object(object, |socket| {
            let message = Bound::from_borrowed_ptr(socket.py(), message);
            into_awaitable(socket.py(), WebSocket::send(socket, &message))
        })
    }
}

unsafe extern "C" fn websocket_ended_function(
    object: *mut ffi::PyObject,
    task: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the Task is alive for as long as the call.
    unsafe {
        with_bound_object(object, |socket| {
            let task = Bound::from_borrowed_ptr(socket.py(), task);
            WebSocket::ended(socket, &task)
        })
    }
}
