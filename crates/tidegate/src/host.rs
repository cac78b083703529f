//! What the process that we run in has besides us: a Python, or none.
//!
//! Promises that nothing else in this crate asks how it was started. Never does: calling Python.

use std::ffi::OsString;

/// Who calls us.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The Python that this process is, in the wheel; the pure binary is none.
    pub python: Option<Interpreter>,
}

/// A Python that has this very version of us installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// What starts another process like this one: the interpreter, `-m`, `tidegate`.
    pub command: Vec<OsString>,
    /// Which Python it is, such as `CPython 3.13.0`.
    pub version: String,
}
