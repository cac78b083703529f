//! The control thread: start, reload, drain, and what the admin API asks.
//!
//! Owns what lives as long as the process: the Plan in use, sockets, workers, logs. Everything that
//! changes the Plan goes through [`Control::put_into_use`], one at a time, and is carried to its
//! end once it has begun (so it must not be given up half-way: see `api`); a Plan that cannot be
//! put into use leaves the one before it serving. Nothing here waits for a disk: what is read and
//! written is so on other threads.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{Applied, Refusal, ReloadStatus, ServerState};
use cache::Caches;
use config::{Kinds, Loaded, ServerPlan, Replaced, Source, Workers};
use exchange::Shared;
use settings::Report;
use telemetry::log::{Format, Level};
use telemetry::{Telemetry, event, families};
use tokio::sync::{Mutex, MutexGuard, Notify};
use upstream::Upstreams;

use crate::admin_sockets::AdminSockets;
use crate::apps::{Apps, LogOptions};
use crate::balance::Balance;
use crate::caches::CacheSweeper;
use crate::changes::{changes, waiting};
use crate::connection_limiter::ConnectionLimiter;
use crate::descriptors::Descriptors;
use crate::history::History;
use crate::listeners::{Listeners, NewSockets};
use crate::logs::Logs;
use crate::options::{Bound, Failure, Options};
use crate::upstreams::UpstreamTasks;
use crate::worker_threads::WorkerThreads;

/// How long a Plan waits for the names of its upstreams' servers.
const RESOLVE_WITHIN: Duration = Duration::from_secs(2);
/// How long the source may take to be read.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// How long a change waits for those ahead of it.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// What a Plan needs of this machine, in our hands before anything else happens.
struct Prepared {
    listeners: NewSockets,
    admin: AdminSockets,
}

/// What a server finds when it starts.
pub(crate) struct StartContext {
    pub(crate) shared: Arc<Shared>,
    /// Sockets that it was started with.
    pub(crate) inherited: Vec<net::Inherited>,
    /// Whether it is one of several processes that a supervisor looks after: then that one has the
    /// admin API.
    pub(crate) is_worker_process: bool,
    /// With other processes that accept on the same sockets.
    pub(crate) balance: Option<Arc<Balance>>,
}

impl StartContext {
    /// Of a process of its own.
    pub(crate) fn own() -> Result<StartContext, Failure> {
        let inherited = net::inherited().map_err(|error| Failure::Start(error.to_string()))?;
        Ok(StartContext {
            shared: Arc::default(),
            inherited,
            is_worker_process: false,
            balance: None,
        })
    }
}

/// The server, seen from its control thread.
pub(crate) struct Control {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) shared: Arc<Shared>,
    /// Held for the whole life of the process: the shared state keeps it only for its holders.
    pub(crate) upstreams: Arc<Upstreams>,
    /// Held likewise.
    pub(crate) caches: Arc<Caches>,
    _cache_sweeper: CacheSweeper,
    /// Health checks and name resolution; taken when the server has drained.
    pub(crate) upstream_tasks: RefCell<Option<UpstreamTasks>>,
    pub(crate) started_ms: u64,
    pub(crate) worker_threads: WorkerThreads,
    pub(crate) server_limiter: Arc<ConnectionLimiter>,
    /// Measured when the first Plan is put into use.
    pub(crate) descriptors: Cell<Descriptors>,
    plan: RefCell<Arc<ServerPlan>>,
    listeners: RefCell<Listeners>,
    /// Bound for the Plan in use and not yet taken by the reception.
    pub(crate) admin_sockets: RefCell<AdminSockets>,
    logs: RefCell<Logs>,
    /// Held while the Plan is changed.
    changing: Mutex<()>,
    pub(crate) state: Cell<ServerState>,
    pub(crate) last_reload: RefCell<Option<ReloadStatus>>,
    /// Requested over the admin API.
    pub(crate) drain_requested: Notify,
    pub(crate) reload_requested: Notify,
    /// The Plan in use or the watched files have changed: wakes the main loop on
    /// the control thread.
    pub(crate) plan_changed: Notify,
    /// Files whose change is worth a reload.
    pub(crate) watched: RefCell<Vec<PathBuf>>,
    /// What was read last.
    last_fingerprint: RefCell<SourceFingerprint>,
    is_worker_process: bool,
    pub(crate) apps: Apps,
    /// What the command line says of events.
    log_overrides: (Option<Level>, Option<Format>),
}

