//! Begins and ends the traces of requests (W3C Trace Context), and decides what is recorded.
//!
//! The decision of a client whose trace is continued is followed; that about a new trace depends on
//! its identity only, so that every server with the same share decides alike. A failed or slow
//! request is recorded in any case if the settings say so; its upstream has been told otherwise.
//! While a client watches the live log, every request is recorded for it that it can take.

mod steps;

use std::cell::{RefCell, RefMut};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use message::{
    Attributes, Headers, Name, Recording, Request, RequestTrace, Span, SpanKind, TraceFields,
    TraceQueue, new_span_id,
};
use plugin::CredentialPlace;
use wire::trace_context::{TraceContext, TraceId, b3_decision};
use wire::{IpText, Known};

use crate::access_log::Masks;
use crate::live_log::{self, LiveClients, LiveLog, LiveQueue};

const W3C: [Name<'static>; 2] = [Name::Known(Known::Traceparent), Name::Known(Known::Tracestate)];
const B3: [Name<'static>; 1] = [Name::Other(b"b3")];
const B3_MULTI: [Name<'static>; 5] = [
    Name::Other(b"x-b3-traceid"),
    Name::Other(b"x-b3-spanid"),
    Name::Other(b"x-b3-parentspanid"),
    Name::Other(b"x-b3-sampled"),
    Name::Other(b"x-b3-flags"),
];

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
    /// `None` if the configuration does not trace requests.
    settings: Option<TracerSettings>,
    live: Arc<LiveLog>,
    live_clients: RefCell<LiveClients>,
    masks: Masks,
    /// A random part of the identities that begin here.
    id_part: u64,
}

/// The end of a request.
pub(crate) struct RequestEnd {
    pub(crate) status: u16,
    pub(crate) duration_us: u64,
    /// Bytes of the response's body; `None` of a tunnel.
    pub(crate) body_bytes: Option<u64>,
}

/// What a client says about its trace.
#[derive(Default)]
struct Incoming {
    /// `None` begins a trace, for which B3 allows a decision alone.
    context: Option<TraceContext>,
    /// `None` leaves it to this server.
    decision: Option<bool>,
    /// True if `traceparent` is continued, which `tracestate` belongs to.
    is_w3c: bool,
}

impl Tracer {
    /// `secrets` are places of requests that are masked in addition to the usual ones.
    pub fn new(
        settings: Option<TracerSettings>,
        live: Arc<LiveLog>,
        secrets: impl IntoIterator<Item = CredentialPlace>,
    ) -> Tracer {
        let (live_clients, masks) = (RefCell::default(), Masks::new(secrets));
        Tracer { settings, live, live_clients, masks, id_part: RandomState::new().hash_one(()) }
    }

    /// Begins the trace of a request, or continues that of its client, if it is to be traced or
    /// watched.
    #[inline]
    pub(crate) fn begin(&self, request: &mut Request) {
        let is_watched = self.live.is_watched() && self.is_awaited();
        if self.settings.is_some() || is_watched {
            self.begin_trace(request, is_watched);
        }
    }

    fn begin_trace(&self, request: &mut Request, is_watched: bool) {
        let Some(settings) = &self.settings else {
            let context = TraceContext::new(self.new_trace_id(), new_span_id(), false);
            request.trace = Some(RequestTrace::begin(context, None, None, Recording::Steps));
            return;
        };
        let incoming = match has_fields(&request.headers, settings.fields) {
            true => settings.take_incoming(&mut request.headers),
            false => Incoming::default(),
        };
        let parent = incoming.context.map(|context| context.span_id);
        let context = match (incoming.context, incoming.decision) {
            (Some(context), Some(_)) => context,
            (Some(context), None) => settings.decided(context.trace_id),
            (None, Some(decision)) => TraceContext::new(self.new_trace_id(), [0; 8], decision),
            (None, None) => settings.decided(self.new_trace_id()),
        };
        let may_record = context.is_sampled() || settings.failures || settings.slow_us.is_some();
        let recording = match settings.queue.is_some() && may_record {
            _ if is_watched => Recording::Steps,
            true => Recording::Spans,
            false => Recording::Off,
        };
        let context = context.with_span(new_span_id());
        request.trace =
            Some(RequestTrace::begin(context, parent, Some(settings.fields), recording));
    }

    /// A random identity, which is never zero. The generator has 64 bits of state, so that two
    /// workers may come to the same state: half of the identity has bits of this worker, too.
    fn new_trace_id(&self) -> TraceId {
        (fastrand::u128(..) ^ u128::from(self.id_part)).max(1).to_ne_bytes()
    }

    /// Ends the trace of a request, and passes what is recorded to the exporter and to the clients
    /// of the live log.
    #[inline]
    pub(crate) fn end(&self, request: &Request, end: &RequestEnd) {
        if let Some(trace) = &request.trace {
            match trace.finish() {
                Recording::Off => {}
                recording => self.end_recording(trace, recording, request, end),
            }
        }
    }

    fn end_recording(
        &self,
        trace: &RequestTrace,
        recording: Recording,
        request: &Request,
        end: &RequestEnd,
    ) {
        let call = request.notes.grpc.as_ref().and_then(|call| call.status());
        let has_failed = end.status >= 500 || call.is_some_and(|code| code.is_server_error());
        let settings = self.settings.as_ref();
        let exporter = settings
            .and_then(|settings| settings.exporter(trace, has_failed, end.duration_us))
            .filter(|queue| queue.admits());
        let watching = match recording {
            Recording::Steps => self.watching(request, end),
            Recording::Spans | Recording::Off => Vec::new(),
        };
        if exporter.is_none() && watching.is_empty() {
            return;
        }
        let mut finished = trace.take();
        let mut span = self.request_span(trace, request, end, has_failed);
        let route = request.route.as_ref().map_or("", |route| &route.name);
        if let Some(queue) = exporter {
            queue.push(finished.export(&span, route));
        }
        if !watching.is_empty() {
            if !route.is_empty() {
                span.name = [&*span.name, " ", route].concat().into();
            }
            steps::add(&mut finished, request, end);
            finished.spans.push(span);
            live_log::push(&watching, finished);
        }
    }

    /// True if a client of the live log may take a request that begins.
    fn is_awaited(&self) -> bool {
        self.live_clients().have_room(&self.live, net::clock::now().as_ms())
    }

    /// The clients of the live log that a finished request is for.
    fn watching(&self, request: &Request, end: &RequestEnd) -> Vec<Arc<LiveQueue>> {
        self.live_clients().queues(request, end.status, end.duration_us)
    }

    /// The clients of the live log at this time.
    fn live_clients(&self) -> RefMut<'_, LiveClients> {
        let mut clients = self.live_clients.borrow_mut();
        clients.update(&self.live);
        clients
    }

    fn request_span(
        &self,
        trace: &RequestTrace,
        request: &Request,
        end: &RequestEnd,
        has_failed: bool,
    ) -> Span {
        let mut span = Span {
            id: trace.context().span_id,
            parent: trace.parent(),
            // The first part: the second is the name of the route. Both are few.
            name: request.method.name_or("HTTP").into(),
            kind: SpanKind::Server,
            began_us: request.began_us,
            ended_us: request.began_us + end.duration_us,
            attributes: Attributes::with_capacity(512),
            has_failed,
            is_step: false,
        };
        self.describe(&mut span, request, end.status);
        if let Some(bytes) = end.body_bytes {
            span.set("http.response.body.size", bytes);
        }
        if let Some(code) = request.notes.grpc.as_ref().and_then(|call| call.status()) {
            span.set("rpc.grpc.status_code", code as u64);
        }
        span
    }

    /// Adds the attributes of a server's span, by OpenTelemetry's semantic conventions of HTTP.
    fn describe(&self, span: &mut Span, request: &Request, status: u16) {
        span.set_bytes("http.request.method", request.method.as_bytes());
        span.set("url.scheme", request.scheme.as_str());
        span.set_bytes("url.path", request.target.received_path());
        if let Some(query) = request.target.query() {
            span.set_bytes("url.query", &self.masks.masked(query));
        }
        span.set_bytes("server.address", request.host());
        span.set_bytes("client.address", IpText::new(request.client_ip).as_bytes());
        let version = request.version.as_str();
        let version = version.strip_prefix("HTTP/").unwrap_or(version);
        span.set("network.protocol.version", version);
        span.set("http.response.status_code", u64::from(status));
        if let Some(agent) = request.headers.get(Known::UserAgent) {
            span.set_bytes("user_agent.original", agent);
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
        if let Some(call) = &request.notes.ai {
            span.set("gen_ai.request.model", &*call.model);
            span.set("gen_ai.provider.name", &*call.provider);
            if let Some(tokens) = call.tokens() {
                span.set("gen_ai.usage.input_tokens", u64::from(tokens.input));
                span.set("gen_ai.usage.output_tokens", u64::from(tokens.output));
            }
        }
    }
}

impl TracerSettings {
    /// Returns what a client says about its trace, and removes fields of others.
    #[cold]
    fn take_incoming(&self, headers: &mut Headers) -> Incoming {
        let incoming = match self.accepts_parent {
            true => incoming(headers, self.fields),
            false => Incoming::default(),
        };
        if incoming.context.is_none() {
            remove_fields(headers, self.fields);
        } else if !incoming.is_w3c && self.fields.w3c {
            headers.remove(Known::Tracestate);
        }
        incoming
    }

    fn decided(&self, trace_id: TraceId) -> TraceContext {
        let [.., a, b, c, d, e, f, g, h] = trace_id;
        let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        let is_sampled = (drawn as f64) < self.sample * (1_u64 << 63) as f64;
        TraceContext::new(trace_id, [0; 8], is_sampled)
    }

    /// The exporter's queue, if a finished request is exported.
    fn exporter(
        &self,
        trace: &RequestTrace,
        has_failed: bool,
        duration_us: u64,
    ) -> Option<&Arc<TraceQueue>> {
        let is_slow = self.slow_us.is_some_and(|slow_us| duration_us >= slow_us);
        let is_wanted = trace.context().is_sampled() || is_slow || self.failures && has_failed;
        self.queue.as_ref().filter(|_| is_wanted)
    }
}

/// The value of a field that occurs once.
fn only<'a>(headers: &'a Headers, name: impl Into<Name<'a>>) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name);
    values.next().filter(|_| values.next().is_none())
}

