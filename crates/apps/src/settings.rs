//! `apps.NAME`: an application, the processes that run it, and their bounds.
//!
//! Owns the declarations. What a key does is done elsewhere: processes by `server`, Python's part
//! in the worker process, bounds of one exchange by the handler.

use std::collections::BTreeMap;

use settings::{Duration, FilePath, Node, Reader, Setting, Size};

use crate::websocket::WebSocketSettings;

/// An application in Python, ASGI or WSGI. It runs in worker processes of its own, which are
/// started, watched and replaced; the gateway itself loads no Python, and what a cache, a file
/// or a filter answers never reaches them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = python, check = check)]
pub struct AppSettings {
    /// The application: module, colon, attribute.
    #[setting(example = "shop.web:app")]
    pub python: String,
    /// The attribute is a function that makes the application, without arguments.
    #[setting(default = false)]
    pub factory: bool,
    /// What the application speaks.
    #[setting(default = "auto")]
    pub interface: Interface,
    /// How many processes run it, each with an event loop of its own.
    #[setting(default = 1, range = 1..=256, example = 4)]
    pub workers: u32,
    /// Where it starts and where its modules are found first; the folder of the configuration
    /// without it.
    #[setting(example = "./shop")]
    pub dir: Option<FilePath>,
    /// The virtual environment that has its packages, and tidegate. Without it `python3` runs
    /// it, as the `PATH` finds it.
    #[setting(example = "./shop/.venv")]
    pub venv: Option<FilePath>,
    /// Added to its environment.
    #[setting(default = {}, example = { "DJANGO_SETTINGS_MODULE": "a.b" })]
    pub env: BTreeMap<String, String>,
    /// Below which path it is reached from outside: `root_path` of ASGI, `SCRIPT_NAME` of WSGI.
    #[setting(default = "", example = "/shop")]
    pub root_path: String,
    /// Whether an ASGI application is told of start and end.
    #[setting(default = "auto")]
    pub lifespan: Lifespan,
    /// The event loop of ASGI.
    #[setting(default = "auto")]
    pub r#loop: EventLoop,
    /// A file that configures Python's logging: JSON or YAML for `dictConfig`, INI for
    /// `fileConfig`.
    #[setting(example = "logging.json")]
    pub log_config: Option<FilePath>,
    /// Most threads of WSGI in each process; as many are started as are needed. 0 chooses.
    #[setting(default = 0, range = 0..=1024, example = 8)]
    pub threads: u32,
    /// What it may take before it is refused more, or replaced.
    #[setting(default = {})]
    pub limits: AppLimits,
    /// How long it is waited for.
    #[setting(default = {})]
    pub timeouts: AppTimeouts,
    /// Sessions of WebSocket.
    #[setting(default = {})]
    pub websocket: WebSocketSettings,
}

/// What an application speaks.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum Interface {
    /// Found out by looking at it.
    Auto,
    /// ASGI 3: `await app(scope, receive, send)`.
    Asgi,
    /// WSGI (PEP 3333): `app(environ, start_response)`.
    Wsgi,
}

/// Whether an ASGI application is told of start and end.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum Lifespan {
    /// It is, if it listens.
    Auto,
    /// It is, and must listen.
    On,
    /// It is not.
    Off,
}

/// An event loop of Python.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum EventLoop {
    /// uvloop where it is installed, asyncio's elsewhere.
    Auto,
    /// uvloop, which must be installed.
    Uvloop,
    /// asyncio's own.
    Asyncio,
}

/// What an application may take.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AppLimits {
    /// Requests and sessions under way at the same time, from each worker of the server; past
    /// it clients get 503 with `Retry-After`.
    #[setting(default = 10000, range = 1..=1000000)]
    pub in_flight: u32,
    /// Memory of the store that its processes share (`tidegate.cache`).
    #[setting(default = "64MiB", range = "1MiB"..="64GiB")]
    pub store: Size,
    /// A process is replaced after so many requests.
    #[setting(range = 1..=1000000000, example = 100000)]
    pub max_requests: Option<u64>,
    /// Up to so many more, so that not all are replaced at once.
    #[setting(default = 0, range = 0..=1000000000)]
    pub max_requests_jitter: u64,
    /// A process that takes more memory is replaced.
    #[setting(range = "16MiB"..="1TiB", example = "512MiB")]
    pub max_rss: Option<Size>,
    /// A process is replaced after this time.
    #[setting(range = "1s"..="365d", example = "1d")]
    pub lifetime: Option<Duration>,
}

