//! `apps.NAME`: an application, its worker processes and their limits.
//!
//! Declares the keys. They are applied elsewhere: processes by `server`, the Python part in the
//! worker process, limits of one exchange by the handler.

use std::collections::BTreeMap;

use settings::{Duration, FilePath, Node, Reader, Secret, Setting, Size};
use store::{RedisUrl, TaskStoreUrl};

use crate::websocket::WebSocketSettings;
use crate::wsgi_threads::WsgiThreads;

/// Minimum length of a token for profiles.
pub const PROFILE_TOKEN_MIN: usize = 16;

/// An application in Python, ASGI or WSGI. It runs in worker processes of its own, which are
/// started, monitored and replaced; the gateway loads no Python, and responses of a cache, a file
/// handler or a filter never reach them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = python, check = check)]
pub struct AppSettings {
    /// The application: module, colon, attribute.
    #[setting(example = "shop.web:app")]
    pub python: String,
    /// The attribute is a function without arguments that returns the application.
    #[setting(default = false)]
    pub factory: bool,
    /// The interface of the application.
    #[setting(default = "auto")]
    pub interface: Interface,
    /// Number of processes, each with an event loop of its own.
    #[setting(default = 1, range = 1..=256, example = 4)]
    pub workers: u32,
    /// The application is imported once, by a process from which the others are forked, so that
    /// they share its memory; on Linux. Threads and connections that it opens when it is imported
    /// do not exist in them.
    #[setting(default = false)]
    pub preload: bool,
    /// The working directory, and the first place where its modules are searched; by default the
    /// directory of the configuration.
    #[setting(example = "./shop")]
    pub dir: Option<FilePath>,
    /// The virtual environment with its packages and tidegate. Without it, the first `python3` in
    /// `PATH` runs it.
    #[setting(example = "./shop/.venv")]
    pub venv: Option<FilePath>,
    /// Additional environment variables.
    #[setting(default = {}, example = { "DJANGO_SETTINGS_MODULE": "a.b" })]
    pub env: BTreeMap<String, String>,
    /// The external path prefix of the application: `root_path` of ASGI, `SCRIPT_NAME` of WSGI.
    #[setting(default = "", example = "/shop")]
    pub root_path: String,
    /// Whether an ASGI application receives lifespan events: startup and shutdown.
    #[setting(default = "auto")]
    pub lifespan: Lifespan,
    /// The event loop of ASGI.
    #[setting(default = "auto")]
    pub r#loop: EventLoop,
    /// A file that configures Python's logging: JSON or YAML for `dictConfig`, INI for
    /// `fileConfig`.
    #[setting(example = "logging.json")]
    pub log_config: Option<FilePath>,
    /// Maximum number of WSGI threads in each process, started as needed; `auto` chooses. `gevent`
    /// runs each request in a greenlet.
    #[setting(default = "auto", example = 8)]
    pub threads: WsgiThreads,
    /// Greenlets of `threads: gevent` in each process: requests that run at a time; others wait.
    #[setting(default = 1000, range = 1..=100000)]
    pub greenlets: u32,
    /// Threads for background jobs (`tidegate.tasks`) in each process; 0 runs none.
    #[setting(default = 4, range = 0..=256, example = 8)]
    pub task_threads: u32,
    /// The Redis or Valkey server that has the keys of `tidegate.cache` and the channels of
    /// `tidegate.broadcast`, so that several servers share them; `rediss://` is over TLS. Without
    /// it they are in memory and end with this server. `?prefix=` of the URL is what keys and
    /// channels begin with, `tidegate:` and the application's name by default.
    #[setting(example = "redis://127.0.0.1:6379/0")]
    pub shared_store: Option<RedisUrl>,
    /// The server of Redis (6 or later) or PostgreSQL (12 or later) that stores background jobs, so
    /// that they outlive this server and are shared with others; `rediss://` is over TLS. Without
    /// it they are in memory. Options of the URL: `?prefix=` is what keys begin with, `tidegate:`
    /// and the application's name by default; `&visibility=` is the time, 60s by default, after
    /// which a job whose process has ended runs again.
    #[setting(example = "redis://127.0.0.1:6379/0")]
    pub task_store: Option<TaskStoreUrl>,
    /// A client that sends this text as `Tidegate-Profile` gets a flame graph of its request
    /// instead of the response: what the application runs and waits in. At least 16 characters.
    #[setting(example = "${PROFILE_TOKEN}")]
    pub profile_token: Option<Secret>,
    /// Limits beyond which requests are rejected or a process is replaced.
    #[setting(default = {})]
    pub limits: AppLimits,
    /// Time-outs of the application.
    #[setting(default = {})]
    pub timeouts: AppTimeouts,
    /// WebSocket sessions.
    #[setting(default = {})]
    pub websocket: WebSocketSettings,
}

/// The interface of an application.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum Interface {
    /// Detected by inspection.
    Auto,
    /// ASGI 3: `await app(scope, receive, send)`.
    Asgi,
    /// WSGI (PEP 3333): `app(environ, start_response)`.
    Wsgi,
}

