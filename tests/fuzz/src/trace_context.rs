//! The header fields that carry the identity of a trace.

use crate::{FuzzTarget, owned};
use wire::trace_context::TraceContext;

pub(crate) const TRACE_CONTEXT: FuzzTarget = FuzzTarget {
    check: trace_context,
    seeds: || {
        owned(&[
            &b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"[..],
            b"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-more",
            b"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
            b"64fe8b2a57d3eff7-e457b5a2e4d86bd1-d",
        ])
    },
    dictionary: &["-", "00", "ff", "01", "0000000000000000"],
    cases: 6000,
};

/// Any bytes as a field: what is read is written in a form that is read alike, and no other field
/// can be smuggled in it.
fn trace_context(data: &[u8]) {
    if let Some(context) = TraceContext::parse_traceparent(data) {
        let written = context.traceparent();
        assert_eq!(&written[3..52], &data[3..52]);
        assert_eq!(TraceContext::parse_traceparent(&written), Some(context));
    }
    if let Some((context, decision)) = TraceContext::parse_b3(data) {
        let read = TraceContext::parse_b3(&context.b3());
        assert_eq!(read, Some((context, Some(decision.unwrap_or(false)))));
        assert!(context.b3().iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-'));
    }
}
