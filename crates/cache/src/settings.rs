//! What may be written: `caches:` by name, and the entry `cache:` of a route's filters.
//!
//! Owns the declarations and what is checked across them. Never says what a rule does with a
//! setting: `plan` freezes them into what rules, fill and serving read.

mod codings;
mod key;
mod statuses;
mod store;

use exchange::HeaderName;
use settings::{Cidr, Duration, Node, Percent, Reader, Setting, Size, Spanned};

pub use codings::{BestLevels, CodingName, CodingSettings, Levels};
pub use key::{KeySettings, PathMode, QueryMode};
pub use statuses::StatusTimes;
pub use store::{CacheSettings, DiskSettings};

use crate::limits::LANGUAGES_MAX;

/// Keeps answers and gives them to whoever asks for the same, as RFC 9111 says for a shared
/// cache.
///
/// What is kept, and for how long, the origin says: `Cache-Control`, `Expires`, `Vary`. What it
/// says nothing of is not kept, unless `ttl.default` is set. Answers with `Set-Cookie`, answers
/// to requests with `Authorization` that do not allow it, and what is `private` or `no-store`
/// never are. However many ask at once for what is not there, the origin is asked once.
///
/// Order matters: what stands before the cache sees every request, what stands behind it only
/// what the cache does not answer. Authentication and rate limits belong before it; changes
/// that are the same for everybody behind it. Needs no `compress`: the cache keeps gzip, br and
/// zstd ready itself.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = store, check = check)]
pub struct FilterSettings {
    /// The cache of `caches` to keep them in.
    #[setting(example = "pages")]
    pub store: Spanned<String>,
    /// What makes two requests ask for the same.
    #[setting(default = {})]
    pub key: KeySettings,
    /// How long answers are fresh.
    #[setting(default = {})]
    pub ttl: TtlSettings,
    /// How long answers that are no longer fresh may still be given.
    #[setting(default = {})]
    pub stale: StaleSettings,
    /// The fields that speak to this cache and not to browsers (RFC 9213), the first that an
    /// answer has counts instead of `Cache-Control` and `Expires`.
    #[setting(default = ["tidegate-cache-control", "cdn-cache-control"])]
    pub targeted: Vec<HeaderName>,
    /// Also read `Surrogate-Control`, after the targeted fields.
    #[setting(default = false)]
    pub surrogate_control: bool,
    /// Heed `No-Vary-Search`, by which an answer says which parameters of the query do not
    /// matter.
    #[setting(default = true)]
    pub no_vary_search: bool,
    /// Heed what requests say in `Cache-Control` and `Pragma`. Without it clients cannot make
    /// the cache ask the origin: `no-cache` of a browser's reload is ignored.
    #[setting(default = true)]
    pub honour_request: bool,
    /// What is done with answers that set cookies.
    #[setting(default = "refuse")]
    pub set_cookie: SetCookieMode,
    /// Largest body that is kept; a larger one passes through.
    #[setting(default = "64MiB", range = "1KiB"..="1TiB")]
    pub max_size: Size,
    /// Which codings are kept ready.
    #[setting(default = {})]
    pub codings: CodingSettings,
    /// The languages there are, where answers vary by `Accept-Language`: what clients send is
    /// brought down to one of them, the first where none fits. Without it every spelling is a
    /// variant.
    #[setting(default = [], example = ["en", "de", "pt-BR"])]
    pub languages: Vec<String>,
    /// How many variants (`Vary`) one URL may have; past it the oldest makes room.
    #[setting(default = 32, range = 1..=1024)]
    pub variants: u32,
    /// How long it is remembered that an answer could not be kept, so that requests for it do
    /// not wait for each other. The first answer that can be kept ends it.
    #[setting(default = "2m", range = "0s"..="1h")]
    pub hit_for_miss: Duration,
    /// How the origin is asked.
    #[setting(default = {})]
    pub fetch: FetchSettings,
    /// Who may purge with the method `PURGE` on the route.
    #[setting(default = {})]
    pub purge: PurgeSettings,
    /// Also say in `X-Status` what `Cache-Status` says: hit, stale, fetching, hitForPass or
    /// passed.
    #[setting(default = false)]
    pub x_status: bool,
}

