//! The exception that `send` raises when the client has disconnected.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

pyo3::create_exception!(
    tidegate,
    ClientDisconnected,
    PyOSError,
    "The client has disconnected: nothing can be sent."
);

/// Exceptions of a chain that are checked; a chain may be a cycle.
const CHAIN_MAX: usize = 8;

pub(super) fn disconnected() -> PyErr {
    ClientDisconnected::new_err("the client has disconnected")
}

/// True if an application failed because of [`disconnected`], directly or with another exception
/// that was raised from it.
pub(super) fn is_caused_by_disconnect(py: Python<'_>, error: &PyErr) -> bool {
    let mut next = Some(error.clone_ref(py));
    for _ in 0..CHAIN_MAX {
        let Some(error) = next else { return false };
        if error.is_instance_of::<ClientDisconnected>(py) {
            return true;
        }
        next = error.cause(py).or_else(|| error.context(py));
    }
    false
}