/// How long an application is waited for.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AppTimeouts {
    /// For a process to be ready: import and start.
    #[setting(default = "60s", range = "1s"..="1h")]
    pub start: Duration,
    /// For the head of an answer, from the request's last byte; then the client gets 504.
    #[setting(default = "60s", range = "1s"..="24h")]
    pub answer: Duration,
    /// The longest pause in the body of an answer.
    #[setting(default = "60s", range = "1s"..="24h")]
    pub pause: Duration,
    /// For a process whose loop, or whose oldest request of WSGI, stands still; then it is
    /// killed, with its stack in the log. 0s is for ever.
    #[setting(default = "30s", range = "0s"..="24h")]
    pub stuck: Duration,
    /// A loop that stands still for so long is logged with its stack; 0s logs nothing.
    #[setting(default = "100ms", range = "0s"..="1m")]
    pub stall: Duration,
    /// For what is under way when a process leaves.
    #[setting(default = "30s", range = "0s"..="1h")]
    pub graceful: Duration,
}

impl AppSettings {
    /// Bounds of one exchange.
    pub fn exchange_limits(&self) -> exchange::offload::Limits {
        exchange::offload::Limits {
            answer: self.timeouts.answer.get(),
            pause: self.timeouts.pause.get(),
            ..exchange::offload::Limits::default()
        }
    }
}

fn check(settings: &AppSettings, node: &Node, reader: &mut Reader<'_>) {
    let span = |key: &str| node.get(key).map_or(node.span, |value| value.span);
    let parts: Vec<&str> = settings.python.split(':').collect();
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    if parts.len() != 2 || !parts.iter().all(is_name) {
        reader
            .error(span("python"), "this names no application")
            .help("write module, colon, attribute: \"shop.web:app\"");
    }
    if !settings.root_path.is_empty()
        && (!settings.root_path.starts_with('/') || settings.root_path.ends_with('/'))
    {
        reader
            .error(span("root_path"), "root_path begins with a slash and does not end with one")
            .help("write it as \"/shop\"");
    }
    let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = settings.env.keys().find(odd) {
        let said = format!("{name:?} cannot be the name of an environment variable");
        reader.error(span("env"), said);
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read, verify};

    use super::*;

    #[test]
    fn the_declarations_hold() {
        verify::<AppSettings>().unwrap();
        verify::<AppLimits>().unwrap();
        verify::<AppTimeouts>().unwrap();
    }

    #[test]
    fn the_name_of_the_application_is_enough() {
        let app = read::<AppSettings>(&node!("shop.web:app")).unwrap();
        assert_eq!((&*app.python, app.workers), ("shop.web:app", 1));
        assert_eq!(app.exchange_limits().answer, std::time::Duration::from_secs(60));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (written, said) in [
            (node!("app"), "this names no application"),
            (node!("app:"), "this names no application"),
            (node!("a:b:c"), "this names no application"),
            (node!({ "python": "a:b", "root_path": "shop" }), "root_path begins with a slash"),
            (node!({ "python": "a:b", "root_path": "/shop/" }), "root_path begins with a slash"),
            (node!({ "python": "a:b", "env": { "A=B": "c" } }), "cannot be the name of an"),
            (node!({ "python": "a:b", "workers": 0 }), "workers"),
            (node!({ "python": "a:b", "timeout": {} }), "did you mean \"timeouts\"?"),
        ] {
            let out = read::<AppSettings>(&written).unwrap_err();
            assert!(out.contains(said), "{out}");
        }
    }
}
