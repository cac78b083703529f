//! The binary: reads arguments, calls the room that does the work, prints what it says.
//!
//! Owns the words of the command line, exit codes (0 done, 1 failed while running, 2 wrong usage or
//! configuration) and the process's allocator. Never does any of the work itself.

mod commands;
mod ctl;
mod demo;
mod failure;
mod output;
mod serving;

use std::process::ExitCode;

use clap::Parser;

/// Short-lived allocations of many sizes on a few threads: what mimalloc is good at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::Tidegate::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
