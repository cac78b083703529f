//! The control thread: start, reload, drain, and the requests of the admin API.
//!
//! Owns what lives as long as the process: the current plan, sockets, workers, logs. Every change
//! of the plan goes through [`Control::put_into_use`], one at a time, and is completed once it has
//! begun (it must not be cancelled: see `api`). If a plan cannot be put into use the previous one
//! keeps serving. Disk access runs on other threads.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use acme::Acme;
use admin::{Applied, Refusal, ServerState};
use cache::Caches;
use config::{Loaded, NewConfig, ServerPlan, Source, Workers};
use http_server::LiveLog;
use otlp::{LogExporter, MetricsExporter, TraceExporter};
use plugin::Shared;
use telemetry::log::{Format, Level};
use telemetry::{MarkKind, RecentErrors, Telemetry, event};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use upstream::Upstreams;

use crate::admin_sockets::AdminSockets;
use crate::app_processes::{Apps, LogOptions};
use crate::balance::Balance;
use crate::caches::CacheSweeper;
use crate::changes::{changes, waiting};
use crate::config_source::{ConfigSource, SourceFingerprint, load, load_new, replaceable};
use crate::connection_limiter::ConnectionLimiter;
use crate::descriptors::Descriptors;
use crate::fleet_nodes::NodeReports;
use crate::listeners::{Listeners, NewSockets};
use crate::logs::{Events, Logs};
use crate::options::{Bound, Failure, Options};
use crate::purges::FleetPurges;
use crate::reload_result::ReloadResult;
use crate::upstreams::UpstreamTasks;
use crate::worker_threads::WorkerThreads;

/// Time-out of resolving the names of a plan's upstream servers.
const RESOLVE_WITHIN: Duration = Duration::from_secs(2);
/// Time-out of waiting for earlier changes.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// The resources of a plan, acquired before anything is changed.
struct PreparedPlan {
    listeners: NewSockets,
    admin: AdminSockets,
}

/// What a server is started with.
pub(crate) struct StartContext {
    pub(crate) shared: Arc<Shared>,
    /// Inherited sockets.
    pub(crate) inherited: Vec<net::Inherited>,
    /// True for a process of a supervisor, which has the admin API.
    pub(crate) is_worker_process: bool,
    /// Balances connections with processes that accept on the same sockets.
    pub(crate) balance: Option<Arc<Balance>>,
    /// Writes the event log.
    pub(crate) events: Events,
}

impl StartContext {
    /// The context of a process without a supervisor.
    pub(crate) fn own(events: &Events) -> Result<StartContext, Failure> {
        let inherited = net::inherited().map_err(|error| Failure::Start(error.to_string()))?;
        Ok(StartContext {
            shared: Arc::default(),
            inherited,
            is_worker_process: false,
            balance: None,
            events: events.clone(),
        })
    }
}

/// The server, seen from its control thread.
pub(crate) struct Control {
    pub(crate) source: ConfigSource,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) shared: Arc<Shared>,
    /// Kept for the life of the process: the shared state holds only weak references.
    pub(crate) upstreams: Arc<Upstreams>,
    /// Kept likewise.
    pub(crate) consumers: Arc<auth::Registry>,
    pub(crate) identity_tasks: auth::IdentityTasks,
    /// Kept likewise.
    pub(crate) quotas: Arc<traffic::Quotas>,
    /// Kept likewise.
    pub(crate) live_log: Arc<LiveLog>,
    /// Kept likewise.
    pub(crate) caches: Arc<Caches>,
    /// Kept likewise.
    pub(crate) script_errors: Arc<RecentErrors>,
    _cache_sweeper: CacheSweeper,
    /// Health checks and name resolution; taken when the server has drained.
    pub(crate) upstream_tasks: RefCell<Option<UpstreamTasks>>,
    pub(crate) started_ms: u64,
    pub(crate) worker_threads: WorkerThreads,
    pub(crate) server_limiter: Arc<ConnectionLimiter>,
    /// Measured when the first plan is put into use.
    pub(crate) descriptors: Cell<Descriptors>,
    plan: RefCell<Arc<ServerPlan>>,
    listeners: RefCell<Listeners>,
    /// Bound for the current plan and not yet taken by the admin listener.
    pub(crate) admin_sockets: RefCell<AdminSockets>,
    logs: RefCell<Logs>,
    pub(crate) traces: TraceExporter,
    pub(crate) metrics_export: MetricsExporter,
    pub(crate) log_export: LogExporter,
    /// Settles the limits that several servers share.
    pub(crate) settlement: traffic::Settlement,
    /// Sends purges to the other servers, and applies theirs.
    pub(crate) purges: FleetPurges,
    /// Set if the configuration is in etcd.
    pub(crate) nodes: OnceCell<NodeReports>,
    /// Held while the plan is changed.
    changing: Mutex<()>,
    pub(crate) state: Cell<ServerState>,
    pub(crate) reload_result: ReloadResult,
    /// Requested over the admin API.
    pub(crate) drain_requested: Notify,
    pub(crate) reload_requested: Notify,
    /// The current plan or the watched files have changed: wakes the main loop on the control
    /// thread. A change while it follows the one before is not lost.
    pub(crate) plan_changed: watch::Sender<()>,
    is_worker_process: bool,
    pub(crate) apps: Apps,
    pub(crate) acme: Acme,
    /// Log settings of the command line.
    log_overrides: (Option<Level>, Option<Format>),
}

