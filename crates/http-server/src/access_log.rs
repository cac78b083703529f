//! The access log: one line per exchange, as JSON, in the combined format or in the operator's own.
//! The line of an upgrade is written when its tunnel ends.
//!
//! A line is formatted on the worker only after the sampling decision and handed to a ring; writing
//! is another thread's. Secrets are masked: the values of `MASKED_NAMES` and of what filters take
//! keys from never appear in a query, also that of Referer, and no request field but User-Agent and
//! Referer is logged unless the operator's format names it.

mod json_object;
mod line_format;
mod statsd_lines;
mod stream_entry;
mod tunnel_entry;

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use plugin::CredentialPlace;
use telemetry::LogRing;
use telemetry::timestamp::{common_log, now_ms};
use wire::grpc::Code;
use wire::target::query_pairs;
use wire::{IpText, Known};

use message::{ConnectionFacts, Fault, LineFormat, Request, RouteLog};

use json_object::JsonObject;
use line_format::{ExchangeEnd, request_bytes, without_request};
pub use statsd_lines::{StatsdLines, statsd_gauge};
pub use stream_entry::StreamEntry;
pub(crate) use tunnel_entry::TunnelEntry;

/// Names of query parameters, and words in those of fields, whose values are secrets more often
/// than not.
const MASKED_NAMES: [&str; 8] =
    ["access_token", "api_key", "apikey", "key", "password", "secret", "sig", "token"];

/// The members that lines in JSON may have: those of a route must have other names.
pub const JSON_MEMBERS: [&str; 45] = [
    "time",
    "client_ip",
    "country",
    "method",
    "host",
    "path",
    "query",
    "protocol",
    "tls_version",
    "tls_cipher",
    "tls_server_name",
    "tls_client_subject",
    "tls_client_name",
    "tls_client_fingerprint",
    "status",
    "grpc_status",
    "bytes",
    "duration_us",
    "request_bytes",
    "received_bytes",
    "sent_bytes",
    "received_messages",
    "sent_messages",
    "route",
    "request_id",
    "trace_id",
    "span_id",
    "consumer",
    "upstream",
    "attempts",
    "upstream_us",
    "ai_model",
    "ai_provider",
    "ai_input_tokens",
    "ai_output_tokens",
    "ai_tokens_from",
    "cache",
    "fault",
    "user_agent",
    "referer",
    "listener",
    "stream",
    "reason",
    "detail",
    "level",
];

/// One worker's end of the access log.
pub struct AccessLog {
    ring: Arc<LogRing>,
    format: LineFormat,
    /// Out of 2³² exchanges, how many are logged; failures (5xx) always are.
    share: u64,
    rng: RefCell<fastrand::Rng>,
    masks: Masks,
    statsd: Option<StatsdLines>,
    /// False if only metrics of requests are wanted.
    has_lines: bool,
}

impl AccessLog {
    /// `sample` is the share of exchanges that is logged, from 0 to 1; `secrets` are places to mask
    /// in addition to those of `MASKED_NAMES`.
    pub fn new(
        ring: Arc<LogRing>,
        format: LineFormat,
        sample: f64,
        secrets: impl IntoIterator<Item = CredentialPlace>,
    ) -> AccessLog {
        let share = share(sample);
        let rng = RefCell::new(fastrand::Rng::new());
        let masks = Masks::new(secrets);
        AccessLog { ring, format, share, rng, masks, statsd: None, has_lines: true }
    }

    /// Sends metrics of each exchange as well.
    pub fn with_statsd(self, statsd: StatsdLines) -> AccessLog {
        AccessLog { statsd: Some(statsd), ..self }
    }

    /// Writes no lines; only metrics are sent.
    pub fn without_lines(statsd: StatsdLines) -> AccessLog {
        let log = AccessLog::new(statsd.ring(), LineFormat::Combined, 0.0, []);
        AccessLog { statsd: Some(statsd), has_lines: false, ..log }
    }

    fn is_drawn(&self, status: u16, log: Option<&RouteLog>) -> bool {
        if !self.has_lines {
            return false;
        }
        let share = match log.and_then(|log| log.sample) {
            Some(sample) => share(sample),
            None => self.share,
        };
        if share >= 1 << 32 || status >= 500 {
            return true;
        }
        u64::from(self.rng.borrow_mut().u32(..)) < share
    }

    /// The format of a route's lines.
    fn format_on<'a>(&'a self, log: Option<&'a RouteLog>) -> &'a LineFormat {
        log.and_then(|log| log.format.as_ref()).unwrap_or(&self.format)
    }

