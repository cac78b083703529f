//! Lines of a format that the operator has written (`settings::LogTemplate`).
//!
//! A value is escaped so that it cannot end its quotes or its line; an empty one is `-`.

use std::net::IpAddr;

use message::Request;
use plugin::variables;
use settings::{LogField, LogPart, LogTemplate, Variable};
use telemetry::timestamp::{common_log, now_ms};

use super::{JsonObject, Masks, escape_quoted, write_to};

/// What the end of an exchange tells.
#[derive(Clone, Copy)]
pub(super) struct ExchangeEnd {
    pub(super) bytes: u64,
    pub(super) duration_us: u64,
}

impl ExchangeEnd {
    /// Appends a field that is known only at the end.
    pub(super) fn write(self, field: LogField, line: &mut Vec<u8>) {
        let us = self.duration_us;
        match field {
            LogField::Time => common_log(now_ms(), line),
            LogField::Bytes => write_to(line, format_args!("{}", self.bytes)),
            LogField::DurationUs => write_to(line, format_args!("{us}")),
            LogField::DurationMs => write_to(line, format_args!("{}", us / 1_000)),
            LogField::DurationS => write_to(line, format_args!("{}", us / 1_000_000)),
            LogField::Duration => {
                write_to(line, format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000));
            }
            // Known before, and written then.
            _ => {}
        }
    }
}

impl Masks {
    /// Appends a line; `end` appends the fields that are known only at the end of the exchange.
    pub(super) fn template(
        &self,
        line: &mut Vec<u8>,
        template: &LogTemplate,
        request: &Request,
        status: u16,
        mut end: impl FnMut(LogField, &mut Vec<u8>),
    ) {
        for part in &template.parts {
            let begin = line.len();
            match part {
                LogPart::Text(text) => line.extend_from_slice(text.as_bytes()),
                LogPart::Variable(variable) => {
                    self.variable(line, variable, request, escape_quoted);
                }
                LogPart::Field(field) if field.is_of_end() => {
                    end(*field, line);
                    continue;
                }
                LogPart::Field(field) => {
                    fixed(line, *field, status);
                    self.field(line, *field, request, escape_quoted);
                }
            }
            if line.len() == begin {
                line.push(b'-');
            }
        }
    }

    fn variable(&self, line: &mut Vec<u8>, variable: &Variable, request: &Request, escape: Escape) {
        let value = variables::value(variable, request);
        match variable {
            Variable::Query(name) if !value.is_empty() && self.is_secret(name.as_bytes()) => {
                line.extend_from_slice(b"***");
            }
            Variable::Header(name) if name == "referer" => {
                escape(line, &self.masked_url(&value));
            }
            _ => escape(line, &value),
        }
    }

    /// Appends a field that depends on the request.
    fn field(&self, line: &mut Vec<u8>, field: LogField, request: &Request, escape: Escape) {
        let notes = &request.notes;
        match field {
            LogField::Target => {
                escape(line, request.target.received_path());
                if let Some(query) = request.target.query() {
                    line.push(b'?');
                    escape(line, &self.masked(query));
                }
            }
            LogField::RawQuery => {
                escape(line, &self.masked(request.target.query().unwrap_or_default()));
            }
            LogField::Protocol => line.extend_from_slice(request.version.as_str().as_bytes()),
            LogField::RequestBytes => write_to(line, format_args!("{}", request_bytes(request))),
            LogField::Upstream => {
                escape(line, notes.upstream.as_deref().unwrap_or_default().as_bytes());
            }
            LogField::UpstreamUs | LogField::UpstreamMs => {
                if let Some(us) = notes.upstream_us {
                    let divisor = if field == LogField::UpstreamMs { 1_000 } else { 1 };
                    write_to(line, format_args!("{}", us / divisor));
                }
            }
            LogField::Attempts if notes.upstream_attempts > 0 => {
                write_to(line, format_args!("{}", notes.upstream_attempts));
            }
            LogField::Cache => line.extend_from_slice(notes.cache.unwrap_or_default().as_bytes()),
            LogField::Fault => line.extend_from_slice(notes.fault.unwrap_or_default().as_bytes()),
            LogField::TraceId | LogField::SpanId => {
                if let Some(context) = request.traced() {
                    match field {
                        LogField::TraceId => line.extend_from_slice(&context.trace_id_text()),
                        _ => line.extend_from_slice(&context.span_id_text()),
                    }
                }
            }
            _ => {}
        }
    }

    /// Appends the further members of a route's lines. Those without a value are left out.
    pub(super) fn route_fields(
        &self,
        object: &mut JsonObject<'_>,
        request: &Request,
        status: u16,
        end: Option<ExchangeEnd>,
    ) {
        let log = super::route_log(request);
        let mut value = Vec::new();
        for (name, template) in log.iter().flat_map(|log| &log.fields) {
            value.clear();
            for part in &template.parts {
                match part {
                    LogPart::Text(text) => value.extend_from_slice(text.as_bytes()),
                    LogPart::Variable(variable) => {
                        self.variable(&mut value, variable, request, Vec::extend_from_slice);
                    }
                    LogPart::Field(field) => {
                        fixed(&mut value, *field, status);
                        self.field(&mut value, *field, request, Vec::extend_from_slice);
                        if let Some(end) = end {
                            end.write(*field, &mut value);
                        }
                    }
                }
            }
            if !value.is_empty() {
                object.operators_text(name, &value);
            }
        }
    }
}

