//! `/v1/session`: login and logout of the console.

use crate::access::{Access, Caller};
use crate::limits::{REQUEST_BYTES, SESSION_IDLE};
use crate::messages::{ApiResult, json_response, object};
use crate::problem::Problem;
use crate::sessions::{check_origin, remove_cookie};
use message::{Request, Response};
use serde_json::{Value as Json, json};
use telemetry::event;
use telemetry::log::Level;
use wire::Known;

/// Exchanges a token for a session.
pub(crate) async fn open(access: &Access, request: &mut Request) -> ApiResult {
    if !access.console {
        return Err(Problem::new(404, "the console is off, which sessions are for")
            .advice("set `admin.console: true`, or send `Authorization: Bearer TOKEN`"));
    }
    check_origin(request)?;
    // The form of a page of another origin cannot have this type.
    let media_type = request.headers.get_str(Known::ContentType).unwrap_or_default();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(
            Problem::new(415, "a login is JSON").advice("send Content-Type: application/json")
        );
    }
    let members = object(request, REQUEST_BYTES, &["token"]).await?;
    let Some(given) = members.get("token").and_then(Json::as_str) else {
        return Err(Problem::new(400, "the body has no text \"token\""));
    };
    let token = access.log_in(given.as_bytes(), request)?;
    let session = access.sessions.open(token)?;
    event!(
        Level::Info,
        "session of the console opened",
        event = "admin_login",
        by = token.name,
        role = token.role.slug(),
        client = request.client_ip
    );
    let mut response = json_response(
        200,
        &json!({
            "name": token.name,
            "role": token.role.slug(),
            "proof": session.proof(),
            "idle_s": SESSION_IDLE.as_secs(),
        }),
    );
    response.headers.append(Known::SetCookie, session.set_cookie(request));
    Ok(response)
}

/// The client as the API sees it.
pub(crate) fn show(caller: &Caller) -> Response {
    let (role, by) = (caller.role.slug(), caller.by.slug());
    json_response(200, &json!({ "name": caller.name, "role": role, "by": by }))
}

pub(crate) fn close(caller: &Caller, request: &Request) -> ApiResult {
    let Some(session) = caller.session() else {
        return Err(Problem::new(409, "this request belongs to no session")
            .advice("a session is what POST /v1/session opens"));
    };
    session.close();
    let mut response = Response::new(204);
    response.headers.append(Known::SetCookie, remove_cookie(request));
    Ok(response)
}
