//! Begins and ends the traces of requests (W3C Trace Context), and decides what is recorded.
//!
//! The decision of a client whose trace is continued is followed; that about a new trace depends on
//! its identity only, so that every server with the same share decides alike. A failed or slow
//! request is recorded in any case if the settings say so; its upstream has been told otherwise.

use std::sync::Arc;

use message::{Headers, Request, Span, SpanKind, Trace, TraceFields, TraceQueue, new_span_id};
use wire::Known;
use wire::trace_context::{TraceContext, TraceId, b3_decision};

use crate::access_log::Masks;

/// What is traced.
#[derive(Clone)]
pub struct TracerSettings {
    /// The share of new traces that is recorded, from 0 to 1.
    pub sample: f64,
    /// Failed requests are recorded in any case.
    pub failures: bool,
    /// Requests of this duration are recorded in any case.
    pub slow_us: Option<u64>,
    /// The traces of clients are continued.
    pub accepts_parent: bool,
    pub fields: TraceFields,
    /// Takes what is recorded; without it nothing is.
    pub queue: Option<Arc<TraceQueue>>,
}

/// The tracer of one worker.
pub struct Tracer {
    settings: TracerSettings,
    masks: Masks,
}

/// What a client says about its trace.
struct Incoming {
    context: TraceContext,
    /// `None` leaves it to this server.
    decision: Option<bool>,
}

impl Tracer {
    /// `secrets` are query parameters that are masked in addition to the usual ones.
    pub fn new(settings: TracerSettings, secrets: impl IntoIterator<Item = String>) -> Tracer {
        Tracer { settings, masks: Masks::new(secrets) }
    }

    /// Begins the trace of a request, or continues that of its client.
    pub(crate) fn begin(&self, request: &mut Request) {
        let settings = &self.settings;
        let incoming = match settings.accepts_parent {
            true => incoming(&request.headers, settings.fields),
            false => None,
        };
        if incoming.is_none() {
            remove_fields(&mut request.headers, settings.fields);
        }
        let parent = incoming.as_ref().map(|incoming| incoming.context.span_id);
        let context = match incoming {
            Some(Incoming { context, decision: Some(_) }) => context,
            Some(Incoming { context, decision: None }) => self.decided(context.trace_id),
            None => self.decided(new_trace_id()),
        };
        let may_record = context.is_sampled() || settings.failures || settings.slow_us.is_some();
        let records = settings.queue.is_some() && may_record;
        let context = context.with_span(new_span_id());
        request.trace = Some(Trace::begin(context, parent, settings.fields, records));
    }

    fn decided(&self, trace_id: TraceId) -> TraceContext {
        let [.., a, b, c, d, e, f, g, h] = trace_id;
        let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        let is_sampled = (drawn as f64) < self.settings.sample * (1_u64 << 63) as f64;
        TraceContext::new(trace_id, [0; 8], is_sampled)
    }

    /// Ends the trace of a request, and passes it to the exporter if it is recorded.
    #[inline]
    pub(crate) fn end(&self, request: &Request, status: u16, duration_us: u64) {
        if let Some(position) = &request.trace {
            self.end_trace(&position.trace, request, status, duration_us);
        }
    }

    fn end_trace(&self, trace: &Trace, request: &Request, status: u16, duration_us: u64) {
        if !trace.finish() {
            return;
        }
        let call = request.notes.grpc.as_ref().and_then(|call| call.status());
        let has_failed = status >= 500 || call.is_some_and(|code| code.is_server_error());
        let is_slow = self.settings.slow_us.is_some_and(|slow_us| duration_us >= slow_us);
        let is_wanted =
            trace.context().is_sampled() || is_slow || self.settings.failures && has_failed;
        let (true, Some(queue)) = (is_wanted, &self.settings.queue) else { return };
        let mut finished = trace.take();
        let mut span = Span {
            id: trace.context().span_id,
            parent: trace.parent(),
            name: name(request).into(),
            kind: SpanKind::Server,
            began_us: request.began_us,
            ended_us: request.began_us + duration_us,
            attributes: Vec::with_capacity(16),
            has_failed,
        };
        self.describe(&mut span, request, status);
        if let Some(code) = call {
            span.set("rpc.grpc.status_code", code as u64);
        }
        finished.spans.push(span);
        queue.push(finished);
    }