/// How long answers are fresh.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_ttl)]
pub struct TtlSettings {
    /// For answers that say nothing of it; at 0s they are not kept.
    #[setting(default = "0s", range = "0s"..="365d", example = "10s")]
    pub default: Duration,
    /// At least so long, where the answer allows it to be kept at all.
    #[setting(default = "0s", range = "0s"..="365d")]
    pub min: Duration,
    /// At most so long.
    #[setting(default = "365d", range = "1s"..="3650d", example = "1h")]
    pub max: Duration,
    /// At most so long for a status, `404`, or a class, `5xx`. What is `0s` is not kept.
    #[setting(default = { "4xx": "5m", "5xx": "10s" }, example = { "404": "10s", "5xx": "0s" })]
    pub statuses: StatusTimes,
    /// Guess where an answer has a `Last-Modified` and says nothing else (RFC 9111 4.2.2).
    #[setting(example = { "fraction": "10%" })]
    pub heuristic: Option<HeuristicSettings>,
}

/// What is done with answers that set cookies (RFC 9111 7.3).
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum SetCookieMode {
    /// They are not kept.
    Refuse,
    /// They are kept without their cookies; only the first client gets these.
    Strip,
    /// They are kept with their cookies: everybody gets the same.
    Keep,
}

/// How a lifetime is guessed.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct HeuristicSettings {
    /// This part of the time since it was last modified.
    #[setting(default = "10%")]
    pub fraction: Percent,
    /// At most so long.
    #[setting(default = "1d", range = "1s"..="365d")]
    pub max: Duration,
}

/// How long answers that are no longer fresh may still be given. What the answer says itself
/// (`stale-while-revalidate`, `stale-if-error`, RFC 5861) counts where it is longer; what it
/// forbids (`must-revalidate`) is not done.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct StaleSettings {
    /// While one request in the background asks anew.
    #[setting(default = "0s", range = "0s"..="365d", example = "10s")]
    pub while_revalidate: Duration,
    /// When the origin cannot be reached or answers 500, 502, 503 or 504.
    #[setting(default = "0s", range = "0s"..="365d", example = "1h")]
    pub if_error: Duration,
}

/// How the origin is asked for what is not there.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct FetchSettings {
    /// How long a request waits for the head of an answer that another one fetches, before it
    /// asks the origin itself.
    #[setting(default = "10s", range = "0s"..="10m")]
    pub wait: Duration,
    /// How long a fetch goes on after everybody who waited for it has left.
    #[setting(default = "30s", range = "0s"..="10m")]
    pub outlive: Duration,
    /// How much of an answer a fetch takes after everybody who waited for it has left.
    #[setting(default = "16MiB", range = "0B"..="1TiB")]
    pub outlive_size: Size,
    /// Fields that are not sent on: what origins are known to build answers from without saying
    /// so in `Vary`. One client's would be in what everybody gets. A field that counts in the
    /// key is sent on.
    #[setting(
        default = [
            "x-host", "x-http-host-override", "x-http-method-override", "x-http-method",
            "x-method-override", "x-backend-host", "base-url", "x-accel-redirect", "x-sendfile",
        ],
    )]
    pub drop_headers: Vec<HeaderName>,
}

/// Who may purge with the method `PURGE` on the route. Others are answered 403, and where
/// nobody may, 405.
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
        let said = format!("{} is no language tag such as de or pt-BR", settings::quote(odd));
        reader.error(at("languages"), said);
    }
    if let Some(varying) = settings.fetch.drop_headers.iter().find(|name| is_needed(name)) {
        let at = node.get("fetch").and_then(|fetch| fetch.get("drop_headers")).unwrap_or(node);
        reader.error(at.span, format!("{varying} is needed to ask the origin"));
    }
}

/// Fields that a fetch cannot do without, or that are ours to write.
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
        let said = format!("default {} is longer than max {}", ttl.default, ttl.max);
        reader.error(at("default"), said);
    }
}

#[cfg(test)]
mod tests;
