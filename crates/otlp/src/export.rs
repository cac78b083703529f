//! Sends the spans of finished traces to a collector, on the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits};
use message::{AttributeValue, Body, Headers, Request, TraceQueue};
use net::Resolver;
use net::task::JoinHandle;
use plugin::WorkerContext;
use prost::Message;
use telemetry::log::Level;
use telemetry::{SharedCounter, Telemetry, event, families};
use wire::{Known, Method};

use crate::proto::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Resource, ResourceSpans,
    Scope, ScopeSpans, Span, spans,
};
use crate::settings::{OtlpSettings, TracePlan};

/// The largest response of a collector.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;
/// The pause after a first failure, which doubles with each, and its bound.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often a batch is sent before it is dropped.
const ATTEMPTS: u32 = 5;

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
        let sender = Rc::new(Sender::new(plan, otlp, &self.telemetry, &queue));
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

struct Metrics {
    exported: Arc<SharedCounter>,
    failed: Arc<SharedCounter>,
    rejected: Arc<SharedCounter>,
    /// Traces that found the queue full.
    dropped: Arc<SharedCounter>,
    /// Spans beyond the bound of a trace.
    dropped_spans: Arc<SharedCounter>,
}

impl Metrics {
    fn new(telemetry: &Telemetry) -> Metrics {
        let spans = |result| telemetry.counter(&families::TRACE_SPANS, &[result]);
        Metrics {
            exported: spans("exported"),
            failed: spans("failed"),
            rejected: spans("rejected"),
            dropped: telemetry.counter(&families::TRACES_DROPPED, &[]),
            dropped_spans: spans("dropped"),
        }
    }
}

/// The reason why a batch was not accepted.
struct SendFailure {
    why: String,
    /// False if the collector would reject it again.
    may_repeat: bool,
    /// The pause that the collector demands.
    pause: Option<Duration>,
}

struct Sender {
    client: Client,
    names: Resolver,
    otlp: OtlpSettings,
    queue: Arc<TraceQueue>,
    metrics: Metrics,
    resource: Resource,
    /// The batch that is being sent.
    unsent: RefCell<Option<Batch>>,
}

impl Sender {
    fn new(
        plan: &Arc<TracePlan>,
        otlp: &OtlpSettings,
        telemetry: &Telemetry,
        queue: &Arc<TraceQueue>,
    ) -> Sender {
        let settings = ClientSettings {
            name: "traces".to_owned(),
            tls: plan.tls.clone(),
            server_name: otlp.tls.as_ref().and_then(|tls| tls.server_name()),
            connect: otlp.timeout.get(),
            limits: PoolLimits { max_idle: 1, ..PoolLimits::default() },
            options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
        };
        let attributes =
            plan.resource().map(|(key, value)| KeyValue::new(key, AttributeValue::from(value)));
        Sender {
            client: Client::new(&WorkerContext::default(), settings),
            names: Resolver::system(),
            otlp: otlp.clone(),
            queue: queue.clone(),
            metrics: Metrics::new(telemetry),
            resource: Resource { attributes: attributes.collect() },
            unsent: RefCell::default(),
        }
    }

    async fn run(self: Rc<Self>) {
        let mut is_failing = false;
        // Once the queue has no other holder, nothing more can be recorded.
        while Arc::strong_count(&self.queue) > 1 || !self.queue.is_empty() {
            net::timer::within(self.otlp.interval.get(), self.queue.batch()).await;
            while let Some(batch) = self.take_batch() {
                self.unsent.replace(Some(batch.clone()));
                let failed = self.send_repeatedly(&batch).await.err();
                self.unsent.take();
                self.report(failed, &mut is_failing);
            }
        }
    }

    /// Sends the batch that was being sent, and what is queued, each batch once.
    async fn flush(&self) {
        let mut unsent = self.unsent.take();
        while let Some(batch) = unsent.take().or_else(|| self.take_batch()) {
            match self.send(&batch.message).await {
                Ok(rejected) => self.count(&batch, rejected),
                Err(failure) => {
                    self.metrics.failed.add(batch.spans);
                    let failed = Some(failure.why);
                    return self.report(failed, &mut false);
                }
            }
        }
    }

