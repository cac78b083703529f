//! `key:` of the filter: the parts of a request that count in the cache key.

use plugin::HeaderName;
use settings::{Key, Node, Reader, Setting};

use crate::limits::KEY_PARTS_MAX;

/// The parts of a request that count in the cache key. Scheme, host, path and route always count,
/// and the fields that a response lists in `Vary`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct KeySettings {
    /// How paths are compared.
    #[setting(default = "normal")]
    pub path: PathMode,
    /// The part of the query that counts. The origin gets only this part, so that one client's
    /// parameters cannot change what all clients get.
    #[setting(default = "all")]
    pub query: QueryMode,
    /// Header fields that count, whether or not a response varies by them.
    #[setting(default = [], example = ["x-tenant"])]
    pub headers: Vec<HeaderName>,
    /// Cookies that count.
    #[setting(default = [], example = ["plan"])]
    pub cookies: Vec<String>,
    /// Anything else that counts.
    #[setting(default = [], example = ["consumer"], example = ["{client_ip}"])]
    pub by: Vec<Key>,
}

/// How paths are compared.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum PathMode {
    /// In canonical form: `/a%62` is `/ab`. A path with an encoded slash, which origins read in
    /// different ways, is not cached.
    Normal,
    /// In canonical form; an encoded slash is part of a segment.
    Raw,
}

/// The part of the query that counts.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum QueryMode {
    /// All of it, as received.
    All,
    /// All of it, in any order.
    Sorted,
    /// These parameters, in any order.
    Allow(Vec<String>),
    /// All other parameters, in any order.
    Deny(Vec<String>),
    /// Nothing.
    None,
}

fn check(settings: &KeySettings, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    let names = match &settings.query {
        QueryMode::Allow(names) | QueryMode::Deny(names) => names.as_slice(),
        QueryMode::All | QueryMode::Sorted | QueryMode::None => &[],
    };
    for (key, count) in [
        ("query", names.len()),
        ("headers", settings.headers.len()),
        ("cookies", settings.cookies.len()),
        ("by", settings.by.len()),
    ] {
        if count > KEY_PARTS_MAX {
            reader.error(at(key), format!("more than {KEY_PARTS_MAX} names"));
        }
    }
    if matches!(&settings.query, QueryMode::Allow(names) if names.is_empty()) {
        reader.error(at("query"), "allow without names is none").help("write query: none");
    }
    let cookie = |name: &str| wire::token::is_token(name.as_bytes());
    if let Some(odd) = settings.cookies.iter().find(|name| !cookie(name)) {
        reader.error(at("cookies"), format!("{} is not a valid cookie name", settings::quote(odd)));
    }
    // Codings are stored separately anyway; keyed by the field, every spelling would be another
    // entry.
    if settings.headers.iter().any(|name| name.as_str() == "accept-encoding") {
        reader
            .error(at("headers"), "accept-encoding need not count")
            .help("codings are stored and chosen by the cache itself: see codings");
    }
}
