//! `/v1/caches`: what caches hold and did, purges, and why something was a miss.

use std::collections::BTreeMap;
use std::time::Duration;

use cache::PurgeRequest;
use message::{Request, Response};
use serde_json::{Map, Value as Json, json};
use settings::nearest;
use telemetry::families::{self, Family};
use telemetry::{Telemetry, Value};
use wire::{Known, target};

use crate::control::{CacheRequestError, CacheStatus, Control, EntriesWanted, Question};
use crate::limits::{
    ENTRIES, ENTRIES_MAX, EXPLAIN_FIELDS, PREVIEW_URLS, PURGE_WAIT_MAX_S, PURGE_WAIT_S,
    REQUEST_BYTES, TOP_ENTRIES, TOP_ENTRIES_MAX,
};
use crate::messages::{ApiResult, body_text, json_response};
use crate::problem::Problem;
use crate::purged::Purged;

/// The counters of a cache, and their names here.
const COUNTED: [(&Family, &str); 9] = [
    (&families::CACHE_HITS, "hits"),
    (&families::CACHE_STALE, "stale"),
    (&families::CACHE_MISSES, "misses"),
    (&families::CACHE_PASSES, "passes"),
    (&families::CACHE_COALESCED, "coalesced"),
    (&families::CACHE_REVALIDATIONS, "revalidations"),
    (&families::CACHE_UNSTORED, "unstored"),
    (&families::CACHE_STORED, "stored"),
    (&families::CACHE_REMOVED, "removed"),
];

pub(crate) fn all(control: &dyn Control) -> Response {
    let mut numbers = numbers(&control.telemetry());
    let rows: Vec<Json> = control
        .caches()
        .iter()
        .map(|cache| row(cache, numbers.remove(&cache.name).unwrap_or_default()))
        .collect();
    json_response(200, &json!({ "caches": rows }))
}

pub(crate) fn one(control: &dyn Control, name: &str) -> ApiResult {
    let caches = control.caches();
    let Some(cache) = caches.iter().find(|cache| cache.name == name) else {
        return Err(missing(control, name));
    };
    let counted = numbers(&control.telemetry()).remove(name).unwrap_or_default();
    Ok(json_response(200, &row(cache, counted)))
}

fn row(cache: &CacheStatus, counted: Map<String, Json>) -> Json {
    let disk = cache.disk.as_ref().map(|disk| {
        json!({
            "path": disk.path,
            "objects": disk.objects,
            "bytes": disk.bytes,
            "deleted_bytes": disk.deleted_bytes,
            "size_bytes": disk.size_bytes,
            "failed": disk.failed,
        })
    });
    let mut row = json!({
        "name": cache.name,
        "routes": cache.routes,
        "objects": cache.objects,
        "bytes": cache.bytes,
        "memory_bytes": cache.memory_bytes,
        "disk": disk,
    });
    let members = COUNTED.map(|(_, name)| (name, counted.get(name).cloned().unwrap_or(json!(0))));
    for (name, number) in members {
        row[name] = number;
    }
    row
}

/// Returns the counters of each cache: numbers, or numbers by reason.
fn numbers(telemetry: &Telemetry) -> BTreeMap<String, Map<String, Json>> {
    let mut numbers: BTreeMap<String, Map<String, Json>> = BTreeMap::new();
    for found in telemetry.collect() {
        let Some((_, member)) = COUNTED.iter().find(|(f, _)| f.name == found.family.name) else {
            continue;
        };
        for sample in found.samples {
            let Value::Counter(n) = sample.value else { continue };
            match sample.labels.as_slice() {
                [cache] => {
                    numbers.entry(cache.clone()).or_default().insert((*member).into(), json!(n));
                }
                [cache, reason] => {
                    let cache = numbers.entry(cache.clone()).or_default();
                    cache.entry(*member).or_insert_with(|| json!({}))[reason] = json!(n);
                }
                _ => {}
            }
        }
    }
    numbers
}

pub(crate) fn entries(control: &dyn Control, name: &str, query: Option<&[u8]>) -> ApiResult {
    let mut wanted = EntriesWanted { prefix: String::new(), after: None, limit: ENTRIES };
    for (key, value) in pairs(query)? {
        match key.as_str() {
            "prefix" => wanted.prefix = value,
            "after" => wanted.after = Some(number("after", &value)?),
            _ => {
                let limit = number("limit", &value)?;
                wanted.limit = usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, ENTRIES_MAX);
            }
        }
    }
    let page = control.entries(name, &wanted).map_err(|why| refused(control, name, why))?;
    Ok(json_response(200, &json!({ "entries": page.entries, "next": page.next })))
}

pub(crate) async fn top(control: &dyn Control, name: &str, query: Option<&[u8]>) -> ApiResult {
    let mut limit = TOP_ENTRIES;
    for (_, value) in pairs(query)? {
        let wanted = number("limit", &value)?;
        limit = usize::try_from(wanted).unwrap_or(usize::MAX).clamp(1, TOP_ENTRIES_MAX);
    }
    let top = control.top_entries(name, limit).await.map_err(|why| refused(control, name, why))?;
    Ok(json_response(200, &json!({ "by_hits": top.by_hits, "by_memory": top.by_memory })))
}

