//! `/v1/log-level`: the level of events, until the next reload sets that of the configuration.

use message::{Request, Response};
use serde_json::json;
use settings::nearest;
use telemetry::event;
use telemetry::log::{self, Level};

use crate::limits::REQUEST_BYTES;
use crate::messages::{ApiResult, json_response, object};
use crate::problem::Problem;

pub(crate) fn get() -> Response {
    json_response(200, &json!({ "level": log::level().slug() }))
}

pub(crate) async fn set(request: &mut Request) -> ApiResult {
    let members = object(request, REQUEST_BYTES, &["level"]).await?;
    let typed = members.get("level").and_then(|level| level.as_str()).ok_or_else(|| {
        Problem::new(400, "the body has no text \"level\"")
            .advice("for example {\"level\": \"debug\"}")
    })?;
    let Some(level) = Level::parse(typed) else {
        let words = Level::ALL.map(Level::slug);
        let problem = Problem::new(400, format!("unknown level {typed:?}"));
        return Err(match nearest(typed, words) {
            Some(near) => problem.advice(format!("did you mean \"{near}\"?")),
            None => problem.advice(format!("levels: {}", words.join(", "))),
        });
    };
    let before = log::level();
    // Logged at whichever level shows more, so that the log says why it changes.
    log::set_level(level.max(before));
    event!(Level::Info, "log level changed", to = level.slug(), by = "admin API");
    log::set_level(level);
    Ok(json_response(200, &json!({ "level": level.slug(), "until": "the next reload" })))
}
