//! `log`: what the operator reads, and the access log.

use std::path::PathBuf;
use std::sync::Arc;

use settings::{Address, FilePath, LogTemplate, Node, Reader, Schema, SchemaBuilder, Setting};

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
    /// `{bytes}`, `{duration}`, `{duration_s}`, `{duration_ms}`, `{duration_us}`, `{process}`. An
    /// empty value is written as `-`.
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

    use super::{AccessFormatSetting, AccessSettings, LogSettings, LogTarget};

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
    fn there_is_no_access_log_unless_requested() {
        assert_eq!(LogSettings::default().access, None);
        let log: LogSettings = read(&node!({ "access": { "path": "a.log" } })).unwrap();
        assert_eq!(log.access.unwrap().path, LogTarget::File("a.log".into()));
        assert!(read::<AccessSettings>(&node!({ "sample": 1.5 })).is_err());
    }
}
