//! The section `traces`, and the collectors of traces, metrics and logs.

use std::collections::BTreeMap;
use std::time;

use http_client::Url;
use message::TraceFields;
use net::tls::{CertificateName, ClientTls};
use plugin::HeaderName;
use settings::{Duration, Named, Reader, Secret, Setting, Spanned};
use tls_settings::UpstreamTlsSettings;
use wire::Known;

/// Traces of requests (W3C Trace Context, OpenTelemetry).
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct TraceSettings {
    /// The share of the traces beginning here that is recorded, 0 to 1. In a trace that a client
    /// has begun its decision is followed.
    #[setting(default = 1.0, range = 0..=1, example = 0.01)]
    sample: f64,
    /// Records a request that fails (5xx) in any case.
    #[setting(default = true)]
    failures: bool,
    /// Records a request that takes at least this long in any case.
    #[setting(example = "500ms")]
    slow: Option<Duration>,
    /// Continues the traces of clients. False begins a trace with each request and ignores the
    /// fields of clients, so that they cannot choose what is recorded.
    #[setting(default = true)]
    accept_parent: bool,
    /// The fields by which traces are continued, from clients and to upstreams.
    #[setting(default = ["w3c"])]
    propagate: Vec<TraceFormat>,
    /// The name of this service in the traces (`service.name`).
    #[setting(default = "tidegate")]
    service: String,
    /// Further attributes of the resource.
    #[setting(default = {}, example = { "deployment.environment.name": "production" })]
    attributes: BTreeMap<String, String>,
    /// The collector that the spans are sent to. Without it traces are only continued, and logged
    /// as `trace_id`.
    otlp: Option<OtlpSettings>,
}

/// Header fields that carry the identity of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum TraceFormat {
    /// `traceparent` and `tracestate` (W3C Trace Context).
    W3c,
    /// `b3` (Zipkin, Istio).
    B3,
    /// `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`.
    B3Multi,
}

/// How a collector is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub(crate) enum Protocol {
    /// OTLP over HTTP with Protobuf, usually on port 4318.
    Http,
    /// OTLP over gRPC, usually on port 4317.
    Grpc,
}

/// The collector of traces, reached by OTLP.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct OtlpSettings {
    /// The URL that requests are sent to; with gRPC, a URL without a path.
    #[setting(example = "http://127.0.0.1:4318/v1/traces")]
    pub(crate) url: Spanned<Url>,
    /// OTLP over HTTP or over gRPC.
    #[setting(default = "http")]
    pub(crate) protocol: Protocol,
    /// Fields of the requests, such as a token.
    #[setting(default = {}, example = { "authorization": "${OTLP_AUTHORIZATION}" })]
    pub(crate) headers: Named<Secret>,
    /// TLS to the collector.
    pub(crate) tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The longest time for a request.
    #[setting(default = "10s", range = "100ms"..="1m")]
    pub(crate) timeout: Duration,
    /// The longest time that a span waits for others before it is sent.
    #[setting(default = "1s", range = "10ms"..="1m")]
    pub(crate) interval: Duration,
    /// The most traces in one request.
    #[setting(default = 512, range = 1..=8192)]
    pub(crate) batch: u32,
    /// The most traces that wait to be sent. Further ones are dropped and counted.
    #[setting(default = 8192, range = 1..=1_000_000)]
    pub(crate) queue: u32,
}

/// A collector of metrics or logs, reached by OTLP.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ExportSettings {
    /// The URL that requests are sent to; with gRPC, a URL without a path.
    #[setting(example = "http://127.0.0.1:4317")]
    url: Spanned<Url>,
    /// OTLP over HTTP or over gRPC.
    #[setting(default = "http")]
    protocol: Protocol,
    /// Fields of the requests, such as a token.
    #[setting(default = {}, example = { "authorization": "${OTLP_AUTHORIZATION}" })]
    headers: Named<Secret>,
    /// TLS to the collector.
    tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The longest time for a request.
    #[setting(default = "10s", range = "100ms"..="1m")]
    timeout: Duration,
    /// The time between two requests; `15s` for metrics and `1s` for logs unless set.
    #[setting(range = "10ms"..="1h")]
    interval: Option<Duration>,
    /// The name of this service (`service.name`).
    #[setting(default = "tidegate")]
    service: String,
    /// Further attributes of the resource.
    #[setting(default = {}, example = { "deployment.environment.name": "production" })]
    attributes: BTreeMap<String, String>,
}

/// Where metrics are sent.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct MetricsSettings {
    /// A collector that gets all metrics. `/metrics` of the admin API is independent of it.
    pub otlp: Option<Spanned<ExportSettings>>,
}

/// A collector whose settings have been checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CollectorPlan {
    pub(crate) url: Url,
    pub(crate) protocol: Protocol,
    pub(crate) headers: Named<Secret>,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) server_name: Option<CertificateName>,
    pub(crate) timeout: time::Duration,
}

