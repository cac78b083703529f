//! Talking to a running server: finding it, asking it, showing what it said.

mod caches;
mod client;
mod locate;
mod status;

pub(crate) use caches::table as caches_table;
pub(crate) use client::Client;
pub(crate) use locate::{Place, find};
pub(crate) use status::overview;