/// Appends a value to a line.
type Escape = fn(&mut Vec<u8>, &[u8]);

/// The bytes of the request's body that were read.
pub(super) fn request_bytes(request: &Request) -> u64 {
    request.informer.as_ref().map_or(0, |informer| informer.body_bytes())
}

/// Appends a field that does not depend on the request.
fn fixed(line: &mut Vec<u8>, field: LogField, status: u16) {
    match field {
        LogField::Status => write_to(line, format_args!("{status}")),
        LogField::Process => write_to(line, format_args!("{}", std::process::id())),
        _ => {}
    }
}

/// Appends a line of a connection or stream that is not a request.
pub(super) fn without_request(
    line: &mut Vec<u8>,
    template: &LogTemplate,
    client: IpAddr,
    status: u16,
    end: ExchangeEnd,
) {
    for part in &template.parts {
        let begin = line.len();
        match part {
            LogPart::Text(text) => line.extend_from_slice(text.as_bytes()),
            LogPart::Variable(Variable::ClientIp) => write_to(line, format_args!("{client}")),
            LogPart::Variable(_) => {}
            LogPart::Field(field) => {
                fixed(line, *field, status);
                end.write(*field, line);
            }
        }
        if line.len() == begin {
            line.push(b'-');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use super::*;

    fn request() -> Request {
        let target = bytes::Bytes::from_static(b"/a%20b?x=1&token=abc");
        let mut headers = message::Headers::new();
        headers.append("referer", "http://a/?key=1");
        headers.append("x-quote", "a\"b\n");
        let target = message::Target::new(target).unwrap();
        let mut request = Request::made_up(wire::Method::Get, target, headers);
        request.client_ip = "2001:db8::1".parse().unwrap();
        request
    }

    fn line(format: &str) -> String {
        let mut request = request();
        request.notes.upstream = Some("10.0.0.1:80".into());
        request.notes.upstream_us = Some(4_500);
        let mut line = Vec::new();
        let end = ExchangeEnd { bytes: 12, duration_us: 1_234_567 };
        Masks::default().template(
            &mut line,
            &format.parse().unwrap(),
            &request,
            200,
            |field, line| end.write(field, line),
        );
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn every_field_has_its_text() {
        for (format, wanted) in [
            ("{client_ip} {consumer} {status} {bytes}", "2001:db8::1 - 200 12"),
            ("{method} {target} {protocol}", "GET /a%20b?x=1&token=*** HTTP/1.1"),
            ("{path}|{query}|{query.x}|{query.token}", "/a b|x=1&token=***|1|***"),
            ("{duration}|{duration_s}|{duration_ms}", "1.234567|1|1234"),
            ("{duration_us}", "1234567"),
            ("{upstream} {upstream_us} {upstream_ms}", "10.0.0.1:80 4500 4"),
            ("{request_bytes} {attempts} {cache} {fault} {trace_id}", "0 - - - -"),
            ("{header.referer} {header.x-none}", "http://a/?key=*** -"),
        ] {
            assert_eq!(line(format), wanted, "{format}");
        }
        assert_eq!(line("{process}"), std::process::id().to_string());
        assert!(line("[{time}]").ends_with(" +0000]"), "{}", line("[{time}]"));
    }

    #[test]
    fn a_value_cannot_end_its_quotes_or_its_line() {
        let quoted = line("\"{header.x-quote}\" {status}");
        assert!(quoted.starts_with("\"a\\\"b") && !quoted.contains('\n'), "{quoted}");
    }

    #[test]
    fn a_route_has_members_of_its_own() {
        let field = |name: &str, text: &str| (name.to_owned(), Arc::new(text.parse().unwrap()));
        let log = message::RouteLog {
            fields: vec![
                field("quo\"te", "{header.x-quote}"),
                field("none", "{header.x-none}"),
                field("end", "{query.token} {status} {duration_ms}"),
            ],
            ..message::RouteLog::default()
        };
        let mut request = request();
        let info = message::RouteInfo { log: Some(Arc::new(log)), ..Default::default() };
        request.route = Some(Rc::new(info));
        let mut line = Vec::new();
        let mut object = JsonObject::begin(&mut line);
        let end = ExchangeEnd { bytes: 12, duration_us: 1_234_567 };
        Masks::default().route_fields(&mut object, &request, 200, Some(end));
        object.end();
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text, r#"{"quo\"te":"a\"b ","end":"*** 200 1234"}"#);
    }

    #[test]
    fn a_connection_without_a_request_has_its_address() {
        let template = "{client_ip} \"{method}\" {status} {bytes} {duration_us}".parse().unwrap();
        let mut line = Vec::new();
        let end = ExchangeEnd { bytes: 0, duration_us: 7 };
        without_request(&mut line, &template, "10.0.0.1".parse().unwrap(), 400, end);
        assert_eq!(line, b"10.0.0.1 \"-\" 400 0 7");
    }
}
