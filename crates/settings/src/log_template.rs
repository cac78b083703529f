//! Formats of access log lines: text with the variables of requests, `{client_ip}`, and the names
//! that only a log has, `{status}`. Parsed here, filled in by `http-server`.
//!
//! Promises: braces, unknown names and the number of parts are those of [`Template`]; fields that
//! carry credentials are rejected.

use std::fmt;
use std::str::FromStr;

use crate::nearest::nearest;
use crate::template::{TEMPLATE_PARTS, TemplateError};
use crate::{Node, Part, Reader, Schema, SchemaBuilder, Setting, Template, Variable};

/// What only the log of an exchange has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogField {
    /// The end of the exchange: `31/Jan/2026:10:21:00 +0000`.
    Time,
    /// The path and the query as they were received; secrets in the query are masked.
    Target,
    /// The query, its secrets masked.
    RawQuery,
    Protocol,
    Status,
    /// The length of the response's body.
    Bytes,
    /// The time from the request's head to the end of the response, in a unit.
    DurationUs,
    DurationMs,
    DurationS,
    /// The same in seconds, with six decimals.
    Duration,
    /// The length of the request's body, as far as it was read.
    RequestBytes,
    /// The server that the upstream chose.
    Upstream,
    /// The time that its attempts took, in a unit.
    UpstreamUs,
    UpstreamMs,
    /// The number of attempts.
    Attempts,
    /// What a cache did with the request.
    Cache,
    /// What failed.
    Fault,
    /// The identity of the request's trace.
    TraceId,
    /// The span of the request.
    SpanId,
    /// The process id of the server.
    Process,
}

const FIELDS: &[(&str, LogField)] = &[
    ("time", LogField::Time),
    ("target", LogField::Target),
    ("query", LogField::RawQuery),
    ("protocol", LogField::Protocol),
    ("status", LogField::Status),
    ("bytes", LogField::Bytes),
    ("duration_us", LogField::DurationUs),
    ("duration_ms", LogField::DurationMs),
    ("duration_s", LogField::DurationS),
    ("duration", LogField::Duration),
    ("request_bytes", LogField::RequestBytes),
    ("upstream", LogField::Upstream),
    ("upstream_us", LogField::UpstreamUs),
    ("upstream_ms", LogField::UpstreamMs),
    ("attempts", LogField::Attempts),
    ("cache", LogField::Cache),
    ("fault", LogField::Fault),
    ("trace_id", LogField::TraceId),
    ("span_id", LogField::SpanId),
    ("process", LogField::Process),
];

/// Request fields that are credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

impl LogField {
    fn named(name: &str) -> Option<LogField> {
        FIELDS.iter().find(|(word, _)| *word == name).map(|(_, field)| *field)
    }

    /// True if it is known only at the end of the exchange.
    pub fn is_of_end(self) -> bool {
        use LogField::{Bytes, Duration, DurationMs, DurationS, DurationUs, Time};
        matches!(self, Time | Bytes | DurationUs | DurationMs | DurationS | Duration)
    }

    fn name(self) -> &'static str {
        FIELDS.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }
}

/// A piece of a [`LogTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart {
    Text(String),
    Variable(Variable),
    Field(LogField),
}

/// The format of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    pub parts: Vec<LogPart>,
}

impl LogTemplate {
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            LogPart::Variable(variable) => Some(variable),
            LogPart::Text(_) | LogPart::Field(_) => None,
        })
    }
}

impl FromStr for LogTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let (mut rest, mut scanned) = (text, 0);
        while let Some(at) = rest[scanned..].find('{').map(|at| scanned + at) {
            let after = &rest[at + 1..];
            if after.starts_with('{') {
                scanned = at + 2;
                continue;
            }
            let name = after.split('}').next().unwrap_or(after);
            let Some(field) = LogField::named(name) else {
                scanned = at + 1;
                continue;
            };
            add(&mut parts, &rest[..at])?;
            parts.push(LogPart::Field(field));
            (rest, scanned) = (after.get(name.len() + 1..).unwrap_or_default(), 0);
            if after.len() == name.len() {
                return Err(TemplateError::Syntax("has a { without its }".to_owned()));
            }
        }
        add(&mut parts, rest)?;
        if parts.len() > TEMPLATE_PARTS {
            return Err(TemplateError::Syntax(format!("has more than {TEMPLATE_PARTS} parts")));
        }
        for part in &parts {
            if let LogPart::Variable(Variable::Header(name)) = part
                && CREDENTIALS.contains(&name.as_str())
            {
                let message = format!("{{header.{name}}} is a credential and is not logged");
                return Err(TemplateError::Variable(message));
            }
        }
        if !parts.iter().any(|part| !matches!(part, LogPart::Text(_))) {
            let message = "has no variable such as {status}: every line would be the same";
            return Err(TemplateError::Syntax(message.to_owned()));
        }
        Ok(LogTemplate { parts })
    }
}

