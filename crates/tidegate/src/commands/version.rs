//! `tidegate version`.

use crate::failure::Failure;
use crate::output::print;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(self) -> Result<(), Failure> {
        print(concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n"))
    }
}
