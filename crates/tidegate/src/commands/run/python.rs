//! `tidegate run MODULE:APP`: converts command-line options to the settings of the supervisor.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use config::{StatsdSettings, TextSource};
use net::{Bind, ErrorLog, Identity, ListenOptions, PidFile};
use serde_json::{Map, Value, json};
use server::{Bound, ListenerSource, OnGroupEvent, Policy, RunSpec};
use settings::{Address, Host as Named};

use super::application::word;
use super::configuration::{ANYWHERE, configuration, listener_name};
use super::values::ListenAddress;
use super::{Run, environment};
use crate::commands::{literal, load};
use crate::failure::Failure;
use crate::host::Host;
use crate::serving;

/// The environment variable with the settings of an application that is only imported.
const CHECK_VARIABLE: &str = "TIDEGATE_CHECK";

/// The variable with the default number of workers, as in uvicorn and gunicorn.
const WORKERS_VARIABLE: &str = "WEB_CONCURRENCY";

impl Run {
    pub(super) fn run_python(self, host: &Host) -> Result<(), Failure> {
        if let Some(file) = &self.application.config {
            // An interpreter has taken the option before.
            return Err(Failure::Wrong(format!(
                "{} is executed by Python: `pip install tidegate` gives the command that has it",
                file.display()
            )));
        }
        self.check_preload()?;
        let app_dir = self.application.app_dir.as_deref().unwrap_or(Path::new("."));
        let reload = self.lifecycle.dev_reload(app_dir, "*.py")?;
        let mut python = self.python()?;
        python["gunicorn"] = json!(host.configured.as_ref().map(|(file, _)| file));
        let sources = self.listeners()?;
        let binds: Vec<_> = sources.iter().map(written).collect();
        let access = self.access()?;
        let mut configuration =
            configuration(&self.program, &self.listeners, &binds, self.tls.settings()?, access)?;
        self.add_settings(&mut configuration);
        if self.print_config {
            return self.print_settings(python, &configuration);
        }
        let identity = self.lifecycle.identity()?;
        let Some(command) = &host.python else {
            return Err(Failure::Wrong(format!(
                "this tidegate has no Python inside, so it cannot run {}; `pip install tidegate` \
                 (CPython 3.11 to 3.14) gives the same command with Python",
                self.program
            )));
        };
        if self.serving.cpu_affinity() {
            return Err(Failure::Wrong("--cpu-affinity comes later for applications".into()));
        }
        if self.check_config {
            return self.check(command, &python, &configuration);
        }
        self.create_log("--access-log", self.access_log.as_deref(), identity)?;
        let _pid_file = self.prepare_process()?;
        let error_log = self.redirect(identity)?;
        let program = self.program.clone();
        let scheme = self.tls.scheme();
        let on_ready = host.on_ready.clone();
        let told = move |bound: &[Bound]| {
            if let Some(called) = on_ready {
                called();
            }
            greeting(&program, scheme, bound)
        };
        let spec = RunSpec {
            command: command.clone(),
            environment: self.environment()?,
            directory: None,
            identity,
            python,
            preload: self.lifecycle.preload,
            configuration,
            listeners: (0..).map(listener_name).zip(sources).collect(),
            workers: self.processes()?,
            policy: Policy { aborts_first: host.aborts_first, ..self.lifecycle.policy() },
            reload,
            admin: self.admin.as_ref().map(bind).transpose()?,
            log_level: self.serving.log_level(),
            log_format: self.serving.log_format(),
            statsd: self.statsd(),
            error_log,
            on_ready: Some(serving::on_ready(told)),
            on_event: host.on_event.clone().map(OnGroupEvent),
        };
        Ok(server::run_application(spec)?)
    }

    fn check_preload(&self) -> Result<(), Failure> {
        if self.lifecycle.preload && !cfg!(target_os = "linux") {
            return Err(Failure::Wrong("--preload is for Linux only".to_owned()));
        }
        Ok(())
    }

    /// Adds what the supervisor needs, and the fields of every response.
    fn add_settings(&self, configuration: &mut Value) {
        if let Some(store) = self.lifecycle.store {
            let limits = &mut configuration["apps"][server::APPLICATION]["limits"];
            limits["store"] = json!(store.to_string());
        }
        if let Some(statsd) = self.statsd() {
            configuration["log"]["statsd"] = json!({
                "host": literal(&statsd.host.to_string()),
                "prefix": literal(&statsd.prefix),
                "tags": literal(&statsd.tags),
            });
        }
        if !self.listeners.header.is_empty() {
            configuration["defaults"] =
                json!({ "filters": [added_fields(&self.listeners.header)] });
        }
    }