/// Adds text without fields of the log.
fn add(parts: &mut Vec<LogPart>, text: &str) -> Result<(), TemplateError> {
    let template: Template = text.parse().map_err(|error| match error {
        TemplateError::Variable(message) => TemplateError::Variable(with_fields(text, message)),
        syntax => syntax,
    })?;
    parts.extend(template.parts.into_iter().map(|part| match part {
        Part::Text(text) => LogPart::Text(text),
        Part::Var(variable) => LogPart::Variable(variable),
    }));
    Ok(())
}

/// Suggests a field of the log for a name that is nearer to it than to any variable.
fn with_fields(text: &str, message: String) -> String {
    if message.contains("did you mean") {
        return message;
    }
    let name = text.rsplit_once('{').map_or(text, |(_, name)| name).trim_end_matches('}');
    match nearest(name, FIELDS.iter().map(|(word, _)| *word)) {
        Some(near) => format!("{message}, did you mean \"{near}\"?"),
        None => message,
    }
}

impl fmt::Display for LogTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                LogPart::Text(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                LogPart::Variable(variable) => write!(f, "{{{variable}}}")?,
                LogPart::Field(field) => write!(f, "{{{}}}", field.name())?,
            }
        }
        Ok(())
    }
}

impl Setting for LogTemplate {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("text with variables")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = reader.scalar(node, "text with variables such as {status}")?;
        match scalar.text.parse::<LogTemplate>() {
            Ok(template) => {
                // `{path.NAME}` is not checked: a format is for all routes.
                if template.parts.contains(&LogPart::Variable(Variable::Country)) {
                    reader.uses_country(node.span);
                }
                Some(template)
            }
            Err(error) => {
                error.report(node, reader);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, LogField, LogPart, LogTemplate};
    use crate::{Reader, Report, Setting, node};

    #[test]
    fn a_format_reads_back_as_the_same() {
        let every: String = FIELDS.iter().map(|(name, _)| format!("{{{name}}} ")).collect();
        for text in [
            "{client_ip} - {consumer} [{time}] \"{method} {target} {protocol}\" {status} {bytes}",
            "{{status}} {status}{{{duration_us}}} {header.referer}",
            &every,
        ] {
            let template: LogTemplate = text.parse().unwrap();
            assert_eq!(template.to_string(), text);
            assert_eq!(template.to_string().parse::<LogTemplate>().unwrap(), template);
        }
        let template: LogTemplate = "{{status}} {status}".parse().unwrap();
        let text = LogPart::Text("{status} ".to_owned());
        assert_eq!(template.parts, [text, LogPart::Field(LogField::Status)]);
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (text, said) in [
            ("{statu}", "did you mean \"status\"?"),
            ("{client}", "unknown variable \"client\""),
            ("{status", "without its }"),
            ("a } {status}", "a } without its {"),
            ("combned", "has no variable"),
            ("", "has no variable"),
            ("{header.Cookie} {status}", "is a credential"),
        ] {
            let why = text.parse::<LogTemplate>().unwrap_err().to_string();
            assert!(why.contains(said), "{text}: {why}");
        }
        let long = "{status} ".repeat(200);
        assert!(long.parse::<LogTemplate>().unwrap_err().to_string().contains("256 parts"));
    }

    #[test]
    fn the_reader_learns_that_the_country_is_wanted() {
        let mut report = Report::new();
        let mut reader = Reader::new(&mut report);
        LogTemplate::read(&node!("{client_ip} {status}"), &mut reader);
        assert!(reader.country_uses().is_empty());
        LogTemplate::read(&node!("{country} {status}"), &mut reader);
        assert_eq!(reader.country_uses().len(), 1);
    }
}
