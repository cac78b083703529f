//! Options that say which application is run, and how Python runs it.

use std::path::PathBuf;

use clap::ValueEnum;

use super::values::{self, Threads};

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Python applications")]
pub(super) struct ApplicationOptions {
    /// What the application speaks; `auto` looks at it [default: auto]
    #[arg(long, value_name = "WHICH")]
    pub(super) interface: Option<Interface>,

    /// APP is a function that makes the application, without arguments
    #[arg(long)]
    pub(super) factory: bool,

    /// Where modules are looked for first [default: the working folder]
    #[arg(long, value_name = "DIR", alias = "chdir")]
    pub(super) app_dir: Option<PathBuf>,

    /// Set the environment variables of this file that are not set already; may be repeated
    #[arg(long, value_name = "FILE", alias = "env-files")]
    pub(super) env_file: Vec<PathBuf>,

    /// Below which path the application is reached from outside
    #[arg(long, value_name = "PATH", alias = "url-path-prefix", value_parser = values::root_path)]
    pub(super) root_path: Option<String>,

    /// The event loop of ASGI; `auto` is uvloop where it is installed [default: auto]
    #[arg(long = "loop", value_name = "WHICH")]
    pub(super) event_loop: Option<EventLoop>,

    /// Most threads of WSGI in each worker; `auto` starts more while one is not enough
    /// [default: auto]
    #[arg(
        long,
        value_name = "N|auto",
        alias = "blocking-threads",
        value_parser = values::threads
    )]
    pub(super) threads: Option<Threads>,

    /// Tell an ASGI application of start and end; `auto` does if it listens [default: auto]
    #[arg(long, value_name = "WHICH")]
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

/// The word that stands for a value, on the command line and in what workers are told.
pub(super) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
