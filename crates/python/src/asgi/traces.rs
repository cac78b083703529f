//! Detects traces that requests have left on a Task.
//!
//! A Task serves another request only if that request cannot find anything of the previous one: no
//! cancellation, done callback, reference (strong or weak), name, attribute or changed context. The
//! handles for this check are collected when a request first ends without suspending, so that a
//! Task which serves a single request does not pay for them.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::app_loop::AppLoop;

/// Handles to the parts of a Task that a request can change.
pub(super) struct Traces {
    /// The Task's name. Only the Task and this field refer to it, unless a request stored or
    /// replaced it.
    name: Py<PyString>,
    /// The Task's attributes; empty.
    attributes: Py<PyDict>,
    /// The Task's context, which has the variables of [`AppLoop::context`]. CPython 3.11 does not
    /// expose it.
    context: Option<Py<PyAny>>,
}

impl Traces {
    /// Takes the handles of a Task that has run its first request; `None` if that left a trace.
    pub(super) fn of(task: &Bound<'_, PyAny>) -> PyResult<Option<Traces>> {
        let py = task.py();
        let name = task.call_method0(intern!(py, "get_name"))?;
        let Ok(name) = name.cast_into::<PyString>() else { return Ok(None) };
        if !is_default_name(&name.to_cow()?) {
            return Ok(None);
        }
        // SAFETY: the Task is alive; the call returns a new reference, or null with an error set.
        let attributes = unsafe {
            let attributes = ffi::PyObject_GenericGetDict(task.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, attributes)?
        };
        let context = task.getattr_opt(intern!(py, "get_context"))?;
        let context = context.map(|context| context.call0().map(Bound::unbind)).transpose()?;
        Ok(Some(Traces {
            name: name.unbind(),
            attributes: attributes.cast_into::<PyDict>()?.unbind(),
            context,
        }))
    }

    /// True if the next request finds the Task as the first one did. The request loop compares the
    /// strong references before this.
    pub(super) fn are_none(
        &self,
        app: &AppLoop,
        task: &Bound<'_, PyAny>,
        weak_before: usize,
    ) -> PyResult<bool> {
        let py = task.py();
        // SAFETY: the object is alive.
        let name_is_ours = unsafe { ffi::Py_REFCNT(self.name.as_ptr()) } == 2;
        if !name_is_ours || !self.attributes.bind(py).is_empty() {
            return Ok(false);
        }
        // A request that never suspended cannot have received the CancelledError, so this is set
        // regardless of `cancelling()`. CPython 3.11 and 3.12 leave it set after `uncancel()`.
        if task.getattr(intern!(py, "_must_cancel"))?.is_truthy()?
            || !task.getattr(intern!(py, "_callbacks"))?.is_none()
            || app.weak_references(task)? > weak_before
        {
            return Ok(false);
        }
        // The comparison is quick for unchanged contexts: copies share their variables.
        self.context.as_ref().map_or(Ok(true), |context| app.is_base_context(context.bind(py)))
    }
}

/// True if asyncio chose the name.
fn is_default_name(name: &str) -> bool {
    name.strip_prefix("Task-").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}