    /// Returns the listeners.
    fn listeners(&self) -> Result<Vec<ListenerSource>, Failure> {
        let mut options = ListenOptions::default();
        options.backlog = self.listeners.backlog.unwrap_or(options.backlog);
        options.mode = self.listeners.uds_permissions;
        let bind = |address| match address {
            ListenAddress::Address(address) => {
                Ok(ListenerSource::Bind(bind(&address)?, options.clone()))
            }
            ListenAddress::Descriptor(number) => Ok(ListenerSource::Descriptor(number)),
        };
        self.listeners.addresses()?.into_iter().map(bind).collect()
    }

    /// Returns the variables of `--env-file`. Later files win; variables already set win over all.
    fn environment(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut variables = Vec::new();
        for file in &self.application.env_file {
            variables.extend(environment::read(file)?);
        }
        variables.retain(|(name, _)| std::env::var_os(name).is_none());
        variables.extend(self.application.env.iter().cloned());
        Ok(variables)
    }

    /// Prints the settings of workers, without passwords, and the configuration.
    fn print_settings(&self, mut python: Value, configuration: &Value) -> Result<(), Failure> {
        python["task_store"] = json!(self.application.task_store()?.map(|url| url.to_string()));
        python["shared_store"] = json!(self.application.shared_store()?.map(|url| url.to_string()));
        python["profile_token"] = json!(self.application.profile_token()?.map(|_| "(not shown)"));
        let shown = json!({ "python": python, "configuration": configuration });
        crate::output::print_json(&shown)
    }

    /// Returns the application settings of each worker.
    fn python(&self) -> Result<Value, Failure> {
        let options = &self.application;
        let app_dir = directory(options.app_dir.as_deref().unwrap_or(Path::new(".")))?;
        let log_config = options.log_config.as_deref().map(file).transpose()?;
        Ok(json!({
            "target": self.program,
            "interface": word(&options.interface()),
            "factory": options.factory,
            "app_dir": app_dir,
            "root_path": options.root_path.as_deref().unwrap_or_default(),
            "loop": word(&options.event_loop.unwrap_or_default()),
            "threads": options.threads(),
            "greenlets": options.worker_connections,
            "task_threads": options.task_threads.unwrap_or(4),
            "shared_store": options.shared_store()?.map(|url| url.expose().to_owned()),
            "task_store": options.task_store()?.map(|url| url.expose().to_owned()),
            "slow_ms": options.slow_request.map(|time| time.get().as_millis() as u64),
            "profile_token": options.profile_token()?,
            "processes": self.processes()?,
            "lifespan": word(&options.lifespan.unwrap_or_default()),
            "log_config": log_config,
            "name": self.lifecycle.name,
        }))
    }

    /// Returns `log.statsd` of the configuration.
    fn statsd(&self) -> Option<StatsdSettings> {
        let host = self.statsd_host.clone()?;
        let prefix = self.statsd_prefix.clone().unwrap_or_default();
        Some(StatsdSettings { host, prefix, tags: self.dogstatsd_tags.clone().unwrap_or_default() })
    }

