//! `apps.NAME`: an application, the processes that run it, and their bounds.
//!
//! Owns the declarations. What a key does is done elsewhere: processes by `server`, Python's part
//! in the worker process, bounds of one exchange by the handler.

use std::collections::BTreeMap;

use settings::{Duration, FilePath, Node, Reader, Size};

use crate::websocket::WebSocketSettings;

settings::record! {
    /// An application in Python, ASGI or WSGI. It runs in worker processes of its own, which are
    /// started, watched and replaced; the gateway itself loads no Python, and what a cache, a file
    /// or a filter answers never reaches them.
    pub struct AppSettings {
        /// The application: module, colon, attribute.
        pub python: String { example "shop.web:app" },
        /// The attribute is a function that makes the application, without arguments.
        pub factory: bool = false,
        /// What the application speaks.
        pub interface: Interface = "auto",
        /// How many processes run it, each with an event loop of its own.
        pub workers: u32 = 1 { in 1..=256, example 4 },
        /// Where it starts and where its modules are found first; the folder of the configuration
        /// without it.
        pub dir: Option<FilePath> = null { example "./shop" },
        /// The virtual environment that has its packages, and tidegate. Without it `python3` runs
        /// it, as the `PATH` finds it.
        pub venv: Option<FilePath> = null { example "./shop/.venv" },
        /// Added to its environment.
        pub env: BTreeMap<String, String> = {} { example { "DJANGO_SETTINGS_MODULE": "a.b" } },
        /// Below which path it is reached from outside: `root_path` of ASGI, `SCRIPT_NAME` of WSGI.
        pub root_path: String = "" { example "/shop" },
        /// Whether an ASGI application is told of start and end.
        pub lifespan: Lifespan = "auto",
        /// The event loop of ASGI.
        pub r#loop: EventLoop = "auto",
        /// A file that configures Python's logging: JSON or YAML for `dictConfig`, INI for
        /// `fileConfig`.
        pub log_config: Option<FilePath> = null { example "logging.json" },
        /// Most threads of WSGI in each process; as many are started as are needed. 0 chooses.
        pub threads: u32 = 0 { in 0..=1024, example 8 },
        /// What it may take before it is refused more, or replaced.
        pub limits: AppLimits = {},
        /// How long it is waited for.
        pub timeouts: AppTimeouts = {},
        /// Sessions of WebSocket.
        pub websocket: WebSocketSettings = {},
    }
    short: python;
    check: check;
}

settings::choice! {
    /// What an application speaks.
    pub enum Interface {
        /// Found out by looking at it.
        Auto = "auto",
        /// ASGI 3: `await app(scope, receive, send)`.
        Asgi = "asgi",
        /// WSGI (PEP 3333): `app(environ, start_response)`.
        Wsgi = "wsgi",
    }
}

settings::choice! {
    /// Whether an ASGI application is told of start and end.
    pub enum Lifespan {
        /// It is, if it listens.
        Auto = "auto",
        /// It is, and must listen.
        On = "on",
        /// It is not.
        Off = "off",
    }
}

settings::choice! {
    /// An event loop of Python.
    pub enum EventLoop {
        /// uvloop where it is installed, asyncio's elsewhere.
        Auto = "auto",
        /// uvloop, which must be installed.
        Uvloop = "uvloop",
        /// asyncio's own.
        Asyncio = "asyncio",
    }
}

settings::record! {
    /// What an application may take.
    pub struct AppLimits {
        /// Requests and sessions under way at the same time, from each worker of the server; past
        /// it clients get 503 with `Retry-After`.
        pub in_flight: u32 = 10000 { in 1..=1000000 },
        /// Memory of the store that its processes share (`tidegate.cache`).
        pub store: Size = "64MiB" { in "1MiB"..="64GiB" },
        /// A process is replaced after so many requests.
        pub max_requests: Option<u64> = null { in 1..=1000000000, example 100000 },
        /// Up to so many more, so that not all are replaced at once.
        pub max_requests_jitter: u64 = 0 { in 0..=1000000000 },
        /// A process that takes more memory is replaced.
        pub max_rss: Option<Size> = null { in "16MiB"..="1TiB", example "512MiB" },
        /// A process is replaced after this time.
        pub lifetime: Option<Duration> = null { in "1s"..="365d", example "1d" },
    }
}

settings::record! {
    /// How long an application is waited for.
    pub struct AppTimeouts {
        /// For a process to be ready: import and start.
        pub start: Duration = "60s" { in "1s"..="1h" },
        /// For the head of an answer, from the request's last byte; then the client gets 504.
        pub answer: Duration = "60s" { in "1s"..="24h" },
        /// The longest pause in the body of an answer.
        pub pause: Duration = "60s" { in "1s"..="24h" },
        /// For a process whose loop, or whose oldest request of WSGI, stands still; then it is
        /// killed, with its stack in the log. 0s is for ever.
        pub stuck: Duration = "30s" { in "0s"..="24h" },
        /// A loop that stands still for so long is logged with its stack; 0s logs nothing.
        pub stall: Duration = "100ms" { in "0s"..="1m" },
        /// For what is under way when a process leaves.
        pub graceful: Duration = "30s" { in "0s"..="1h" },
    }
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
            .mistake(span("python"), "this names no application")
            .help("write module, colon, attribute: \"shop.web:app\"");
    }
    if !settings.root_path.is_empty()
        && (!settings.root_path.starts_with('/') || settings.root_path.ends_with('/'))
    {
        reader
            .mistake(span("root_path"), "root_path begins with a slash and does not end with one")
            .help("write it as \"/shop\"");
    }
    let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = settings.env.keys().find(odd) {
        let said = format!("{name:?} cannot be the name of an environment variable");
        reader.mistake(span("env"), said);
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