    /// Logs an exchange.
    pub fn answered(&self, request: &Request, status: u16, body_bytes: u64, duration_us: u64) {
        if let Some(statsd) = &self.statsd {
            statsd.answered(status, duration_us);
        }
        // The status of a failed call is 200 in HTTP.
        let call = request.notes.grpc.as_ref().and_then(|call| call.status());
        let has_failed = call.is_some_and(Code::is_server_error);
        let log = route_log(request);
        if !self.is_drawn(if has_failed { 500 } else { status }, log) {
            return;
        }
        let end = ExchangeEnd { bytes: body_bytes, duration_us };
        let mut line = self.ring.buffer();
        match self.format_on(log) {
            LineFormat::Json => {
                let mut object = JsonObject::begin(&mut line);
                object.time();
                self.masks.json(&mut object, request, status, |object| {
                    object.number("bytes", body_bytes);
                    object.number("duration_us", duration_us);
                });
                self.masks.route_fields(&mut object, request, status, Some(end));
                object.end();
            }
            LineFormat::Combined => {
                let bytes = |line: &mut Vec<u8>| write_to(line, format_args!("{body_bytes}"));
                let time = |line: &mut Vec<u8>| common_log(now_ms(), line);
                self.masks.combined(&mut line, request, status, time, bytes);
            }
            LineFormat::Template(template) => {
                let end = |field, line: &mut Vec<u8>| end.write(field, line);
                self.masks.template(&mut line, template, request, status, end);
            }
        }
        self.ring.push(line);
    }

    /// The line of an exchange whose connection becomes a tunnel, if it is logged.
    pub(crate) fn tunnel(&self, request: &Request, status: u16) -> Option<Box<TunnelEntry>> {
        self.is_drawn(status, route_log(request))
            .then(|| Box::new(TunnelEntry::new(self, request, status)))
    }

    /// Logs the end of a stream.
    pub fn stream_ended(&self, entry: &StreamEntry<'_>) {
        let status = entry.status();
        if !self.is_drawn(status, None) {
            return;
        }
        let mut line = self.ring.buffer();
        match &self.format {
            LineFormat::Json => entry.json(&mut line),
            LineFormat::Combined => {
                write_to(&mut line, format_args!("{} - - [", entry.facts.peer_ip()));
                common_log(now_ms(), &mut line);
                let (stream, sent) = (&entry.facts.listener, entry.sent);
                write_to(
                    &mut line,
                    format_args!("] \"STREAM {stream}\" {status} {sent} \"-\" \"-\""),
                );
            }
            LineFormat::Template(template) => {
                let end = ExchangeEnd { bytes: entry.sent, duration_us: entry.duration_us };
                without_request(&mut line, template, entry.facts.peer_ip(), status, end);
            }
        }
        self.ring.push(line);
    }

    /// Logs a connection whose bytes were not a request, and the length of the response's body.
    pub fn refused(&self, facts: &ConnectionFacts, fault: &Fault, body_bytes: u64) {
        if !self.is_drawn(fault.status, None) {
            return;
        }
        let mut line = self.ring.buffer();
        match &self.format {
            LineFormat::Json => {
                let mut object = JsonObject::begin(&mut line);
                object.time();
                object.text("client_ip", facts.peer_ip().to_string().as_bytes());
                object.text("listener", facts.listener.as_bytes());
                object.number("status", u64::from(fault.status));
                object.number("bytes", body_bytes);
                object.text("fault", fault.slug().as_bytes());
                object.text("detail", fault.detail.as_bytes());
                object.end();
            }
            LineFormat::Combined => {
                write_to(&mut line, format_args!("{} - - [", facts.peer_ip()));
                common_log(now_ms(), &mut line);
                let status = fault.status;
                write_to(&mut line, format_args!("] \"-\" {status} {body_bytes} \"-\" \"-\""));
            }
            LineFormat::Template(template) => {
                let end = ExchangeEnd { bytes: body_bytes, duration_us: 0 };
                without_request(&mut line, template, facts.peer_ip(), fault.status, end);
            }
        }
        self.ring.push(line);
    }
}

/// Out of 2³² exchanges, how many are logged.
fn share(sample: f64) -> u64 {
    (sample.clamp(0.0, 1.0) * 4_294_967_296.0) as u64
}

/// How the requests of a request's route are logged.
fn route_log(request: &Request) -> Option<&RouteLog> {
    request.route.as_ref()?.log.as_deref()
}

fn write_to(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = line.write_fmt(text);
}

/// The places of requests that are masked in addition to those of `MASKED_NAMES`.
#[derive(Default)]
pub struct Masks {
    queries: Vec<String>,
    fields: Vec<String>,
}

impl Masks {
    pub fn new(secrets: impl IntoIterator<Item = CredentialPlace>) -> Masks {
        let mut masks = Masks::default();
        for place in secrets {
            match place {
                CredentialPlace::Query(name) => masks.queries.push(name),
                CredentialPlace::Header(name) => masks.fields.push(name),
                // The field is masked as a whole.
                CredentialPlace::Cookie(_) => {}
            }
        }
        masks
    }

    /// True if the value of a request field may be a secret.
    pub fn is_secret_field(&self, name: &[u8]) -> bool {
        let known = ["authorization", "proxy-authorization", "cookie"];
        let mut known = known.into_iter().chain(self.fields.iter().map(String::as_str));
        let mut words = name.split(|byte| !byte.is_ascii_alphanumeric());
        known.any(|known| wire::alias::same(known.as_bytes(), name))
            || words.any(|word| is_one_of(word, MASKED_NAMES))
    }

