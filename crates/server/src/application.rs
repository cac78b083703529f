//! `tidegate run MODULE:APP`: a supervisor of worker processes that serve HTTP.
//!
//! Owns their listening sockets, which are bound before a process is started, and the watched
//! directories. Like any server it has an admin API, a log and signals, but no routes.

pub(crate) mod lifecycle;

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{StatsdSettings, TextSource, Workers};
use http_server::statsd_gauge;
use net::{Bind, ChildCommand, ErrorLog, Identity, ListenOptions, Listening};
use serde_json::{Value, json};
use settings::Size;
use telemetry::log::{Format, Level};

use crate::listeners::SocketFile;
use crate::logs::statsd_sender;
use crate::options::{Failure, OnReady, Options};
use crate::run::run_with;
use crate::supervise::{DevReload, GroupEvent, GroupSettings, OnGroupEvent, Policy};
pub use lifecycle::APPLICATION;
use lifecycle::PreparedApplication;

/// The application that `run_application` serves, and its settings.
pub struct RunSpec {
    /// The command that starts a worker: the interpreter, `-m`, `tidegate`.
    pub command: Vec<OsString>,
    /// Added to the workers' environment.
    pub environment: Vec<(String, String)>,
    /// The working directory of the workers; by default that of this process.
    pub directory: Option<PathBuf>,
    /// The user and group of the workers; by default those of this process.
    pub identity: Option<Identity>,
    /// Settings of the application's language, passed to the workers unchanged.
    pub python: Value,
    /// Fork the workers from a process that has imported the application.
    pub preload: bool,
    /// The configuration that each worker serves, its routes with `handler: { app: main }`. The
    /// application itself is declared in it (`apps`), its listeners are those below.
    pub configuration: Value,
    /// Listeners by their names in the configuration.
    pub listeners: Vec<(String, ListenerSource)>,
    pub workers: usize,
    pub policy: Policy,
    pub reload: Option<DevReload>,
    /// The address of the admin API in addition to its Unix socket.
    pub admin: Option<Bind>,
    /// Options of the command line that the configuration does not have.
    pub log_level: Option<Level>,
    pub log_format: Option<Format>,
    /// The StatsD server that is sent the number of workers.
    pub statsd: Option<StatsdSettings>,
    /// The file in which the caller has put the standard streams of this process.
    pub error_log: Option<ErrorLog>,
    /// Called once, when the first worker is ready.
    pub on_ready: Option<OnReady>,
    /// Called with what happens to the workers.
    pub on_event: Option<OnGroupEvent>,
}

/// The source of a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerSource {
    Bind(Bind, ListenOptions),
    /// A listening socket that this process has inherited.
    Descriptor(i32),
}

/// Maximum of `timeouts.drain`.
const DRAIN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves until a signal or the API stops the server. If the first start fails the server ends;
/// later failures are retried.
pub fn run_application(spec: RunSpec) -> Result<(), Failure> {
    let (mut listening, mut files) = (Vec::new(), Vec::new());
    for (name, source) in &spec.listeners {
        let opened = open(name, source).map_err(Failure::Start)?;
        if let ListenerSource::Bind(..) = source {
            files.extend(SocketFile::of(opened.local()));
            give(opened.local(), spec.identity).map_err(Failure::Start)?;
        }
        listening.push((name.clone(), opened));
    }
    let own = own_configuration(&spec);
    let memory = store_memory(&spec.configuration);
    let options = Options {
        workers: Some(Workers::Count(1)),
        cpu_affinity: false,
        log_level: spec.log_level,
        log_format: spec.log_format,
        etcd: None,
        on_ready: spec.on_ready,
    };
    let target = spec.python["target"].as_str().unwrap_or(APPLICATION).to_owned();
    let level = spec.log_level.unwrap_or(Level::Info).slug();
    let format = if spec.log_format == Some(Format::Json) { "json" } else { "text" };
    let mut command = spec.command.into_iter();
    let program = command.next().ok_or_else(|| Failure::Start("nothing starts workers".into()))?;
    let environment = spec.environment.into_iter().map(|(name, value)| (name.into(), value.into()));
    let settings = GroupSettings {
        launch: ChildCommand {
            program: program.into(),
            arguments: command.collect(),
            environment: environment.collect(),
            directory: spec.directory,
            identity: spec.identity,
        },
        config: Some(worker_configuration(spec.configuration, &listening, level, format)),
        python: spec.python,
        preload: spec.preload,
        store: None,
        policy: spec.policy,
        log_level: level.to_owned(),
        log_format: format.to_owned(),
        error_log: spec.error_log,
        on_event: with_gauge(spec.on_event, spec.statsd),
    };
    let (workers, reload) = (spec.workers, spec.reload);
    let program =
        PreparedApplication { target, settings, listening, files, workers, reload, memory };
    let source = TextSource::new("tidegate run", &own.to_string());
    run_with(Arc::new(source), options, Some(program))
}