/// What a client says about its trace. Several fields of one name are none.
fn incoming(headers: &Headers, fields: TraceFields) -> Incoming {
    let w3c = || {
        let context = TraceContext::parse_traceparent(only(headers, Known::Traceparent)?)?;
        Some((context, Some(context.is_sampled())))
    };
    let of_w3c = if fields.w3c { w3c() } else { None };
    let is_w3c = of_w3c.is_some();
    let b3 = if fields.b3 { only(headers, "b3") } else { None };
    let multi = |name: &'static str| if fields.b3_multi { only(headers, name) } else { None };
    let decision = match multi("x-b3-flags") {
        Some(b"1") => Some(true),
        _ => multi("x-b3-sampled").and_then(b3_decision),
    };
    let of_b3 = || TraceContext::parse_b3(b3?);
    let of_b3_multi =
        || TraceContext::from_b3(multi("x-b3-traceid")?, multi("x-b3-spanid")?, decision);
    match of_w3c.or_else(of_b3).or_else(of_b3_multi) {
        Some((context, decision)) => Incoming { context: Some(context), decision, is_w3c },
        None => Incoming { decision: b3.and_then(b3_decision).or(decision), ..Incoming::default() },
    }
}

/// True if a client says something about a trace, in any spelling.
fn has_fields(headers: &Headers, fields: TraceFields) -> bool {
    fields.w3c && headers.has_spelling(&W3C)
        || fields.b3 && headers.has_spelling(&B3)
        || fields.b3_multi && headers.has_spelling(&B3_MULTI)
}

/// Removes what a client says about a trace that is not continued.
fn remove_fields(headers: &mut Headers, fields: TraceFields) {
    let formats = [(fields.w3c, &W3C[..]), (fields.b3, &B3[..]), (fields.b3_multi, &B3_MULTI[..])];
    for (_, names) in formats.into_iter().filter(|(is_used, _)| *is_used) {
        names.iter().for_each(|name| {
            headers.remove(*name);
        });
    }
}

#[cfg(test)]
mod tests;
