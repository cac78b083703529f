//! Whether a Task shows any trace of the requests that it has run.
//!
//! A Task serves another request only if that request cannot find anything of the one before it:
//! not a cancellation, a done callback, a reference (strong or weak), a name, an attribute or a
//! changed context. What is needed to see this is collected when a request has ended without
//! suspending for the first time, so that a Task which serves one request pays next to nothing.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::server::Server;

/// Handles to the parts of a Task that a request can change.
pub(super) struct Traces {
    /// The Task's name. Only the Task and this refer to it, unless a request kept or replaced it.
    name: Py<PyString>,
    /// The Task's attributes; empty.
    attributes: Py<PyDict>,
    /// The Task's context, which has the variables of [`Server::context`]. CPython 3.11 does not
    /// show it to anyone.
    context: Option<Py<PyAny>>,
}

impl Traces {
    /// Looks at a Task that has run its first request; `None` if that left a trace already.
    pub(super) fn of(task: &Bound<'_, PyAny>) -> PyResult<Option<Traces>> {
        let py = task.py();
        let name = task.call_method0(intern!(py, "get_name"))?;
        let Ok(name) = name.cast_into::<PyString>() else { return Ok(None) };
        if !is_default_name(&name.to_cow()?) {
            return Ok(None);
        }
        // SAFETY: the Task is alive; the call gives a new reference or null with an error set.
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

    /// Whether the next request would find the Task as the first one did. Strong references are
    /// compared by the slot, before this.
    pub(super) fn are_none(
        &self,
        server: &Server,
        task: &Bound<'_, PyAny>,
        weak_before: usize,
    ) -> PyResult<bool> {
        let py = task.py();
        // SAFETY: the object is alive.
        let name_is_ours = unsafe { ffi::Py_REFCNT(self.name.as_ptr()) } == 2;
        if !name_is_ours || !self.attributes.bind(py).is_empty() {
            return Ok(false);
        }
        // A request that never suspended cannot have received the CancelledError, so whatever
        // `cancelling()` says, this is set. CPython 3.11 and 3.12 leave it set after `uncancel()`.
        if task.getattr(intern!(py, "_must_cancel"))?.is_truthy()?
            || !task.getattr(intern!(py, "_callbacks"))?.is_none()
            || server.weak_references(task)? > weak_before
        {
            return Ok(false);
        }
        // Equal at once where neither was changed: copies of a context share their variables.
        self.context.as_ref().map_or(Ok(true), |context| server.is_base_context(context.bind(py)))
    }
}

/// Whether asyncio chose the name.
fn is_default_name(name: &str) -> bool {
    name.strip_prefix("Task-").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}
