//! The opening handshake, from both sides (RFC 6455 4).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_client::Url;
use message::{Headers, Request};
use wire::websocket::accept_key;
use wire::{Known, Method};

use crate::http::ServerExchange;

/// A rejected upgrade: status and reason.
pub(super) type Refusal = (u16, &'static str);

/// Makes the fields of the 101 response to a request. Connection and Upgrade are lists, of names in
/// any case: browsers send `keep-alive, Upgrade`.
pub(super) fn answer(request: &ServerExchange, protocol: Option<&str>) -> Result<Headers, Refusal> {
    let headers = &request.headers;
    if !request.is_get() || !request.upgrade {
        return Err((400, "the request asks for no upgrade"));
    }
    if !headers.lists_token(Known::Upgrade, "websocket") {
        return Err((400, "the request asks for another protocol"));
    }
    if headers.get("sec-websocket-version") != Some(b"13") {
        return Err((426, "the request is of another version of WebSocket than 13"));
    }
    let key = headers.get("sec-websocket-key").unwrap_or_default();
    let accept = accept_key(key).ok_or((400, "the request has no key of 16 bytes"))?;
    let mut answer = Headers::new();
    answer.append(Known::Upgrade, "websocket");
    answer.append("sec-websocket-accept", accept);
    if let Some(protocol) = protocol {
        answer.append("sec-websocket-protocol", protocol);
    }
    Ok(answer)
}

/// Makes a request for an upgrade, and the accept value that its key requires.
pub(super) fn request(url: &Url, mut headers: Headers) -> Result<(Request, String), String> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| error.to_string())?;
    let key = STANDARD.encode(key);
    let accept = accept_key(key.as_bytes()).unwrap_or_default();
    if !headers.contains(Known::Host) {
        headers.append(Known::Host, &url.authority);
    }
    headers.set(Known::Upgrade, "websocket");
    headers.set("sec-websocket-version", "13");
    headers.set("sec-websocket-key", &key);
    let mut request = Request::made_up(Method::Get, url.target.clone(), headers);
    request.upgrade = true;
    Ok((request, accept))
}
