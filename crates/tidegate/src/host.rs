//! What the process that we run in has besides us: a Python, or none.
//!
//! Promises that nothing else in this crate asks how it was started. Never does: calling Python.

use std::ffi::OsString;

/// Who calls us.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// What starts another process like this one where it is a Python with us inside: the
    /// interpreter, `-m`, `tidegate`. The pure binary has none.
    pub python: Option<Vec<OsString>>,
}
