//! `log`: what the operator reads, and the access log.

use std::path::PathBuf;

use settings::{FilePath, Node, Reader, Schema, SchemaBuilder, Setting};

settings::record! {
    /// What the server says about itself on stderr, and the access log.
    pub struct LogSettings {
        /// The least important events that are written.
        pub level: LevelWord = "info",
        /// How events are written.
        pub format: LogFormatWord = "text",
        /// One line for each request; none without it.
        pub access: Option<AccessSettings> = null,
    }
}

settings::choice! {
    /// How important an event is.
    pub enum LevelWord {
        /// Something failed.
        Error = "error",
        /// Something will fail.
        Warn = "warn",
        /// What happens seldom.
        Info = "info",
        /// What happens all the time.
        Debug = "debug",
    }
}

settings::choice! {
    /// How events are written.
    pub enum LogFormatWord {
        /// `2026-01-31T10:21:00.123Z INFO listening name=web`.
        Text = "text",
        /// One JSON object for each.
        Json = "json",
    }
}

settings::record! {
    /// The access log: one line for each request, written off the request's way. Secrets are
    /// masked.
    pub struct AccessSettings {
        /// How a line is written.
        pub format: AccessFormatWord = "json",
        /// `stdout`, `stderr`, or a file that is appended to (and reopened on SIGHUP).
        pub path: LogTarget = "stdout" { example "access.log" },
        /// The share of requests that is written, 0 to 1; failures (5xx) always are.
        pub sample: f64 = 1.0 { in 0..=1, example 0.1 },
    }
}

settings::choice! {
    /// How a line of the access log is written.
    pub enum AccessFormatWord {
        /// One JSON object.
        Json = "json",
        /// As Apache and nginx do.
        Combined = "combined",
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

    use super::{AccessSettings, LogSettings, LogTarget};

    #[test]
    fn there_is_no_access_log_unless_asked_for() {
        assert_eq!(LogSettings::default().access, None);
        let log: LogSettings = read(&node!({ "access": { "path": "a.log" } })).unwrap();
        assert_eq!(log.access.unwrap().path, LogTarget::File("a.log".into()));
        assert!(read::<AccessSettings>(&node!({ "sample": 1.5 })).is_err());
    }
}
