//! A client of Redis and Valkey for the state that several servers share, and the section `shared`.
//!
//! Owns the choice of a server (one server, the primary that Sentinels name, the nodes of a
//! Cluster), its connections, and scripts. Promises that every call has a deadline and every reply
//! a bound, that a command is sent once per call, that a call says for each command whether it was
//! executed, and that no password is shown in an error. It runs on the thread that built it, and
//! never on a worker.

#![forbid(unsafe_code)]

mod client;
mod cluster;
mod command;
mod connection;
mod error;
pub mod limits;
mod section;

#[cfg(test)]
mod tests;

pub use client::RedisClient;
pub use cluster::{Redirection, SLOTS, SlotMap, redirection, slot};
pub use command::{RedisCommand, Script};
pub use error::RedisError;
pub use section::{RedisPlan, SharedSettings};
pub use store::client::decode;
pub use store::{RedisAddress, Reply};
