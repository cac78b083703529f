//! The caches of the process, for the control thread: status, purges, and the explanation of a
//! miss.
//!
//! Slow work (a purge by prefix, the maintenance of a million objects, or a look at all of them)
//! runs on other threads. Secrets in the URLs of stored responses are masked as in logs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use admin::{
    CacheDisk, CacheRequestError, CacheStatus, Entries, EntriesWanted, Explanation, PurgePreview,
    Question, TopEntries,
};
use cache::explain::{ObjectDescription, explain};
use cache::rules::tags;
use cache::store::{Purge, Store};
use cache::{Cache, CachePlan, Caches, Object, PurgeRequest, PurgeWhat};
use config::{RoutePlan, ServerPlan};
use http_server::Masks;
use message::Request;
use net::clock::wall_secs;
use net::task::JoinHandle;
use router::{Input, RuleVerdict};
use serde_json::{Value, json};
use telemetry::event;
use telemetry::log::Level;

use crate::explain::request;
use crate::instance::credential_places;

/// Interval at which a part of every store is searched for expired objects.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// The task that maintains the stores; dropping it stops the task.
pub(crate) struct CacheSweeper(JoinHandle<()>);

impl CacheSweeper {
    pub(crate) fn start(caches: &Arc<Caches>) -> CacheSweeper {
        let caches = caches.clone();
        CacheSweeper(net::task::spawn_local(async move {
            loop {
                net::timer::sleep(SWEEP_EVERY).await;
                let all = caches.all();
                if all.is_empty() {
                    continue;
                }
                let sweep = move || {
                    for cache in all {
                        cache.store().sweep();
                    }
                };
                // The thread pool has ended: the process is exiting.
                if net::blocking(sweep).await.is_err() {
                    return;
                }
            }
        }))
    }
}

impl Drop for CacheSweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the filter of a route that stores responses in that cache, and the filters before it.
fn plan_on<'p>(route: &'p RoutePlan, name: &str) -> Option<(&'p CachePlan, Vec<&'static str>)> {
    let at = route.filters.iter().position(|filter| {
        CachePlan::of(&**filter).is_some_and(|plan| plan.store().value == name)
    })?;
    let before = route.filters[..at].iter().map(|filter| filter.name()).collect();
    CachePlan::of(&*route.filters[at]).map(|plan| (plan, before))
}

/// Returns the cache plans of all routes that use a cache.
fn plans<'p>(plan: &'p ServerPlan, name: &str) -> Vec<(&'p RoutePlan, &'p CachePlan)> {
    let on = |route: &'p RoutePlan| Some((route, plan_on(route, name)?.0));
    plan.routes.iter().filter_map(on).collect()
}

/// Returns the status of every cache in the format of the admin API.
pub(crate) fn status(caches: &Caches, plan: &ServerPlan) -> Vec<CacheStatus> {
    let status = |cache: Arc<Cache>| {
        let stats = cache.store().stats();
        CacheStatus {
            name: cache.name().to_owned(),
            routes: plans(plan, cache.name()).iter().map(|(route, _)| route.name.clone()).collect(),
            objects: stats.objects,
            bytes: stats.bytes,
            memory_bytes: stats.memory_bytes,
            disk: disk(&cache),
        }
    };
    caches.all().into_iter().map(status).collect()
}

fn disk(cache: &Cache) -> Option<CacheDisk> {
    let (stats, settings) = (cache.store().disk_stats()?, cache.settings().disk?);
    Some(CacheDisk {
        path: settings.path.to_string(),
        objects: stats.objects,
        bytes: stats.bytes,
        deleted_bytes: stats.deleted_bytes,
        size_bytes: stats.size_bytes,
        failed: stats.failed,
    })
}

