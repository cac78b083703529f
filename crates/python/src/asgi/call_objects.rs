//! The objects that an application is called with: they serve one request after another.
//!
//! Promises that a request's objects serve another one only if nothing refers to them any more: an
//! application that has stored `send` or `receive` never reaches the request of another client.

use offload::{Head, OffloadedRequest};
use pyo3::ffi;
use pyo3::prelude::*;

use super::app_loop::AppLoop;
use super::exchange::Exchange;
use super::functions;
use crate::gil::GilCell;

/// Sets of objects that wait for a request.
const SPARE_MAX: usize = 256;

/// An exchange and its functions.
pub(super) struct CallObjects {
    pub(super) exchange: Py<Exchange>,
    pub(super) receive: Py<PyAny>,
    pub(super) send: Py<PyAny>,
}

impl CallObjects {
    fn new(py: Python<'_>, app: &Py<AppLoop>) -> PyResult<CallObjects> {
        let exchange = Bound::new(py, Exchange::new(app.clone_ref(py)))?;
        let receive = functions::receive(&exchange)?.unbind();
        let send = functions::send(&exchange)?.unbind();
        Ok(CallObjects { exchange: exchange.unbind(), receive, send })
    }

    /// True if the application has stored none of the objects.
    fn is_unshared(&self) -> bool {
        // SAFETY: the objects are alive.
        let references = |object: *mut ffi::PyObject| unsafe { ffi::Py_REFCNT(object) };
        references(self.receive.as_ptr()) == 1
            && references(self.send.as_ptr()) == 1
            // Both functions refer to it.
            && references(self.exchange.as_ptr()) == 3
    }
}

/// Objects of requests that have ended.
#[derive(Default)]
pub(super) struct SpareObjects(GilCell<Vec<CallObjects>>);

impl SpareObjects {
    /// Returns the objects of a request, and its head.
    pub(super) fn begin(
        &self,
        py: Python<'_>,
        app: &Py<AppLoop>,
        request: OffloadedRequest,
    ) -> PyResult<(CallObjects, Head)> {
        let spare = self.0.get().pop();
        let objects = match spare {
            Some(objects) => objects,
            None => CallObjects::new(py, app)?,
        };
        let head = objects.exchange.get().begin(request);
        Ok((objects, head))
    }

    /// Takes the objects of a request that has ended.
    pub(super) fn add(&self, objects: CallObjects) {
        let mut spare = self.0.get();
        if spare.len() < SPARE_MAX && objects.is_unshared() {
            spare.push(objects);
        } else {
            drop(spare);
            drop(objects);
        }
    }
}