/// Adds the gauge of workers to what happens with each event.
fn with_gauge(
    on_event: Option<OnGroupEvent>,
    statsd: Option<StatsdSettings>,
) -> Option<OnGroupEvent> {
    let Some(statsd) = statsd else { return on_event };
    // Workers report that the server cannot be reached.
    let Ok(sender) = statsd_sender(&statsd.host) else { return on_event };
    Some(OnGroupEvent(Arc::new(move |event| {
        if let GroupEvent::Workers { now, .. } = event {
            let line = statsd_gauge("gunicorn.workers", now, &statsd.prefix, &statsd.tags);
            sender.send_lines(line.as_bytes());
        }
        if let Some(on_event) = &on_event {
            (on_event.0)(event);
        }
    })))
}

fn open(name: &str, source: &ListenerSource) -> Result<Listening, String> {
    match source {
        ListenerSource::Bind(bind, options) => {
            let opened = Listening::bind(bind, 1, options).map_err(|error| error.to_string())?;
            if let (Bind::Unix(path), Some(mode)) = (opened.local(), options.mode) {
                // The process's mask has restricted it.
                let set = std::fs::set_permissions(path, Permissions::from_mode(mode));
                set.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Ok(opened)
        }
        ListenerSource::Descriptor(number) => {
            let inherited =
                net::inherited_listener(*number, name).map_err(|error| error.to_string())?;
            inherited.listen(1).map_err(|error| format!("descriptor {number}: {error}"))
        }
    }
}

/// Makes the workers' user the owner of a Unix socket, so that programs of that user can connect.
fn give(local: &Bind, identity: Option<Identity>) -> Result<(), String> {
    let (Bind::Unix(path), Some(identity)) = (local, identity) else { return Ok(()) };
    let given = identity.own_file(path);
    given.map_err(|error| format!("{} cannot get its owner: {error}", path.display()))
}

/// The configured memory of the store, which belongs to the supervisor.
fn store_memory(configuration: &Value) -> Size {
    let written = configuration["apps"][APPLICATION]["limits"]["store"].as_str();
    let default = Size::from_bytes(store::limits::MEMORY_BYTES as u64);
    written.and_then(|written| written.parse().ok()).unwrap_or(default)
}

/// The supervisor's own configuration: the admin API only.
fn own_configuration(spec: &RunSpec) -> Value {
    let drain = spec.policy.graceful.min(DRAIN_MAX);
    let drain = format!("{}ms", drain.as_millis());
    let mut own = json!({ "timeouts": { "drain_delay": "0s", "drain": drain } });
    if let Some(bind) = &spec.admin {
        own["admin"] = json!({ "bind": bind.to_string() });
    }
    own
}

/// The configuration of each worker, with the addresses at which the listeners are bound.
fn worker_configuration(
    mut configuration: Value,
    listening: &[(String, Listening)],
    level: &str,
    format: &str,
) -> String {
    for (name, listening) in listening {
        // In a configuration, a dollar sign before a brace would begin a variable.
        let bind = listening.local().to_string().replace("${", "$${");
        configuration["listeners"][name]["bind"] = json!(bind);
    }
    configuration["log"]["level"] = json!(level);
    configuration["log"]["format"] = json!(format);
    configuration.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_the_bound_addresses() {
        let bind = Bind::Tcp("127.0.0.1:0".parse().unwrap());
        let listening = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
        let address = listening.local().to_string();
        let given = json!({
            "listeners": { "web": { "bind": "127.0.0.1:0", "backlog": 9 } },
            "apps": { "main": "a:b" },
            "routes": [{ "handler": { "app": "main" } }],
        });
        let text = worker_configuration(given, &[("web".to_owned(), listening)], "warn", "json");
        let plan = crate::changes::plan_of(&text);
        assert_eq!(plan.listeners[0].bind.to_string(), address);
        assert_eq!(plan.listeners[0].options.backlog, 9);
    }

    #[test]
    fn a_socket_file_has_exactly_the_given_permissions() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o666] {
            let path = directory.path().join(format!("{mode:o}.sock"));
            let options = ListenOptions { mode: Some(mode), ..ListenOptions::default() };
            let source = ListenerSource::Bind(Bind::Unix(path.clone()), options);
            let _opened = open("web", &source).unwrap();
            let found = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }

    #[test]
    fn a_taken_address_is_one_sentence() {
        let bind = Bind::Tcp("127.0.0.1:0".parse().unwrap());
        let taken = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
        let source = ListenerSource::Bind(taken.local().clone(), ListenOptions::default());
        let said = open("web", &source).unwrap_err();
        assert!(said.ends_with("the address is in use"), "{said}");
        let said = open("web", &ListenerSource::Descriptor(1_000_000)).unwrap_err();
        assert!(said.contains("not open"), "{said}");
    }
}
