//! Settings: `caches:` by name, and the `cache:` entry of a route's filters.

mod codings;
mod key;
mod owners;
mod purges;
mod statuses;
mod store;

use plugin::HeaderName;
use settings::{Cidr, Duration, Node, Percent, Reader, Setting, Size, Spanned};

pub use codings::{BestLevels, CodingName, CodingSettings, Levels};
pub use key::{KeySettings, PathMode, QueryMode};
pub use owners::OwnersSettings;
pub use purges::{PurgesSettings, PurgesThrough, Unpublished};
pub use statuses::StatusTimes;
pub use store::{CacheSettings, DiskSettings};

use crate::limits::LANGUAGES_MAX;

/// Stores responses and serves them to later requests, as RFC 9111 specifies for a shared cache.
///
/// The origin decides what is stored and for how long: `Cache-Control`, `Expires`, `Vary`. Without
/// these nothing is stored, unless `ttl.default` is set. Responses with `Set-Cookie`, responses to
/// requests with `Authorization` that do not allow it, and `private` or `no-store` responses are
/// never stored. Concurrent requests for a missing response cause one request to the origin.
///
/// Order matters: filters before the cache see every request, filters behind it only those that the
/// cache does not answer. Authentication and rate limits belong before it; changes that are the
/// same for all clients behind it. No `compress` is needed: the cache stores gzip, br and zstd
/// itself.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = store, check = check)]
pub struct FilterSettings {
    /// The cache of `caches` that stores the responses.
    #[setting(example = "pages")]
    pub store: Spanned<String>,
    /// The parts of a request that count in the cache key.
    #[setting(default = {})]
    pub key: KeySettings,
    /// How long responses are fresh.
    #[setting(default = {})]
    pub ttl: TtlSettings,
    /// How long stale responses may be served.
    #[setting(default = {})]
    pub stale: StaleSettings,
    /// Fields for this cache rather than browsers (RFC 9213); the first that a response has
    /// replaces `Cache-Control` and `Expires`.
    #[setting(default = ["tidegate-cache-control", "cdn-cache-control"])]
    pub targeted: Vec<HeaderName>,
    /// Also reads `Surrogate-Control`, after the targeted fields.
    #[setting(default = false)]
    pub surrogate_control: bool,
    /// Obeys `No-Vary-Search`, by which a response names the query parameters that do not matter.
    #[setting(default = true)]
    pub no_vary_search: bool,
    /// Obeys `Cache-Control` and `Pragma` of requests. If false, clients cannot cause requests to
    /// the origin: `no-cache` of a browser's reload is ignored.
    #[setting(default = true)]
    pub honour_request: bool,
    /// What happens to responses that set cookies.
    #[setting(default = "refuse")]
    pub set_cookie: SetCookieMode,
    /// Largest body that is stored; a larger one passes through.
    #[setting(default = "64MiB", range = "1KiB"..="1TiB")]
    pub max_size: Size,
    /// Content codings that are stored.
    #[setting(default = {})]
    pub codings: CodingSettings,
    /// The available languages, where responses vary by `Accept-Language`: the field is reduced to
    /// one of them, the first if none matches. If empty, every spelling is a variant.
    #[setting(default = [], example = ["en", "de", "pt-BR"])]
    pub languages: Vec<String>,
    /// How many variants (`Vary`) one key may have; the least used is evicted first. Of one URL,
    /// 1024 responses are stored, whatever `key` distinguishes.
    #[setting(default = 32, range = 1..=1024)]
    pub variants: u32,
    /// How long the cache remembers that a response could not be stored, so that requests for it do
    /// not wait for each other. The first response that can be stored ends it.
    #[setting(default = "2m", range = "0s"..="1h")]
    pub hit_for_miss: Duration,
    /// Requests to the origin.
    #[setting(default = {})]
    pub fetch: FetchSettings,
    /// The servers of a fleet, each of which owns a part of the URLs: on a miss, another server
    /// requests the response from the owner of its URL before it requests it from the origin.
    pub owners: Option<OwnersSettings>,
    /// Clients that may purge with the method `PURGE` on the route.
    #[setting(default = {})]
    pub purge: PurgeSettings,
    /// Also sends `X-Status` with hit, stale, fetching, hitForPass or passed.
    #[setting(default = false)]
    pub x_status: bool,
}

