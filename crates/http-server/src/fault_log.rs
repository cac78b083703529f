//! Logs faults: one line each, with a maximum rate per call site.
//!
//! Faults of the server are errors, those of upstreams are warnings, malformed requests are
//! informational. Requests that fail because of the client (404, 401, 429) are only in the access
//! log. A line about a traced request has its `trace_id`. No line contains a query or a header of a
//! request.

use telemetry::event_limited;
use telemetry::log::Level;

use message::{ConnectionFacts, Fault, Request, Side};

/// Maximum rate of lines of one kind; the next line has the number of those that were suppressed.
const LINES_PER_SECOND: u32 = 10;

/// Logs a fault that became the response to a request.
pub(super) fn answered(request: &Request, fault: &Fault) {
    match fault.side() {
        Side::Client => {}
        Side::Upstream => event_limited!(
            LINES_PER_SECOND,
            Level::Warn,
            "an upstream failed",
            route = route_of(request),
            server = server_of(request),
            path = path_of(request),
            status = fault.status,
            fault = fault.slug(),
            why = fault.detail,
            trace_id = request.trace_id()
        ),
        Side::Us => event_limited!(
            LINES_PER_SECOND,
            Level::Error,
            "a request failed",
            route = route_of(request),
            path = path_of(request),
            status = fault.status,
            fault = fault.slug(),
            why = fault.detail,
            trace_id = request.trace_id()
        ),
    }
}

/// Logs a response that was aborted after its headers were sent.
pub(super) fn aborted(request: &Request, fault: &Fault) {
    let level = match fault.side() {
        Side::Client => return,
        Side::Upstream => Level::Warn,
        Side::Us => Level::Error,
    };
    event_limited!(
        LINES_PER_SECOND,
        level,
        "a response was aborted",
        route = route_of(request),
        server = fault.server.as_deref().unwrap_or(server_of(request)),
        path = path_of(request),
        fault = fault.slug(),
        why = fault.detail,
        trace_id = request.trace_id()
    );
}

/// Logs a malformed request.
pub(super) fn refused(facts: &ConnectionFacts, fault: &Fault) {
    event_limited!(
        LINES_PER_SECOND,
        Level::Info,
        "malformed request",
        client = facts.peer_ip(),
        listener = facts.listener,
        status = fault.status,
        fault = fault.slug(),
        why = fault.detail
    );
}

/// A client violated HTTP/2 or one of its limits.
pub(super) fn violated(facts: &ConnectionFacts, slug: &str, text: &str) {
    event_limited!(
        LINES_PER_SECOND,
        Level::Info,
        "an HTTP/2 connection was ended",
        client = facts.peer_ip(),
        listener = facts.listener,
        violation = slug,
        reason = text
    );
}

fn route_of(request: &Request) -> &str {
    request.route.as_ref().map_or("", |route| &route.name)
}

fn server_of(request: &Request) -> &str {
    request.notes.upstream.as_deref().unwrap_or_default()
}

fn path_of(request: &Request) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(request.target.raw_path())
}
