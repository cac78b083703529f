//! The identity of a trace in header fields: `traceparent` (W3C Trace Context) and B3.
//!
//! Parsing is strict, as the specifications require: a malformed field is as good as none, so that
//! no trace is continued with an identity that other participants do not recognise.

/// The identity of a trace, shared by all of its spans.
pub type TraceId = [u8; 16];
/// The identity of a span within its trace.
pub type SpanId = [u8; 8];

/// The participants of a trace that came before have recorded it.
const SAMPLED: u8 = 1;
/// The lower 7 bytes of the trace's identity are random (Trace Context Level 2).
const RANDOM: u8 = 2;

/// Length of a `traceparent` of version 00.
const TRACEPARENT_LEN: usize = 55;

/// The position in a trace that one participant passes to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: TraceId,
    /// The span that the next participant's spans belong to.
    pub span_id: SpanId,
    flags: u8,
}

impl TraceContext {
    /// Begins a trace.
    pub fn new(trace_id: TraceId, span_id: SpanId, sampled: bool) -> TraceContext {
        TraceContext { trace_id, span_id, flags: if sampled { SAMPLED } else { 0 } }
    }

    /// True if the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same trace, seen from another of its spans.
    pub fn with_span(self, span_id: SpanId) -> TraceContext {
        TraceContext { span_id, ..self }
    }

    /// Reads `traceparent` (W3C Trace Context 3.2). Of versions after 00 the parts that 00 has are
    /// read, whatever follows them.
    pub fn parse_traceparent(value: &[u8]) -> Option<TraceContext> {
        let (known, rest) = value.split_at_checked(TRACEPARENT_LEN)?;
        let [version] = hex(&known[..2])?;
        let ends = if version == 0 { rest.is_empty() } else { matches!(rest, [] | [b'-', ..]) };
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        if version == 0xFF || !ends || !dashes {
            return None;
        }
        let [flags] = hex(&known[53..])?;
        let context = TraceContext {
            trace_id: hex(&known[3..35])?,
            span_id: hex(&known[36..52])?,
            flags: flags & (SAMPLED | RANDOM),
        };
        context.is_valid().then_some(context)
    }

    /// Writes `traceparent`, in version 00.
    pub fn traceparent(&self) -> [u8; TRACEPARENT_LEN] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&self.trace_id, &mut text[3..35]);
        write_hex(&self.span_id, &mut text[36..52]);
        write_hex(&[self.flags], &mut text[53..]);
        text
    }

    /// Reads the single field `b3`: `TRACE-SPAN[-SAMPLED[-PARENT]]`. `None` in the second place
    /// leaves the decision to the reader. A decision alone ([`b3_decision`]) is not a trace to
    /// continue.
    pub fn parse_b3(value: &[u8]) -> Option<(TraceContext, Option<bool>)> {
        let mut parts = value.split(|byte| *byte == b'-');
        let (trace_id, span_id) = (parts.next()?, parts.next()?);
        let decision = match parts.next() {
            Some(text) => Some(b3_decision(text)?),
            None => None,
        };
        let parent = parts.next();
        if parts.next().is_some() || parent.is_some_and(|id| hex::<8>(id).is_none()) {
            return None;
        }
        TraceContext::from_b3(trace_id, span_id, decision)
    }

    /// Reads the fields `X-B3-TraceId` and `X-B3-SpanId`, which come with the decision of others.
    pub fn from_b3(
        trace_id: &[u8],
        span_id: &[u8],
        decision: Option<bool>,
    ) -> Option<(TraceContext, Option<bool>)> {
        // A trace of 64 bits is one of 128 whose upper half is zero.
        let mut id = [0; 16];
        match hex::<16>(trace_id) {
            Some(long) => id = long,
            None => id[8..].copy_from_slice(&hex::<8>(trace_id)?),
        }
        let context = TraceContext::new(id, hex(span_id)?, decision.unwrap_or(false));
        context.is_valid().then_some((context, decision))
    }

    /// Writes the single field `b3`.
    pub fn b3(&self) -> [u8; 51] {
        let mut text = *b"00000000000000000000000000000000-0000000000000000-0";
        write_hex(&self.trace_id, &mut text[..32]);
        write_hex(&self.span_id, &mut text[33..49]);
        text[50] = if self.is_sampled() { b'1' } else { b'0' };
        text
    }

    /// The identity of the trace as text.
    pub fn trace_id_text(&self) -> [u8; 32] {
        let mut text = [0; 32];
        write_hex(&self.trace_id, &mut text);
        text
    }

    /// The identity of the span as text.
    pub fn span_id_text(&self) -> [u8; 16] {
        let mut text = [0; 16];
        write_hex(&self.span_id, &mut text);
        text
    }

    /// Identities of zeros are invalid in both formats.
    fn is_valid(&self) -> bool {
        self.trace_id != [0; 16] && self.span_id != [0; 8]
    }
}

