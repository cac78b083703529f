//! The binary: the command line without Python, on our allocator.

use std::process::ExitCode;

use tidegate::Host;

#[global_allocator]
static ALLOCATOR: net::Allocator = net::Allocator;

fn main() -> ExitCode {
    tidegate::run(std::env::args_os(), &Host::default()).into()
}