    /// Adds the attributes of a server's span, by OpenTelemetry's semantic conventions of HTTP.
    fn describe(&self, span: &mut Span, request: &Request, status: u16) {
        span.set("http.request.method", request.method.as_bytes());
        span.set("url.scheme", request.scheme.as_str());
        span.set("url.path", request.target.received_path());
        if let Some(query) = request.target.query() {
            span.set("url.query", &*self.masks.masked(query));
        }
        span.set("server.address", request.host());
        span.set("client.address", &*request.client_ip.to_string());
        let version = request.version.as_str();
        span.set("network.protocol.version", version.strip_prefix("HTTP/").unwrap_or(version));
        span.set("http.response.status_code", u64::from(status));
        if let Some(agent) = request.headers.get(Known::UserAgent) {
            span.set("user_agent.original", agent);
        }
        if let Some(fault) = request.notes.fault {
            span.set("error.type", fault);
        }
        if let Some(route) = &request.route {
            span.set("tidegate.route", &*route.name);
        }
        if let Some(id) = &request.request_id {
            span.set("tidegate.request_id", &**id);
        }
        if let Some(consumer) = request.consumer_name() {
            span.set("tidegate.consumer", consumer);
        }
        if let Some(cache) = request.notes.cache {
            span.set("tidegate.cache", cache);
        }
    }
}

/// The name of a server's span: method and route, which are few.
fn name(request: &Request) -> String {
    let method = match &request.method {
        wire::Method::Other(_) => "HTTP",
        known => known.as_str(),
    };
    match &request.route {
        Some(route) => format!("{method} {}", route.name),
        None => method.to_owned(),
    }
}

/// The trace that a client continues here. Several fields of one name are none.
fn incoming(headers: &Headers, fields: TraceFields) -> Option<Incoming> {
    let only = |name: &'static str| {
        let mut values = headers.get_all(name);
        values.next().filter(|_| values.next().is_none())
    };
    let w3c = || {
        let context = TraceContext::parse_traceparent(only("traceparent")?)?;
        Some(Incoming { context, decision: Some(context.is_sampled()) })
    };
    let b3 = || {
        let (context, decision) = TraceContext::parse_b3(only("b3")?)?;
        Some(Incoming { context, decision })
    };
    let b3_multi = || {
        let sampled = match only("x-b3-flags") {
            Some(b"1") => Some(&b"1"[..]),
            _ => only("x-b3-sampled").filter(|text| b3_decision(text).is_some()),
        };
        let (trace_id, span_id) = (only("x-b3-traceid")?, only("x-b3-spanid")?);
        let (context, decision) = TraceContext::from_b3(trace_id, span_id, sampled)?;
        Some(Incoming { context, decision })
    };
    let of_w3c = if fields.w3c { w3c() } else { None };
    let of_b3 = || if fields.b3 { b3() } else { None };
    of_w3c.or_else(of_b3).or_else(|| if fields.b3_multi { b3_multi() } else { None })
}

/// Removes what a client says about a trace that is not continued.
fn remove_fields(headers: &mut Headers, fields: TraceFields) {
    if fields.w3c {
        headers.remove(Known::Traceparent);
        headers.remove(Known::Tracestate);
    }
    if fields.b3 {
        headers.remove("b3");
    }
    if fields.b3_multi {
        for name in ["traceid", "spanid", "parentspanid", "sampled", "flags"] {
            headers.remove(&*format!("x-b3-{name}"));
        }
    }
}

