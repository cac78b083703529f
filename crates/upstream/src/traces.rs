//! The spans of attempts on servers.

use message::{OpenSpan, Request, SpanKind};

use crate::view::Peer;

/// Begins the span of an attempt. The server continues the trace from it.
pub(crate) fn begin_attempt(request: &mut Request, peer: &Peer) -> Option<Box<OpenSpan>> {
    let trace = request.trace.as_mut()?;
    let mut span = Box::new(trace.enter("upstream attempt", SpanKind::Client)?);
    trace.propagate(&mut request.headers);
    span.set("http.request.method", request.method.as_str());
    let with_port = peer.name.rsplit_once(':');
    let (address, port) = match with_port.map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port))) => (host.trim_matches(['[', ']']), Some(port)),
        // The path of a Unix socket.
        _ => (&*peer.name, None),
    };
    span.set_attempt(address, port, request.notes.upstream_attempts);
    Some(span)
}