    /// The fields of an exchange after the time; `numbers` appends what its end tells.
    fn json(
        &self,
        object: &mut JsonObject<'_>,
        request: &Request,
        status: u16,
        numbers: impl FnOnce(&mut JsonObject<'_>),
    ) {
        object.text("client_ip", IpText::new(request.client_ip).as_bytes());
        if request.countries.is_some() {
            object.text("country", plugin::variables::country(request).as_bytes());
        }
        object.text("method", request.method.as_bytes());
        object.text("host", request.authority());
        object.text("path", request.target.received_path());
        if let Some(query) = request.target.query() {
            object.text("query", &self.masked(query));
        }
        object.text("protocol", request.version.as_str().as_bytes());
        object.tls(request);
        object.number("status", u64::from(status));
        if let Some(code) = request.notes.grpc.as_ref().and_then(|call| call.status()) {
            object.text("grpc_status", code.slug().as_bytes());
        }
        numbers(object);
        let received = request_bytes(request);
        if received > 0 {
            object.number("request_bytes", received);
        }
        if let Some(route) = &request.route {
            object.text("route", route.name.as_bytes());
        }
        if let Some(id) = &request.request_id {
            object.text("request_id", id.as_bytes());
        }
        if let Some(context) = request.traced() {
            object.text("trace_id", &context.trace_id_text());
            object.text("span_id", &context.span_id_text());
        }
        if let Some(consumer) = request.consumer_name() {
            object.text("consumer", consumer.as_bytes());
        }
        if let Some(upstream) = &request.notes.upstream {
            object.text("upstream", upstream.as_bytes());
            object.number("attempts", u64::from(request.notes.upstream_attempts));
            if let Some(us) = request.notes.upstream_us {
                object.number("upstream_us", u64::from(us));
            }
        }
        if let Some(call) = &request.notes.ai {
            object.ai_call(call);
        }
        if let Some(cache) = request.notes.cache {
            object.text("cache", cache.as_bytes());
        }
        if let Some(fault) = request.notes.fault {
            object.text("fault", fault.as_bytes());
        }
        if let Some(agent) = request.headers.get(Known::UserAgent) {
            object.text("user_agent", agent);
        }
        if let Some(referer) = request.headers.get(Known::Referer) {
            object.text("referer", &self.masked_url(referer));
        }
    }

    /// The combined format of Apache and nginx; `time` and `bytes` append what its end tells.
    fn combined(
        &self,
        line: &mut Vec<u8>,
        request: &Request,
        status: u16,
        time: impl FnOnce(&mut Vec<u8>),
        bytes: impl FnOnce(&mut Vec<u8>),
    ) {
        write_to(line, format_args!("{} - ", request.client_ip));
        // A name from a token may have any characters.
        escape_quoted(line, request.consumer_name().unwrap_or("-").as_bytes());
        line.extend_from_slice(b" [");
        time(line);
        line.extend_from_slice(b"] \"");
        escape_quoted(line, request.method.as_bytes());
        line.push(b' ');
        escape_quoted(line, request.target.received_path());
        if let Some(query) = request.target.query() {
            line.push(b'?');
            escape_quoted(line, &self.masked(query));
        }
        write_to(line, format_args!(" {}\" {status} ", request.version.as_str()));
        bytes(line);
        line.extend_from_slice(b" \"");
        escape_quoted(line, &self.masked_url(request.headers.get(Known::Referer).unwrap_or(b"-")));
        line.extend_from_slice(b"\" \"");
        escape_quoted(line, request.headers.get(Known::UserAgent).unwrap_or(b"-"));
        line.push(b'"');
    }

    /// A URL with the values of secret parameters of its query replaced by `***`.
    pub fn masked_url<'a>(&self, url: &'a [u8]) -> Cow<'a, [u8]> {
        match url.iter().position(|byte| *byte == b'?') {
            None => Cow::Borrowed(url),
            Some(at) => {
                let (before, query) = url.split_at(at + 1);
                Cow::Owned([before, &self.masked(query)].concat())
            }
        }
    }

    /// True if the query parameter of this decoded name is a secret.
    fn is_secret(&self, name: &[u8]) -> bool {
        is_one_of(name, MASKED_NAMES.into_iter().chain(self.queries.iter().map(String::as_str)))
    }

    /// A query with the values of secret parameters replaced by `***`.
    pub(crate) fn masked(&self, query: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(query.len());
        for (index, pair) in query.split(|byte| *byte == b'&').enumerate() {
            if index > 0 {
                out.push(b'&');
            }
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            // Applications read `to%6Ben` as `token`.
            let read = query_pairs(name).next().unwrap_or_default().0;
            if name.len() < pair.len() && self.is_secret(&read) {
                out.extend_from_slice(name);
                out.extend_from_slice(b"=***");
            } else {
                out.extend_from_slice(pair);
            }
        }
        out
    }
}

fn is_one_of<'n>(name: &[u8], known: impl IntoIterator<Item = &'n str>) -> bool {
    known.into_iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn escape_quoted(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7E => out.push(*byte),
            _ => write_to(out, format_args!("\\x{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests;
