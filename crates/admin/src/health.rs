//! Liveness and readiness.
//!
//! A rejected reload does not make a server unready, because the previous configuration serves; the
//! detail shows it.

use crate::control::{ServerState, Status};
use crate::messages::{json_response, time};
use message::{Request, Response};
use serde_json::json;
use wire::Known;

pub(crate) fn healthz() -> Response {
    Response::text(200, "ok\n")
}

pub(crate) fn readyz(status: &Status, request: &Request) -> Response {
    let code = if status.state == ServerState::Serving { 200 } else { 503 };
    let failed = status.last_reload.as_ref().filter(|reload| !reload.errors.is_empty());
    let accept = request.headers.get(Known::Accept);
    if wire::negotiate::choose_media_type(accept, &["text/plain", "application/json"]) == Some(1) {
        let refused =
            failed.map(|reload| json!({ "at": time(reload.at_ms), "errors": reload.errors }));
        let ready = code == 200;
        let body = json!({
            "ready": ready,
            "state": status.state.slug(),
            "config_version": status.config_version,
            "refused_reload": refused,
            "troubles": status.problems,
        });
        return json_response(code, &body);
    }
    let mut text =
        if code == 200 { "ready\n".to_owned() } else { format!("{}\n", status.state.slug()) };
    if let Some(reload) = failed {
        text.push_str(&format!(
            "the configuration offered at {} was refused; version {} still serves\n",
            time(reload.at_ms),
            status.config_version
        ));
        for error in &reload.errors {
            text.push_str(error);
            text.push('\n');
        }
    }
    for problem in &status.problems {
        text.push_str(problem);
        text.push('\n');
    }
    Response::text(code, text)
}
