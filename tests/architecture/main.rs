//! The architecture rules as tests: crate imports, file size and contents, plain words, one
//! palette.

mod doctests;
mod layers;
mod links;
mod palette;
mod rows;
mod shared_build;
mod source;
mod tidy;
mod words;

use std::path::PathBuf;

/// The directory of the repository.
fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}