/// Whether an ASGI application receives lifespan events: startup and shutdown.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum Lifespan {
    /// Lifespan events are sent if the application supports them.
    Auto,
    /// Lifespan events are sent, and the application must support them.
    On,
    /// Lifespan events are not sent.
    Off,
}

/// The event loop of an ASGI application.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum EventLoop {
    /// uvloop if it is installed, otherwise asyncio.
    Auto,
    /// uvloop, which must be installed.
    Uvloop,
    /// asyncio's own.
    Asyncio,
}

/// Limits of an application.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AppLimits {
    /// Requests and sessions in flight at the same time, from each worker of the server; beyond it
    /// clients get 503 with `Retry-After`.
    #[setting(default = 10000, range = 1..=1000000)]
    pub in_flight: u32,
    /// Memory of the store shared by its processes (`tidegate.cache`).
    #[setting(default = "64MiB", range = "1MiB"..="64GiB")]
    pub store: Size,
    /// A process is replaced after this many requests.
    #[setting(range = 1..=1000000000, example = 100000)]
    pub max_requests: Option<u64>,
    /// Random addition to `max_requests`, so that processes are not replaced at the same time.
    #[setting(default = 0, range = 0..=1000000000)]
    pub max_requests_jitter: u64,
    /// A process that uses more memory is replaced.
    #[setting(range = "16MiB"..="1TiB", example = "512MiB")]
    pub max_rss: Option<Size>,
    /// A process is replaced after this time.
    #[setting(range = "1s"..="365d", example = "1d")]
    pub lifetime: Option<Duration>,
}

/// Time-outs of an application.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AppTimeouts {
    /// Until a process is ready: import and startup.
    #[setting(default = "60s", range = "1s"..="1h")]
    pub start: Duration,
    /// For the response head, from the request's last byte; then the client gets 504.
    #[setting(default = "60s", range = "1s"..="24h")]
    pub answer: Duration,
    /// For the next part of a response body.
    #[setting(default = "60s", range = "1s"..="24h")]
    pub pause: Duration,
    /// For a blocked event loop, or for the oldest WSGI request; then the process is killed, with
    /// its stack in the log. 0s disables it.
    #[setting(default = "30s", range = "0s"..="24h")]
    pub stuck: Duration,
    /// An event loop that is blocked for this long is logged with its stack; 0s disables it.
    #[setting(default = "100ms", range = "0s"..="1m")]
    pub stall: Duration,
    /// A request whose response has not begun after this time is logged with its stack: where the
    /// application runs or waits.
    #[setting(range = "1ms"..="1h", example = "1s")]
    pub slow: Option<Duration>,
    /// For requests in flight when a process drains.
    #[setting(default = "30s", range = "0s"..="1h")]
    pub graceful: Duration,
}

impl AppSettings {
    /// The limits of one exchange.
    pub fn exchange_limits(&self) -> offload::Limits {
        offload::Limits {
            answer: self.timeouts.answer.get(),
            pause: self.timeouts.pause.get(),
            ..offload::Limits::default()
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
            .error(span("python"), "this does not name an application")
            .help("write module, colon, attribute: \"shop.web:app\"");
    }
    if !settings.root_path.is_empty()
        && (!settings.root_path.starts_with('/') || settings.root_path.ends_with('/'))
    {
        reader
            .error(span("root_path"), "root_path begins with a slash and does not end with one")
            .help("write it as \"/shop\"");
    }
    if settings.preload && !cfg!(target_os = "linux") {
        reader.error(span("preload"), "applications are preloaded on Linux only");
    }
    let token = settings.profile_token.as_ref();
    if token.is_some_and(|token| token.expose().len() < PROFILE_TOKEN_MIN) {
        reader
            .error(
                span("profile_token"),
                format!(
                    "this token can be guessed: it has fewer than {PROFILE_TOKEN_MIN} characters"
                ),
            )
            .help("`openssl rand -hex 16` makes one");
    }
    let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = settings.env.keys().find(odd) {
        let message = format!("{name:?} cannot be the name of an environment variable");
        reader.error(span("env"), message);
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read, verify};

    use super::*;

    #[test]
    fn the_declarations_are_valid() {
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
    fn invalid_settings_are_reported() {
        for (written, expected) in [
            (node!("app"), "this does not name an application"),
            (node!("app:"), "this does not name an application"),
            (node!("a:b:c"), "this does not name an application"),
            (node!({ "python": "a:b", "root_path": "shop" }), "root_path begins with a slash"),
            (node!({ "python": "a:b", "root_path": "/shop/" }), "root_path begins with a slash"),
            (node!({ "python": "a:b", "env": { "A=B": "c" } }), "cannot be the name of an"),
            (node!({ "python": "a:b", "workers": 0 }), "workers"),
            (node!({ "python": "a:b", "task_store": "127.0.0.1" }), "names no server that stores"),
            (node!({ "python": "a:b", "profile_token": "short" }), "can be guessed"),
            (node!({ "python": "a:b", "timeout": {} }), "did you mean \"timeouts\"?"),
        ] {
            let out = read::<AppSettings>(&written).unwrap_err();
            assert!(out.contains(expected), "{out}");
        }
    }
}
