//! `POST /v1/send`: a request described in JSON is sent to a listener of this server.

use crate::control::Control;
use crate::explain::question_and;
use crate::limits::REQUEST_BYTES;
use crate::messages::{ApiResult, body_text, json_response};
use crate::problem::Problem;
use message::Request;
use serde_json::json;

pub(crate) async fn answer(control: &dyn Control, request: &mut Request) -> ApiResult {
    let text = body_text(request, REQUEST_BYTES).await?;
    let (question, body) = question_and(&text, Some("body"))?;
    let sent = control.send(question, body.unwrap_or_default().into()).await;
    let sent = sent.map_err(|why| Problem::new(400, why))?;
    let headers: Vec<_> = sent.headers.iter().map(|(name, value)| json!([name, value])).collect();
    Ok(json_response(
        200,
        &json!({
            "listener": sent.listener,
            "status": sent.status,
            "headers": headers,
            "body": String::from_utf8_lossy(&sent.content),
            "is_cut": sent.is_cut,
            "failed": sent.failed,
            "duration_us": sent.duration_us,
        }),
    ))
}