    /// The next spans to send; `None` if there are none.
    fn take_batch(&self) -> Option<Batch> {
        self.metrics.dropped.add(self.queue.take_dropped());
        let traces = std::iter::from_fn(|| self.queue.pop()).take(self.otlp.batch as usize);
        let traces =
            traces.inspect(|trace| self.metrics.dropped_spans.add(u64::from(trace.dropped)));
        let spans: Vec<Span> = traces.flat_map(spans).collect();
        if spans.is_empty() {
            return None;
        }
        let count = spans.len() as u64;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = Some(Scope { name: "tidegate".to_owned(), version });
        let scope_spans = vec![ScopeSpans { scope, spans }];
        let resource = Some(self.resource.clone());
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans }],
        };
        Some(Batch { message: request.encode_to_vec().into(), spans: count })
    }

    /// Sends a batch until it is accepted, rejected, or has been sent [`ATTEMPTS`] times. The
    /// workers fill the queue while that lasts, up to its bound.
    async fn send_repeatedly(&self, batch: &Batch) -> Result<(), String> {
        let mut pause = RETRY_MIN;
        for attempt in 1.. {
            match self.send(&batch.message).await {
                Ok(rejected) => {
                    self.count(batch, rejected);
                    return Ok(());
                }
                Err(failure) if failure.may_repeat && attempt < ATTEMPTS => {
                    let longest = pause.max(failure.pause.unwrap_or_default()).min(RETRY_MAX);
                    // Many servers of one collector do not return at the same moment.
                    net::timer::sleep(longest.mul_f64(0.75 + 0.25 * fastrand::f64())).await;
                    pause *= 2;
                }
                Err(failure) => {
                    self.metrics.failed.add(batch.spans);
                    return Err(failure.why);
                }
            }
        }
        Ok(())
    }

    fn count(&self, batch: &Batch, rejected: u64) {
        let rejected = rejected.min(batch.spans);
        self.metrics.rejected.add(rejected);
        self.metrics.exported.add(batch.spans - rejected);
    }

    /// Sends a batch and returns the number of spans that the collector rejected.
    async fn send(&self, message: &Bytes) -> Result<u64, SendFailure> {
        let url = &self.otlp.url.value;
        let mut headers = Headers::new();
        headers.append(Known::Host, &url.authority);
        headers.append(Known::ContentType, "application/x-protobuf");
        headers.append(Known::UserAgent, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.otlp.headers.entries {
            headers.set(name.as_str(), value.expose());
        }
        let request = Request::made_up(Method::Post, url.target.clone(), headers);
        let body = Body::Bytes(message.clone());
        let timeout = self.otlp.timeout.get();
        let sent = self.client.fetch(&self.names, url, &request, body, timeout, RESPONSE_BYTES_MAX);
        let mut response = sent.await.map_err(|fault| SendFailure {
            why: fault.detail.into_owned(),
            may_repeat: true,
            pause: None,
        })?;
        if !(200..300).contains(&response.status) {
            let after = response.headers.get_str(Known::RetryAfter);
            return Err(SendFailure {
                why: format!("the response has the status {}", response.status),
                // Those that OTLP names, "Failures" in its specification of HTTP.
                may_repeat: matches!(response.status, 429 | 502 | 503 | 504),
                pause: after.and_then(|text| text.parse().ok()).map(Duration::from_secs),
            });
        }
        let content = response.body.collect(RESPONSE_BYTES_MAX).await.unwrap_or_default();
        // Some collectors respond without a message: that is a success.
        let message = ExportTraceServiceResponse::decode(content).unwrap_or_default();
        let partial = message.partial_success.unwrap_or_default();
        if !partial.error_message.is_empty() {
            event!(
                Level::Warn,
                "the collector of traces reports a problem",
                event = "traces_partly_rejected",
                rejected_spans = partial.rejected_spans,
                error = partial.error_message
            );
        }
        Ok(u64::try_from(partial.rejected_spans).unwrap_or(0))
    }

    /// Logs the first failure in a row, and the end of failures.
    fn report(&self, failed: Option<String>, is_failing: &mut bool) {
        let was_failing = std::mem::replace(is_failing, failed.is_some());
        match failed {
            Some(error) if !was_failing => event!(
                Level::Warn,
                "traces cannot be exported; requests are served, their spans are dropped",
                event = "traces_not_exported",
                url = self.otlp.url.value,
                error = error
            ),
            None if was_failing => event!(
                Level::Info,
                "traces are exported again",
                event = "traces_exported",
                url = self.otlp.url.value
            ),
            _ => {}
        }
    }
}

/// The message of some traces.
#[derive(Clone)]
struct Batch {
    message: Bytes,
    spans: u64,
}