/// Returns the stored responses with the most hits, and those that take the most memory, without
/// the header fields that selected them.
pub(crate) async fn top(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    limit: usize,
) -> Result<TopEntries, CacheRequestError> {
    let cache = caches.get(name).ok_or(CacheRequestError::NoCache)?;
    let found = net::blocking(move || cache.store().top(limit)).await;
    let found = found.map_err(|error| CacheRequestError::Wrong(error.to_string()))?;
    let masks = masks(plan);
    let top_rows = |objects: &[Arc<Object>]| {
        let mut rows = rows(objects, &masks);
        // Values of header fields may be secrets.
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.remove("vary");
        }
        rows
    };
    Ok(TopEntries { by_hits: top_rows(&found.by_hits), by_memory: top_rows(&found.by_memory) })
}

fn masks(plan: &ServerPlan) -> Masks {
    Masks::new(credential_places(plan))
}

fn rows(objects: &[Arc<Object>], masks: &Masks) -> Vec<Value> {
    let now_secs = wall_secs();
    objects.iter().map(|object| row(&described(object, now_secs, masks), masks)).collect()
}

fn described(object: &Object, now_secs: u64, masks: &Masks) -> ObjectDescription {
    ObjectDescription::new(object, now_secs, &|name| masks.is_secret_field(name))
}

pub(crate) fn entries(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    wanted: &EntriesWanted,
) -> Result<Entries, CacheRequestError> {
    let cache = caches.get(name).ok_or(CacheRequestError::NoCache)?;
    let masks = masks(plan);
    let prefix = wanted.prefix.as_bytes();
    // Secrets are not compared: a client could guess them piece by piece.
    let (has_query, masked) = (prefix.contains(&b'?'), masks.masked_url(prefix));
    let is_wanted = |object: &Object| match has_query {
        true => masks.masked_url(object.key.url()).starts_with(&masked),
        false => object.key.url().starts_with(prefix),
    };
    let mut after = wanted.after;
    // Each step lists one part of a shard; an empty part is skipped.
    loop {
        let page = cache.store().list(after, wanted.limit, is_wanted);
        if page.objects.is_empty() && page.next.is_some() {
            after = page.next;
            continue;
        }
        let entries = rows(&page.objects, &masks);
        return Ok(Entries { entries, next: page.next });
    }
}

fn row(entry: &ObjectDescription, masks: &Masks) -> Value {
    let url = String::from_utf8_lossy(&masks.masked_url(entry.url.as_bytes())).into_owned();
    json!({
        "url": url,
        "masked": url != entry.url,
        "route": entry.route,
        "kind": entry.kind,
        "status": entry.status,
        "coding": entry.coding,
        "derived": entry.derived,
        "bytes": entry.bytes,
        "memory_bytes": entry.memory_bytes,
        "hits": entry.hits,
        "age_s": entry.age_s,
        "fresh_s": entry.fresh_s,
        "soft_purged": entry.soft_purged,
        "why": entry.why,
        "vary": entry.vary,
        "tags": entry.tags,
    })
}

/// Purges objects and returns their number.
pub(crate) async fn purge(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    request: PurgeRequest,
) -> Result<u64, CacheRequestError> {
    purge_with(caches, plan, name, request, Store::purge).await
}

/// The same for a purge that other servers do not know of.
pub(crate) async fn purge_locally(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    request: PurgeRequest,
) -> Result<u64, CacheRequestError> {
    purge_with(caches, plan, name, request, Store::purge_locally).await
}

