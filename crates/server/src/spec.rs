//! The specification of a worker process: a JSON object in `TIDEGATE_WORKER`.
//!
//! Written by the supervisor and read by the process that it starts; a process of another version
//! reports that and exits. [`WorkerSpec::python`] has the settings of the application's language
//! and is passed unchanged.

use std::path::PathBuf;

use net::ErrorLog;
use serde_json::{Value, json};

/// The environment variable.
pub const VARIABLE: &str = "TIDEGATE_WORKER";

/// The transport of requests to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The process serves HTTP on inherited listeners.
    Http,
    /// The gateway sends frames over an inherited Unix socket.
    Frames,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Role::Http => "http",
            Role::Frames => "frames",
        }
    }
}

/// An inherited listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedDescriptor {
    pub name: String,
    pub descriptor: i32,
}

/// The specification.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    /// The version of the supervisor.
    pub version: String,
    pub role: Role,
    /// The application's name in the configuration.
    pub app: String,
    /// The index of the worker, from 0; a replacement has the index of its predecessor.
    pub slot: usize,
    /// The number of the process with this index, from 1.
    pub generation: u64,
    /// Settings of the application: target, interface, event loop, threads and others.
    pub python: Value,
    /// The configuration of the process; role `http` only.
    pub config: Option<String>,
    /// The descriptor of the control socket.
    pub control: i32,
    pub listen: Vec<PassedDescriptor>,
    /// A shared memory file with the connection count of each process that accepts on these
    /// sockets.
    pub counts: Option<i32>,
    /// The socket of the store that all processes share.
    pub store: Option<PathBuf>,
    /// Level and format of the log, for roles without a configuration.
    pub log_level: String,
    pub log_format: String,
    /// The file in which the supervisor has put the standard streams of this process.
    pub error_log: Option<ErrorLog>,
    /// True if the worker is part of a program that handles its own signals.
    pub embedded: bool,
    /// The drain time-out in milliseconds if the supervisor has not sent one.
    pub graceful_ms: u64,
    /// Event-loop lag in milliseconds from which the stack is logged; 0 for never.
    pub stall_ms: u64,
}

impl WorkerSpec {
    /// Reads the specification of this process; `None` if it is not a worker.
    pub fn from_environment() -> Option<Result<WorkerSpec, String>> {
        let text = std::env::var(VARIABLE).ok()?;
        Some(WorkerSpec::from_json(&text))
    }

    pub fn to_json(&self) -> String {
        let listen: Vec<Value> = self
            .listen
            .iter()
            .map(|one| json!({ "name": one.name, "fd": one.descriptor }))
            .collect();
        json!({
            "version": self.version,
            "role": self.role.word(),
            "app": self.app,
            "slot": self.slot,
            "generation": self.generation,
            "python": self.python,
            "config": self.config,
            "control_fd": self.control,
            "listen": listen,
            "counts_fd": self.counts,
            "store": self.store.as_ref().map(|path| path.to_string_lossy()),
            "log": { "level": self.log_level, "format": self.log_format },
            "error_log": self.error_log.as_ref().map(|log| json!({
                "path": log.path.to_string_lossy(),
                "captures_output": log.captures_output,
            })),
            "embedded": self.embedded,
            "graceful_ms": self.graceful_ms,
            "stall_ms": self.stall_ms,
        })
        .to_string()
    }

