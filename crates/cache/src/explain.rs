//! Explains what the cache would do with a request, and what is stored.
//!
//! For the admin API: it looks requests up as serving does, with the same rules. Never fetches,
//! never changes what is stored, and never runs while a request does.

use message::Request;

use crate::key::KeyBuffer;
use crate::rules::{Disposition, Forward, Reuse, request, reuse};
use crate::serve::{self, WorkerCache};
use crate::{Cache, CachePlan, Object, ObjectKind, store};

/// The explanation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub verdict: CacheDecision,
    /// The reason, in a sentence.
    pub why: String,
    /// The key that is looked up, for display: control characters are shown as spaces.
    pub key: Option<String>,
    /// The URL of the key.
    pub url: Option<String>,
}

/// How the cache would handle a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheDecision {
    /// The stored response is sent.
    Hit,
    /// The stored response is sent, and revalidated in the background.
    Stale,
    /// The stored response is revalidated first.
    Revalidate,
    /// The origin is requested.
    Miss,
    /// The request is forwarded without the cache.
    Pass,
    /// The response is 504.
    OnlyIfCached,
}

impl CacheDecision {
    pub const fn slug(self) -> &'static str {
        match self {
            CacheDecision::Hit => "hit",
            CacheDecision::Stale => "stale",
            CacheDecision::Revalidate => "revalidate",
            CacheDecision::Miss => "miss",
            CacheDecision::Pass => "pass",
            CacheDecision::OnlyIfCached => "only-if-cached",
        }
    }
}

/// The description of one stored object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectDescription {
    pub url: String,
    pub route: String,
    /// `response`, `parts`, `varies`, `search` or `uncacheable`.
    pub kind: &'static str,
    pub status: Option<u16>,
    pub coding: Option<&'static str>,
    /// Whether it was transcoded from the response that the origin sent.
    pub derived: bool,
    pub bytes: Option<u64>,
    /// The memory that its removal frees.
    pub memory_bytes: u64,
    /// Lookups that found it, also before it was replaced by a newer one.
    pub hits: u32,
    pub age_s: Option<u32>,
    /// Remaining freshness; negative if stale.
    pub fresh_s: Option<i64>,
    /// Whether it was purged softly.
    pub soft_purged: bool,
    /// Why responses cannot be stored.
    pub why: Option<&'static str>,
    /// The fields in `Vary` of its URL, or those of its variant with their values.
    pub vary: Option<String>,
    pub tags: usize,
}

/// Explains what the cache would do with a request on a route.
pub fn explain(
    cache: &Cache,
    plan: &CachePlan,
    route: &str,
    request: &Request,
    now_secs: u64,
) -> Explanation {
    let past = |verdict, why: String| Explanation { verdict, why, key: None, url: None };
    let policy = &plan.config().policy;
    let (content, upgrade) = (!request.body.is_empty(), request.upgrade);
    let way = request::classify(&request.method, &request.headers, upgrade, content, policy);
    let directives = match way {
        Disposition::Pass(reason) => {
            return past(
                CacheDecision::Pass,
                format!("not handled by the cache: {}", reason.slug()),
            );
        }
        Disposition::Invalidate => {
            let note = "an unsafe method: success purges what is stored for its URL";
            return past(CacheDecision::Pass, note.to_owned());
        }
        Disposition::Lookup(directives) => directives,
    };
    let mut buffer = KeyBuffer::default();
    let rules = plan.key_rules(route);
    let looked =
        serve::lookup(cache.store(), &WorkerCache::new(0), (&rules, policy), request, &mut buffer);
    let looked = match looked {
        Ok(looked) => looked,
        Err(why) => return past(CacheDecision::Pass, format!("no key: {}", why.slug())),
    };
    let found = looked.entry.as_ref().map(serve::StoredEntry::object);
    let (verdict, why) = match found.map(|object| &object.kind) {
        None => missing(looked.missing),
        Some(ObjectKind::Uncacheable { until_secs, why }) if *until_secs > now_secs => {
            let left_s = until_secs - now_secs;
            (
                CacheDecision::Miss,
                format!(
                    "the last response could not be stored ({}), remembered for {left_s} s more",
                    why.slug()
                ),
            )
        }
        Some(ObjectKind::Response(response)) => {
            let soft = found.is_some_and(|object| object.state.is_stale());
            reused(reuse::evaluate(&response.meta, soft, &directives, now_secs), soft)
        }
        Some(_) => missing(Forward::Miss),
    };
    let requests = !matches!(verdict, CacheDecision::Hit | CacheDecision::OnlyIfCached);
    let why = match plan.owners().filter(|_| requests) {
        Some(upstream) => {
            format!("{why}; its owner among the servers of {upstream} is requested first")
        }
        None => why,
    };
    Explanation { verdict, why, key: Some(readable(buffer.text())), url: Some(text(buffer.url())) }
}

