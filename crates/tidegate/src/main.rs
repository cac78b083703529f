//! The binary: reads arguments, calls the room that does the work, prints what it says.
//!
//! Owns the words of the command line, exit codes (0 done, 1 failed while running, 2 wrong usage or
//! configuration) and the process's allocator. Never does any of the work itself.

mod commands;
mod ctl;
mod demo;
mod failure;
mod import;
mod output;
mod serving;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: net::Allocator = net::Allocator;

fn main() -> ExitCode {
    match commands::Tidegate::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
