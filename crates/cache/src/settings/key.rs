//! `key:` of the filter: what makes two requests ask for the same.

use exchange::HeaderName;
use settings::{Key, Node, Reader, Setting};

use crate::limits::KEY_PARTS_MAX;

/// What makes two requests ask for the same. Scheme, host, path and the route always count, and
/// what an answer names in `Vary`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct KeySettings {
    /// How paths are compared.
    #[setting(default = "normal")]
    pub path: PathMode,
    /// What of the query counts. The origin is asked with what counts and no more, so that
    /// nobody can put into the answer for all what only he sent.
    #[setting(default = "all")]
    pub query: QueryMode,
    /// Header fields that count, whether or not an answer varies by them.
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
    /// In their canonical form: `/a%62` is `/ab`. A path with an encoded slash, which origins
    /// read in different ways, is not cached.
    Normal,
    /// In their canonical form, too; an encoded slash is taken as part of a name.
    Raw,
}

/// What of the query counts.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum QueryMode {
    /// All of it, as it was written.
    All,
    /// All of it, in whatever order.
    Sorted,
    /// These parameters, in whatever order.
    Allow(Vec<String>),
    /// All but these parameters, in whatever order.
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
        reader.error(at("cookies"), format!("{} is no cookie name", settings::quote(odd)));
    }
    // By its codings an answer is told apart here anyway, and by all spellings of it is worse.
    if settings.headers.iter().any(|name| name.as_str() == "accept-encoding") {
        reader
            .error(at("headers"), "accept-encoding need not count")
            .help("codings are kept and chosen by the cache itself: see codings");
    }
}
