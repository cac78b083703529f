//! The line of a request whose connection became a tunnel.

use std::sync::Arc;

use message::{LineFormat, Request, TunnelTraffic};
use settings::LogField;
use telemetry::LogRing;
use telemetry::timestamp::{common_log, now_ms};

use super::{AccessLog, ExchangeEnd, JsonObject, route_log, write_to};

/// A line that is written when the tunnel ends, which drops the entry. It holds text instead of the
/// request, so that a tunnel keeps neither its route nor its plan alive.
pub(crate) struct TunnelEntry {
    ring: Arc<LogRing>,
    format: LineFormat,
    /// The line without what its end tells.
    text: Vec<u8>,
    /// Where in the text the time belongs, and where the numbers.
    time_at: usize,
    numbers_at: usize,
    /// Where in the text of a template its fields belong.
    fields: Vec<(usize, LogField)>,
    began_us: u64,
    traffic: TunnelTraffic,
}

impl TunnelEntry {
    pub(super) fn new(log: &AccessLog, request: &Request, status: u16) -> TunnelEntry {
        let (mut text, mut time_at, mut numbers_at) = (Vec::new(), 0, 0);
        let mut fields = Vec::new();
        let format = log.format_on(route_log(request));
        match format {
            LineFormat::Json => {
                // It follows the time.
                let mut object = JsonObject { line: &mut text, empty: false };
                log.masks.json(&mut object, request, status, |so_far| {
                    numbers_at = so_far.line.len();
                });
                log.masks.route_fields(&mut object, request, status, None);
            }
            LineFormat::Combined => log.masks.combined(
                &mut text,
                request,
                status,
                |so_far| time_at = so_far.len(),
                |so_far| numbers_at = so_far.len(),
            ),
            LineFormat::Template(template) => {
                let at_end = |field, so_far: &mut Vec<u8>| fields.push((so_far.len(), field));
                log.masks.template(&mut text, template, request, status, at_end);
            }
        }
        TunnelEntry {
            ring: log.ring.clone(),
            format: format.clone(),
            text,
            time_at,
            numbers_at,
            fields,
            began_us: request.began_us,
            traffic: TunnelTraffic::default(),
        }
    }

    /// The counters that are logged.
    pub(crate) fn traffic(&self) -> &TunnelTraffic {
        &self.traffic
    }

    fn end(&self) -> ExchangeEnd {
        ExchangeEnd {
            bytes: self.traffic.sent.bytes.get(),
            duration_us: net::clock::precise_us().saturating_sub(self.began_us),
        }
    }

    fn numbers(&self, object: &mut JsonObject<'_>) {
        let TunnelTraffic { received, sent } = &self.traffic;
        let end = self.end();
        object.number("bytes", end.bytes);
        object.number("duration_us", end.duration_us);
        object.number("received_bytes", received.bytes.get());
        object.number("sent_bytes", sent.bytes.get());
        if let (Some(received), Some(sent)) = (received.messages.get(), sent.messages.get()) {
            object.number("received_messages", received);
            object.number("sent_messages", sent);
        }
    }
}

impl Drop for TunnelEntry {
    fn drop(&mut self) {
        let mut line = self.ring.buffer();
        let (before, after) = self.text.split_at(self.numbers_at);
        let (client, request) = before.split_at(self.time_at);
        match &self.format {
            LineFormat::Json => {
                let mut object = JsonObject::begin(&mut line);
                object.time();
                object.line.extend_from_slice(request);
                self.numbers(&mut object);
                object.line.extend_from_slice(after);
                object.end();
            }
            LineFormat::Combined => {
                line.extend_from_slice(client);
                common_log(now_ms(), &mut line);
                line.extend_from_slice(request);
                write_to(&mut line, format_args!("{}", self.traffic.sent.bytes.get()));
                line.extend_from_slice(after);
            }
            LineFormat::Template(_) => {
                let (end, mut written) = (self.end(), 0);
                for (at, field) in &self.fields {
                    line.extend_from_slice(&self.text[written..*at]);
                    end.write(*field, &mut line);
                    written = *at;
                }
                line.extend_from_slice(&self.text[written..]);
            }
        }
        self.ring.push(line);
    }
}
