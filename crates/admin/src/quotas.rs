//! `/v1/quotas`: the quotas in use, and the count of one key.

use message::Response;
use serde_json::json;
use telemetry::event;
use telemetry::log::Level;
use wire::target;

use crate::control::Control;
use crate::messages::{ApiResult, json_response, time};
use crate::problem::Problem;

pub(crate) fn all(control: &dyn Control) -> Response {
    let quotas: Vec<_> = (control.quotas().list().into_iter())
        .map(|quota| {
            json!({
                "name": quota.name,
                "limit": quota.limit,
                "period": quota.period,
                "key": quota.key,
            })
        })
        .collect();
    json_response(200, &json!({ "quotas": quotas }))
}

pub(crate) fn one(control: &dyn Control, name: &str, query: Option<&[u8]>) -> ApiResult {
    let key = key(query)?;
    let now_s = net::clock::wall_secs();
    let used = control.quotas().read(name, &key, now_s).ok_or_else(|| missing(name))?;
    let ends = time(used.period_end_s.saturating_mul(1000));
    let body = json!({ "name": name, "key": key, "used": used.used, "period_ends": ends });
    Ok(json_response(200, &body))
}

pub(crate) fn reset(control: &dyn Control, name: &str, query: Option<&[u8]>) -> ApiResult {
    let key = key(query)?;
    if !control.quotas().reset(name, &key) {
        return Err(missing(name));
    }
    event!(Level::Info, "quota reset", quota = name, key = key, by = "admin API");
    Ok(Response::new(204))
}

fn key(query: Option<&[u8]>) -> Result<String, Problem> {
    let mut pairs = target::query_pairs(query.unwrap_or_default());
    let key = pairs.find(|(name, _)| &**name == b"key");
    let key = key.ok_or_else(|| {
        Problem::new(400, "`key` is missing").advice("name the key, as in ?key=alice")
    })?;
    Ok(String::from_utf8_lossy(&key.1).into_owned())
}

fn missing(name: &str) -> Problem {
    Problem::new(404, format!("there is no quota \"{name}\""))
}
