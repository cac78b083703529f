//! The handler `files`: a folder, served.
//!
//! Owns everything between a path and a response about a file: which file is meant, its validators,
//! ranges, codings and type, and what of it a worker keeps open. Promises that nothing outside the
//! folder is ever served, that a worker never waits for a disk (docs/design/files.md says how), and
//! that what it keeps is bounded. Opening itself is the business of `net::files`.

mod answer;
mod cache;
mod find;
mod handler;
mod limits;
mod listing;
mod media_type;
mod record;
mod resource;

pub use record::KIND;

/// Every handler of this room, by name.
pub static HANDLERS: &[exchange::HandlerKind] = &[KIND];
