//! Sends the spans of finished traces to a collector, on the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use message::{AttributeValue, FinishedTrace, TraceQueue};
use net::task::JoinHandle;
use prost::Message;
use telemetry::{Exemplar, SharedCounter, Telemetry, families};

use crate::collector::{Batch, Collector, Signal};
use crate::proto::traces::{ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span, spans};
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
    resource: Resource,
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
            resource: Resource::new(plan.resource()),
        })
    }

    async fn run(self: Rc<Self>) {
        // Once the queue has no other holder, nothing more can be recorded.
        while Arc::strong_count(&self.queue) > 1 || !self.queue.is_empty() {
            net::timer::within(self.interval, self.queue.batch()).await;
            while let Some(batch) = self.take_batch() {
                self.collector.deliver(batch).await;
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
        let traces = std::iter::from_fn(|| self.queue.pop()).take(self.batch);
        let traces = traces.inspect(|trace| {
            self.dropped_spans.add(u64::from(trace.dropped));
            record_exemplar(trace, &self.telemetry);
        });
        let spans: Vec<Span> = traces.flat_map(spans).collect();
        if spans.is_empty() {
            return None;
        }
        let items = spans.len() as u64;
        let scope_spans = vec![ScopeSpans { scope: Scope::own(), spans }];
        let resource = Some(self.resource.clone());
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans }],
        };
        Some(Batch { message: request.encode_to_vec().into(), items })
    }
}

/// Makes the trace an example of its duration in the metrics of its route. Only traces that are
/// exported are examples: the others cannot be looked up.
fn record_exemplar(trace: &FinishedTrace, telemetry: &Telemetry) {
    // The span of the request is the last one.
    let Some(request) = trace.spans.last() else { return };
    let route = request.attributes.iter().find_map(|(name, value)| match value {
        AttributeValue::Text(text) if *name == "tidegate.route" => Some(text),
        _ => None,
    });
    let Some(route) = route else { return };
    let exemplar = Exemplar {
        trace_id: trace.context.trace_id,
        span_id: request.id,
        value_us: request.ended_us.saturating_sub(request.began_us),
        unix_ms: (request.ended_us + trace.clock_offset_us) / 1000,
    };
    telemetry.exemplars().record(route, exemplar);
}
