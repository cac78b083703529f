//! A client of etcd, version 3 of its API, over gRPC on the HTTP/2 of `http-client`.
//!
//! Owns the messages of the API, the choice of a member, tokens, and watches that survive the loss
//! of a member. Promises that every call has a deadline and every message a bound; that a write is
//! sent twice only if nothing of the first was sent; that a watch delivers every revision once and
//! in order, or says that revisions are lost by compaction; that no password or token is shown in
//! an error. It runs on the worker that built it.

#![forbid(unsafe_code)]

mod call;
mod client;
mod error;
mod grpc_stream;
mod lease_keeper;
mod limits;
mod members;
pub mod messages;
mod settings;
mod watch;

#[cfg(test)]
mod tests;

pub use client::Etcd;
pub use error::EtcdError;
pub use limits::PAUSE_MAX;
pub use settings::{Credentials, EtcdSettings, parse_endpoint};
pub use watch::{Watch, WatchError};