/// How long responses are fresh.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_ttl)]
pub struct TtlSettings {
    /// For responses without a lifetime of their own; at 0s they are not stored.
    #[setting(default = "0s", range = "0s"..="365d", example = "10s")]
    pub default: Duration,
    /// Minimum, for responses that may be stored at all.
    #[setting(default = "0s", range = "0s"..="365d")]
    pub min: Duration,
    /// Maximum.
    #[setting(default = "365d", range = "1s"..="3650d", example = "1h")]
    pub max: Duration,
    /// Maximum for a status, `404`, or a class, `5xx`. At `0s` the response is not stored.
    #[setting(default = { "4xx": "5m", "5xx": "10s" }, example = { "404": "10s", "5xx": "0s" })]
    pub statuses: StatusTimes,
    /// Estimates the lifetime of a response that has `Last-Modified` and no lifetime (RFC 9111
    /// 4.2.2).
    #[setting(example = { "fraction": "10%" })]
    pub heuristic: Option<HeuristicSettings>,
}

/// What happens to responses that set cookies (RFC 9111 7.3).
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum SetCookieMode {
    /// They are not stored.
    Refuse,
    /// They are stored without their cookies, which only the first client gets.
    Strip,
    /// They are stored with their cookies: all clients get the same.
    Keep,
}

/// How a lifetime is estimated.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct HeuristicSettings {
    /// This part of the time since the last modification.
    #[setting(default = "10%")]
    pub fraction: Percent,
    /// Maximum.
    #[setting(default = "1d", range = "1s"..="365d")]
    pub max: Duration,
}

/// How long stale responses may be served. `stale-while-revalidate` and `stale-if-error` of a
/// response (RFC 5861) count if they are longer; `must-revalidate` is obeyed.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct StaleSettings {
    /// While one request revalidates in the background.
    #[setting(default = "0s", range = "0s"..="365d", example = "10s")]
    pub while_revalidate: Duration,
    /// When the origin cannot be reached or responds with 500, 502, 503 or 504.
    #[setting(default = "0s", range = "0s"..="365d", example = "1h")]
    pub if_error: Duration,
}

/// Requests to the origin.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct FetchSettings {
    /// How long a request waits for the response head of another request's fetch before it is
    /// forwarded by itself.
    #[setting(default = "10s", range = "0s"..="10m")]
    pub wait: Duration,
    /// How long a fetch continues after all clients have left.
    #[setting(default = "30s", range = "0s"..="10m")]
    pub outlive: Duration,
    /// How much of a response a fetch reads after all clients have left.
    #[setting(default = "16MiB", range = "0B"..="1TiB")]
    pub outlive_size: Size,
    /// Request fields that are not forwarded: origins are known to answer by them without listing
    /// them in `Vary`, and one client's value would decide what all clients get. A field that
    /// counts in the key is forwarded.
    #[setting(
        default = [
            "x-host", "x-http-host-override", "x-http-method-override", "x-http-method",
            "x-method-override", "x-backend-host", "base-url", "x-accel-redirect", "x-sendfile",
        ],
    )]
    pub drop_headers: Vec<HeaderName>,
}

/// Clients that may purge with the method `PURGE` on the route. Others get 403, and 405 if the list
/// is empty.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = allow)]
pub struct PurgeSettings {
    /// Addresses of clients.
    #[setting(default = [], example = ["127.0.0.1", "10.0.0.0/8"])]
    pub allow: Vec<Cidr>,
}

fn check(settings: &FilterSettings, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    if settings.languages.len() > LANGUAGES_MAX {
        reader.error(at("languages"), format!("more than {LANGUAGES_MAX} languages"));
    }
    // RFC 5646 2.1: subtags of letters and digits.
    let is_tag = |tag: &str| {
        tag.split('-').all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    if let Some(odd) = settings.languages.iter().find(|tag| !is_tag(tag)) {
        let message = format!("{} is not a language tag such as de or pt-BR", settings::quote(odd));
        reader.error(at("languages"), message);
    }
    if let Some(varying) = settings.fetch.drop_headers.iter().find(|name| is_needed(name)) {
        let at = node.get("fetch").and_then(|fetch| fetch.get("drop_headers")).unwrap_or(node);
        reader.error(at.span, format!("{varying} is needed to request from the origin"));
    }
}

/// Fields that a fetch needs, or that the server writes.
fn is_needed(name: &HeaderName) -> bool {
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "via"]
        .contains(&name.as_str())
}

fn check_ttl(ttl: &TtlSettings, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    if ttl.min > ttl.max {
        reader.error(at("min"), format!("min {} is longer than max {}", ttl.min, ttl.max));
    }
    if ttl.default > ttl.max {
        let message = format!("default {} is longer than max {}", ttl.default, ttl.max);
        reader.error(at("default"), message);
    }
}

#[cfg(test)]
mod tests;
