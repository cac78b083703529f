//! `log`: what the operator reads, and the access log.

use std::path::PathBuf;
use std::sync::Arc;

use message::LineFormat;
use otlp::ExportSettings;
use settings::{
    Address, FilePath, LogTemplate, Node, Reader, Schema, SchemaBuilder, Setting, Spanned,
};

/// The event log on stderr, and the access log.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct LogSettings {
    /// The least important events that are written.
    #[setting(default = "info")]
    pub level: LevelWord,
    /// How events are written.
    #[setting(default = "text")]
    pub format: LogFormatWord,
    /// One line for each request; none without it.
    pub access: Option<AccessSettings>,
    /// Counters and durations of requests for a StatsD server; none are sent without it.
    pub statsd: Option<StatsdSettings>,
    /// A syslog server that gets the lines of both logs as well (RFC 5424).
    pub syslog: Option<SyslogSettings>,
    /// A collector that gets the lines of both logs as well, by OTLP. With JSON their members
    /// become attributes.
    pub otlp: Option<Spanned<ExportSettings>>,
}

/// A syslog server. Lines that it does not take in time are dropped and counted.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = address)]
pub struct SyslogSettings {
    /// The address of the server: `HOST:PORT`, or the Unix socket `unix:/path`.
    #[setting(example = "127.0.0.1:514")]
    pub address: Address,
    /// How messages are sent to `HOST:PORT`.
    #[setting(default = "udp")]
    pub transport: SyslogTransport,
    /// The facility of the messages.
    #[setting(default = "local0")]
    pub facility: SyslogFacility,
    /// The name of the application in the messages.
    #[setting(default = "tidegate")]
    pub name: String,
    /// Sends events.
    #[setting(default = true)]
    pub events: bool,
    /// Sends the lines of the access log, if there is one.
    #[setting(default = true)]
    pub access: bool,
}

/// How messages of syslog are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum SyslogTransport {
    /// A datagram for each message.
    Udp,
    /// A connection, each message after its length (RFC 6587).
    Tcp,
}

/// A facility of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum SyslogFacility {
    /// Programs of users.
    User,
    /// Servers without a facility of their own.
    Daemon,
    /// Free for local use, as the others are.
    Local0,
    /// Free for local use.
    Local1,
    /// Free for local use.
    Local2,
    /// Free for local use.
    Local3,
    /// Free for local use.
    Local4,
    /// Free for local use.
    Local5,
    /// Free for local use.
    Local6,
    /// Free for local use.
    Local7,
}

impl SyslogFacility {
    /// Its number (RFC 5424 6.2.1).
    pub fn number(self) -> u8 {
        match self {
            SyslogFacility::User => 1,
            SyslogFacility::Daemon => 3,
            local => 16 + (local as u8 - SyslogFacility::Local0 as u8),
        }
    }
}

/// Metrics of each request for a StatsD server, with the names that gunicorn gives them:
/// `gunicorn.requests`, `gunicorn.request.duration`, `gunicorn.request.status.200`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = host)]
pub struct StatsdSettings {
    /// The address of the server: UDP, or the Unix socket `unix:/path`.
    #[setting(example = "127.0.0.1:8125")]
    pub host: Address,
    /// What all names begin with.
    #[setting(default = "", example = "shop")]
    pub prefix: String,
    /// Tags of each metric, separated by commas, for servers that understand those of DogStatsD.
    #[setting(default = "", example = "env:prod,region:eu")]
    pub tags: String,
}

/// How important an event is.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum LevelWord {
    /// Something failed.
    Error,
    /// Something may fail soon.
    Warn,
    /// Rare events.
    Info,
    /// Frequent events.
    Debug,
}

/// How events are written.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum LogFormatWord {
    /// `2026-01-31T10:21:00.123Z INFO listening name=web`.
    Text,
    /// One JSON object for each.
    Json,
}