pub(crate) fn explain(control: &dyn Control, name: &str, request: &Request) -> ApiResult {
    let mut question = Question {
        method: "GET".to_owned(),
        url: String::new(),
        headers: Vec::new(),
        client_ip: None,
        listener: None,
    };
    for (key, value) in pairs(request.target.query())? {
        match key.as_str() {
            "url" => question.url = value,
            "method" => question.method = value,
            _ => {
                let Some((field, value)) = value.split_once(':') else {
                    let expected = format!("header \"{value}\" is not of the form name:value");
                    return Err(Problem::new(400, expected));
                };
                question.headers.push((field.trim().to_owned(), value.trim().to_owned()));
            }
        }
    }
    if question.url.is_empty() {
        return Err(Problem::new(400, "the query has no url")
            .advice(format!("for example /v1/caches/{name}/explain?url=http://example.com/")));
    }
    if question.headers.len() > EXPLAIN_FIELDS {
        return Err(Problem::new(400, format!("more than {EXPLAIN_FIELDS} header fields")));
    }
    let found =
        control.explain_cache(name, &question).map_err(|why| refused(control, name, why))?;
    let accept = request.headers.get(Known::Accept);
    Ok(match wire::negotiate::choose_media_type(accept, &["application/json", "text/plain"]) {
        Some(1) => Response::text(200, found.text),
        _ => json_response(200, &found.json),
    })
}

pub(crate) async fn purge(control: &dyn Control, name: &str, request: &mut Request) -> ApiResult {
    let wait = wait(request.target.query())?;
    let text = body_text(request, REQUEST_BYTES).await?;
    let purged = control.purge(name, parse_purge(&text)?, wait).await;
    let purged = purged.map_err(|why| refused(control, name, why))?;
    Ok(json_response(200, &purged_row(&purged)))
}

/// What a purge would remove.
pub(crate) async fn preview(control: &dyn Control, name: &str, request: &mut Request) -> ApiResult {
    let text = body_text(request, REQUEST_BYTES).await?;
    let preview = control.preview_purge(name, parse_purge(&text)?, PREVIEW_URLS).await;
    let preview = preview.map_err(|why| refused(control, name, why))?;
    let row = json!({
        "responses": preview.responses,
        "is_upper_bound": preview.is_upper_bound,
        "urls": preview.urls,
    });
    Ok(json_response(200, &row))
}

/// How long a purge waits for other servers.
fn wait(query: Option<&[u8]>) -> Result<Option<Duration>, Problem> {
    let mut wait = None;
    for (key, value) in pairs(query)? {
        if key == "wait" {
            let seconds = if value.is_empty() { PURGE_WAIT_S } else { number("wait", &value)? };
            if seconds > PURGE_WAIT_MAX_S {
                let why = format!("wait={seconds} is more than {PURGE_WAIT_MAX_S} seconds");
                return Err(Problem::new(400, why));
            }
            wait = Some(Duration::from_secs(seconds));
        }
    }
    Ok(wait)
}

fn purged_row(purged: &Purged) -> Json {
    let mut row = json!({ "purged": purged.purged });
    let Some(fleet) = &purged.fleet else { return row };
    match &fleet.published {
        Ok(number) => {
            row["published"] = json!(true);
            row["number"] = json!(number);
        }
        Err(why) => {
            row["published"] = json!(false);
            row["problem"] = json!(why);
        }
    }
    let Some(waited) = &fleet.waited else { return row };
    let missing = waited.missing.iter().map(|server| {
        let state = if server.is_live { "behind" } else { "away" };
        json!({ "server": server.name, "state": state })
    });
    row["confirmed"] = json!(waited.is_confirmed);
    row["applied"] = json!(waited.applied);
    row["missing"] = missing.collect();
    if let Some(problem) = &waited.problem {
        row["problem"] = json!(problem);
    }
    row
}

/// Parses the body of a purge.
fn parse_purge(text: &str) -> Result<PurgeRequest, Problem> {
    let body: Json = serde_json::from_str(text)
        .map_err(|e| Problem::new(400, format!("the body is not JSON: {e}")))?;
    PurgeRequest::read(&body).map_err(|error| {
        let problem = Problem::new(400, error.message);
        match error.advice {
            Some(advice) => problem.advice(advice),
            None => problem,
        }
    })
}

fn number(name: &str, text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::new(400, format!("{name}=\"{text}\" is not a number")))
}

/// The parameters of a query, decoded.
fn pairs(query: Option<&[u8]>) -> Result<Vec<(String, String)>, Problem> {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Problem::new(400, "a parameter of the query is not UTF-8"))
    };
    let pairs = target::query_pairs(query.unwrap_or_default());
    pairs.map(|(key, value)| Ok((text(&key)?, text(&value)?))).collect()
}

fn refused(control: &dyn Control, name: &str, why: CacheRequestError) -> Problem {
    match why {
        CacheRequestError::NoCache => missing(control, name),
        CacheRequestError::Wrong(why) => Problem::new(400, why),
        CacheRequestError::Unpublished(why) => {
            Problem::new(503, format!("nothing was purged, other servers do not know of it: {why}"))
                .advice("repeat it, or set `purges.unpublished: purge`")
        }
    }
}

fn missing(control: &dyn Control, name: &str) -> Problem {
    let problem = Problem::new(404, format!("there is no cache \"{name}\""));
    let caches = control.caches();
    let names: Vec<&str> = caches.iter().map(|cache| cache.name.as_str()).collect();
    match (nearest(name, names.iter().copied()), names.as_slice()) {
        (Some(near), _) => problem.advice(format!("did you mean \"{near}\"?")),
        (None, []) => problem.advice("the configuration has no caches"),
        (None, names) => problem.advice(format!("there are {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests;
