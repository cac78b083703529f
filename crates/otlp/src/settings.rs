//! The section `traces`.

use std::collections::BTreeMap;

use http_client::Url;
use message::TraceFields;
use net::tls::ClientTls;
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

/// The collector of traces, reached by OTLP over HTTP with Protobuf.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct OtlpSettings {
    /// The URL that requests are sent to.
    #[setting(example = "http://127.0.0.1:4318/v1/traces")]
    pub(crate) url: Spanned<Url>,
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

/// The checked section.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePlan {
    pub settings: TraceSettings,
    pub(crate) tls: Option<ClientTls>,
}

/// True for fields that belong to the message or the connection.
fn is_own(name: &str) -> bool {
    let known = Known::from_bytes(name.as_bytes());
    known.is_some_and(|known| known.is_framing() || known == Known::ContentType)
}

impl TracePlan {
    /// Reads the files of the settings.
    pub fn new(settings: &TraceSettings, reader: &mut Reader<'_>) -> Option<TracePlan> {
        let otlp = settings.otlp.as_ref();
        for (name, _) in otlp.iter().flat_map(|otlp| &otlp.headers.entries) {
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
        let tls = match otlp.filter(|otlp| otlp.url.is_secure) {
            Some(otlp) => {
                Some(UpstreamTlsSettings::client(otlp.tls.as_ref(), otlp.url.span, reader)?)
            }
            None => {
                if let Some(tls) = otlp.and_then(|otlp| otlp.tls.as_ref()) {
                    reader.error(tls.span, "`tls` has no effect: url is not a URL of https");
                }
                None
            }
        };
        Some(TracePlan { settings: settings.clone(), tls })
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
        let own = [("service.name", &*self.settings.service)];
        let further = self.settings.attributes.iter().map(|(key, value)| (&**key, &**value));
        own.into_iter().chain(further)
    }
}
