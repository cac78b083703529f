//! The trace of a request (W3C Trace Context): its identity and the spans that are recorded here.
//!
//! A [`RequestTrace`] belongs to the request of a client; what the request leads to, such as its
//! attempts on upstream servers, has a copy, and they share what is recorded. The exporter of
//! traces and the live log have their spans from the same recording. Promises that a request that
//! is not recorded allocates nothing and pays one comparison where a span could begin, that a trace
//! holds a bounded number of spans, and that a span that ends after its request is not recorded.

mod attributes;
mod export;
mod queue;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use net::clock;
use wire::Known;
use wire::trace_context::{SpanId, TraceContext};

use crate::{HandlerResult, Headers};

pub use attributes::{AttributeValue, Attributes};
pub use export::ExportedTrace;
pub use queue::{ExportQueue, TraceQueue};

/// The most spans of one request; later ones are counted and not recorded.
pub const TRACE_SPANS_MAX: usize = 128;
/// Steps, with the span of the request, of a request with a few filters.
const STEPS_EXPECTED: usize = 8;

/// The header fields by which a trace continues at the next server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFields {
    /// `traceparent` and `tracestate`.
    pub w3c: bool,
    /// The single field `b3`.
    pub b3: bool,
    /// The fields `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`.
    pub b3_multi: bool,
}

/// A request's position in its trace.
#[derive(Clone)]
pub struct RequestTrace {
    /// The identity of the trace, and the span that spans of this request belong to.
    position: TraceContext,
    /// The span of the client's request.
    request_span: SpanId,
    /// The client's span.
    parent: Option<SpanId>,
    /// `None` if requests are not traced and this one is recorded for the live log only.
    fields: Option<TraceFields>,
    /// The spans of the client's request; `None` if it is not recorded.
    spans: Option<Rc<RecordedSpans>>,
}

/// What a trace records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recording {
    /// Nothing, or the request has ended.
    Off,
    /// Spans: of what waits or surrounds the rest of a route, and of attempts on servers.
    Spans,
    /// Spans and [steps](Span::is_step), for the live log.
    Steps,
}

/// The spans of a client's request.
struct RecordedSpans {
    recording: Cell<Recording>,
    spans: RefCell<Vec<Span>>,
    dropped: Cell<u32>,
}

/// Records spans of a request within one of its spans.
pub struct Recorder {
    spans: Rc<RecordedSpans>,
    parent: SpanId,
}

/// What a span stands for (OpenTelemetry: `SpanKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Server,
    Client,
}

/// A part of a request with its times on the worker's clock.
#[derive(Clone, Debug)]
pub struct Span {
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began_us: u64,
    pub ended_us: u64,
    pub attributes: Attributes,
    pub has_failed: bool,
    /// True for what is recorded for the live log only, such as a filter that responds at once.
    pub is_step: bool,
}

/// The spans of a request that has ended.
#[derive(Clone, Debug)]
pub struct FinishedTrace {
    pub context: TraceContext,
    pub spans: Vec<Span>,
    /// Spans beyond [`TRACE_SPANS_MAX`].
    pub dropped: u32,
    /// The time of day minus the worker's clock.
    pub clock_offset_us: u64,
}

impl RecordedSpans {
    fn new(recording: Recording) -> Rc<RecordedSpans> {
        let spans = match recording {
            Recording::Steps => Vec::with_capacity(STEPS_EXPECTED),
            Recording::Spans | Recording::Off => Vec::new(),
        };
        let (spans, dropped) = (RefCell::new(spans), Cell::new(0));
        Rc::new(RecordedSpans { recording: Cell::new(recording), spans, dropped })
    }

    fn add(&self, span: Span) {
        if self.recording.get() == Recording::Off {
            return;
        }
        let mut spans = self.spans.borrow_mut();
        if spans.len() < TRACE_SPANS_MAX {
            spans.push(span);
        } else {
            self.dropped.set(self.dropped.get().saturating_add(1));
        }
    }
}

impl Recorder {
    /// Begins a span.
    pub fn begin(self, name: &'static str, kind: SpanKind) -> OpenSpan {
        let step = Span::step(name, self.parent, clock::precise_us(), 0);
        let span = Span { id: new_span_id(), kind, has_failed: true, is_step: false, ..step };
        OpenSpan { spans: self.spans, span }
    }

