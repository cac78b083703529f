//! The command line: reads arguments, calls the room that does the work, prints what it says.
//!
//! Owns the words of the command line and exit codes (0 done, 1 failed while running, 2 wrong usage
//! or configuration). Never does any of the work itself, and never chooses the process's allocator:
//! the binary and the wheel, which both call it, do.

mod commands;
mod ctl;
mod demo;
mod failure;
mod host;
mod import;
mod output;
mod serving;

pub use host::Host;

use std::ffi::OsString;

use crate::failure::Failure;

/// Runs what `arguments` ask for, the name of the program first, and gives the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, host: &Host) -> u8 {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let ended = match commands::Tidegate::read(&arguments) {
        Ok(read) => read.command.run(host),
        Err(refused) => return explain(&refused),
    };
    ended.map_or_else(Failure::report, |()| 0)
}

/// Help and versions are no failure, and go where they can be piped.
fn explain(refused: &clap::Error) -> u8 {
    // Nobody is left to tell when the output is closed.
    let _ = refused.print();
    refused.exit_code().try_into().unwrap_or(2)
}
