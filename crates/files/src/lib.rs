//! The handler `files`: serves a directory.
//!
//! Owns everything between a path and a response about a file: which file is meant, its validators,
//! ranges, codings and type, and what of it a worker keeps open. Promises that nothing outside the
//! directory is ever served, that a worker never waits for a disk (docs/design/files.md says how),
//! and that what it keeps is bounded. Opening itself is the business of `net::files`.

mod answer;
mod cache;
mod find;
mod handler;
mod limits;
mod listing;
mod media_type;
mod record;
mod resource;

pub use handler::KIND;

/// Every handler of this crate, by name.
pub static HANDLERS: &[plugin::HandlerKind] = &[KIND];
