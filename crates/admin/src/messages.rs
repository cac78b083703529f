//! The forms that bodies of requests and responses of the API have in common.

use crate::limits::{ENTRIES, ENTRIES_MAX};
use crate::problem::{Problem, pretty};
use message::{Request, Response};
use serde_json::{Map, Value as Json};
use settings::nearest;
use telemetry::timestamp;
use wire::target;

/// A response, or the error to build one from.
pub(crate) type ApiResult = Result<Response, Problem>;

/// A JSON response.
pub(crate) fn json_response(status: u16, value: &serde_json::Value) -> Response {
    Response::json(status, pretty(value))
}

/// A time as RFC 3339 has it.
pub(crate) fn time(unix_ms: u64) -> String {
    let mut out = Vec::new();
    timestamp::rfc3339(unix_ms, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The page of a list that a query with `after` and `limit` requests: the name that it follows, and
/// how many there are on it.
pub(crate) fn page_of(query: Option<&[u8]>) -> Result<(String, usize), Problem> {
    let (mut after, mut limit) = (String::new(), ENTRIES);
    for (key, value) in target::query_pairs(query.unwrap_or_default()) {
        let value = String::from_utf8_lossy(&value);
        match &*key {
            b"after" => after = value.into_owned(),
            _ => {
                let number: usize =
                    value.parse().map_err(|_| Problem::new(400, "`limit` is a whole number"))?;
                limit = number.clamp(1, ENTRIES_MAX);
            }
        }
    }
    Ok((after, limit))
}

/// The body as a JSON object whose keys are among these.
pub(crate) async fn object(
    request: &mut Request,
    limit: u64,
    keys: &[&str],
) -> Result<Map<String, Json>, Problem> {
    let text = body_text(request, limit).await?;
    let body: Json = serde_json::from_str(&text)
        .map_err(|e| Problem::new(400, format!("the body is not JSON: {e}")))?;
    let Json::Object(members) = body else {
        return Err(Problem::new(400, "the body must be a JSON object"));
    };
    let Some(unknown) = members.keys().find(|key| !keys.contains(&key.as_str())) else {
        return Ok(members);
    };
    let problem = Problem::new(400, format!("unknown key \"{unknown}\""));
    Err(match nearest(unknown, keys.iter().copied()) {
        Some(near) => problem.advice(format!("did you mean \"{near}\"?")),
        None => problem.advice(format!("keys: {}", keys.join(", "))),
    })
}

/// The body as text; too large, broken off or not UTF-8 is a problem.
pub(crate) async fn body_text(request: &mut Request, limit: u64) -> Result<String, Problem> {
    let bytes = request.collect_body(limit).await.map_err(|fault| {
        let detail = match fault.status {
            413 => format!("the body is above the limit of {limit} bytes"),
            _ => format!("the body could not be read: {}", fault.slug()),
        };
        Problem::new(fault.status, detail)
    })?;
    String::from_utf8(bytes.to_vec()).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Problem::new(400, format!("the body is not UTF-8: byte {at} is wrong"))
    })
}
