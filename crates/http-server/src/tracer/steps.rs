//! Steps of a request that are known at its end without being recorded before: how its connection
//! began, its head, and the body of its response.

use message::{FinishedTrace, Request, Span};
use wire::IpText;

use super::RequestEnd;

/// Adds the steps to those of a finished request.
pub(super) fn add(trace: &mut FinishedTrace, request: &Request, end: &RequestEnd) {
    let head_us = u64::from(request.head_us);
    let began_us = request.began_us;
    let parent = trace.context.span_id;
    let steps = &mut trace.spans;
    let response = steps.iter().rfind(|span| span.is_step && span.name == "response");
    let responded_us = response.map_or(began_us, |response| response.ended_us);

    let recorded = steps.len();
    let facts = &request.facts;
    let accepted_us = facts.times.accepted_us;
    // A request within a Lua program has no connection that was accepted here.
    if accepted_us != 0 {
        let mut accept = Span::step("accept", parent, accepted_us, accepted_us);
        accept.set("tidegate.listener", &*facts.listener);
        accept.set_bytes("network.peer.address", IpText::new(facts.peer_ip()).as_bytes());
        steps.push(accept);
        if let Some(tls) = &facts.tls {
            let secured_us = facts.times.secured_us;
            let mut handshake = Span::step("tls handshake", parent, accepted_us, secured_us);
            handshake.set("tls.protocol.version", tls.version_name());
            handshake.set("tls.cipher", tls.cipher_name());
            handshake.set("tls.resumed", if tls.is_resumed { "true" } else { "false" });
            if let Some(name) = &tls.server_name {
                handshake.set("tls.client.server_name", &**name);
            }
            steps.push(handshake);
        }
    }
    steps.push(Span::step("request head", parent, began_us.saturating_sub(head_us), began_us));
    // Before those of the same microsecond.
    steps.rotate_left(recorded);
    if let Some(bytes) = end.body_bytes.filter(|bytes| *bytes > 0) {
        let ended_us = began_us + end.duration_us;
        let mut body = Span::step("response body", parent, responded_us, ended_us);
        body.set("http.response.body.size", bytes);
        steps.push(body);
    }
}
