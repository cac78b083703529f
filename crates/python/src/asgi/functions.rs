//! `receive` and `send` as Python calls them: built-in functions bound to an exchange.
//!
//! Made by hand because they are called for every event: a bound method of a class would be looked
//! up and made anew each time.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::exchange::Exchange;

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

pub(super) fn receive<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, PyAny>> {
    bound(&RECEIVE, exchange)
}

pub(super) fn send<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, PyAny>> {
    bound(&SEND, exchange)
}

fn bound<'py>(
    definition: &'static Definition,
    exchange: &Bound<'py, Exchange>,
) -> PyResult<Bound<'py, PyAny>> {
    let entry = (&raw const definition.0).cast_mut();
    // SAFETY: the entry lives as long as the process and Python does not write to it.
    unsafe {
        let function = ffi::PyCFunction_New(entry, exchange.as_ptr());
        Bound::from_owned_ptr_or_err(exchange.py(), function)
    }
}

/// Calls `with` for an exchange, as Python calls a function.
unsafe fn called(
    object: *mut ffi::PyObject,
    with: impl for<'py> FnOnce(&Bound<'py, Exchange>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the functions above are bound to exchanges only.
    let exchange =
        unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<Exchange>() };
    match with(&exchange) {
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
    unsafe { called(object, Exchange::receive) }
}

unsafe extern "C" fn send_function(
    object: *mut ffi::PyObject,
    message: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the message is alive for as long as the call.
    unsafe {
        called(object, |exchange| {
            let message = Bound::from_borrowed_ptr(exchange.py(), message);
            let sent = Exchange::send(exchange, &message);
            super::server::Server::flush_soon(&exchange.get().server, exchange.py())?;
            sent
        })
    }
}
