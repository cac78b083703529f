//! The client of a running server's admin API: finds the server, sends requests, shows responses.

mod apps;
mod caches;
mod client;
mod errors;
mod health_history;
mod live_log;
mod locate;
mod lua;
mod status;
mod top;

pub(crate) use apps::apps_text;
pub(crate) use caches::{preview_text, table as caches_table, top_entries_tables};
pub(crate) use client::Client;
pub(crate) use health_history::health_history_table;
pub(crate) use live_log::request_text;
pub(crate) use locate::{AdminAddress, find};
pub(crate) use lua::lua_text;
pub(crate) use status::{overview, routes_table, upstreams_table};
pub(crate) use top::{TopSample, TopScreen};