fn new_trace_id() -> TraceId {
    fastrand::u128(1..).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn settings(sample: f64) -> TracerSettings {
        TracerSettings {
            sample,
            failures: false,
            slow_us: None,
            accepts_parent: true,
            fields: TraceFields { w3c: true, b3: true, b3_multi: true },
            queue: Some(TraceQueue::new(16, 16)),
        }
    }

    fn request(fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.append(*name, value));
        let target = message::Target::new("/a".into()).unwrap();
        Request::made_up(wire::Method::Get, target, headers)
    }

    /// Traces a request, and returns the trace's identity and the client's span, if it continues.
    fn begun(settings: &TracerSettings, fields: &[(&str, &str)]) -> (TraceContext, bool) {
        let mut request = request(fields);
        Tracer::new(settings.clone(), []).begin(&mut request);
        let trace = request.trace.unwrap().trace;
        (*trace.context(), trace.parent().is_some())
    }

    #[test]
    fn a_share_of_new_traces_is_sampled() {
        let sampled =
            |sample| (0..2000).filter(|_| begun(&settings(sample), &[]).0.is_sampled()).count();
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 2000));
        assert!((350..650).contains(&sampled(0.25)));
    }

    #[test]
    fn the_decision_depends_on_the_trace_alone() {
        let tracer = Tracer::new(settings(0.5), []);
        let mut low = [0xFF; 16];
        low[8] = 0x70;
        assert!(tracer.decided(low).is_sampled());
        assert!(!tracer.decided([0xFF; 16]).is_sampled());
    }

    #[test]
    fn the_trace_of_a_client_continues() {
        let (context, continues) = begun(&settings(0.0), &[("traceparent", CLIENT)]);
        assert!(continues && context.is_sampled());
        assert_eq!(&context.trace_id_text(), b"4bf92f3577b34da6a3ce929d0e0e4736");
        assert_ne!(&context.span_id_text(), b"00f067aa0ba902b7");
        let unsampled = CLIENT.replace("-01", "-00");
        let (context, continues) = begun(&settings(1.0), &[("traceparent", &unsampled)]);
        assert!(continues && !context.is_sampled());
    }

    #[test]
    fn ambiguous_and_malformed_fields_begin_a_trace() {
        let twice = [("traceparent", CLIENT), ("traceparent", CLIENT)];
        for fields in [&twice[..], &[("traceparent", "00-x")], &[("b3", "1")]] {
            let mut request = request(fields);
            Tracer::new(settings(1.0), []).begin(&mut request);
            assert_eq!(request.trace.unwrap().trace.parent(), None, "{fields:?}");
            assert_eq!(request.headers.len(), 0, "they are removed: {fields:?}");
        }
    }

    #[test]
    fn b3_fields_leave_the_decision_open_or_force_it() {
        let id = [("x-b3-traceid", "64fe8b2a57d3eff7"), ("x-b3-spanid", "e457b5a2e4d86bd1")];
        let with = |field| begun(&settings(0.0), &[id[0], id[1], field]);
        let (context, continues) = with(("x-b3-sampled", "1"));
        assert!(continues && context.is_sampled());
        assert!(with(("x-b3-flags", "1")).0.is_sampled());
        assert!(!with(("x-other", "1")).0.is_sampled());
        assert!(begun(&settings(1.0), &id).0.is_sampled());
    }

    #[test]
    fn failed_and_slow_requests_are_recorded_if_the_settings_say_so() {
        let recorded = |settings: TracerSettings, status, duration_us| {
            let tracer = Tracer::new(settings.clone(), []);
            let mut request = request(&[]);
            tracer.begin(&mut request);
            tracer.end(&request, status, duration_us);
            tracer.end(&request, status, duration_us);
            settings.queue.unwrap().len()
        };
        let failures = || TracerSettings { failures: true, ..settings(0.0) };
        let slow = || TracerSettings { slow_us: Some(500), ..settings(0.0) };
        assert_eq!((recorded(failures(), 503, 1), recorded(failures(), 404, 1)), (1, 0));
        assert_eq!((recorded(slow(), 200, 500), recorded(slow(), 200, 499)), (1, 0));
        assert_eq!((recorded(settings(0.0), 503, 1), recorded(settings(1.0), 200, 1)), (0, 1));
    }
}
