//! Sends batches to a collector, over HTTP or gRPC, on the control thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits};
use message::{Body, Headers, Request, Target};
use net::Resolver;
use plugin::WorkerContext;
use prost::Message;
use telemetry::log::Level;
use telemetry::{SharedCounter, Telemetry, event, families};
use wire::{Known, Method, grpc};

use crate::grpc_reply::{self, framed};
use crate::proto::ExportResponse;
use crate::send_failure::SendFailure;
use crate::settings::{CollectorPlan, Protocol};

/// The largest response of a collector.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;
/// The pause after a first failure, which doubles with each, and its bound.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often a batch is sent before it is dropped.
const ATTEMPTS: u32 = 5;

/// The pause before a batch is sent again: at least this one and the one that the collector
/// demands, up to the bound. Many servers of one collector do not return at the same moment.
fn jittered(pause: Duration, demanded: Option<Duration>) -> Duration {
    let least = pause.max(demanded.unwrap_or_default()).min(RETRY_MAX);
    least.mul_f64(1.0 + 0.25 * fastrand::f64())
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// The method of the collector's service.
    fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
        }
    }
}

/// The name in messages and in keys of events.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message, and how many spans, values or records are in it.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) message: Bytes,
    pub(crate) items: u64,
}

/// What happened to the items of batches.
struct Counters {
    exported: Arc<SharedCounter>,
    failed: Arc<SharedCounter>,
    rejected: Arc<SharedCounter>,
}

/// A client of one collector for one signal.
pub(crate) struct Collector {
    signal: Signal,
    plan: CollectorPlan,
    client: Client,
    names: Resolver,
    counters: Counters,
    /// The batch that is being sent.
    unsent: RefCell<Option<Batch>>,
    is_failing: Cell<bool>,
    /// The last response had a message about records that were accepted in part.
    is_partial: Cell<bool>,
}

impl Collector {
    pub(crate) fn new(signal: Signal, plan: &CollectorPlan, telemetry: &Telemetry) -> Collector {
        let is_grpc = plan.protocol == Protocol::Grpc;
        let tls = plan.tls.as_ref();
        let settings = ClientSettings {
            name: signal.name().to_owned(),
            tls: tls.map(|tls| if is_grpc { tls.with_protocols(&[b"h2"]) } else { tls.clone() }),
            server_name: plan.server_name.clone(),
            connect: plan.timeout,
            limits: PoolLimits { max_idle: 1, ..PoolLimits::default() },
            options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
        };
        let client = Client::new(&WorkerContext::default(), settings);
        let count = |result| match signal {
            Signal::Traces => telemetry.counter(&families::TRACE_SPANS, &[result]),
            other => telemetry.counter(&families::OTLP_RECORDS, &[other.name(), result]),
        };
        Collector {
            signal,
            plan: plan.clone(),
            client: if is_grpc { client.with_prior_knowledge() } else { client },
            names: Resolver::system(),
            counters: Counters {
                exported: count("exported"),
                failed: count("failed"),
                rejected: count("rejected"),
            },
            unsent: RefCell::default(),
            is_failing: Cell::new(false),
            is_partial: Cell::new(false),
        }
    }

    /// Returns the batch whose delivery was cut off.
    pub(crate) fn take_unsent(&self) -> Option<Batch> {
        self.unsent.take()
    }

    /// Sends a batch until it is accepted, rejected, or has been sent [`ATTEMPTS`] times. Queues
    /// fill while that lasts, up to their bounds.
    pub(crate) async fn deliver(&self, batch: Batch) {
        self.unsent.replace(Some(batch.clone()));
        let mut pause = RETRY_MIN;
        for attempt in 1.. {
            match self.send(&batch.message).await {
                Err(failure) if failure.may_repeat && attempt < ATTEMPTS => {
                    net::timer::sleep(jittered(pause, failure.pause)).await;
                    pause *= 2;
                }
                sent => {
                    self.unsent.take();
                    self.count(&batch, sent);
                    return;
                }
            }
        }
    }

    /// Sends a batch once. Returns false if it was not accepted.
    pub(crate) async fn deliver_once(&self, batch: &Batch) -> bool {
        let sent = self.send(&batch.message).await;
        let is_accepted = sent.is_ok();
        self.count(batch, sent);
        is_accepted
    }

    fn count(&self, batch: &Batch, sent: Result<u64, SendFailure>) {
        let failed = match sent {
            Ok(rejected) => {
                let rejected = rejected.min(batch.items);
                self.counters.rejected.add(rejected);
                self.counters.exported.add(batch.items - rejected);
                None
            }
            Err(failure) => {
                self.counters.failed.add(batch.items);
                Some(failure.why)
            }
        };
        self.report(failed);
    }

