//! TLS of a client connection: the handshake, and requests that do not belong on the connection.

use std::rc::Rc;

use bytes::Bytes;
use net::Stream;
use net::tls::{AcceptError, ServerTls, TlsInfo, is_tls_error};
use telemetry::log::Level;
use telemetry::{CloseReason, LimitHit, event_limited};
use wire::Known;

use crate::Service;
use message::{ConnectionFacts, Fault, FaultKind, HandlerResult, Request, Response};

/// TLS of a listener.
#[derive(Clone)]
pub struct ListenerTls {
    pub server: ServerTls,
    /// Plain HTTP requests are redirected to https; otherwise they get 400.
    pub redirects_plain: bool,
    /// The value of `Strict-Transport-Security` in responses that have none.
    pub hsts: Option<String>,
}

/// Performs the handshake and records its result. Returns the stream, and the bytes of a client
/// that speaks plain HTTP.
pub(crate) async fn handshake(
    stream: Stream,
    tls: &ServerTls,
    facts: &mut ConnectionFacts,
    service: &Service,
) -> Result<(Stream, Bytes), CloseReason> {
    let metrics = &service.metrics;
    let timeout = service.snapshot().timeouts.handshake;
    match net::timer::within(timeout, stream.accept_tls(tls)).await {
        None => {
            metrics.hit(LimitHit::SlowHandshake);
            Err(CloseReason::HandshakeTimeout)
        }
        // A certificate authority has seen the challenge certificate.
        Some(Ok(stream)) if stream.tls().is_some_and(TlsInfo::is_challenge) => {
            Err(CloseReason::ClientClosed)
        }
        Some(Ok(stream)) => {
            facts.tls = stream.tls().cloned().map(Rc::new);
            facts.times.secured_us = net::clock::precise_us();
            metrics.count_handshake(facts.tls.as_ref().is_some_and(|tls| tls.is_resumed));
            Ok((stream, Bytes::new()))
        }
        Some(Err(AcceptError::PlainText(stream, received))) => Ok((stream, received)),
        Some(Err(AcceptError::Failed(error))) if is_tls_error(&error) => {
            event_limited!(
                1,
                Level::Debug,
                "a TLS handshake failed",
                listener = facts.listener,
                client_ip = facts.peer_ip(),
                error = error
            );
            Err(CloseReason::TlsFailed)
        }
        // Load balancers close the connection when they only check the port.
        Some(Err(AcceptError::Failed(_))) => Err(CloseReason::ClientClosed),
    }
}

/// Rejects a request that must not be served on its connection: one in the clear on a listener with
/// TLS, and one for a host that the connection's certificate does not name (RFC 9110 7.4), because
/// it would bypass the listener's requirements for that host.
pub(crate) fn unsuitable(request: &Request, listener: &ListenerTls) -> Option<Box<HandlerResult>> {
    let Some(connection) = &request.facts.tls else {
        return Some(Box::new(plain_http(request, listener.redirects_plain)));
    };
    let server_name = connection.server_name.as_deref()?;
    let host = request.host();
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.eq_ignore_ascii_case(server_name.as_bytes()) {
        return None;
    }
    let host = std::str::from_utf8(host).unwrap_or_default().to_ascii_lowercase();
    (!listener.server.serves(server_name, &host)).then(|| {
        let detail = "the certificate of the connection does not name the host of the request";
        Box::new(Err(Fault::new(FaultKind::Misdirected, detail)))
    })
}

fn plain_http(request: &Request, redirects: bool) -> HandlerResult {
    let authority = request.authority();
    if !redirects || authority.is_empty() || !request.target.raw_path().starts_with(b"/") {
        let detail = "plain HTTP on a listener with TLS";
        return Err(Fault::new(FaultKind::PlainHttp, detail).closing());
    }
    // The port is the same: it is this listener's.
    let mut response = redirect(request, authority);
    response.close = true;
    Ok(response)
}

/// Redirects a request to the same URL with `https` and this authority.
pub fn redirect(request: &Request, authority: &[u8]) -> Response {
    let mut location = [b"https://", authority, request.target.raw_path()].concat();
    if let Some(query) = request.target.query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let mut response = Response::new(308);
    response.headers.append(Known::Location, location);
    response
}

/// Adds `Strict-Transport-Security` to a response over TLS; in the clear browsers ignore it
/// (RFC 6797 7.2).
pub(crate) fn add_hsts(request: &Request, tls: &ListenerTls, response: &mut Response) {
    let Some(value) = &tls.hsts else { return };
    if request.facts.tls.is_some() && !response.headers.contains(Known::StrictTransportSecurity) {
        response.headers.append(Known::StrictTransportSecurity, value);
    }
}