/// What tells two readings of the source apart.
#[derive(PartialEq, Eq)]
enum SourceFingerprint {
    Plan(String, Vec<config::Part>),
    Errors(String),
}

impl SourceFingerprint {
    fn of(loaded: Result<Loaded, Report>) -> (Result<Loaded, Report>, SourceFingerprint) {
        let fingerprint = match &loaded {
            Ok(loaded) => SourceFingerprint::of_plan(&loaded.plan),
            Err(report) => SourceFingerprint::Errors(report.render()),
        };
        (loaded, fingerprint)
    }

    fn of_plan(plan: &ServerPlan) -> SourceFingerprint {
        SourceFingerprint::Plan(plan.version.clone(), plan.parts.clone())
    }
}

/// Under a limit on addresses, threads that cannot be started end the server later.
fn enough_addresses(workers: usize) -> Result<(), Failure> {
    let (Some(limit), Some(used)) = (net::address_space_limit(), net::address_space_bytes()) else {
        return Ok(());
    };
    let needed = used + net::worker::addresses_of(workers);
    if needed <= limit {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    Err(Failure::Start(format!(
        "the address space is limited to {} MiB, and {workers} workers need {} MiB, caches not \
         counted: raise the limit (ulimit -v, LimitAS=), or start fewer workers (--workers)",
        limit / 1024 / 1024,
        mib(needed)
    )))
}

impl Control {
    /// Starts workers and puts the first Plan into use.
    pub(crate) async fn start(
        source: Arc<dyn Source>,
        loaded: Loaded,
        telemetry: Arc<Telemetry>,
        options: &Options,
        start_context: StartContext,
    ) -> Result<Rc<Control>, Failure> {
        let StartContext { shared, inherited, is_worker_process, balance } = start_context;
        let apps = Apps::new(shared.clone(), telemetry.clone());
        let plan = loaded.plan.clone();
        let count = match options.workers.unwrap_or(plan.workers) {
            Workers::Auto => net::worker::allowed_cores().len().max(1),
            Workers::Count(count) => usize::from(count),
        };
        enough_addresses(count)?;
        let affinity = options.cpu_affinity;
        let worker_threads =
            WorkerThreads::start(count, affinity, &telemetry, &shared, balance.as_ref()).map_err(
                |error| Failure::Start(format!("the workers cannot be started: {error}")),
            )?;
        let watched = RefCell::new(watched(&*source, loaded.files));
        let last_fingerprint = RefCell::new(SourceFingerprint::of_plan(&plan));
        let caches = Caches::of(&shared);
        let control = Rc::new(Control {
            source,
            telemetry,
            upstreams: Upstreams::of(&shared),
            _cache_sweeper: CacheSweeper::start(&caches),
            caches,
            upstream_tasks: RefCell::default(),
            shared,
            started_ms: telemetry::timestamp::now_ms(),
            worker_threads,
            server_limiter: ConnectionLimiter::new(plan.limits.connections as usize),
            descriptors: Cell::new(Descriptors::measure()),
            plan: RefCell::new(plan.clone()),
            listeners: RefCell::new(Listeners::inheriting(inherited)),
            admin_sockets: RefCell::default(),
            logs: RefCell::default(),
            changing: Mutex::new(()),
            state: Cell::new(ServerState::Starting),
            last_reload: RefCell::default(),
            drain_requested: Notify::new(),
            reload_requested: Notify::new(),
            plan_changed: Notify::new(),
            watched,
            last_fingerprint,
            is_worker_process,
            apps,
            log_overrides: (options.log_level, options.log_format),
        });
        control.upstream_tasks.replace(Some(UpstreamTasks::start(&control.upstreams)));
        let prepared = control.prepare(&plan, None).map_err(Failure::Start)?;
        control.put_into_use(plan, prepared).await.map_err(Failure::Start)?;
        // A counter is exported from the start, or its first step is no increase to Prometheus.
        for family in [&families::CONFIG_RELOADS, &families::CONFIG_RELOAD_FAILURES] {
            control.telemetry.counter(family, &[]);
        }
        control.show_last(true);
        for socket in control.listeners.borrow().unclaimed() {
            event!(Level::Warn, "no listener asks for an inherited socket", socket = socket);
        }
        control.show_descriptors(is_worker_process);
        control.state.set(ServerState::Serving);
        Ok(control)
    }

    pub(crate) fn plan(&self) -> Arc<ServerPlan> {
        self.plan.borrow().clone()
    }

    /// Where the server listens.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.listeners.borrow().bound(&self.plan.borrow())
    }

    /// Removes the files of Unix sockets, so that no new client finds them.
    pub(crate) fn remove_socket_files(&self) {
        self.listeners.borrow_mut().remove_files();
    }

    pub(crate) fn reopen_logs(&self) {
        self.logs.borrow().reopen();
    }

    /// Waits until no other change is in progress. Draining workers take no Plan any more.
    async fn begin_change(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        let turn = net::timer::within(TURN_WITHIN, self.changing.lock()).await;
        match self.state.get() {
            ServerState::Draining => Err(Refusal::Unable("the server is draining".to_owned())),
            ServerState::Starting | ServerState::Serving => turn.ok_or(Refusal::Busy),
        }
    }

    /// Reads the source again and puts what it says into use.
    pub(crate) async fn reload_now(&self) -> Result<Applied, Refusal> {
        let _changing = self.begin_change().await?;
        let result = self.reload_alone().await;
        self.note_reload(&result);
        if let (Ok(_), Some(group)) = (&result, self.apps.running()) {
            group.reload().await.map_err(Refusal::Failed)?;
        }
        result
    }

    async fn reload_alone(&self) -> Result<Applied, Refusal> {
        let (loaded, fingerprint) = self.read(|source| SourceFingerprint::of(load(source))).await?;
        self.last_fingerprint.replace(fingerprint);
        match loaded {
            Ok(loaded) => match self.prepare(&loaded.plan, Some(&self.plan())) {
                Ok(prepared) => self.replace(loaded, prepared).await,
                Err(why) => {
                    self.watch(loaded.files);
                    Err(Refusal::Unable(why))
                }
            },
            Err(report) => {
                self.watch(report.files());
                Err(Refusal::Invalid(Box::new(report)))
            }
        }
    }

    /// Checks a text, writes it to the source and puts it into use.
    pub(crate) async fn apply_text(
        &self,
        text: String,
        expect: &admin::Expect,
    ) -> Result<Applied, Refusal> {
        let _changing = self.begin_change().await?;
        let result = self.apply_text_alone(text, expect).await;
        self.note_reload(&result);
        result
    }

    async fn apply_text_alone(
        &self,
        text: String,
        expect: &admin::Expect,
    ) -> Result<Applied, Refusal> {
        let read = self.read(|source| {
            let before = source.main();
            let replaced = Replaced { source, text };
            (before, load(&replaced), replaced.text)
        });
        let (before, loaded, text) = read.await?;
        let before = before.map_err(Refusal::Failed)?;
        let current = before.version();
        if !expect.allows(&current) {
            return Err(Refusal::Stale { current });
        }
        let loaded = loaded.map_err(|report| Refusal::Invalid(Box::new(report)))?;
        let fingerprint = SourceFingerprint::of_plan(&loaded.plan);
        let prepared = self.prepare(&loaded.plan, Some(&self.plan())).map_err(Refusal::Unable)?;
        self.write(text.clone()).await?;
        match self.replace(loaded, prepared).await {
            Ok(applied) => {
                self.last_fingerprint.replace(fingerprint);
                self.keep_history(current, before.text, text).await;
                Ok(applied)
            }
            Err(refusal) => {
                // The file must say what is served.
                if let Err(error) = self.write(before.text).await {
                    let error = error.errors().join("; ");
                    event!(
                        Level::Error,
                        "the configuration file could not be put back",
                        error = error
                    );
                }
                Err(refusal)
            }
        }
    }

    /// Reads on another thread: a disk, or a pipe without a writer, may block.
    async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&dyn Source) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let source = self.source.clone();
        let read = net::blocking(move || reading(&*source));
        match net::timer::within(READ_WITHIN, read).await {
            Some(read) => read.map_err(|error| Refusal::Failed(error.to_string())),
            None => Err(Refusal::Failed(format!(
                "the configuration could not be read within {} s",
                READ_WITHIN.as_secs()
            ))),
        }
    }

    /// Replaces the main document.
    async fn write(&self, text: String) -> Result<(), Refusal> {
        let source = self.source.clone();
        let written = net::blocking(move || source.replace(&text)).await;
        written.map_err(|error| Refusal::Failed(error.to_string()))?.map_err(Refusal::ReadOnly)
    }

    async fn keep_history(&self, version: String, before: String, after: String) {
        let Some(history) = self.source.file().map(History::of) else { return };
        let now = telemetry::timestamp::now_ms();
        let version_after = self.plan.borrow().version.clone();
        let kept = net::blocking(move || {
            history.keep(&version, &before, now.saturating_sub(1))?;
            history.keep(&version_after, &after, now)
        });
        if let Err(error) = kept.await.and_then(|kept| kept) {
            event!(
                Level::Warn,
                "the history of the configuration cannot be written",
                error = error
            );
        }
    }

    async fn replace(&self, loaded: Loaded, prepared: Prepared) -> Result<Applied, Refusal> {
        let plan = loaded.plan.clone();
        let mut changes = changes(&self.plan.borrow(), &plan);
        let waiting = waiting(&self.plan.borrow(), &plan);
        let version = plan.version.clone();
        let in_use = self.put_into_use(plan, prepared).await.map_err(Refusal::Failed);
        self.watch(loaded.files);
        in_use?;
        for what in &waiting {
            event!(Level::Warn, "not everything of the configuration is in use", because = what);
        }
        changes.extend(waiting);
        Ok(Applied { version, changes })
    }

    /// Watches what the latest attempt depends on, also where it was refused: what was wrong may be
    /// fixed in a file that the Plan in use does not depend on.
    fn watch(&self, files: Vec<PathBuf>) {
        self.watched.replace(watched(&*self.source, files));
        self.plan_changed.notify_waiters();
    }

    /// Whether the source says something else by now than when it was read last: asked when more of
    /// it is watched than before, because changes between the two were not noticed.
    pub(crate) async fn source_has_changed(&self) -> bool {
        let read = self.read(|source| SourceFingerprint::of(load(source)).1).await;
        read.is_ok_and(|fingerprint| fingerprint != *self.last_fingerprint.borrow())
    }

    /// Gets what a Plan needs of this machine; on failure nothing has changed.
    fn prepare(&self, plan: &ServerPlan, before: Option<&ServerPlan>) -> Result<Prepared, String> {
        let listeners = self.listeners.borrow().bind(plan, self.worker_threads.len())?;
        let admin = if self.is_worker_process {
            AdminSockets::default()
        } else {
            AdminSockets::bind(&plan.admin, before.map(|before| &before.admin))?
        };
        self.logs.borrow().check(&plan.log)?;
        Ok(Prepared { listeners, admin })
    }

    async fn put_into_use(&self, plan: Arc<ServerPlan>, prepared: Prepared) -> Result<(), String> {
        let opened = self.worker_threads.adopt(prepared.listeners).await?;
        let logs = self.logs.borrow_mut().apply(&plan.log, &self.telemetry);
        logs.inspect_err(|_| self.worker_threads.forget())?;
        let upstreams = plan.upstreams.iter().map(|(name, settings)| (&**name, &**settings));
        self.upstreams.apply(upstreams, &self.telemetry);
        let caches = plan.caches.iter().map(|(name, settings)| (&**name, settings));
        self.caches.apply(caches, &self.telemetry);
        if !self.is_worker_process {
            let log_options = LogOptions::of(&plan.log, self.log_overrides);
            self.apps.follow(&plan.apps, &self.directory(), &log_options);
        }
        // So that the first request finds a server; names that take longer come when they come.
        self.upstreams.settled(RESOLVE_WITHIN).await;
        if self.state.get() == ServerState::Starting {
            // By now the sockets, logs and caches of the Plan are open.
            self.descriptors.set(Descriptors::measure());
        }
        let connections = plan.limits.connections as usize;
        self.server_limiter
            .set_limit_within(connections, self.descriptors.get().connections(&plan));
        // Taken out for the wait, while the admin API may look at the listeners.
        let mut listeners = self.listeners.take();
        let logs = self.logs.take();
        let served = self
            .worker_threads
            .serve(&plan, &mut listeners, opened, &self.server_limiter, &logs)
            .await;
        self.listeners.replace(listeners);
        self.logs.replace(logs);
        served?;
        self.apps.stop_removed(&plan.apps);
        self.admin_sockets.borrow_mut().add(prepared.admin);
        *self.plan.borrow_mut() = plan;
        Ok(())
    }

    /// Where applications start by default: the directory of the configuration file.
    fn directory(&self) -> PathBuf {
        let file = self.source.file().and_then(|file| std::path::absolute(file).ok());
        let directory = file.and_then(|file| file.parent().map(PathBuf::from));
        directory.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
    }

    /// Shows how the configuration offered last fared.
    fn show_last(&self, is_in_use: bool) {
        self.telemetry.gauge(&families::CONFIG_LAST_OK, &[]).set(i64::from(is_in_use));
        if is_in_use {
            let now_s = telemetry::timestamp::now_ms() / 1000;
            let time = self.telemetry.gauge(&families::CONFIG_LAST_TIME, &[]);
            time.set(i64::try_from(now_s).unwrap_or(i64::MAX));
        }
    }

    fn note_reload(&self, result: &Result<Applied, Refusal>) {
        let errors = match result {
            Ok(applied) => {
                self.telemetry.counter(&families::CONFIG_RELOADS, &[]).inc();
                self.show_last(true);
                // Where an application is run, the configuration is ours and says nothing new.
                if self.apps.running().is_none() {
                    event!(
                        Level::Info,
                        "configuration in use",
                        version = applied.version,
                        changes = applied.changes.len()
                    );
                }
                Vec::new()
            }
            Err(Refusal::Busy | Refusal::Stale { .. }) => return,
            Err(refusal) => {
                self.telemetry.counter(&families::CONFIG_RELOAD_FAILURES, &[]).inc();
                self.show_last(false);
                let errors = refusal.errors();
                event!(
                    Level::Error,
                    "configuration rejected, keeping the previous one",
                    errors = errors.join("; ")
                );
                errors
            }
        };
        let at_ms = telemetry::timestamp::now_ms();
        *self.last_reload.borrow_mut() = Some(ReloadStatus { at_ms, errors });
    }
}

/// Reads, checks and freezes what a source has.
pub(crate) fn load(source: &dyn Source) -> Result<Loaded, Report> {
    config::load(source, &config::process_environment, &Kinds::all())
}

/// The main file, and all that was read or looked for besides.
fn watched(source: &dyn Source, files: Vec<PathBuf>) -> Vec<PathBuf> {
    source.file().map(PathBuf::from).into_iter().chain(files).collect()
}
