//! The spans of attempts on servers.

use message::{HandlerResult, OpenSpan, Request, SpanKind};

use crate::view::Peer;

/// Begins the span of an attempt. The server continues the trace from it.
pub(crate) fn begin_attempt(request: &mut Request, peer: &Peer) -> Option<Box<OpenSpan>> {
    let trace = request.trace.as_mut()?;
    let mut span = Box::new(trace.enter("upstream attempt", SpanKind::Client)?);
    trace.propagate(&mut request.headers);
    span.set("http.request.method", request.method.as_bytes());
    let with_port = peer.name.rsplit_once(':');
    match with_port.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some((host, port)) => {
            span.set("server.address", host.trim_matches(['[', ']']));
            span.set("server.port", u64::from(port));
        }
        // The path of a Unix socket.
        None => span.set("server.address", &*peer.name),
    }
    if request.notes.upstream_attempts > 1 {
        span.set("http.request.resend_count", u64::from(request.notes.upstream_attempts) - 1);
    }
    Some(span)
}

/// Ends the span of an attempt: the head of its response was received, or it failed.
pub(crate) fn end_attempt(
    span: Option<Box<OpenSpan>>,
    request: &mut Request,
    outcome: &HandlerResult,
) {
    let Some(mut span) = span else { return };
    let has_failed = match outcome {
        Ok(response) => {
            span.set("http.response.status_code", u64::from(response.status));
            response.status >= 400
        }
        Err(fault) => {
            span.set("error.type", fault.slug());
            true
        }
    };
    span.end(&mut request.trace, has_failed);
}
