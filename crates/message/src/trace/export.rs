//! A finished trace in the form in which it is exported.
//!
//! A worker encodes the spans of its requests: their parts are then in its cache, and the exporter,
//! which copies them into its message, frees one allocation for each trace.

use telemetry::Exemplar;

use super::attributes::{begin_field, length_of_field};
use super::{FinishedTrace, Span, SpanKind};

/// The field `spans` of OTLP's message `ScopeSpans`, and those of `Span`.
const SPAN: u8 = 2 << 3 | 2;
const TRACE_ID: u8 = 1 << 3 | 2;
const SPAN_ID: u8 = 2 << 3 | 2;
const PARENT_SPAN_ID: u8 = 4 << 3 | 2;
const NAME: u8 = 5 << 3 | 2;
const KIND: u8 = 6 << 3;
const START_TIME: u8 = 7 << 3 | 1;
const END_TIME: u8 = 8 << 3 | 1;
/// The status of a failed span, `STATUS_CODE_ERROR`.
const FAILED: [u8; 4] = [15 << 3 | 2, 2, 3 << 3, 2];
/// The length of what each span has: both identities, its kind and its times.
const FIXED_LENGTH: usize = 18 + 10 + 2 + 9 + 9;

/// The spans of a finished request, encoded.
#[derive(Debug)]
pub struct ExportedTrace {
    /// The fields `spans`, then the name of the route.
    bytes: Vec<u8>,
    spans_length: usize,
    pub spans: u32,
    /// Spans that were not recorded.
    pub dropped: u32,
    /// The request as an example of its duration.
    pub exemplar: Exemplar,
}

impl ExportedTrace {
    /// The fields `spans` of OTLP's message `ScopeSpans`.
    pub fn encoded_spans(&self) -> &[u8] {
        &self.bytes[..self.spans_length]
    }

    /// The name of the route.
    pub fn route(&self) -> Option<&str> {
        let name = std::str::from_utf8(&self.bytes[self.spans_length..]);
        name.ok().filter(|name| !name.is_empty())
    }
}

impl FinishedTrace {
    /// Encodes the trace, without its steps. The last span is that of the request; its name is
    /// followed by that of its route, if it has one.
    pub fn export(&self, request: &Span, route: &str) -> ExportedTrace {
        let parts = self.spans.iter().filter(|span| !span.is_step);
        let spans = parts.map(|span| (span, "")).chain([(request, route)]);
        let lengths = spans.clone().map(|(span, route)| length_of_field(length(span, route)));
        let (count, spans_length) = lengths.fold((0, 0), |(n, sum), each| (n + 1, sum + each));
        let mut bytes = Vec::with_capacity(spans_length + route.len());
        spans.for_each(|(span, route)| self.write_span(&mut bytes, span, route));
        bytes.extend_from_slice(route.as_bytes());
        let exemplar = Exemplar {
            trace_id: self.context.trace_id,
            span_id: request.id,
            value_us: request.ended_us.saturating_sub(request.began_us),
            unix_ms: (request.ended_us + self.clock_offset_us) / 1000,
        };
        ExportedTrace { bytes, spans_length, spans: count, dropped: self.dropped, exemplar }
    }

    fn write_span(&self, out: &mut Vec<u8>, span: &Span, route: &str) {
        let unix_ns = |us: u64| ((us + self.clock_offset_us) * 1000).to_le_bytes();
        begin_field(out, SPAN, length(span, route));
        begin_field(out, TRACE_ID, 16);
        out.extend_from_slice(&self.context.trace_id);
        begin_field(out, SPAN_ID, 8);
        out.extend_from_slice(&span.id);
        if let Some(parent) = &span.parent {
            begin_field(out, PARENT_SPAN_ID, 8);
            out.extend_from_slice(parent);
        }
        begin_field(out, NAME, name_length(span, route));
        out.extend_from_slice(span.name.as_bytes());
        if !route.is_empty() {
            out.push(b' ');
            out.extend_from_slice(route.as_bytes());
        }
        let kind = match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        };
        out.extend_from_slice(&[KIND, kind, START_TIME]);
        out.extend_from_slice(&unix_ns(span.began_us));
        out.push(END_TIME);
        out.extend_from_slice(&unix_ns(span.ended_us.max(span.began_us)));
        out.extend_from_slice(span.attributes.as_bytes());
        if span.has_failed {
            out.extend_from_slice(&FAILED);
        }
    }
}

/// The length of a span's name and, behind a space, that of its route.
fn name_length(span: &Span, route: &str) -> usize {
    span.name.len() + if route.is_empty() { 0 } else { 1 + route.len() }
}

/// The length of a span as a message.
fn length(span: &Span, route: &str) -> usize {
    let parent = if span.parent.is_some() { length_of_field(8) } else { 0 };
    let status = if span.has_failed { FAILED.len() } else { 0 };
    let name = length_of_field(name_length(span, route));
    FIXED_LENGTH + parent + name + span.attributes.as_bytes().len() + status
}
