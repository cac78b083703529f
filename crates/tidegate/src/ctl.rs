//! The client of a running server's admin API: finds the server, sends requests, shows responses.

mod caches;
mod client;
mod locate;
mod status;

pub(crate) use caches::table as caches_table;
pub(crate) use client::Client;
pub(crate) use locate::{AdminAddress, find};
pub(crate) use status::overview;