    /// Sends a message and returns the number of items that the collector rejected.
    async fn send(&self, message: &Bytes) -> Result<u64, SendFailure> {
        let content = match self.plan.protocol {
            Protocol::Http => self.post(message).await?,
            Protocol::Grpc => self.call(message).await?,
        };
        // Some collectors respond without a message: that is a success.
        let response = ExportResponse::decode(content).unwrap_or_default();
        let partial = response.partial_success.unwrap_or_default();
        let is_partial = !partial.error_message.is_empty();
        // Once, until it is over: this event may be in the next message.
        if !self.is_partial.replace(is_partial) && is_partial {
            event!(
                Level::Warn,
                "the collector reports a problem",
                event = format_args!("{}_partly_rejected", self.signal),
                rejected = partial.rejected,
                error = partial.error_message
            );
        }
        Ok(u64::try_from(partial.rejected).unwrap_or(0))
    }

    /// A request with the fields that both protocols have.
    fn request(&self, target: Target, content_type: &str) -> Request {
        let mut headers = Headers::new();
        headers.append(Known::Host, &self.plan.url.authority);
        headers.append(Known::ContentType, content_type);
        headers.append(Known::UserAgent, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.plan.headers.entries {
            headers.set(name.as_str(), value.expose());
        }
        Request::made_up(Method::Post, target, headers)
    }

    /// Sends a message by HTTP. Returns the content of a successful response.
    async fn post(&self, message: &Bytes) -> Result<Bytes, SendFailure> {
        let url = &self.plan.url;
        let request = self.request(url.target.clone(), "application/x-protobuf");
        let (body, timeout) = (Body::Bytes(message.clone()), self.plan.timeout);
        let sent = self.client.fetch(&self.names, url, &request, body, timeout, RESPONSE_BYTES_MAX);
        let mut response = sent.await?;
        if !(200..300).contains(&response.status) {
            let after = response.headers.get_str(Known::RetryAfter);
            return Err(SendFailure {
                why: format!("the response has the status {}", response.status),
                // Those that OTLP names, "Failures" in its specification of HTTP.
                may_repeat: matches!(response.status, 429 | 502 | 503 | 504),
                pause: after.and_then(|text| text.parse().ok()).map(Duration::from_secs),
            });
        }
        Ok(response.body.collect(RESPONSE_BYTES_MAX).await.unwrap_or_default())
    }

    /// Sends a message by gRPC. Returns the message of a successful response.
    async fn call(&self, message: &Bytes) -> Result<Bytes, SendFailure> {
        let path = Target::new(self.signal.grpc_path().into());
        let mut request =
            self.request(path.unwrap_or_else(|_| Target::asterisk()), grpc_reply::TYPE);
        request.headers.append(Known::Te, "trailers");
        request.headers.append(grpc::TIMEOUT, grpc::timeout_value(self.plan.timeout));
        let exchange = async {
            let connection = self.client.connect(&self.names, &self.plan.url).await?;
            if !connection.is_http2() {
                let why = "the collector speaks no HTTP/2: is this its port for gRPC?".to_owned();
                return Err(SendFailure { why, may_repeat: true, pause: None });
            }
            let body = Body::Bytes(framed(message));
            let response = self.client.send(connection, &request, body).await?;
            grpc_reply::read(response, RESPONSE_BYTES_MAX as usize).await
        };
        let late = || {
            let why = format!("no whole response within {} ms", self.plan.timeout.as_millis());
            Err(SendFailure { why, may_repeat: true, pause: None })
        };
        net::timer::within(self.plan.timeout, exchange).await.unwrap_or_else(late)
    }

    /// Logs the first failure in a row, and the end of failures.
    fn report(&self, failed: Option<String>) {
        let was_failing = self.is_failing.replace(failed.is_some());
        let (signal, url) = (self.signal, &self.plan.url);
        match failed {
            Some(error) if !was_failing => event!(
                Level::Warn,
                "the collector accepts nothing; requests are served, what is exported is dropped",
                event = format_args!("{signal}_not_exported"),
                url = url,
                error = error
            ),
            None if was_failing => event!(
                Level::Info,
                "the collector accepts what is exported again",
                event = format_args!("{signal}_exported"),
                url = url
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_shorter_than_the_collector_demands() {
        let seconds = Duration::from_secs;
        for _ in 0..100 {
            for (pause, demanded, least) in [
                (RETRY_MIN, Some(seconds(20)), seconds(20)),
                (RETRY_MIN, Some(seconds(0)), RETRY_MIN),
                (RETRY_MIN, None, RETRY_MIN),
                (seconds(64), None, RETRY_MAX),
                (RETRY_MIN, Some(Duration::MAX), RETRY_MAX),
            ] {
                let jittered = jittered(pause, demanded);
                assert!(least <= jittered && jittered <= least.mul_f64(1.25), "{jittered:?}");
            }
        }
    }
}
