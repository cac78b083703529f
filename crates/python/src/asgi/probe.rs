//! Distinguishes one long callback of the event loop from many short ones.
//!
//! While requests wait for the event loop, the I/O thread periodically lets the interpreter record
//! the running callback (`Py_AddPendingCall`, which needs no GIL). A callback is identified by its
//! outermost frame, which is referenced so that its address is not reused. An interpreter that does
//! not run the pending call is inside one call of C code. Promises that no frame is referenced once
//! the event loop runs again.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{PyResult, ffi};

use crate::gil::GilCell;
use crate::stack::is_runner;

/// True until the interpreter has taken the latest sample.
static SAMPLE_PENDING: AtomicBool = AtomicBool::new(false);
/// True if the latest two samples are of the same callback.
static SAME: AtomicBool = AtomicBool::new(false);
/// The latest sample. One event loop runs in a worker process.
static FRAME: GilCell<Option<Py<PyAny>>> = GilCell::empty();

/// True if the latest samples are of the same callback; requests the next sample.
pub(crate) fn is_in_one_callback() -> bool {
    if SAMPLE_PENDING.swap(true, Ordering::Relaxed) {
        return true;
    }
    let same = SAME.load(Ordering::Relaxed);
    // SAFETY: a function that lives as long as the process and takes no argument.
    if unsafe { ffi::Py_AddPendingCall(Some(sample), ptr::null_mut()) } != 0 {
        SAMPLE_PENDING.store(false, Ordering::Relaxed);
    }
    same
}

/// Discards the samples, because the event loop runs again. The caller holds the GIL.
pub(super) fn reset() {
    SAME.store(false, Ordering::Relaxed);
    let frame = FRAME.take();
    drop(frame);
}

extern "C" fn sample(_: *mut c_void) -> c_int {
    // SAFETY: the interpreter makes pending calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    // A sample that fails counts as another callback.
    let found = callback(py).unwrap_or_default();
    let same = match (&found, &*FRAME.get()) {
        (Some(found), Some(before)) => found.is(before),
        _ => false,
    };
    SAME.store(same, Ordering::Relaxed);
    let before = std::mem::replace(&mut *FRAME.get(), found);
    drop(before);
    SAMPLE_PENDING.store(false, Ordering::Relaxed);
    0
}

/// The outermost frame of the running callback; `None` between two callbacks.
fn callback(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    // SAFETY: the GIL is held; the frame is borrowed, or null if no Python code runs.
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
