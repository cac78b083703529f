//! Options that say when a worker process is replaced, reloaded, ended or killed.

use std::path::{Path, PathBuf};

use net::{ErrorLog, Identity};
use server::{DevReload, Policy};
use settings::{Duration, Size};

use super::python::{directory, file};
use super::values;
use crate::failure::Failure;

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Worker processes of Python")]
pub(super) struct LifecycleOptions {
    /// Kill a worker whose event loop or WSGI request is blocked for this long, with its stack in
    /// the log; 0 is never [default: 30s]
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::seconds)]
    pub(super) timeout: Option<Duration>,

    /// How long requests may take to finish when a worker ends [default: 30s]
    #[arg(
        long,
        value_name = "TIME",
        aliases = ["timeout-graceful-shutdown", "workers-kill-timeout"],
        value_parser = values::seconds
    )]
    pub(super) graceful_timeout: Option<Duration>,

    /// Replace a worker after so many requests; 0 for never
    #[arg(long, value_name = "N", alias = "limit-max-requests")]
    pub(super) max_requests: Option<u64>,

    /// Add up to so many to --max-requests, so that not all workers are replaced at once
    #[arg(long, value_name = "N", alias = "limit-max-requests-jitter", requires = "max_requests")]
    pub(super) max_requests_jitter: Option<u64>,

    /// Replace a worker that takes more memory than this
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) max_rss: Option<Size>,

    /// Replace a worker after this time
    #[arg(
        long,
        value_name = "TIME",
        alias = "workers-lifetime",
        value_parser = values::some_seconds
    )]
    pub(super) lifetime: Option<Duration>,

    /// Memory for what the workers share, `tidegate.cache` [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::store)]
    pub(super) store: Option<Size>,

    /// Write the process id of the supervisor into this file, which only one process can have
    #[arg(
        short = 'p',
        long,
        value_name = "FILE",
        alias = "pidfile",
        value_parser = values::pid_file
    )]
    pub(super) pid: Option<PathBuf>,

    /// Import the application once, and fork the workers from that process, so that they share its
    /// memory; on Linux
    #[arg(long, alias = "preload-app")]
    pub(super) preload: bool,

    /// The name of the processes in the output of ps
    #[arg(short = 'n', long, value_name = "NAME", alias = "process-name")]
    pub(super) name: Option<String>,

    /// Permissions that new files and Unix sockets do not get, an octal number such as 027
    #[arg(short = 'm', long, value_name = "MASK", value_parser = values::umask)]
    pub(super) umask: Option<u32>,

    /// The user that the workers run as, a name or a number; only root can choose one
    #[arg(short = 'u', long, value_name = "USER")]
    pub(super) user: Option<String>,

    /// The group that the workers run as [default: the primary group of --user]
    #[arg(short = 'g', long, value_name = "GROUP")]
    pub(super) group: Option<String>,

    /// Write the log and everything else on standard error to this file; - is standard error
    #[arg(long, value_name = "FILE", aliases = ["log-file", "error-log"])]
    pub(super) error_logfile: Option<PathBuf>,

    /// Write standard output to the file of --error-logfile as well
    #[arg(long)]
    pub(super) capture_output: bool,

    /// Start new workers when a file of the application changes, or begin a Lua program again: for
    /// development
    #[arg(long)]
    pub(super) reload: bool,

    /// Watch this directory instead of --app-dir, or of that of a Lua program; may be repeated
    #[arg(long, value_name = "DIR", requires = "reload", alias = "reload-paths")]
    pub(super) reload_dir: Vec<PathBuf>,

    /// Watch this file too; may be repeated
    #[arg(long, value_name = "FILE", requires = "reload")]
    pub(super) reload_extra_file: Vec<PathBuf>,

    /// Further changes within this time after one replace the workers only once [default: 0s]
    #[arg(long, value_name = "TIME", requires = "reload", value_parser = values::seconds)]
    pub(super) reload_delay: Option<Duration>,

    /// Watch files of this pattern too; may be repeated [default: *.py or *.lua]
    #[arg(long, value_name = "GLOB", requires = "reload")]
    pub(super) reload_include: Vec<String>,

    /// Do not watch files of this pattern; may be repeated
    #[arg(long, value_name = "GLOB", requires = "reload", alias = "reload-ignore-patterns")]
    pub(super) reload_exclude: Vec<String>,
}

impl LifecycleOptions {
    /// Returns the user and group of the workers, unless they are those of this process.
    pub(super) fn identity(&self) -> Result<Option<Identity>, Failure> {
        let wrong = |why| Failure::Wrong(format!("--user and --group: {why}"));
        Identity::find(self.user.as_deref(), self.group.as_deref()).map_err(wrong)
    }

    /// Returns where the standard streams go; an absolute path, because workers open it too.
    pub(super) fn error_log(&self) -> Result<Option<ErrorLog>, Failure> {
        let named = self.error_logfile.as_deref().filter(|path| *path != Path::new("-"));
        let Some(path) = named else { return Ok(None) };
        let path = std::path::absolute(path).map_err(|error| {
            Failure::Wrong(format!("--error-logfile {}: {error}", path.display()))
        })?;
        Ok(Some(ErrorLog { path, captures_output: self.capture_output }))
    }

    pub(super) fn policy(&self) -> Policy {
        let default = Policy::default();
        Policy {
            graceful: self.graceful_timeout.map_or(default.graceful, Duration::get),
            stuck_after: match self.timeout {
                Some(timeout) => Some(timeout.get()).filter(|timeout| !timeout.is_zero()),
                None => default.stuck_after,
            },
            max_requests: self.max_requests.filter(|requests| *requests > 0),
            max_requests_jitter: self.max_requests_jitter.unwrap_or_default(),
            max_rss_bytes: self.max_rss.map(Size::bytes),
            lifetime: self.lifetime.map(Duration::get),
            ..default
        }
    }

    /// True if all options are as by default, but those of --reload.
    pub(super) fn has_only_reload(&self) -> bool {
        let reload = LifecycleOptions {
            reload: self.reload,
            reload_dir: self.reload_dir.clone(),
            reload_extra_file: self.reload_extra_file.clone(),
            reload_delay: self.reload_delay,
            reload_include: self.reload_include.clone(),
            reload_exclude: self.reload_exclude.clone(),
            ..LifecycleOptions::default()
        };
        *self == reload
    }

    /// Returns the watched directories and patterns; by default the directory of the application,
    /// and the pattern of its language. What does not exist would never change.
    pub(super) fn dev_reload(
        &self,
        app_dir: &Path,
        sources: &str,
    ) -> Result<Option<DevReload>, Failure> {
        for path in &self.reload_dir {
            directory(path)?;
        }
        for path in &self.reload_extra_file {
            file(path)?;
        }
        let directories = match self.reload_dir.as_slice() {
            [] => vec![app_dir.to_owned()],
            named => named.to_vec(),
        };
        let include = [&[sources.to_owned()], self.reload_include.as_slice()].concat();
        let exclude = self.reload_exclude.clone();
        let files = self.reload_extra_file.clone();
        let delay = self.reload_delay.map(Duration::get).unwrap_or_default();
        Ok(self.reload.then_some(DevReload { directories, include, exclude, files, delay }))
    }
}
