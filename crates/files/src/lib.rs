//! The handler `files`: serves a directory.
//!
//! Owns everything between a path and a response about a file: which file is meant, its validators,
//! ranges, codings and type, and the files a worker keeps open. Promises that nothing outside the
//! directory is ever served, that a worker never waits for a disk (docs/design/files.md), and that
//! open files and memory are bounded. `net::files` opens the files.

mod cache;
mod find;
mod handler;
mod limits;
mod listing;
mod media_type;
mod record;
mod resource;
mod response;

pub use handler::KIND;

/// The handlers of this crate.
pub static HANDLERS: &[plugin::HandlerKind] = &[KIND];