fn missing(what: Forward) -> (CacheDecision, String) {
    let why = match what {
        Forward::UriMiss => "nothing is stored for its URL",
        Forward::VaryMiss => "its URL is stored, but not for these header fields",
        _ => "no stored response can be used",
    };
    (CacheDecision::Miss, why.to_owned())
}

fn reused(reuse: Reuse, soft: bool) -> (CacheDecision, String) {
    let age = |age_s: u32, left_s: i64| match left_s {
        _ if soft => format!("purged softly, {age_s} s old"),
        1.. => format!("{age_s} s old, fresh for {left_s} s more"),
        _ => format!("{age_s} s old, stale for {} s", -left_s),
    };
    match reuse {
        Reuse::Use { age_s, left_s, refresh: false } => {
            (CacheDecision::Hit, format!("stored, {}", age(age_s, left_s)))
        }
        Reuse::Use { age_s, left_s, refresh: true } => (
            CacheDecision::Stale,
            format!("stored, {}, served while it is revalidated", age(age_s, left_s)),
        ),
        Reuse::Validate { why, age_s, left_s, if_error } => {
            let because = match why {
                Forward::Request => "the request wants it revalidated",
                _ => "it has to be revalidated",
            };
            let anyway = if if_error { "; served all the same if the origin fails" } else { "" };
            (
                CacheDecision::Revalidate,
                format!("stored, {}: {because}{anyway}", age(age_s, left_s)),
            )
        }
        Reuse::OnlyIfCached => (
            CacheDecision::OnlyIfCached,
            "the request accepts only a stored response, and none can be used".to_owned(),
        ),
    }
}

impl ObjectDescription {
    /// Describes an object; the values of fields that are secret are `***`.
    pub fn new(
        object: &Object,
        now_secs: u64,
        is_secret: &dyn Fn(&[u8]) -> bool,
    ) -> ObjectDescription {
        let (route, variant) = parts(&object.key.text()[object.key.url().len()..]);
        let mut described = ObjectDescription {
            url: text(object.key.url()),
            route,
            vary: variant.map(|values| masked_values(values, is_secret)),
            soft_purged: object.state.is_stale(),
            memory_bytes: store::weigh(object),
            hits: object.hits(),
            ..ObjectDescription::default()
        };
        if let Some(response) = object.response() {
            described.status = Some(response.meta.status);
            described.coding = response.coding.map(coding::Coding::token);
            described.derived = response.derived;
            described.age_s = Some(reuse::age_s(&response.meta, now_secs));
            described.fresh_s = Some(reuse::left_s(&response.meta, now_secs));
            described.tags = response.tags.len();
        }
        match &object.kind {
            ObjectKind::Response(response) => {
                described.kind = "response";
                described.bytes = Some(response.content.len());
            }
            ObjectKind::Parts(parts) => {
                described.kind = "parts";
                described.bytes = Some(parts.bytes());
            }
            ObjectKind::Varies(vary) => {
                described.kind = "varies";
                let fields = vary.fields.iter().map(|field| text(field));
                described.vary = Some(fields.collect::<Vec<_>>().join(", "));
            }
            ObjectKind::NoVarySearch(_) => described.kind = "search",
            ObjectKind::Uncacheable { until_secs, why } => {
                described.kind = "uncacheable";
                described.why = Some(why.slug());
                described.fresh_s = i64::try_from(until_secs.saturating_sub(now_secs)).ok();
            }
        }
        described
    }
}

/// The route of a key, and the values of its variant, from the text behind the URL.
fn parts(rest: &[u8]) -> (String, Option<&[u8]>) {
    let mut parts = rest.split(|byte| *byte == 0).skip(1);
    let route = parts.next().unwrap_or_default();
    let route = route.split(|byte| *byte == 1).next().unwrap_or_default();
    (text(route), parts.find_map(|part| part.strip_prefix(b"v:")))
}

/// The fields of a variant with their values ([`crate::rules::vary::values`]).
fn masked_values(values: &[u8], is_secret: &dyn Fn(&[u8]) -> bool) -> String {
    let fields = values.split(|byte| *byte == b'\n').filter(|field| !field.is_empty());
    let shown = |field: &[u8]| match field.iter().position(|byte| *byte == b':') {
        Some(colon) if is_secret(&field[..colon]) => format!("{}: ***", text(&field[..colon])),
        Some(colon) => format!("{}: {}", text(&field[..colon]), readable(&field[colon + 1..])),
        // The request had no such field.
        None => text(field),
    };
    fields.map(shown).collect::<Vec<_>>().join(", ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text with control characters as spaces.
fn readable(bytes: &[u8]) -> String {
    text(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
