//! The host of the command line: the plain binary, or a Python interpreter.
//!
//! No other module of this crate depends on how it was started. Never calls Python.

use std::ffi::OsString;

/// The process that runs the command line.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The command that starts another process like this one if it is a Python interpreter: the
    /// interpreter, `-m`, `tidegate`. `None` in the plain binary.
    pub python: Option<Vec<OsString>>,
}
