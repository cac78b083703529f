//! config

mod assemble;
mod expand;
mod kinds;
mod limits;
mod records;
mod source;
mod yaml;

pub use expand::{Environment, process_environment};
pub use source::{Document, FileSource, Replaced, Source, TextSource};