    /// Parses a specification. The version is checked by the caller, which has the control socket
    /// to report it.
    pub fn from_json(text: &str) -> Result<WorkerSpec, String> {
        let whole: Value =
            serde_json::from_str(text).map_err(|error| format!("{VARIABLE}: {error}"))?;
        let fields = Fields(&whole);
        let role = match fields.text("role")? {
            "http" => Role::Http,
            "frames" => Role::Frames,
            other => return Err(format!("{VARIABLE}: there is no role {other:?}")),
        };
        let listen = whole["listen"].as_array().map(Vec::as_slice).unwrap_or_default();
        let handed = listen.iter().map(|one| {
            let one = Fields(one);
            Ok(PassedDescriptor {
                name: one.text("name")?.to_owned(),
                descriptor: one.descriptor("fd")?,
            })
        });
        let log = Fields(&whole["log"]);
        Ok(WorkerSpec {
            version: fields.text("version")?.to_owned(),
            role,
            app: fields.text("app")?.to_owned(),
            slot: usize::try_from(fields.number("slot")?).unwrap_or_default(),
            generation: fields.number("generation")?,
            python: whole["python"].clone(),
            config: whole["config"].as_str().map(str::to_owned),
            control: fields.descriptor("control_fd")?,
            listen: handed.collect::<Result<_, String>>()?,
            counts: whole["counts_fd"].as_i64().and_then(|number| i32::try_from(number).ok()),
            store: whole["store"].as_str().map(PathBuf::from),
            log_level: log.text("level")?.to_owned(),
            log_format: log.text("format")?.to_owned(),
            error_log: whole["error_log"]["path"].as_str().map(|path| ErrorLog {
                path: path.into(),
                captures_output: whole["error_log"]["captures_output"] == true,
            }),
            embedded: whole["embedded"].as_bool().unwrap_or(false),
            graceful_ms: fields.number("graceful_ms")?,
            stall_ms: fields.number("stall_ms")?,
        })
    }

    /// Checks that the supervisor has the version of this process; the error is a sentence.
    pub fn check_version(&self) -> Result<(), String> {
        check_version(&self.version)
    }
}

/// Checks that a supervisor of this version may start processes of this one; the error is a
/// sentence.
pub fn check_version(theirs: &str) -> Result<(), String> {
    let ours = env!("CARGO_PKG_VERSION");
    if theirs == ours {
        return Ok(());
    }
    Err(format!(
        "tidegate {theirs} was to start a worker, and the Python it was started with \
         has tidegate {ours}: install the same version in both places"
    ))
}

struct Fields<'v>(&'v Value);

impl<'v> Fields<'v> {
    fn text(&self, key: &str) -> Result<&'v str, String> {
        self.0[key].as_str().ok_or_else(|| format!("{VARIABLE} has no text {key:?}"))
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        self.0[key].as_u64().ok_or_else(|| format!("{VARIABLE} has no number {key:?}"))
    }

    fn descriptor(&self, key: &str) -> Result<i32, String> {
        i32::try_from(self.number(key)?).map_err(|_| format!("{VARIABLE}: {key:?} is too large"))
    }
}

#[cfg(test)]
pub(crate) fn example() -> WorkerSpec {
    WorkerSpec {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: Role::Http,
        app: "main".to_owned(),
        slot: 1,
        generation: 3,
        python: json!({ "target": "app:app", "threads": 4 }),
        config: Some("routes: []".to_owned()),
        control: 7,
        listen: vec![PassedDescriptor { name: "web".to_owned(), descriptor: 8 }],
        counts: Some(9),
        store: Some(PathBuf::from("/run/store.sock")),
        log_level: "info".to_owned(),
        log_format: "text".to_owned(),
        error_log: Some(ErrorLog { path: PathBuf::from("/var/log/e"), captures_output: true }),
        embedded: false,
        graceful_ms: 30_000,
        stall_ms: 100,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let spec = example();
        assert_eq!(WorkerSpec::from_json(&spec.to_json()), Ok(spec));
        let mut spec = example();
        (spec.role, spec.config, spec.store) = (Role::Frames, None, None);
        spec.error_log = None;
        assert_eq!(WorkerSpec::from_json(&spec.to_json()), Ok(spec));
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |from: &str, to: &str| {
            let text = example().to_json();
            assert!(text.contains(from), "{text}");
            WorkerSpec::from_json(&text.replace(from, to)).unwrap_err()
        };
        assert!(refused("\"slot\":1", "\"slot\":-1").contains("no number \"slot\""));
        assert!(refused("\"http\"", "\"ftp\"").contains("no role \"ftp\""));
        assert!(refused("\"fd\":8", "\"fd\":99999999999").contains("\"fd\" is too large"));
        assert!(WorkerSpec::from_json("{").unwrap_err().starts_with("TIDEGATE_WORKER: "));
    }

    #[test]
    fn another_version_is_refused() {
        let mut spec = example();
        assert_eq!(spec.check_version(), Ok(()));
        spec.version = "0.0.1".to_owned();
        assert!(spec.check_version().unwrap_err().contains("tidegate 0.0.1 was to start"));
    }
}
