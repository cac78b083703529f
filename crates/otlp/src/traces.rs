//! Sends the spans of finished traces to a collector, on the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use message::{ExportedTrace, TraceQueue};
use net::task::JoinHandle;
use prost::Message;
use protobuf::{length_of_varint, write_varint};
use telemetry::{SharedCounter, Telemetry, families};

use crate::collector::{Batch, Collector, Signal};
use crate::proto::{Resource, Scope};
use crate::settings::{OtlpSettings, TracePlan};

/// The exporter of the current plan.
pub struct TraceExporter {
    telemetry: Arc<Telemetry>,
    running: RefCell<Option<Running>>,
}

struct Running {
    plan: Arc<TracePlan>,
    queue: Arc<TraceQueue>,
    sender: Rc<Sender>,
    task: JoinHandle<()>,
}

impl TraceExporter {
    pub fn new(telemetry: &Arc<Telemetry>) -> TraceExporter {
        TraceExporter { telemetry: telemetry.clone(), running: RefCell::default() }
    }

    /// Exports for this plan from now on. Returns the queue for its workers; `None` if nothing is
    /// exported. A queue whose plan is the same is used further; another one is exported until the
    /// last request of its plan has ended.
    pub fn follow(&self, plan: Option<&Arc<TracePlan>>) -> Option<Arc<TraceQueue>> {
        let mut running = self.running.borrow_mut();
        let Some((plan, otlp)) = plan.and_then(|plan| Some((plan, plan.otlp()?))) else {
            *running = None;
            return None;
        };
        if let Some(running) = &*running
            && running.plan == *plan
        {
            return Some(running.queue.clone());
        }
        let queue = TraceQueue::new(otlp.queue as usize, otlp.batch as usize);
        let sender = Rc::new(Sender::new(plan, otlp, &self.telemetry, &queue)?);
        let task = net::task::spawn_local(sender.clone().run());
        *running = Some(Running { plan: plan.clone(), queue: queue.clone(), sender, task });
        Some(queue)
    }

    /// Sends what is queued, and the batch that is being sent, once more at the end of the process.
    /// A collector may therefore receive a span twice.
    pub async fn finish(&self) {
        let Some(running) = self.running.borrow_mut().take() else { return };
        running.task.abort();
        running.sender.flush().await;
    }
}

struct Sender {
    collector: Collector,
    interval: Duration,
    batch: usize,
    queue: Arc<TraceQueue>,
    telemetry: Arc<Telemetry>,
    /// Traces that found the queue full.
    dropped: Arc<SharedCounter>,
    /// Spans beyond the bound of a trace.
    dropped_spans: Arc<SharedCounter>,
    envelope: Envelope,
}

impl Sender {
    fn new(
        plan: &TracePlan,
        otlp: &OtlpSettings,
        telemetry: &Arc<Telemetry>,
        queue: &Arc<TraceQueue>,
    ) -> Option<Sender> {
        Some(Sender {
            collector: Collector::new(Signal::Traces, plan.collector.as_ref()?, telemetry),
            interval: otlp.interval.get(),
            batch: otlp.batch as usize,
            queue: queue.clone(),
            dropped: telemetry.counter(&families::TRACES_DROPPED, &[]),
            dropped_spans: telemetry.counter(&families::TRACE_SPANS, &["dropped"]),
            telemetry: telemetry.clone(),
            envelope: Envelope::new(&Resource::new(plan.resource())),
        })
    }

    async fn run(self: Rc<Self>) {
        // Once the queue has no other holder, nothing more can be recorded.
        while Arc::strong_count(&self.queue) > 1 || !self.queue.is_empty() {
            net::timer::within(self.interval, self.queue.batch()).await;
            while let Some(batch) = self.take_batch() {
                self.collector.deliver(batch).await;
                // What arrived since then waits for others: a request for each few traces would
                // cost more than the traces.
                if !self.queue.has_batch() {
                    break;
                }
            }
        }
    }

    /// Sends the batch that was being sent, and what is queued, each batch once.
    async fn flush(&self) {
        let mut unsent = self.collector.take_unsent();
        while let Some(batch) = unsent.take().or_else(|| self.take_batch()) {
            if !self.collector.deliver_once(&batch).await {
                return;
            }
        }
    }

    /// The next spans to send; `None` if there are none.
    fn take_batch(&self) -> Option<Batch> {
        self.dropped.add(self.queue.take_dropped());
        let popped = std::iter::from_fn(|| self.queue.pop()).take(self.batch);
        let traces: Vec<ExportedTrace> = popped.collect();
        if traces.is_empty() {
            return None;
        }
        let sum = |count: fn(&ExportedTrace) -> u64| traces.iter().map(count).sum::<u64>();
        self.dropped_spans.add(sum(|trace| trace.dropped.into()));
        for trace in &traces {
            // Only traces that are exported are examples: the others cannot be looked up.
            if let Some(route) = trace.route() {
                self.telemetry.exemplars().record(route, trace.exemplar);
            }
        }
        let message = self.envelope.message(&traces).into();
        Some(Batch { message, items: sum(|trace| trace.spans.into()) })
    }
}