    /// The time at which a step begins; `None` if steps are not recorded.
    pub fn begin_step(&self) -> Option<u64> {
        (self.spans.recording.get() == Recording::Steps).then(clock::precise_us)
    }

    /// Records a step that has ended, and began at this time. `describe` adds its attributes.
    pub fn end_step(&self, name: &'static str, began_us: u64, describe: impl FnOnce(&mut Span)) {
        let mut span = Span::step(name, self.parent, began_us, clock::precise_us());
        describe(&mut span);
        self.spans.add(span);
    }
}

impl FinishedTrace {
    /// Cuts the texts of attributes so that each has at most this many bytes.
    pub fn truncate_texts(&mut self, bytes_max: usize) {
        self.spans.iter_mut().for_each(|span| span.attributes.truncate_texts(bytes_max));
    }
}

impl RequestTrace {
    /// Begins the trace of a request: `context` is its own position, `parent` the client's span.
    #[inline]
    pub fn begin(
        context: TraceContext,
        parent: Option<SpanId>,
        fields: Option<TraceFields>,
        recording: Recording,
    ) -> RequestTrace {
        RequestTrace {
            position: context,
            request_span: context.span_id,
            parent,
            fields,
            spans: (recording != Recording::Off).then(|| RecordedSpans::new(recording)),
        }
    }

    /// The identity of the trace, and of the span of the client's request.
    pub fn context(&self) -> TraceContext {
        self.position.with_span(self.request_span)
    }

    /// The client's span.
    pub fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    /// True if the request is traced, as the configuration says; false if it is only recorded for
    /// the live log.
    pub fn is_traced(&self) -> bool {
        self.fields.is_some()
    }

    /// True while spans are recorded.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.spans.as_ref().is_some_and(|spans| spans.recording.get() != Recording::Off)
    }

    /// True if the end of the request must be read from the clock: its span is exported in any
    /// case, or holds others, which were timed so. Nearly all other requests are forgotten.
    #[inline]
    pub fn needs_precise_end(&self) -> bool {
        let has_parts = |spans: &Rc<RecordedSpans>| !spans.spans.borrow().is_empty();
        self.spans.as_ref().is_some_and(|spans| self.position.is_sampled() || has_parts(spans))
    }

    /// Ends the recording, also that of copies. Returns what was recorded.
    #[inline]
    pub fn finish(&self) -> Recording {
        let spans = self.spans.as_ref();
        spans.map_or(Recording::Off, |spans| spans.recording.replace(Recording::Off))
    }

    /// Returns what was recorded.
    pub fn take(&self) -> FinishedTrace {
        let spans = self.spans.as_ref();
        FinishedTrace {
            context: self.context(),
            spans: spans.map(|spans| spans.spans.take()).unwrap_or_default(),
            dropped: spans.map_or(0, |spans| spans.dropped.get()),
            clock_offset_us: clock::wall_offset_us(),
        }
    }

    /// Records spans within the position; `None` if nothing is recorded.
    #[inline]
    pub fn recorder(&self) -> Option<Recorder> {
        let spans = self.spans.as_ref().filter(|_| self.is_recording())?.clone();
        Some(Recorder { spans, parent: self.position.span_id })
    }

    /// Begins a step that lasts until it is ended as a span is; `None` if steps are not recorded.
    #[inline]
    pub fn open_step(&self, name: &'static str) -> Option<Box<OpenSpan>> {
        let spans = self.spans.as_ref()?;
        if spans.recording.get() != Recording::Steps {
            return None;
        }
        let step = Span::step(name, self.position.span_id, clock::precise_us(), 0);
        let span = Span { has_failed: true, ..step };
        Some(Box::new(OpenSpan { spans: spans.clone(), span }))
    }

    /// Begins a span of the request: the position moves into it. `None` if nothing is recorded.
    pub fn enter(&mut self, name: &'static str, kind: SpanKind) -> Option<OpenSpan> {
        let open = self.recorder()?.begin(name, kind);
        self.position.span_id = open.span.id;
        Some(open)
    }

    /// Sets the fields by which the next server continues the trace from this position.
    pub fn propagate(&self, headers: &mut Headers) {
        let Some(fields) = self.fields else { return };
        let context = &self.position;
        if fields.w3c {
            headers.set(Known::Traceparent, context.traceparent());
        }
        if fields.b3 {
            headers.set("b3", context.b3());
        }
        if fields.b3_multi {
            headers.set("x-b3-traceid", context.trace_id_text());
            headers.set("x-b3-spanid", context.span_id_text());
            headers.set("x-b3-sampled", if context.is_sampled() { "1" } else { "0" });
        }
    }
}