async fn purge_with(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    request: PurgeRequest,
    purge: fn(&Store, &Purge<'_>, bool) -> u64,
) -> Result<u64, CacheRequestError> {
    let PurgeRequest { what, soft } = request;
    let cache = caches.get(name).ok_or(CacheRequestError::NoCache)?;
    let kind = what.kind();
    let targets = targets(&plans(plan, name), what)?;
    let counted = net::blocking(move || {
        let one = |target: &PurgeTarget| purge(cache.store(), &target.as_purge(), soft);
        targets.iter().map(one).sum()
    });
    let purged: u64 = counted.await.map_err(|error| CacheRequestError::Wrong(error.to_string()))?;
    event!(Level::Info, "purged", cache = name, by = kind, soft = soft, responses = purged);
    Ok(purged)
}

/// Returns what a purge would remove from this server, and some of the URLs.
pub(crate) async fn preview_purge(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    request: PurgeRequest,
    most: usize,
) -> Result<PurgePreview, CacheRequestError> {
    let PurgeRequest { what, soft } = request;
    let cache = caches.get(name).ok_or(CacheRequestError::NoCache)?;
    let targets = targets(&plans(plan, name), what)?;
    let masks = masks(plan);
    let look = move || {
        let mut preview = PurgePreview::default();
        for target in &targets {
            let (found, is_exact) = preview_target(cache.store(), target, soft, most, &masks);
            preview.responses += found.responses;
            preview.is_upper_bound |= !is_exact;
            let masked = |object: &Arc<Object>| masks.masked_url(object.key.url()).into_owned();
            let urls = found.sample.iter().map(masked);
            preview.urls.extend(urls.map(|url| String::from_utf8_lossy(&url).into_owned()));
        }
        preview.urls.sort_unstable();
        preview.urls.dedup();
        preview.urls.truncate(most);
        preview
    };
    net::blocking(look).await.map_err(|error| CacheRequestError::Wrong(error.to_string()))
}

/// Previews one target; false if there may be fewer responses. Secrets in the query of a prefix are
/// not compared: a client could guess them piece by piece.
fn preview_target(
    store: &Store,
    target: &PurgeTarget,
    soft: bool,
    most: usize,
    masks: &Masks,
) -> (cache::store::PurgePreview, bool) {
    let PurgeTarget::Prefix(prefix) = target else {
        return (store.preview(&target.as_purge(), soft, most, &|_| true), true);
    };
    let Some(query) = prefix.iter().position(|byte| *byte == b'?') else {
        return (store.preview(&Purge::Prefix(prefix), soft, most, &|_| true), true);
    };
    let masked = masks.masked_url(prefix);
    let is_covered = |object: &Object| masks.masked_url(object.key.url()).starts_with(&masked);
    let before = Purge::Prefix(&prefix[..=query]);
    (store.preview(&before, soft, most, &is_covered), *masked == **prefix)
}

/// Whether [`purge`] could be carried out.
pub(crate) fn check_purge(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    request: &PurgeRequest,
) -> Result<(), CacheRequestError> {
    caches.get(name).ok_or(CacheRequestError::NoCache)?;
    targets(&plans(plan, name), request.what.clone()).map(drop)
}

/// Owned form of the purge request.
enum PurgeTarget {
    Url(Box<[u8]>),
    Prefix(Box<[u8]>),
    Tags(Vec<u64>),
    All,
}

impl PurgeTarget {
    fn as_purge(&self) -> Purge<'_> {
        match self {
            PurgeTarget::Url(url) => Purge::Url(url),
            PurgeTarget::Prefix(prefix) => Purge::Prefix(prefix),
            PurgeTarget::Tags(tags) => Purge::Tags(tags),
            PurgeTarget::All => Purge::All,
        }
    }
}

fn targets(
    plans: &[(&RoutePlan, &CachePlan)],
    what: PurgeWhat,
) -> Result<Vec<PurgeTarget>, CacheRequestError> {
    // Routes may normalise URLs differently: each computes its own key.
    let urls = |text: &str| -> Result<BTreeSet<Box<[u8]>>, CacheRequestError> {
        let urls: BTreeSet<_> = plans
            .iter()
            .filter_map(|(route, plan)| plan.url(route.names().identity, text))
            .collect();
        match urls.is_empty() && !plans.is_empty() {
            true => {
                let said = format!("\"{text}\" is not an absolute URL: write http://host/path");
                Err(CacheRequestError::Wrong(said))
            }
            false => Ok(urls),
        }
    };
    Ok(match what {
        PurgeWhat::All => vec![PurgeTarget::All],
        PurgeWhat::Tags(names) => {
            vec![PurgeTarget::Tags(names.iter().map(|name| tags::tag(name.as_bytes())).collect())]
        }
        PurgeWhat::Groups(names) => {
            vec![PurgeTarget::Tags(names.iter().map(|name| tags::group(name.as_bytes())).collect())]
        }
        PurgeWhat::Prefix(prefix) => urls(&prefix)?.into_iter().map(PurgeTarget::Prefix).collect(),
        PurgeWhat::Url(url) => urls(&url)?.into_iter().map(PurgeTarget::Url).collect(),
    })
}