/// The number of workers of a setting.
fn worker_count(workers: Workers) -> usize {
    match workers {
        Workers::Auto => net::worker::allowed_cores().len().max(1),
        Workers::Count(count) => usize::from(count),
    }
}

/// Checks the limit on address space: threads that cannot be started would end the server later.
fn enough_addresses(workers: usize) -> Result<(), Failure> {
    let Some(limit) = net::address_space_limit() else { return Ok(()) };
    let Some(used) = net::address_space_bytes() else { return Ok(()) };
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
    /// Starts workers and puts the first plan into use.
    pub(crate) async fn start(
        source: Arc<dyn Source>,
        loaded: Loaded,
        telemetry: Arc<Telemetry>,
        options: &Options,
        start_context: StartContext,
    ) -> Result<Rc<Control>, Failure> {
        let StartContext { shared, inherited, is_worker_process, balance, events } = start_context;
        let plan = loaded.plan.clone();
        let count = worker_count(options.workers.unwrap_or(plan.workers));
        enough_addresses(count)?;
        let affinity = options.cpu_affinity;
        let worker_threads =
            WorkerThreads::start(count, affinity, &telemetry, &shared, balance.as_ref()).map_err(
                |error| Failure::Start(format!("the workers cannot be started: {error}")),
            )?;
        let caches = Caches::of(&shared);
        let control = Rc::new(Control {
            source: ConfigSource::new(source, &loaded),
            reload_result: ReloadResult::new(&telemetry),
            upstreams: Upstreams::of(&shared),
            consumers: shared.get((), auth::Registry::default),
            identity_tasks: auth::IdentityTasks::new(&shared, &telemetry),
            quotas: shared.get((), traffic::Quotas::default),
            live_log: shared.get((), LiveLog::default),
            script_errors: lua_host::script_errors(&shared),
            _cache_sweeper: CacheSweeper::start(&caches),
            purges: FleetPurges::new(&caches, &telemetry, options.etcd.clone()),
            nodes: OnceCell::new(),
            caches,
            upstream_tasks: RefCell::default(),
            traces: TraceExporter::new(&telemetry),
            metrics_export: MetricsExporter::new(&telemetry),
            log_export: LogExporter::new(&telemetry),
            settlement: traffic::Settlement::new(&shared, &telemetry),
            apps: Apps::new(shared.clone(), telemetry.clone()),
            acme: Acme::new(&shared, &telemetry),
            shared,
            telemetry,
            started_ms: telemetry::timestamp::now_ms(),
            worker_threads,
            server_limiter: ConnectionLimiter::new(plan.limits.connections as usize),
            descriptors: Cell::new(Descriptors::measure()),
            plan: RefCell::new(plan.clone()),
            listeners: RefCell::new(Listeners::inheriting(inherited)),
            admin_sockets: RefCell::default(),
            logs: RefCell::new(Logs::new(events)),
            changing: Mutex::new(()),
            state: Cell::new(ServerState::Starting),
            drain_requested: Notify::new(),
            reload_requested: Notify::new(),
            plan_changed: watch::Sender::new(()),
            is_worker_process,
            log_overrides: (options.log_level, options.log_format),
        });
        control.upstream_tasks.replace(Some(UpstreamTasks::start(&control.upstreams)));
        if let (Some(file), false) = (&plan.admin.consumer_changes, is_worker_process) {
            control.consumers.open_changes(file).map_err(Failure::Start)?;
        }
        let prepared = control.prepare(&plan, None).map_err(Failure::Start)?;
        control.put_into_use(plan, prepared).await.map_err(Failure::Start)?;
        control.reload_result.show_last(true);
        for socket in control.listeners.borrow().unclaimed() {
            event!(Level::Warn, "no listener asks for an inherited socket", socket = socket);
        }
        control.descriptors.get().log(&control.server_limiter, is_worker_process);
        control.state.set(ServerState::Serving);
        control.telemetry.marks().add(MarkKind::Neutral, "the server has started");
        Ok(control)
    }

    pub(crate) fn plan(&self) -> Arc<ServerPlan> {
        self.plan.borrow().clone()
    }

    /// Returns the bound addresses.
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

    /// Waits until no other change is in progress. A draining server takes no new plan.
    async fn begin_change(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        let turn = net::timer::within(TURN_WITHIN, self.changing.lock()).await;
        match self.state.get() {
            ServerState::Draining => Err(Refusal::Unable("the server is draining".to_owned())),
            ServerState::Starting | ServerState::Serving => turn.ok_or(Refusal::Busy),
        }
    }

    /// Reads the source again and puts it into use.
    pub(crate) async fn reload_now(&self) -> Result<Applied, Refusal> {
        self.reload_after(|| {}).await
    }

    /// Calls `begin` once no other change is in progress, and reloads.
    pub(crate) async fn reload_after(&self, begin: impl FnOnce()) -> Result<Applied, Refusal> {
        let _changing = self.begin_change().await?;
        begin();
        let result = self.reload_alone().await;
        self.reload_result.note(&result, self.apps.running().is_some());
        if let (Ok(_), Some(group)) = (&result, self.apps.running()) {
            group.reload().await.map_err(Refusal::Failed)?;
        }
        result
    }

    async fn reload_alone(&self) -> Result<Applied, Refusal> {
        let loaded = self.source.read(load).await?;
        self.source.set_fingerprint(SourceFingerprint::of(&loaded));
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

    /// Returns the changes that a configuration would make.
    pub(crate) async fn check_config(&self, new: NewConfig) -> Result<Vec<String>, Refusal> {
        let read = self
            .source
            .read(move |source| replaceable(source, &new).map(|_| load_new(source, &new)));
        let loaded = read.await??;
        let loaded = loaded.map_err(|report| Refusal::Invalid(Box::new(report)))?;
        let plan = self.plan();
        let mut changes = changes(&plan, &loaded.plan);
        changes.extend(waiting(&plan, &loaded.plan));
        Ok(changes)
    }

    /// Checks a configuration, writes it to the source and puts it into use.
    pub(crate) async fn apply_config(
        &self,
        new: NewConfig,
        expect: &admin::Expect,
    ) -> Result<Applied, Refusal> {
        let _changing = self.begin_change().await?;
        let result = self.apply_config_alone(new, expect).await;
        self.reload_result.note(&result, self.apps.running().is_some());
        result
    }

    async fn apply_config_alone(
        &self,
        new: NewConfig,
        expect: &admin::Expect,
    ) -> Result<Applied, Refusal> {
        let read = self.source.read(move |source| {
            let before = replaceable(source, &new)?;
            Ok::<_, Refusal>((before, load_new(source, &new), new))
        });
        let ((before, current), loaded, new) = read.await??;
        if !expect.allows(&current) {
            return Err(Refusal::Stale { current });
        }
        let loaded = loaded.map_err(|report| Refusal::Invalid(Box::new(report)))?;
        let fingerprint = SourceFingerprint::of_plan(&loaded);
        let prepared = self.prepare(&loaded.plan, Some(&self.plan())).map_err(Refusal::Unable)?;
        self.source.write(new.clone()).await?;
        match self.replace(loaded, prepared).await {
            Ok(applied) => {
                self.source.set_fingerprint(fingerprint);
                if let (NewConfig::Main(before), NewConfig::Main(text)) = (before, new) {
                    let version = self.plan.borrow().version.clone();
                    self.source.keep_history((current, before), (version, text)).await;
                }
                Ok(applied)
            }
            Err(refusal) => {
                // The file must contain what is served.
                if let Err(error) = self.source.write(before).await {
                    let error = error.errors().join("; ");
                    event!(
                        Level::Error,
                        "the configuration file could not be restored",
                        error = error
                    );
                }
                Err(refusal)
            }
        }
    }

    async fn replace(&self, loaded: Loaded, prepared: PreparedPlan) -> Result<Applied, Refusal> {
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

    /// Watches the files of the latest attempt, also if it was rejected: the error may be fixed in
    /// a file that the current plan does not depend on.
    fn watch(&self, files: Vec<PathBuf>) {
        self.source.watch(files);
        self.plan_changed.send_replace(());
    }

    /// Acquires the resources of a plan; on failure nothing has changed.
    fn prepare(
        &self,
        plan: &ServerPlan,
        before: Option<&ServerPlan>,
    ) -> Result<PreparedPlan, String> {
        let listeners = self.listeners.borrow().bind(plan, self.worker_threads.len())?;
        let admin = if self.is_worker_process {
            AdminSockets::default()
        } else {
            AdminSockets::bind(&plan.admin, before.map(|before| &before.admin))?
        };
        self.logs.borrow().check(&plan.log)?;
        if !self.is_worker_process {
            self.purges.check(plan)?;
        }
        Ok(PreparedPlan { listeners, admin })
    }

    async fn put_into_use(
        &self,
        plan: Arc<ServerPlan>,
        prepared: PreparedPlan,
    ) -> Result<(), String> {
        let opened = self.worker_threads.adopt(prepared.listeners).await?;
        if !self.is_worker_process {
            self.log_export.follow(plan.log_export.as_ref());
        }
        let logs = self.logs.borrow_mut().apply(&plan.log, &self.log_export, &self.telemetry);
        logs.inspect_err(|_| self.worker_threads.forget())?;
        if !self.is_worker_process {
            self.metrics_export.follow(plan.metrics_export.as_ref());
        }
        let upstreams = plan.upstreams.iter().map(|(name, upstream)| (&**name, upstream));
        self.upstreams.apply(upstreams, &self.telemetry);
        self.identity_tasks.start(&plan.identity);
        let caches = plan.caches.iter().map(|(name, settings)| (&**name, settings));
        self.caches.set_shares_purges(plan.purges.is_some() && !self.is_worker_process);
        self.caches.apply(caches, &self.telemetry);
        if !self.is_worker_process {
            let log_options = LogOptions::of(&plan.log, self.log_overrides);
            self.apps.follow(&plan.apps, &self.source.directory(), &log_options);
        }
        // The first request should find a server; names that resolve later are added later.
        self.upstreams.wait_resolved(RESOLVE_WITHIN).await;
        if self.state.get() == ServerState::Starting {
            // The sockets, logs and caches of the plan are open now.
            self.descriptors.set(Descriptors::measure());
        }
        let connections = plan.limits.connections as usize;
        self.server_limiter
            .set_limit_within(connections, self.descriptors.get().connections(&plan));
        let traces = self.traces.follow(plan.traces.as_ref());
        self.settlement.follow(plan.shared.as_ref());
        if !self.is_worker_process {
            self.purges.follow(&plan);
        }
        // Taken for the duration of the wait, because the admin API may read the listeners.
        let mut listeners = self.listeners.take();
        let logs = self.logs.take();
        let served = self
            .worker_threads
            .serve(&plan, &mut listeners, opened, &self.server_limiter, &logs, traces.as_ref())
            .await;
        self.listeners.replace(listeners);
        self.logs.replace(logs);
        served?;
        self.apps.stop_removed(&plan.apps);
        self.identity_tasks.retain(&plan.identity);
        self.admin_sockets.borrow_mut().add(prepared.admin);
        *self.plan.borrow_mut() = plan;
        self.remove_ended_changes().await;
        Ok(())
    }

    /// Removes changes of consumers from their file that the current plan has ended.
    async fn remove_ended_changes(&self) {
        let consumers = self.consumers.clone();
        let removed = net::blocking(move || consumers.remove_ended_changes()).await;
        if let Err(error) = removed.unwrap_or_else(|error| Err(error.to_string())) {
            event!(
                Level::Error,
                "changes of consumers that the configuration has ended may return with an earlier \
                 configuration",
                error = error
            );
        }
    }
}
