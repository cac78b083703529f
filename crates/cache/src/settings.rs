//! What may be written: `caches:` by name, and the entry `cache:` of a route's filters.
//!
//! Owns the declarations and what is checked across them. Never says what a rule does with a
//! setting: `plan` freezes them into what rules, fill and serving read.

mod codings;
mod key;
mod statuses;
mod store;

use exchange::HeaderName;
use settings::{Cidr, Duration, Node, Percent, Reader, Size, Spanned};

pub use codings::{BestLevels, CodingSettings, CodingWord, Levels};
pub use key::{KeySettings, PathWord, QueryWord};
pub use statuses::StatusTimes;
pub use store::{CacheSettings, DiskSettings};

use crate::limits::LANGUAGES_MAX;

settings::record! {
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
    pub struct FilterSettings {
        /// The cache of `caches` to keep them in.
        pub store: Spanned<String> { example "pages" },
        /// What makes two requests ask for the same.
        pub key: KeySettings = {},
        /// How long answers are fresh.
        pub ttl: TtlSettings = {},
        /// How long answers that are no longer fresh may still be given.
        pub stale: StaleSettings = {},
        /// The fields that speak to this cache and not to browsers (RFC 9213), the first that an
        /// answer has counts instead of `Cache-Control` and `Expires`.
        pub targeted: Vec<HeaderName> = ["tidegate-cache-control", "cdn-cache-control"],
        /// Also read `Surrogate-Control`, after the targeted fields.
        pub surrogate_control: bool = false,
        /// Heed `No-Vary-Search`, by which an answer says which parameters of the query do not
        /// matter.
        pub no_vary_search: bool = true,
        /// Heed what requests say in `Cache-Control` and `Pragma`. Without it clients cannot make
        /// the cache ask the origin: `no-cache` of a browser's reload is ignored.
        pub honour_request: bool = true,
        /// What is done with answers that set cookies.
        pub set_cookie: SetCookieWord = "refuse",
        /// Largest body that is kept; a larger one passes through.
        pub max_size: Size = "64MiB" { in "1KiB"..="1TiB" },
        /// Which codings are kept ready.
        pub codings: CodingSettings = {},
        /// The languages there are, where answers vary by `Accept-Language`: what clients send is
        /// brought down to one of them, the first where none fits. Without it every spelling is a
        /// variant.
        pub languages: Vec<String> = [] { example ["en", "de", "pt-BR"] },
        /// How many variants (`Vary`) one URL may have; past it the oldest makes room.
        pub variants: u32 = 32 { in 1..=1024 },
        /// How long it is remembered that an answer could not be kept, so that requests for it do
        /// not wait for each other. The first answer that can be kept ends it.
        pub hit_for_miss: Duration = "2m" { in "0s"..="1h" },
        /// How the origin is asked.
        pub fetch: FetchSettings = {},
        /// Who may purge with the method `PURGE` on the route.
        pub purge: PurgeSettings = {},
        /// Also say in `X-Status` what `Cache-Status` says: hit, stale, fetching, hitForPass or
        /// passed.
        pub x_status: bool = false,
    }
    short: store;
    check: check;
}

settings::record! {
    /// How long answers are fresh.
    pub struct TtlSettings {
        /// For answers that say nothing of it; at 0s they are not kept.
        pub default: Duration = "0s" { in "0s"..="365d", example "10s" },
        /// At least so long, where the answer allows it to be kept at all.
        pub min: Duration = "0s" { in "0s"..="365d" },
        /// At most so long.
        pub max: Duration = "365d" { in "1s"..="3650d", example "1h" },
        /// At most so long for a status, `404`, or a class, `5xx`. What is `0s` is not kept.
        pub statuses: StatusTimes = { "4xx": "5m", "5xx": "10s" } {
            example { "404": "10s", "5xx": "0s" }
        },
        /// Guess where an answer has a `Last-Modified` and says nothing else (RFC 9111 4.2.2).
        pub heuristic: Option<HeuristicSettings> = null { example { "fraction": "10%" } },
    }
    check: check_ttl;
}

settings::choice! {
    /// What is done with answers that set cookies (RFC 9111 7.3).
    pub enum SetCookieWord {
        /// They are not kept.
        Refuse = "refuse",
        /// They are kept without their cookies; only the first client gets these.
        Strip = "strip",
        /// They are kept with their cookies: everybody gets the same.
        Keep = "keep",
    }
}

settings::record! {
    /// How a lifetime is guessed.
    pub struct HeuristicSettings {
        /// This part of the time since it was last modified.
        pub fraction: Percent = "10%",
        /// At most so long.
        pub max: Duration = "1d" { in "1s"..="365d" },
    }
}

settings::record! {
    /// How long answers that are no longer fresh may still be given. What the answer says itself
    /// (`stale-while-revalidate`, `stale-if-error`, RFC 5861) counts where it is longer; what it
    /// forbids (`must-revalidate`) is not done.
    pub struct StaleSettings {
        /// While one request in the background asks anew.
        pub while_revalidate: Duration = "0s" { in "0s"..="365d", example "10s" },
        /// When the origin cannot be reached or answers 500, 502, 503 or 504.
        pub if_error: Duration = "0s" { in "0s"..="365d", example "1h" },
    }
}

settings::record! {
    /// How the origin is asked for what is not there.
    pub struct FetchSettings {
        /// How long a request waits for the head of an answer that another one fetches, before it
        /// asks the origin itself.
        pub wait: Duration = "10s" { in "0s"..="10m" },
        /// How long a fetch goes on after everybody who waited for it has left.
        pub outlive: Duration = "30s" { in "0s"..="10m" },
        /// How much of an answer a fetch takes after everybody who waited for it has left.
        pub outlive_size: Size = "16MiB" { in "0B"..="1TiB" },
        /// Fields that are not sent on: what origins are known to build answers from without saying
        /// so in `Vary`. One client's would be in what everybody gets. A field that counts in the
        /// key is sent on.
        pub drop_headers: Vec<HeaderName> = [
            "x-host", "x-http-host-override", "x-http-method-override", "x-http-method",
            "x-method-override"
        ],
    }
}

settings::record! {
    /// Who may purge with the method `PURGE` on the route. Others are answered 403, and where
    /// nobody may, 405.
    pub struct PurgeSettings {
        /// Addresses of clients.
        pub allow: Vec<Cidr> = [] { example ["127.0.0.1", "10.0.0.0/8"] },
    }
    short: allow;
}

fn check(settings: &FilterSettings, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    if settings.languages.len() > LANGUAGES_MAX {
        reader.mistake(at("languages"), format!("more than {LANGUAGES_MAX} languages"));
    }
    // RFC 5646 2.1: subtags of letters and digits.
    let is_tag = |tag: &str| {
        tag.split('-').all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    if let Some(odd) = settings.languages.iter().find(|tag| !is_tag(tag)) {
        let said = format!("{} is no language tag such as de or pt-BR", settings::quote(odd));
        reader.mistake(at("languages"), said);
    }
    if let Some(varying) = settings.fetch.drop_headers.iter().find(|name| is_needed(name)) {
        let at = node.get("fetch").and_then(|fetch| fetch.get("drop_headers")).unwrap_or(node);
        reader.mistake(at.span, format!("{varying} is needed to ask the origin"));
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
        reader.mistake(at("min"), format!("min {} is longer than max {}", ttl.min, ttl.max));
    }
    if ttl.default > ttl.max {
        let said = format!("default {} is longer than max {}", ttl.default, ttl.max);
        reader.mistake(at("default"), said);
    }
}

#[cfg(test)]
mod tests;
