//! `start_response`, `write` and `wsgi.early_hints`: built-in functions bound to a reply.

use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::reply::Reply;
use super::start::{Start, read_hint};

/// A method table entry that never changes.
struct Definition(ffi::PyMethodDef);

// SAFETY: the entry is never written after its creation.
unsafe impl Sync for Definition {}

static START_RESPONSE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"start_response".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: start_response_function },
    ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    ml_doc: c"start_response(status, response_headers, exc_info=None)".as_ptr(),
});

static WRITE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"write".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: write_function },
    ml_flags: ffi::METH_O,
    ml_doc: c"write(body_data)".as_ptr(),
});

static EARLY_HINTS: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"early_hints".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: early_hints_function },
    ml_flags: ffi::METH_O,
    ml_doc: c"early_hints(headers): sends a 103 response, before the response itself".as_ptr(),
});

pub(super) fn start_response<'py>(reply: &Bound<'py, Reply>) -> PyResult<Bound<'py, PyAny>> {
    bound(&START_RESPONSE, reply)
}

pub(super) fn early_hints<'py>(reply: &Bound<'py, Reply>) -> PyResult<Bound<'py, PyAny>> {
    bound(&EARLY_HINTS, reply)
}

fn bound<'py>(
    definition: &'static Definition,
    reply: &Bound<'py, Reply>,
) -> PyResult<Bound<'py, PyAny>> {
    let entry = (&raw const definition.0).cast_mut();
    // SAFETY: the entry lives as long as the process and Python does not write to it.
    unsafe {
        let function = ffi::PyCFunction_New(entry, reply.as_ptr());
        Bound::from_owned_ptr_or_err(reply.py(), function)
    }
}

/// Calls `with` for the reply that a function is bound to.
///
/// # Safety
///
/// The caller is a function of this module that Python calls, and `object` is its bound reply.
unsafe fn with_bound_object(
    object: *mut ffi::PyObject,
    with: impl for<'py> FnOnce(&Bound<'py, Reply>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the functions above are bound to replies only.
    let reply = unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<Reply>() };
    match with(&reply) {
        Ok(result) => result.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

/// The names of the positional parameters.
const NAMES: [&str; 3] = ["status", "response_headers", "exc_info"];
/// The second parameter's name in `wsgiref`.
const HEADERS: &str = "headers";

unsafe extern "C" fn start_response_function(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it with the reply it is bound to, `count` positional arguments, and
    // after them one for each name in the tuple of keywords, if there is one.
    unsafe {
        with_bound_object(object, |reply| {
            let py = reply.py();
            let count = usize::try_from(count).unwrap_or_default();
            let names = (!keywords.is_null())
                .then(|| Bound::from_borrowed_ptr(py, keywords).cast_into_unchecked::<PyTuple>());
            let given = |at: usize| Bound::from_borrowed_ptr(py, *arguments.add(at));
            let mut parameters = [const { None }; 3];
            if count > parameters.len() {
                return Err(PyTypeError::new_err("start_response() takes at most 3 arguments"));
            }
            parameters.iter_mut().enumerate().take(count).for_each(|(at, parameter)| {
                *parameter = Some(given(at));
            });
            for (at, name) in names.iter().flatten().enumerate() {
                let name = name.str()?;
                let name = name.to_cow()?;
                let name = if name == HEADERS { NAMES[1] } else { &*name };
                match NAMES.iter().position(|known| *known == name) {
                    Some(index) if parameters[index].is_none() => {
                        parameters[index] = Some(given(count + at));
                    }
                    _ => {
                        let detail = format!("start_response() cannot take the argument {name:?}");
                        return Err(PyTypeError::new_err(detail));
                    }
                }
            }
            let [Some(status), Some(headers), exc_info] = parameters else {
                return Err(PyTypeError::new_err("start_response() needs a status and headers"));
            };
            begin(reply, &status, &headers, exc_info.filter(|given| !given.is_none()))
        })
    }
}

fn begin<'py>(
    reply: &Bound<'py, Reply>,
    status: &Bound<'py, PyAny>,
    headers: &Bound<'py, PyAny>,
    exc_info: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = reply.py();
    let this = reply.get();
    if let Some(exc_info) = &exc_info
        && !this.is_open()
    {
        // The head was sent: the application's own exception is raised again.
        let (_, error, traceback) =
            exc_info.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        if !traceback.is_none() {
            error.call_method1(pyo3::intern!(py, "with_traceback"), (traceback,))?;
        }
        return Err(PyErr::from_value(error));
    }
    this.start(Start::read(status, headers)?, exc_info.is_some())?;
    let known = this.write.get().as_ref().map(|write| write.bind(py).clone());
    if let Some(write) = known {
        return Ok(write);
    }
    let write = bound(&WRITE, reply)?;
    *this.write.get() = Some(write.clone().unbind());
    Ok(write)
}

unsafe extern "C" fn write_function(
    object: *mut ffi::PyObject,
    data: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the data is alive for as long as the call.
    unsafe {
        with_bound_object(object, |reply| {
            let py = reply.py();
            let data = Bound::from_borrowed_ptr(py, data);
            let data = body_bytes(&data)?.as_bytes();
            if !data.is_empty() {
                reply.get().piece(py, data, false)?;
            }
            Ok(py.None().into_bound(py))
        })
    }
}

unsafe extern "C" fn early_hints_function(
    object: *mut ffi::PyObject,
    headers: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the headers are alive for as long as the call.
    unsafe {
        with_bound_object(object, |reply| {
            let py = reply.py();
            let headers = Bound::from_borrowed_ptr(py, headers);
            reply.get().inform(read_hint(&headers)?);
            Ok(py.None().into_bound(py))
        })
    }
}

/// The bytes of a piece of a body.
pub(super) fn body_bytes<'a, 'py>(
    data: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, PyBytes>> {
    data.cast::<PyBytes>().map_err(|_| {
        let kind = data.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("a body must be made of bytes, not {kind}"))
    })
}