/// What the settings of all collectors have.
struct Reached<'a> {
    url: &'a Spanned<Url>,
    protocol: Protocol,
    headers: &'a Named<Secret>,
    tls: Option<&'a Spanned<UpstreamTlsSettings>>,
    timeout: Duration,
}

impl CollectorPlan {
    /// Checks the settings of a collector and reads their files.
    fn new(reached: &Reached<'_>, reader: &mut Reader<'_>) -> Option<CollectorPlan> {
        let Reached { url, protocol, headers, tls, timeout } = reached;
        for (name, _) in &headers.entries {
            match name.value.parse::<HeaderName>() {
                Err(why) => {
                    reader.error(name.span, format!("\"{name}\" {why}"));
                }
                Ok(_) if is_own(name) => {
                    reader.error(name.span, format!("{name} is set by the exporter itself"));
                }
                Ok(_) => {}
            }
        }
        if *protocol == Protocol::Grpc && url.target.raw() != b"/" {
            let why = "with `protocol: grpc` the URL has no path: the call names the service";
            reader.error(url.span, why);
        }
        let client = match tls {
            _ if url.is_secure => Some(UpstreamTlsSettings::client(*tls, url.span, reader)?),
            Some(tls) => {
                reader.error(tls.span, "`tls` has no effect: url is not a URL of https");
                None
            }
            None => None,
        };
        Some(CollectorPlan {
            url: url.value.clone(),
            protocol: *protocol,
            headers: (*headers).clone(),
            tls: client,
            server_name: tls.and_then(|tls| tls.server_name()),
            timeout: timeout.get(),
        })
    }
}

/// A collector of metrics or logs whose settings have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportPlan {
    pub(crate) collector: CollectorPlan,
    settings: ExportSettings,
}

impl ExportPlan {
    /// Checks the settings and reads their files.
    pub fn new(settings: &ExportSettings, reader: &mut Reader<'_>) -> Option<ExportPlan> {
        let reached = Reached {
            url: &settings.url,
            protocol: settings.protocol,
            headers: &settings.headers,
            tls: settings.tls.as_ref(),
            timeout: settings.timeout,
        };
        let collector = CollectorPlan::new(&reached, reader)?;
        Some(ExportPlan { collector, settings: settings.clone() })
    }

    pub(crate) fn interval(&self) -> Option<time::Duration> {
        self.settings.interval.map(|interval| interval.get())
    }

    pub(crate) fn resource(&self) -> impl Iterator<Item = (&str, &str)> {
        resource(&self.settings.service, &self.settings.attributes)
    }
}

/// The attributes of a resource.
fn resource<'a>(
    service: &'a str,
    attributes: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let further = attributes.iter().map(|(key, value)| (&**key, &**value));
    [("service.name", service)].into_iter().chain(further)
}

/// The checked section.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePlan {
    pub settings: TraceSettings,
    /// Without it traces are only continued.
    pub(crate) collector: Option<CollectorPlan>,
}

/// True for fields that belong to the message or the connection.
fn is_own(name: &str) -> bool {
    let known = Known::from_bytes(name.as_bytes());
    known.is_some_and(|known| known.is_framing() || known == Known::ContentType)
}

impl TracePlan {
    /// Checks the settings of the collector and reads their files.
    pub fn new(settings: &TraceSettings, reader: &mut Reader<'_>) -> Option<TracePlan> {
        let collector = match &settings.otlp {
            None => None,
            Some(otlp) => {
                let reached = Reached {
                    url: &otlp.url,
                    protocol: otlp.protocol,
                    headers: &otlp.headers,
                    tls: otlp.tls.as_ref(),
                    timeout: otlp.timeout,
                };
                Some(CollectorPlan::new(&reached, reader)?)
            }
        };
        Some(TracePlan { settings: settings.clone(), collector })
    }

    pub fn sample(&self) -> f64 {
        self.settings.sample
    }

    pub fn records_failures(&self) -> bool {
        self.settings.failures
    }

    /// The duration from which on requests are recorded in any case.
    pub fn slow_us(&self) -> Option<u64> {
        let slow = self.settings.slow?;
        Some(u64::try_from(slow.get().as_micros()).unwrap_or(u64::MAX))
    }

    pub fn accepts_parent(&self) -> bool {
        self.settings.accept_parent
    }

    pub fn fields(&self) -> TraceFields {
        let has = |format| self.settings.propagate.contains(&format);
        TraceFields {
            w3c: has(TraceFormat::W3c),
            b3: has(TraceFormat::B3),
            b3_multi: has(TraceFormat::B3Multi),
        }
    }

    pub(crate) fn otlp(&self) -> Option<&OtlpSettings> {
        self.settings.otlp.as_ref()
    }

    pub(crate) fn resource(&self) -> impl Iterator<Item = (&str, &str)> {
        resource(&self.settings.service, &self.settings.attributes)
    }
}