/// A span in progress. Dropped before [`OpenSpan::end`], it is recorded as failed: its request was
/// cancelled.
pub struct OpenSpan {
    spans: Rc<RecordedSpans>,
    span: Span,
}

impl Span {
    /// A step without attributes.
    pub fn step(name: &'static str, parent: SpanId, began_us: u64, ended_us: u64) -> Span {
        Span {
            id: SpanId::default(),
            parent: Some(parent),
            name: name.into(),
            kind: SpanKind::Internal,
            began_us,
            ended_us,
            attributes: Attributes::default(),
            has_failed: false,
            is_step: true,
        }
    }

    /// Adds an attribute, by its name in OpenTelemetry's semantic conventions where it has one.
    #[inline]
    pub fn set<'a>(&mut self, name: &str, value: impl Into<AttributeValue<'a>>) {
        self.attributes.set(name, value);
    }

    /// Adds an attribute with bytes that a client sent. What is not UTF-8 is replaced.
    pub fn set_bytes(&mut self, name: &str, value: &[u8]) {
        self.attributes.set_bytes(name, value);
    }
}

impl OpenSpan {
    /// As [`Span::set`].
    pub fn set<'a>(&mut self, name: &str, value: impl Into<AttributeValue<'a>>) {
        self.span.set(name, value);
    }

    /// Sets the server that a request is sent to, and which attempt this is, from 1.
    pub fn set_attempt(&mut self, address: &str, port: Option<u16>, attempt: u16) {
        self.set("server.address", address);
        if let Some(port) = port {
            self.set("server.port", u64::from(port));
        }
        if attempt > 1 {
            self.set("http.request.resend_count", u64::from(attempt) - 1);
        }
    }

    /// Ends the span of an attempt: its response has begun, or it failed.
    pub fn end_attempt(mut self, request: &mut Option<RequestTrace>, outcome: &HandlerResult) {
        let has_failed = match outcome {
            Ok(response) => {
                self.set("http.response.status_code", u64::from(response.status));
                response.status >= 400
            }
            Err(fault) => {
                self.set("error.type", fault.slug());
                true
            }
        };
        self.end(request, has_failed);
    }

    /// Ends the span; the request's position moves back out of it.
    pub fn end(mut self, request: &mut Option<RequestTrace>, has_failed: bool) {
        self.span.has_failed = has_failed;
        if let (Some(request), Some(parent)) = (request, self.span.parent) {
            request.position.span_id = parent;
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let blank = Span { attributes: Attributes::default(), name: "".into(), ..self.span };
        let mut span = std::mem::replace(&mut self.span, blank);
        span.ended_us = clock::precise_us();
        self.spans.add(span);
    }
}