/// What surrounds the spans of each message, encoded.
struct Envelope {
    /// The field `resource` of `ResourceSpans`.
    resource: Vec<u8>,
    /// The field `scope` of `ScopeSpans`.
    scope: Vec<u8>,
}

impl Envelope {
    fn new(resource: &Resource) -> Envelope {
        let first_field = |message: Vec<u8>| [vec![1 << 3 | 2], message].concat();
        Envelope {
            resource: first_field(resource.encode_length_delimited_to_vec()),
            scope: first_field(Scope::own().encode_length_delimited_to_vec()),
        }
    }

    /// Writes the message `ExportTraceServiceRequest`.
    fn message(&self, traces: &[ExportedTrace]) -> Vec<u8> {
        let spans: usize = traces.iter().map(|trace| trace.encoded_spans().len()).sum();
        let scope_spans = self.scope.len() + spans;
        let resource_spans =
            self.resource.len() + 1 + length_of_varint(scope_spans as u64) + scope_spans;
        // A tag and the longest varint.
        let mut out = Vec::with_capacity(resource_spans + 11);
        // `resource_spans`, the first field.
        out.push(1 << 3 | 2);
        write_varint(&mut out, resource_spans as u64);
        out.extend_from_slice(&self.resource);
        // `scope_spans`, the second field of it.
        out.push(2 << 3 | 2);
        write_varint(&mut out, scope_spans as u64);
        out.extend_from_slice(&self.scope);
        traces.iter().for_each(|trace| out.extend_from_slice(trace.encoded_spans()));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::traces::{ExportTraceServiceRequest, Status};
    use crate::proto::{KeyValue, Value};
    use message::{Attributes, FinishedTrace, Span, SpanKind};
    use wire::trace_context::TraceContext;

    fn span(id: u8, name: &'static str) -> Span {
        Span {
            id: [id; 8],
            parent: None,
            name: name.into(),
            kind: SpanKind::Internal,
            began_us: 1,
            ended_us: 3,
            attributes: Attributes::default(),
            has_failed: false,
            is_step: false,
        }
    }

    #[test]
    fn a_message_is_read_by_its_definition() {
        let step = Span { is_step: true, ..span(0, "step") };
        let handler = Span { parent: Some([3; 8]), has_failed: true, ..span(2, "respond") };
        let mut request = Span { kind: SpanKind::Server, ..span(3, "GET") };
        let long = "x".repeat(300);
        request.set("url.path", &*long);
        request.set("http.response.status_code", 200_u64);
        let trace = FinishedTrace {
            context: TraceContext::new([1; 16], [3; 8], true),
            spans: vec![step, handler],
            dropped: 7,
            clock_offset_us: 10,
        };
        let exported = trace.export(&request, "a");
        assert_eq!((exported.spans, exported.dropped, exported.route()), (2, 7, Some("a")));
        let exemplar = exported.exemplar;
        assert_eq!((exemplar.trace_id, exemplar.span_id), ([1; 16], [3; 8]));
        assert_eq!(trace.export(&request, "").route(), None);

        let resource = Resource::new([("service.name", "edge")].into_iter());
        let message = Envelope::new(&resource).message(&[exported]);
        let message = ExportTraceServiceRequest::decode(&*message).expect("a message");
        let [of_resource] = &message.resource_spans[..] else { panic!("{message:?}") };
        assert_eq!(of_resource.resource.as_ref(), Some(&resource));
        let [of_scope] = &of_resource.scope_spans[..] else { panic!("{message:?}") };
        assert_eq!(of_scope.scope, Some(Scope::own()));
        let [handler, request] = &of_scope.spans[..] else { panic!("{message:?}") };
        assert_eq!((&handler.trace_id[..], &handler.span_id[..]), (&[1; 16][..], &[2; 8][..]));
        assert_eq!((&handler.parent_span_id[..], &*handler.name), (&[3; 8][..], "respond"));
        assert_eq!((handler.kind, handler.status), (1, Some(Status { code: 2 })));
        assert_eq!((handler.start_time_unix_nano, handler.end_time_unix_nano), (11_000, 13_000));
        assert!(handler.attributes.is_empty() && request.parent_span_id.is_empty());
        assert_eq!((&*request.name, request.kind, request.status), ("GET a", 2, None));
        let expected = [
            KeyValue::text("url.path", long),
            KeyValue::new("http.response.status_code", Value::Number(200)),
        ];
        assert_eq!(request.attributes, expected);
    }
}
