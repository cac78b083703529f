//! Tells one callback that runs long from many short ones.
//!
//! While requests wait for the event loop, the I/O thread has the interpreter note, from time to
//! time, which callback of the loop it is in (`Py_AddPendingCall`, which needs no GIL to ask for).
//! A callback is known by its outermost frame, which is held so that no other takes its place.
//! Where the interpreter does not come to that at all, it is in one call of C. Promises that no
//! frame is held once the loop is heard of again.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{PyResult, ffi};

use crate::gil::GilCell;
use crate::stack::is_runner;

/// The interpreter has not come to the latest look.
static ASKED: AtomicBool = AtomicBool::new(false);
/// The latest two looks found the same callback.
static SAME: AtomicBool = AtomicBool::new(false);
/// What the latest look found. One event loop runs in a worker process.
static FRAME: GilCell<Option<Py<PyAny>>> = GilCell::empty();

/// Whether the loop was in the same callback at the latest looks; and looks again.
pub(crate) fn is_in_one_callback() -> bool {
    if ASKED.swap(true, Ordering::Relaxed) {
        return true;
    }
    let same = SAME.load(Ordering::Relaxed);
    // SAFETY: a function that lives as long as the process and takes no argument.
    if unsafe { ffi::Py_AddPendingCall(Some(look), ptr::null_mut()) } != 0 {
        ASKED.store(false, Ordering::Relaxed);
    }
    same
}

/// The loop is heard of: what was found is of no interest any more.
pub(super) fn forget(_py: Python<'_>) {
    SAME.store(false, Ordering::Relaxed);
    let frame = FRAME.take();
    drop(frame);
}

extern "C" fn look(_: *mut c_void) -> c_int {
    // SAFETY: the interpreter makes pending calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // What cannot be found out is another callback.
    let found = callback(py).unwrap_or_default();
    let same = match (&found, &*FRAME.get()) {
        (Some(found), Some(before)) => found.is(before),
        _ => false,
    };
    SAME.store(same, Ordering::Relaxed);
    let before = std::mem::replace(&mut *FRAME.get(), found);
    drop(before);
    ASKED.store(false, Ordering::Relaxed);
    0
}

/// The outermost frame of the callback that runs; none between two of them.
fn callback(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    // SAFETY: the GIL is held; the frame is borrowed, or null where no code of Python runs.
    let mut frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let mut outermost = None;
    while let Some(current) = frame.filter(|frame| !frame.is_none()) {
        let code = current.getattr(intern!(py, "f_code"))?;
        let file = code.getattr(intern!(py, "co_filename"))?.cast_into::<PyString>()?;
        if is_runner(&file.to_cow()?) {
            break;
        }
        frame = Some(current.getattr(intern!(py, "f_back"))?);
        outermost = Some(current.unbind());
    }
    Ok(outermost)
}