/// A random identity, which is never zero.
#[inline]
pub fn new_span_id() -> SpanId {
    fastrand::u64(..).max(1).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(recording: Recording) -> RequestTrace {
        let context = TraceContext::new([1; 16], [2; 8], recording != Recording::Off);
        let fields = TraceFields { w3c: true, b3: true, b3_multi: true };
        RequestTrace::begin(context, Some([9; 8]), Some(fields), recording)
    }

    #[test]
    fn spans_form_a_tree() {
        let mut position = Some(begun(Recording::Spans));
        let outer = position.as_mut().unwrap().enter("outer", SpanKind::Internal).unwrap();
        let mut inner = position.as_mut().unwrap().enter("inner", SpanKind::Client).unwrap();
        inner.set("n", 7_u64);
        inner.end(&mut position, false);
        outer.end(&mut position, true);
        let trace = position.unwrap();
        assert_eq!(trace.finish(), Recording::Spans);
        let spans = trace.take().spans;
        let [inner, outer] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((&*inner.name, &*outer.name), ("inner", "outer"));
        assert_eq!((inner.parent, outer.parent), (Some(outer.id), Some([2; 8])));
        assert_eq!((inner.has_failed, outer.has_failed), (false, true));
        assert_eq!(inner.attributes.iter().collect::<Vec<_>>(), [("n", AttributeValue::Number(7))]);
    }

    #[test]
    fn the_end_of_a_request_is_precise_if_its_span_holds_others_or_is_exported() {
        let context = TraceContext::new([1; 16], [2; 8], false);
        let mut position = RequestTrace::begin(context, None, None, Recording::Spans);
        assert!(!position.needs_precise_end());
        drop(position.enter("a", SpanKind::Internal));
        assert!(position.needs_precise_end() && begun(Recording::Spans).needs_precise_end());
        assert!(!begun(Recording::Off).needs_precise_end());
    }

    #[test]
    fn a_dropped_span_has_failed() {
        let mut position = begun(Recording::Spans);
        drop(position.enter("cancelled", SpanKind::Internal));
        assert!(position.take().spans[0].has_failed);
    }

    #[test]
    fn nothing_is_recorded_after_the_end_or_beyond_the_bound() {
        let mut position = begun(Recording::Off);
        assert!(position.enter("a", SpanKind::Internal).is_none());
        assert_eq!(position.finish(), Recording::Off);
        assert!(position.spans.is_none(), "nothing was allocated");

        let mut position = begun(Recording::Spans);
        let late = position.enter("late", SpanKind::Internal);
        for _ in 0..TRACE_SPANS_MAX + 3 {
            drop(position.enter("a", SpanKind::Internal));
        }
        assert_eq!(position.finish(), Recording::Spans);
        drop(late);
        assert!(position.enter("a", SpanKind::Internal).is_none());
        let finished = position.take();
        assert_eq!((finished.spans.len(), finished.dropped), (TRACE_SPANS_MAX, 3));
    }

    #[test]
    fn the_next_server_learns_the_position() {
        let mut position = begun(Recording::Spans);
        let _span = position.enter("a", SpanKind::Client);
        let mut headers = Headers::new();
        headers.append(Known::Traceparent, "the client's");
        position.propagate(&mut headers);
        let context = position.position;
        let (traceparent, b3) = (context.traceparent(), context.b3());
        assert_eq!(headers.get(Known::Traceparent), Some(&traceparent[..]));
        assert_eq!(headers.get("b3"), Some(&b3[..]));
        assert_eq!(headers.get("x-b3-spanid"), Some(&context.span_id_text()[..]));
        assert_eq!(headers.get("x-b3-sampled"), Some(&b"1"[..]));
    }

    #[test]
    fn steps_are_recorded_for_the_live_log_only() {
        let position = begun(Recording::Spans);
        assert_eq!(position.recorder().expect("spans are recorded").begin_step(), None);

        let position = begun(Recording::Steps);
        let recorder = position.recorder().expect("steps are recorded");
        let began_us = recorder.begin_step().expect("steps are recorded");
        recorder.end_step("a", began_us, |span| span.set("text", "é".repeat(40).as_str()));
        let mut trace = position.take();
        trace.truncate_texts(7);
        let [step] = &trace.spans[..] else { panic!("{trace:?}") };
        assert!(step.is_step && step.began_us == began_us && step.parent == Some([2; 8]));
        let attributes: Vec<_> = step.attributes.iter().collect();
        assert_eq!(attributes, [("text", AttributeValue::from("ééé"))]);
    }

    #[test]
    fn a_request_that_is_not_traced_sends_no_fields() {
        let context = TraceContext::new([1; 16], [2; 8], true);
        let position = RequestTrace::begin(context, None, None, Recording::Steps);
        let mut headers = Headers::new();
        position.propagate(&mut headers);
        assert!(headers.is_empty() && !position.is_traced());
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let queue = ExportQueue::new(2, 2);
        (0..5).for_each(|number| queue.push(number));
        assert!(!queue.admits());
        assert_eq!((queue.len(), queue.take_dropped(), queue.take_dropped()), (2, 4, 0));
        net::worker::block_on_local(queue.batch());
        assert!(queue.pop().is_some());
    }
}
