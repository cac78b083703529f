//! Lines of a format that the operator has written (`settings::LogTemplate`).
//!
//! A value is escaped so that it cannot end its quotes or its line; an empty one is `-`.

use std::net::IpAddr;

use message::Request;
use plugin::variables;
use settings::{LogField, LogPart, LogTemplate, Variable};
use telemetry::timestamp::{common_log, now_ms};

use super::{Masks, escape_quoted, write_to};

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
            LogField::Target
            | LogField::RawQuery
            | LogField::Protocol
            | LogField::Status
            | LogField::Process => {}
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
                LogPart::Variable(variable) => self.variable(line, variable, request),
                LogPart::Field(LogField::Target) => {
                    escape_quoted(line, request.target.received_path());
                    if let Some(query) = request.target.query() {
                        line.push(b'?');
                        escape_quoted(line, &self.masked(query));
                    }
                }
                LogPart::Field(LogField::RawQuery) => {
                    escape_quoted(line, &self.masked(request.target.query().unwrap_or_default()));
                }
                LogPart::Field(LogField::Protocol) => {
                    line.extend_from_slice(request.version.as_str().as_bytes());
                }
                LogPart::Field(field) => {
                    fixed(line, *field, status);
                    end(*field, line);
                    continue;
                }
            }
            if line.len() == begin {
                line.push(b'-');
            }
        }
    }

    fn variable(&self, line: &mut Vec<u8>, variable: &Variable, request: &Request) {
        let value = variables::value(variable, request);
        match variable {
            Variable::Query(name) if !value.is_empty() && self.is_secret(name.as_bytes()) => {
                line.extend_from_slice(b"***");
            }
            Variable::Header(name) if name == "referer" => {
                escape_quoted(line, &self.masked_url(&value));
            }
            _ => escape_quoted(line, &value),
        }
    }
}

/// Appends a field that does not depend on the request.
fn fixed(line: &mut Vec<u8>, field: LogField, status: u16) {
    match field {
        LogField::Status => write_to(line, format_args!("{status}")),
        LogField::Process => write_to(line, format_args!("{}", std::process::id())),
        _ => {}
    }
}

/// Appends a line of a connection or stream that is no request.
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
    use super::*;

    fn line(format: &str) -> String {
        let target = bytes::Bytes::from_static(b"/a%20b?x=1&token=abc");
        let mut headers = message::Headers::new();
        headers.append("referer", "http://a/?key=1");
        headers.append("x-quote", "a\"b\n");
        let target = message::Target::new(target).unwrap();
        let mut request = Request::made_up(wire::Method::Get, target, headers);
        request.client_ip = "2001:db8::1".parse().unwrap();
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
    fn a_connection_without_a_request_has_its_address() {
        let template = "{client_ip} \"{method}\" {status} {bytes} {duration_us}".parse().unwrap();
        let mut line = Vec::new();
        let end = ExchangeEnd { bytes: 0, duration_us: 7 };
        without_request(&mut line, &template, "10.0.0.1".parse().unwrap(), 400, end);
        assert_eq!(line, b"10.0.0.1 \"-\" 400 0 7");
    }
}