/// Reads the decision of B3: recorded, not recorded, or recorded for debugging.
pub fn b3_decision(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"d" | b"true" => Some(true),
        b"0" | b"false" => Some(false),
        _ => None,
    }
}

/// Reads lower-case hexadecimal digits of exactly N bytes.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn write_hex(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of W3C Trace Context 3.2.
    const EXAMPLE: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context = TraceContext::parse_traceparent(EXAMPLE).unwrap();
        assert_eq!(&context.trace_id_text(), b"4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(&context.span_id_text(), b"00f067aa0ba902b7");
        assert!(context.is_sampled());
        assert_eq!(&context.traceparent()[..], EXAMPLE);
        let next = context.with_span([1; 8]);
        let text = b"00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01";
        assert_eq!(&next.traceparent(), text);
    }

    #[test]
    fn a_later_version_is_read_as_the_known_one() {
        for later in ["cc-", "01-"] {
            for rest in ["", "-what-ever"] {
                let mut text = later.as_bytes().to_vec();
                text.extend_from_slice(&EXAMPLE[3..]);
                text.extend_from_slice(rest.as_bytes());
                let context = TraceContext::parse_traceparent(&text).unwrap();
                assert_eq!(&context.traceparent()[..], EXAMPLE);
            }
        }
    }

    #[test]
    fn unknown_flags_are_not_forwarded() {
        let flags = |text: &str| {
            let text = [&EXAMPLE[..53], text.as_bytes()].concat();
            TraceContext::parse_traceparent(&text).unwrap().traceparent()[53..].to_vec()
        };
        assert_eq!(
            (flags("ff"), flags("02"), flags("08")),
            (b"03".into(), b"02".into(), b"00".into())
        );
    }

    #[test]
    fn a_malformed_traceparent_is_none() {
        let example = std::str::from_utf8(EXAMPLE).unwrap();
        for text in [
            String::new(),
            example[..54].to_owned(),
            format!("{example}-"),
            format!("{example} "),
            example.replace("00-4", "ff-4"),
            example.replace("4bf9", "4BF9"),
            example.replace("-01", "-0x"),
            example.replace("-01", "_01"),
            example.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            example.replace("00f067aa0ba902b7", &"0".repeat(16)),
            example.replace("00-4bf9", "01-4bf9") + "x",
            example.replace("a3ce", "é3e"),
        ] {
            assert_eq!(TraceContext::parse_traceparent(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn b3_is_read_and_written() {
        let text = b"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1";
        let (context, decision) = TraceContext::parse_b3(text).unwrap();
        assert_eq!((decision, &context.b3()), (Some(true), text));
        let debug = b"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-d-05e3ac9a4f6e3b90";
        assert_eq!(&TraceContext::parse_b3(debug).unwrap().0.b3(), text);
        let (context, decision) =
            TraceContext::parse_b3(b"64fe8b2a57d3eff7-e457b5a2e4d86bd1").unwrap();
        assert_eq!((decision, context.is_sampled()), (None, false));
        assert_eq!(&context.trace_id_text(), b"000000000000000064fe8b2a57d3eff7");
        for text in [
            "0",
            "",
            "-",
            "80f198ee56343ba864fe8b2a57d3eff7",
            "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-x",
            "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-2",
            "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90-",
            "00000000000000000000000000000000-e457b5a2e4d86bd1-1",
            "80F198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1",
        ] {
            assert_eq!(TraceContext::parse_b3(text.as_bytes()), None, "{text}");
        }
    }
}