/// Returns whether a request would be a cache hit, and what is stored for its URL.
pub(crate) fn explain_cache(
    caches: &Caches,
    plan: &ServerPlan,
    name: &str,
    question: &Question,
) -> Result<Explanation, CacheRequestError> {
    let cache = caches.get(name).ok_or(CacheRequestError::NoCache)?;
    let asked = request(plan, question).map_err(CacheRequestError::Wrong)?;
    let masks = masks(plan);
    let Some(route) = routed(plan, &asked) else {
        let said = format!("no route matches {} {}", question.method, question.url);
        return Ok(explanation("pass", &said, None, None, (&[], &masks)));
    };
    let Some((filter, before)) = plan_on(route, name) else {
        let said = format!("its route {} stores nothing in {name}", settings::quote(&route.name));
        return Ok(explanation("pass", &said, Some(&route.name), None, (&[], &masks)));
    };
    let now_secs = wall_secs();
    let found = explain(&cache, filter, route.names().identity, &asked, now_secs);
    let stored: Vec<ObjectDescription> = found
        .url
        .iter()
        .flat_map(|url| cache.store().of_url(url.as_bytes()))
        .map(|object| described(&object, now_secs, &masks))
        .collect();
    let mut why = found.why;
    if !before.is_empty() {
        let names = before.join(", ");
        why.push_str(&format!(" (filters before the cache may change it: {names})"));
    }
    let key = found.key.as_deref();
    let stored = (stored.as_slice(), &masks);
    Ok(explanation(found.verdict.slug(), &why, Some(&route.name), key, stored))
}

fn routed<'p>(plan: &'p ServerPlan, asked: &Request) -> Option<&'p RoutePlan> {
    match plan.router.explain(&Input::from(asked)).verdict {
        RuleVerdict::Route(chosen) => Some(plan.route(chosen.route)),
        RuleVerdict::MethodNotAllowed(_) | RuleVerdict::NotFound => None,
    }
}

fn explanation(
    verdict: &str,
    why: &str,
    route: Option<&str>,
    key: Option<&str>,
    (stored, masks): (&[ObjectDescription], &Masks),
) -> Explanation {
    let mut text = format!("{verdict}: {why}\n");
    if let Some(route) = route {
        text.push_str(&format!("route: {route}\n"));
    }
    if let Some(key) = key {
        text.push_str(&format!("key: {key}\n"));
    }
    text.push_str(if stored.is_empty() {
        "stored for its URL: nothing\n"
    } else {
        "stored for its URL:\n"
    });
    stored.iter().for_each(|entry| text.push_str(&line(entry)));
    let json = json!({
        "verdict": verdict,
        "why": why,
        "route": route,
        "key": key,
        "stored": stored.iter().map(|entry| row(entry, masks)).collect::<Vec<_>>(),
    });
    Explanation { text, json }
}

/// Describes one stored object in a line of text.
fn line(entry: &ObjectDescription) -> String {
    let mut parts = vec![entry.kind.to_owned()];
    parts.extend(entry.status.map(|status| status.to_string()));
    parts.extend(entry.bytes.map(|bytes| format!("{bytes} bytes")));
    parts.extend(entry.why.map(str::to_owned));
    let how = if entry.derived { "made here: " } else { "" };
    parts.extend(entry.coding.map(|coding| format!("{how}{coding}")));
    parts.extend(entry.age_s.map(|age_s| format!("{age_s} s old")));
    parts.extend(entry.fresh_s.map(|fresh_s| match fresh_s {
        _ if entry.soft_purged => "purged softly".to_owned(),
        1.. => format!("fresh for {fresh_s} s"),
        _ => format!("stale for {} s", -fresh_s),
    }));
    parts.extend(entry.vary.as_ref().map(|vary| format!("vary: {vary}")));
    format!("  {}\n", parts.join(", "))
}