    /// Returns `log.access` of the configuration.
    fn access(&self) -> Result<Option<Value>, Failure> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let path = match path.to_str() {
            Some("-") => "stdout".to_owned(),
            _ => absolute(path)?,
        };
        let format = self.access_log_format.as_deref().unwrap_or("json");
        Ok(Some(json!({ "path": literal(&path), "format": literal(format) })))
    }

    /// Checks the configuration, and imports the application in a process of its own.
    fn check(
        &self,
        command: &[OsString],
        python: &Value,
        configuration: &Value,
    ) -> Result<(), Failure> {
        load(&TextSource::new("tidegate run", &configuration.to_string()))?;
        let Some((interpreter, arguments)) = command.split_first() else { return Ok(()) };
        let status = Command::new(interpreter)
            .args(arguments)
            .envs(self.environment()?)
            .env(CHECK_VARIABLE, python.to_string())
            .status()
            .map_err(|error| Failure::Failed(format!("Python cannot be started: {error}")))?;
        match status.success() {
            true => crate::output::print(&format!("ok: {} can be served\n", self.program)),
            // The process has reported the reason.
            false => Err(Failure::Exit(1)),
        }
    }

    /// Creates a log for workers of another user, which could not create it in a directory such as
    /// /var/log. One that exists keeps its owner.
    fn create_log(
        &self,
        option: &str,
        file: Option<&Path>,
        identity: Option<Identity>,
    ) -> Result<(), Failure> {
        let file = file.filter(|path| *path != Path::new("-"));
        let Some((path, identity)) = file.zip(identity) else { return Ok(()) };
        let created = std::fs::File::options().append(true).create_new(true).open(path);
        let given = match created {
            Ok(_) => identity.own_file(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        given.map_err(|error| Failure::Failed(format!("{option} {}: {error}", path.display())))
    }

    /// Puts the standard streams of this process into the file of `--error-logfile`.
    fn redirect(&self, identity: Option<Identity>) -> Result<Option<ErrorLog>, Failure> {
        let Some(error_log) = self.lifecycle.error_log()? else { return Ok(None) };
        self.create_log("--error-logfile", Some(&error_log.path), identity)?;
        error_log.redirect().map_err(|error| {
            Failure::Failed(format!("--error-logfile {}: {error}", error_log.path.display()))
        })?;
        Ok(Some(error_log))
    }

    /// Sets the mask and the title of this process, and claims its file.
    fn prepare_process(&self) -> Result<Option<PidFile>, Failure> {
        if let Some(mask) = self.lifecycle.umask {
            net::set_umask(mask);
        }
        if let Some(name) = &self.lifecycle.name {
            net::set_title(&format!("tidegate: supervisor [{name}]"))
                .map_err(|error| Failure::Failed(format!("--name {name}: {error}")))?;
        }
        let Some(path) = &self.lifecycle.pid else { return Ok(None) };
        let failed = |why| format!("cannot use the pid file {}: {why}", path.display());
        PidFile::claim(path).map(Some).map_err(|why| Failure::Failed(failed(why)))
    }

    /// Returns the number of worker processes.
    fn processes(&self) -> Result<usize, Failure> {
        let typed = std::env::var(WORKERS_VARIABLE).unwrap_or_default();
        let default = match typed.parse() {
            _ if typed.is_empty() => 1,
            Ok(count) if count > 0 => count,
            _ => {
                return Err(Failure::Wrong(format!(
                    "{WORKERS_VARIABLE} is \"{typed}\", which is not a number of workers"
                )));
            }
        };
        Ok(self.serving.workers_or(default))
    }
}

/// Returns the filter that adds fields to every response.
fn added_fields(fields: &[(String, String)]) -> Value {
    let mut added = Map::new();
    for (name, value) in fields {
        let text = literal(value).replace('{', "{{").replace('}', "}}");
        let values = added.entry(name.to_ascii_lowercase()).or_insert_with(|| json!([]));
        values.as_array_mut().expect("only lists are inserted").push(json!(text));
    }
    json!({ "response_headers": { "add": added, "always": true } })
}

/// Resolves an address to bind; names are not accepted.
fn bind(address: &Address) -> Result<Bind, Failure> {
    if let Address::Unix(path) = address {
        return Ok(Bind::Unix(path.clone()));
    }
    let local = match address {
        Address::Tcp { host: Named::Name(name), port } if name == "localhost" => {
            Some(([127, 0, 0, 1], *port).into())
        }
        other => other.socket_addr(),
    };
    local.map(Bind::Tcp).ok_or_else(|| {
        Failure::Wrong(format!("\"{address}\" names no address of this machine: write its number"))
    })
}

/// Returns an address as the configuration writes it.
fn written(source: &ListenerSource) -> String {
    match source {
        ListenerSource::Bind(Bind::Tcp(address), _) => address.to_string(),
        ListenerSource::Bind(Bind::Unix(path), _) => format!("unix:{}", path.display()),
        ListenerSource::Descriptor(_) => ANYWHERE.to_owned(),
    }
}

/// Returns the text that is printed when the first worker is ready.
fn greeting(program: &str, scheme: &str, bound: &[Bound]) -> String {
    let places: Vec<_> = bound
        .iter()
        .filter(|bound| bound.name != "admin")
        .map(|one| serving::url(bound, &one.name, scheme))
        .collect();
    format!("serving {program} on {}\n", places.join(" and "))
}

/// Returns an absolute path: workers may start in another directory.
fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::Wrong(format!("{}: {error}", path.display())))?;
    let text = absolute.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::Wrong(format!("the name of {} is not UTF-8 text", absolute.display()))
    })
}

pub(super) fn directory(path: &Path) -> Result<String, Failure> {
    match path.is_dir() {
        true => absolute(path),
        false => Err(Failure::Wrong(format!("{} is not a directory", path.display()))),
    }
}

pub(super) fn file(path: &Path) -> Result<String, Failure> {
    match path.is_file() {
        true => absolute(path),
        false => Err(Failure::Wrong(format!("there is no file {}", path.display()))),
    }
}
