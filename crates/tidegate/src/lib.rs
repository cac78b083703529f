//! The command line: parses arguments, calls the crate that does the work, prints the result.
//!
//! Owns commands, options and exit codes (0 done, 1 failed while running, 2 wrong usage
//! or configuration). Never does any of the work itself, and never chooses the process's allocator:
//! the binary and the wheel, which both call it, do.

mod commands;
mod ctl;
mod demo;
mod etcd_arguments;
mod failure;
mod fleet;
mod host;
mod output;
mod serving;
mod terminal;

pub use host::Host;

use std::ffi::OsString;

use crate::failure::Failure;

/// Runs the command of `arguments`, which start with the program's name, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, host: &Host) -> u8 {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let ended = match commands::Tidegate::read(&arguments, host.configured.as_ref()) {
        Ok(read) => read.command.run(host),
        Err(refused) => return explain(&refused),
    };
    ended.map_or_else(Failure::report, |()| 0)
}

/// Prints help and versions to standard output, errors to standard error.
fn explain(refused: &clap::Error) -> u8 {
    // With the output closed, nothing can be printed.
    let _ = refused.print();
    refused.exit_code().try_into().unwrap_or(2)
}