/// The access log: one line for each request, written by another thread. Secrets are masked.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AccessSettings {
    /// `json`, `combined` as Apache and nginx write it, or a line with variables in it: those of
    /// requests, `{client_ip}`, and `{time}`, `{target}`, `{query}`, `{protocol}`, `{status}`,
    /// `{bytes}`, `{request_bytes}`, `{duration}`, `{duration_s}`, `{duration_ms}`,
    /// `{duration_us}`, `{upstream}`, `{upstream_ms}`, `{upstream_us}`, `{attempts}`, `{cache}`,
    /// `{fault}`, `{trace_id}`, `{span_id}`, `{process}`. An empty value is written as `-`.
    #[setting(default = "json", example = "{client_ip} {method} {target} {status} {duration_ms}")]
    pub format: AccessFormatSetting,
    /// `stdout`, `stderr`, or a file that is appended to (and reopened on SIGHUP).
    #[setting(default = "stdout", example = "access.log")]
    pub path: LogTarget,
    /// The share of requests that is written, 0 to 1; failures (5xx) always are.
    #[setting(default = 1.0, range = 0..=1, example = 0.1)]
    pub sample: f64,
}

/// How a line of the access log is written.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessFormatSetting {
    Json,
    Combined,
    Template(Arc<LogTemplate>),
}

impl AccessFormatSetting {
    /// The format as the log has it.
    pub fn line_format(&self) -> LineFormat {
        match self {
            AccessFormatSetting::Json => LineFormat::Json,
            AccessFormatSetting::Combined => LineFormat::Combined,
            AccessFormatSetting::Template(template) => LineFormat::Template(template.clone()),
        }
    }
}

impl Setting for AccessFormatSetting {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("json, combined or text with variables")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.text() {
            Some("json") => Some(AccessFormatSetting::Json),
            Some("combined") => Some(AccessFormatSetting::Combined),
            _ => {
                let template = LogTemplate::read(node, reader)?;
                Some(AccessFormatSetting::Template(Arc::new(template)))
            }
        }
    }
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    Stdout,
    Stderr,
    File(PathBuf),
}

impl Setting for LogTarget {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("stdout, stderr or path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.text() {
            Some("stdout") => Some(LogTarget::Stdout),
            Some("stderr") => Some(LogTarget::Stderr),
            _ => Some(LogTarget::File(FilePath::read(node, reader)?.to_path_buf())),
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::{AccessFormatSetting, AccessSettings, LogSettings, LogTarget, SyslogFacility};

    #[test]
    fn a_format_is_a_word_or_has_variables() {
        let read = |format: &str| read::<AccessSettings>(&node!({ "format": format }));
        assert_eq!(read("combined").unwrap().format, AccessFormatSetting::Combined);
        let template = "{client_ip} {status}".parse().map(std::sync::Arc::new).unwrap();
        let written = read("{client_ip} {status}").unwrap().format;
        assert_eq!(written, AccessFormatSetting::Template(template));
        assert!(read("combned").unwrap_err().contains("has no variable"));
        assert!(read("{stauts}").unwrap_err().contains("did you mean \"status\"?"));
    }

    #[test]
    fn facilities_have_their_numbers() {
        let numbers = [SyslogFacility::User, SyslogFacility::Local0, SyslogFacility::Local7];
        assert_eq!(numbers.map(SyslogFacility::number), [1, 16, 23]);
        let log: LogSettings = read(&node!({ "syslog": "127.0.0.1:514" })).unwrap();
        assert_eq!(log.syslog.unwrap().facility, SyslogFacility::Local0);
    }

    #[test]
    fn there_is_no_access_log_unless_requested() {
        assert_eq!(LogSettings::default().access, None);
        let log: LogSettings = read(&node!({ "access": { "path": "a.log" } })).unwrap();
        assert_eq!(log.access.unwrap().path, LogTarget::File("a.log".into()));
        assert!(read::<AccessSettings>(&node!({ "sample": 1.5 })).is_err());
    }
}
