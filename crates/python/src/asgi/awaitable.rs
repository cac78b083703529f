//! The awaitable that `receive` and `send` return if they need not wait: it is complete.
//!
//! Unlike a future, it does not use the event loop, and awaiting it allocates nothing. It has all
//! methods that `asyncio.iscoroutine` requires, because applications call
//! `create_task(receive())`.

use std::ffi::c_int;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

#[repr(C)]
struct Ready {
    head: ffi::PyObject,
    /// The result, an owned reference; never null while the object is alive.
    value: *mut ffi::PyObject,
}

static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static NOTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns an awaitable whose result is `value`.
pub(super) fn ready(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = value.py();
    let kind = TYPE.get_or_try_init(py, || make_type(py))?;
    // SAFETY: `make_type` created the type for objects of the size of `Ready`; its allocator
    // returns memory of that size, or null with an error set.
    unsafe {
        let kind = kind.as_ptr().cast::<ffi::PyTypeObject>();
        let object = ffi::PyType_GenericAlloc(kind, 0);
        if object.is_null() {
            return Err(PyErr::fetch(py));
        }
        (*object.cast::<Ready>()).value = value.into_ptr();
        Ok(Bound::from_owned_ptr(py, object))
    }
}

/// Returns the shared awaitable whose result is `None`.
pub(super) fn nothing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let make = || ready(py.None().into_bound(py)).map(Bound::unbind);
    Ok(NOTHING.get_or_try_init(py, make)?.bind(py).clone())
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut methods = vec![
        method(c"send", ffi::PyMethodDefPointer { PyCFunction: send }, ffi::METH_O),
        method(c"throw", ffi::PyMethodDefPointer { PyCFunction: throw }, ffi::METH_VARARGS),
        method(c"close", ffi::PyMethodDefPointer { PyCFunction: close }, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ];
    let slot = |slot: c_int, pfunc: *mut std::ffi::c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = vec![
        slot(ffi::Py_tp_dealloc, dealloc as *mut _),
        slot(ffi::Py_am_await, return_self as *mut _),
        slot(ffi::Py_am_send, am_send as *mut _),
        slot(ffi::Py_tp_iter, return_self as *mut _),
        slot(ffi::Py_tp_iternext, next as *mut _),
        // The type refers to the table until the end of the process.
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, ptr::null_mut()),
    ];
    std::mem::forget(methods);
    let mut spec = ffi::PyType_Spec {
        name: c"tidegate._tidegate.Ready".as_ptr(),
        basicsize: size_of::<Ready>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification and its slots live across the call, and the functions have the
    // types that their slots require.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }?;
    Ok(made.cast_into::<PyType>()?.unbind())
}

fn method(
    name: &'static std::ffi::CStr,
    function: ffi::PyMethodDefPointer,
    flags: c_int,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: function,
        ml_flags: flags,
        ml_doc: ptr::null(),
    }
}

// SAFETY of the functions below: Python calls them with the GIL held and an object of the type.

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ffi::Py_DECREF((*object.cast::<Ready>()).value);
        ffi::PyObject_Free(object.cast());
        // An object of a heap type owns a reference to its type.
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn return_self(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { ffi::Py_NewRef(object) }
}

unsafe extern "C" fn am_send(
    object: *mut ffi::PyObject,
    _sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: as above.
    unsafe { *result = ffi::Py_NewRef((*object.cast::<Ready>()).value) };
    ffi::PySendResult::PYGEN_RETURN
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let value = (*object.cast::<Ready>()).value;
        // An iterator that ends without an exception returns `None`.
        if value != ffi::Py_None() {
            stop(value);
        }
    }
    ptr::null_mut()
}

unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    _sent: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { stop((*object.cast::<Ready>()).value) };
    ptr::null_mut()
}

/// Raises `StopIteration(value)`; with `PyErr_SetObject` alone a tuple would become the arguments.
unsafe fn stop(value: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        let stop = ffi::PyObject_CallFunctionObjArgs(
            ffi::PyExc_StopIteration,
            value,
            ptr::null_mut::<ffi::PyObject>(),
        );
        if !stop.is_null() {
            ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
            ffi::Py_DECREF(stop);
        }
    }
}

/// `throw(error)`, or the deprecated `throw(type, value, traceback)`.
unsafe extern "C" fn throw(
    _object: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let first = ffi::PyTuple_GetItem(arguments, 0);
        if first.is_null() {
            return ptr::null_mut();
        }
        let has_value = ffi::PyTuple_Size(arguments) > 1;
        let value = if has_value { ffi::PyTuple_GetItem(arguments, 1) } else { ptr::null_mut() };
        if ffi::PyExceptionInstance_Check(first) != 0 {
            ffi::PyErr_SetObject(ffi::Py_TYPE(first).cast(), first);
        } else if value.is_null() || value == ffi::Py_None() {
            ffi::PyErr_SetNone(first);
        } else {
            ffi::PyErr_SetObject(first, value);
        }
    }
    ptr::null_mut()
}

unsafe extern "C" fn close(
    _object: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { ffi::Py_NewRef(ffi::Py_None()) }
}
