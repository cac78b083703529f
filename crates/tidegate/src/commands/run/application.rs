//! Options of the application and of its Python interpreter.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde_json::{Value, json};
use server::PROFILE_TOKEN_MIN;
use settings::Duration;
use store::{RedisUrl, TaskStoreUrl};

use super::environment;
use super::values::{self, Threads};
use crate::failure::Failure;

/// The variable with the default of `--task-store`, which other users of the machine cannot see.
const TASK_STORE_VARIABLE: &str = "TIDEGATE_TASK_STORE";
/// The same for `--profile-token`.
const PROFILE_TOKEN_VARIABLE: &str = "TIDEGATE_PROFILE_TOKEN";
/// The same for `--shared-store`.
const SHARED_STORE_VARIABLE: &str = "TIDEGATE_SHARED_STORE";

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Python applications")]
pub(super) struct ApplicationOptions {
    /// The interface of the application; `auto` detects it [default: auto]
    #[arg(long, value_name = "WHICH")]
    pub(super) interface: Option<Interface>,

    /// gunicorn's name of the interface: sync, gthread and gevent are wsgi, a class for uvicorn is
    /// asgi
    #[arg(
        short = 'k',
        long,
        value_name = "CLASS",
        value_parser = worker_class,
        conflicts_with = "interface"
    )]
    pub(super) worker_class: Option<WorkerClass>,

    /// Read the settings and hooks of a gunicorn.conf.py; options win over its settings
    #[arg(short = 'c', long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// APP is a function without arguments that creates the application
    #[arg(long)]
    pub(super) factory: bool,

    /// The directory searched first for modules [default: the working directory]
    #[arg(long, value_name = "DIR", alias = "chdir")]
    pub(super) app_dir: Option<PathBuf>,

    /// Set the environment variables of this file, unless already set; may be repeated
    #[arg(long, value_name = "FILE", alias = "env-files")]
    pub(super) env_file: Vec<PathBuf>,

    /// Set an environment variable of the application; may be repeated
    #[arg(short = 'e', long, value_name = "NAME=VALUE", value_parser = environment::assignment)]
    pub(super) env: Vec<(String, String)>,

    /// The public path prefix of the application
    #[arg(long, value_name = "PATH", alias = "url-path-prefix", value_parser = values::root_path)]
    pub(super) root_path: Option<String>,

    /// The event loop of ASGI; `auto` is uvloop if it is installed [default: auto]
    #[arg(long = "loop", value_name = "WHICH", alias = "asgi-loop")]
    pub(super) event_loop: Option<EventLoop>,

    /// Maximum WSGI threads per worker; `auto` adds threads while requests wait; `gevent` runs each
    /// request in a greenlet [default: auto]
    #[arg(
        long,
        value_name = "N|auto|gevent",
        alias = "blocking-threads",
        value_parser = values::threads
    )]
    pub(super) threads: Option<Threads>,

    /// Greenlets of --threads gevent per worker: requests that run at a time; others wait
    /// [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) worker_connections: Option<u32>,

    /// Threads for background jobs per worker, `tidegate.tasks`; 0 runs none [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(super) task_threads: Option<u32>,

    /// Keep the keys of tidegate.cache and the channels of tidegate.broadcast in this Redis server,
    /// so that several servers share them: redis://USER:PASSWORD@HOST:6379/0, rediss:// over TLS
    /// [default: $TIDEGATE_SHARED_STORE, or in memory]
    #[arg(long, value_name = "URL")]
    pub(super) shared_store: Option<String>,

    /// Store background jobs in this server, so that they outlive this one:
    /// redis://USER:PASSWORD@HOST:6379/0, rediss:// over TLS, postgresql://USER:PASSWORD@HOST/NAME
    /// [default: $TIDEGATE_TASK_STORE, or in memory]
    #[arg(long, value_name = "URL")]
    pub(super) task_store: Option<String>,

    /// Log a request whose response has not begun after this time, with its stack
    #[arg(long, value_name = "TIME", value_parser = values::some_seconds)]
    pub(super) slow_request: Option<Duration>,

    /// A client that sends this text as Tidegate-Profile gets a flame graph of its request instead
    /// of the response; at least 16 characters [default: $TIDEGATE_PROFILE_TOKEN, or none]
    #[arg(long, value_name = "TEXT")]
    pub(super) profile_token: Option<String>,

    /// Send ASGI lifespan events; `auto` does if the application supports them [default: auto]
    #[arg(long, value_name = "WHICH", alias = "asgi-lifespan")]
    pub(super) lifespan: Option<Lifespan>,

    /// Configure Python's logging from this file: JSON or YAML for dictConfig, INI for fileConfig
    #[arg(long, value_name = "FILE")]
    pub(super) log_config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Interface {
    #[default]
    Auto,
    Asgi,
    Wsgi,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum EventLoop {
    #[default]
    Auto,
    Uvloop,
    Asyncio,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Lifespan {
    #[default]
    Auto,
    On,
    Off,
}

/// Returns the name of a value on the command line and in worker settings.
pub(super) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What a worker class of gunicorn's stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerClass {
    Interface(Interface),
    Gevent,
}

/// Returns the URL of an option or a variable. An error does not repeat its password.
fn store_url<T: FromStr<Err = String>>(
    option: &str,
    value: &Option<String>,
    variable: &str,
) -> Result<Option<T>, Failure> {
    let from_variable = || std::env::var(variable).ok().filter(|url| !url.is_empty());
    let (name, url) = match value {
        Some(url) => (option, Some(url.clone())),
        None => (variable, from_variable()),
    };
    let wrong = |why: String| Failure::Wrong(format!("{name}: this URL {why}"));
    url.map(|url| url.parse().map_err(wrong)).transpose()
}

impl ApplicationOptions {
    pub(super) fn interface(&self) -> Interface {
        match (self.interface, self.worker_class) {
            (Some(interface), _) | (None, Some(WorkerClass::Interface(interface))) => interface,
            (None, Some(WorkerClass::Gevent)) => Interface::Wsgi,
            (None, None) => Interface::default(),
        }
    }

    /// Returns the server of background jobs.
    pub(super) fn task_store(&self) -> Result<Option<TaskStoreUrl>, Failure> {
        store_url("--task-store", &self.task_store, TASK_STORE_VARIABLE)
    }

    /// Returns the Redis server of keys and channels.
    pub(super) fn shared_store(&self) -> Result<Option<RedisUrl>, Failure> {
        store_url("--shared-store", &self.shared_store, SHARED_STORE_VARIABLE)
    }

    /// Returns the token of clients that may profile their requests.
    pub(super) fn profile_token(&self) -> Result<Option<String>, Failure> {
        let from_variable =
            || std::env::var(PROFILE_TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let token = self.profile_token.clone().or_else(from_variable);
        if token.as_ref().is_some_and(|token| token.len() < PROFILE_TOKEN_MIN) {
            return Err(Failure::Wrong(format!(
                "--profile-token: a token of fewer than {PROFILE_TOKEN_MIN} characters can be \
                 guessed; `openssl rand -hex 16` makes one"
            )));
        }
        Ok(token)
    }

    /// The threads of WSGI in the settings of workers: a number, or `gevent`.
    pub(super) fn threads(&self) -> Value {
        match (self.threads, self.worker_class) {
            (Some(Threads::Gevent), _) | (_, Some(WorkerClass::Gevent)) => json!("gevent"),
            (Some(Threads::Count(count)), _) => json!(count),
            (Some(Threads::Auto) | None, _) => Value::Null,
        }
    }
}

/// Parses gunicorn's name of a worker class.
fn worker_class(typed: &str) -> Result<WorkerClass, String> {
    let interface = |interface| Ok(WorkerClass::Interface(interface));
    match typed {
        "sync"
        | "gthread"
        | "gunicorn.workers.sync.SyncWorker"
        | "gunicorn.workers.gthread.ThreadWorker" => interface(Interface::Wsgi),
        "asgi" => interface(Interface::Asgi),
        "tidegate.Worker" => interface(Interface::Auto),
        "gevent" | "gunicorn.workers.ggevent.GeventWorker" => Ok(WorkerClass::Gevent),
        class if class.starts_with("uvicorn") => interface(Interface::Asgi),
        "eventlet" | "tornado" | "gevent_wsgi" | "gevent_pywsgi" => Err(format!(
            "{typed} is not supported: write gevent, or gthread, whose threads wait for databases \
             and other servers"
        )),
        _ => Err(format!(
            "\"{typed}\" is not a known worker class: leave it out, or write \
             --interface asgi or wsgi"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Interface, WorkerClass, worker_class};

    #[test]
    fn classes_of_gunicorn() {
        let class = |interface| Ok(WorkerClass::Interface(interface));
        assert_eq!(worker_class("gthread"), class(Interface::Wsgi));
        assert_eq!(worker_class("gunicorn.workers.sync.SyncWorker"), class(Interface::Wsgi));
        assert_eq!(worker_class("uvicorn.workers.UvicornWorker"), class(Interface::Asgi));
        assert_eq!(worker_class("gevent"), Ok(WorkerClass::Gevent));
        assert!(worker_class("eventlet").unwrap_err().contains("write gevent, or gthread"));
        assert!(worker_class("x").unwrap_err().contains("\"x\" is not a known worker class"));
    }
}
