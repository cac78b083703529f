//! How an application's processes are started: interpreter, directory, settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apps::{AppSettings, EventLoop, Interface, Lifespan, WsgiThreads};
use config::{LevelWord, LogFormatWord, LogSettings};
use net::ChildCommand;
use serde_json::{Value, json};
use settings::FilePath;
use store::{RedisUrl, TaskStoreUrl};
use telemetry::log::{Format, Level};

use crate::supervise::{GroupSettings, Policy};

/// Level and format of the log, which the processes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) level: Level,
    pub(crate) format: Format,
}

impl LogOptions {
    /// Combines the configuration with the command line, which takes precedence.
    pub(crate) fn of(settings: &LogSettings, typed: (Option<Level>, Option<Format>)) -> LogOptions {
        let level = typed.0.unwrap_or(match settings.level {
            LevelWord::Error => Level::Error,
            LevelWord::Warn => Level::Warn,
            LevelWord::Info => Level::Info,
            LevelWord::Debug => Level::Debug,
        });
        let format = typed.1.unwrap_or(match settings.format {
            LogFormatWord::Text => Format::Text,
            LogFormatWord::Json => Format::Json,
        });
        LogOptions { level, format }
    }

    pub(crate) fn format_word(&self) -> &'static str {
        match self.format {
            Format::Text => "text",
            Format::Json => "json",
        }
    }
}

/// Returns the settings of the processes of a configured application.
pub(crate) fn settings_of(
    app: &AppSettings,
    directory: &Path,
    log_options: &LogOptions,
) -> GroupSettings {
    let dir: PathBuf =
        app.dir.as_ref().map_or_else(|| directory.to_owned(), |dir| dir.to_path_buf());
    let program = match &app.venv {
        Some(venv) => venv.join("bin/python"),
        None => PathBuf::from("python3"),
    };
    let environment = app.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    GroupSettings {
        launch: ChildCommand {
            program,
            arguments: ["-m", "tidegate"].map(Into::into).to_vec(),
            environment,
            directory: Some(dir.clone()),
            identity: None,
        },
        python: python(app, &dir),
        preload: app.preload,
        config: None,
        store: None,
        policy: policy(app),
        log_level: log_options.level.slug().to_owned(),
        log_format: log_options.format_word().to_owned(),
        error_log: None,
        on_event: None,
    }
}

/// Returns the settings for the Python side, in the format of `tidegate run`.
fn python(app: &AppSettings, dir: &Path) -> Value {
    let token = app.profile_token.as_ref();
    json!({
        "target": app.python,
        "interface": match app.interface {
            Interface::Auto => "auto",
            Interface::Asgi => "asgi",
            Interface::Wsgi => "wsgi",
        },
        "factory": app.factory,
        "app_dir": dir.to_string_lossy(),
        "root_path": app.root_path,
        "loop": match app.r#loop {
            EventLoop::Auto => "auto",
            EventLoop::Uvloop => "uvloop",
            EventLoop::Asyncio => "asyncio",
        },
        "threads": match app.threads {
            WsgiThreads::Auto => Value::Null,
            WsgiThreads::Count(count) => json!(count),
            WsgiThreads::Gevent => json!("gevent"),
        },
        "greenlets": app.greenlets,
        "task_threads": app.task_threads,
        "shared_store": app.shared_store.as_ref().map(RedisUrl::expose),
        "task_store": app.task_store.as_ref().map(TaskStoreUrl::expose),
        "slow_ms": app.timeouts.slow.map(|span| span.get().as_millis() as u64),
        "profile_token": token.map(|token| String::from_utf8_lossy(token.expose())),
        "processes": app.workers,
        "lifespan": match app.lifespan {
            Lifespan::Auto => "auto",
            Lifespan::On => "on",
            Lifespan::Off => "off",
        },
        "log_config": app.log_config.as_ref().map(|file: &FilePath| file.to_string()),
    })
}

fn policy(app: &AppSettings) -> Policy {
    let unless_zero =
        |span: settings::Duration| Some(span.get()).filter(|span| *span > Duration::ZERO);
    Policy {
        start_within: app.timeouts.start.get(),
        graceful: app.timeouts.graceful.get(),
        stuck_after: unless_zero(app.timeouts.stuck),
        stall: unless_zero(app.timeouts.stall),
        max_requests: app.limits.max_requests,
        max_requests_jitter: app.limits.max_requests_jitter,
        max_rss_bytes: app.limits.max_rss.map(|size| size.bytes()),
        lifetime: app.limits.lifetime.map(settings::Duration::get),
        aborts_first: false,
    }
}

#[cfg(test)]
mod tests {
    use ::settings::{node, read};

    use super::*;

    #[test]
    fn a_process_is_started_with_what_the_configuration_says() {
        let log_options = LogOptions { level: Level::Warn, format: Format::Json };
        let made = |written: &::settings::Node| {
            settings_of(&read::<AppSettings>(written).unwrap(), Path::new("/srv"), &log_options)
        };
        let least = made(&node!("shop.web:app"));
        assert_eq!(least.launch.program, Path::new("python3"));
        assert_eq!(least.launch.directory.as_deref(), Some(Path::new("/srv")));
        assert_eq!((&*least.log_level, &least.python["threads"]), ("warn", &Value::Null));
        let more = made(&node!({
            "python": "shop.web:app", "dir": "/srv/shop", "venv": "/srv/venv", "threads": 3,
            "env": { "A": "b" }, "interface": "wsgi", "task_store": "redis://:secret@h/2",
            "shared_store": "redis://:other@h/3",
            "timeouts": { "stuck": "0s" }, "limits": { "max_rss": "64MiB" },
        }));
        assert_eq!(more.launch.program, Path::new("/srv/venv/bin/python"));
        assert_eq!(more.launch.environment, [("A".into(), "b".into())]);
        assert_eq!(more.python["app_dir"], "/srv/shop");
        assert_eq!(
            (&more.python["interface"], &more.python["threads"]),
            (&json!("wsgi"), &json!(3))
        );
        assert_eq!(more.python["task_store"], "redis://:secret@h/2");
        assert_eq!(more.python["shared_store"], "redis://:other@h/3");
        assert_eq!((more.policy.stuck_after, more.policy.max_rss_bytes), (None, Some(64 << 20)));
        assert_eq!(more, more.clone());
        assert_ne!(least, more);
    }
}
