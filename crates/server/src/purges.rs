//! Purges that reach every server: this server writes its own to a log in etcd or Redis, and
//! applies those of the others.
//!
//! The rules are in `cache::shared_purges`; here are the two logs, and what follows them on the
//! control thread. Promises that no request waits for the log, and that a purge that cannot be
//! written is reported.

mod applier;
mod etcd_log;
mod limits;
mod metrics;
mod redis_log;
mod redis_scripts;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{CacheRequestError, FleetPurge, MissingServer, Purged, WaitedPurge};
use cache::shared_purges::{
    LogPosition, NodeReport, OutgoingPurge, PurgeEntry, PurgeReceipt, PurgeSpread,
};
use cache::{Caches, PurgeRequest, PurgesSettings, PurgesThrough, Unpublished};
use config::ServerPlan;
use etcd::{Etcd, EtcdSettings};
use net::clock;
use net::task::JoinHandle;
use net::{Resolver, timer};
use plugin::WorkerContext;
use redis::RedisPlan;
use telemetry::Telemetry;
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::{Semaphore, mpsc};

use crate::etcd_address::{hostname, node_name};
use crate::etcd_source::EtcdSource;
use applier::Applier;
use etcd_log::EtcdLog;
use limits::{LOOK_FIRST, LOOK_MAX, WAITS};
use metrics::PurgeMetrics;
use redis_log::RedisLog;

/// The longest time for writing a purge, and for reading which servers have applied it.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest time for a call of etcd, all its attempts included.
const ETCD_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a server looks which others are behind, in a fleet of up to ten.
const BEHIND_EVERY: Duration = Duration::from_secs(15);

/// A purge in the log.
struct Published {
    number: u64,
    mark: String,
}

/// What a log says about the servers that follow it.
struct ServerList {
    /// False if the log has lost the entry that was asked about.
    has_entry: bool,
    /// Servers may be missing: so long ago the log was lost.
    lost: Option<Duration>,
    nodes: Vec<NodeReport>,
}

enum PurgeLog {
    Etcd(EtcdLog),
    Redis(Box<RedisLog>),
}

impl PurgeLog {
    fn describe(&self) -> String {
        match self {
            PurgeLog::Etcd(log) => log.describe(),
            PurgeLog::Redis(log) => log.describe(),
        }
    }

    fn node(&self) -> &str {
        match self {
            PurgeLog::Etcd(log) => log.node(),
            PurgeLog::Redis(log) => log.node(),
        }
    }

    /// True if this server has the same entry among the servers of both.
    fn is_same(&self, other: &PurgeLog) -> bool {
        let is_one_place = match (self, other) {
            (PurgeLog::Etcd(log), PurgeLog::Etcd(other)) => log.describe() == other.describe(),
            (PurgeLog::Redis(log), PurgeLog::Redis(other)) => log.place() == other.place(),
            _ => false,
        };
        is_one_place && self.node() == other.node()
    }

    async fn follow(&self, applier: &Applier) {
        match self {
            PurgeLog::Etcd(log) => log.follow(applier).await,
            PurgeLog::Redis(log) => log.follow(applier).await,
        }
    }

    async fn publish(&self, mark: &str, entry: &str) -> Result<u64, String> {
        let published = async {
            match self {
                PurgeLog::Etcd(log) => {
                    log.publish(mark, entry).await.map_err(|error| error.to_string())
                }
                PurgeLog::Redis(log) => log.publish(mark, entry).await,
            }
        };
        let why = || Err(format!("no response within {} s", WITHIN.as_secs()));
        timer::within(WITHIN, published).await.unwrap_or_else(why)
    }

    async fn servers(&self, purge: &Published) -> Result<ServerList, String> {
        match self {
            PurgeLog::Etcd(log) => log.servers(purge).await.map_err(|error| error.to_string()),
            PurgeLog::Redis(log) => log.servers(purge).await,
        }
    }

    async fn leave(&self) {
        match self {
            PurgeLog::Etcd(log) => log.leave().await,
            PurgeLog::Redis(log) => log.leave().await,
        }
    }
}

/// The purges that this server shares under the current plan.
pub(crate) struct FleetPurges {
    caches: Arc<Caches>,
    telemetry: Arc<Telemetry>,
    /// The source of the configuration, if that is etcd.
    etcd: Option<Arc<EtcdSource>>,
    /// This process, among those that have had the name of this server.
    process: String,
    running: RefCell<Option<Running>>,
}

/// What shares purges under one plan, and its tasks.
struct Running {
    sharing: Rc<Sharing>,
    shared: Option<Arc<RedisPlan>>,
    tasks: Vec<JoinHandle<()>>,
}

struct Sharing {
    caches: Arc<Caches>,
    settings: PurgesSettings,
    log: PurgeLog,
    applier: Applier,
    metrics: Rc<PurgeMetrics>,
    waits: Semaphore,
}

impl Running {
    /// Ends following, and tells the others: until they know, nothing is served from caches.
    fn leave(self) {
        self.sharing.applier.forgotten();
        let sharing = self.sharing.clone();
        net::task::spawn_local(async move { sharing.log.leave().await });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl FleetPurges {
    pub(crate) fn new(
        caches: &Arc<Caches>,
        telemetry: &Arc<Telemetry>,
        etcd: Option<Arc<EtcdSource>>,
    ) -> FleetPurges {
        let (caches, telemetry) = (caches.clone(), telemetry.clone());
        let process = new_mark();
        FleetPurges { caches, telemetry, etcd, process, running: RefCell::default() }
    }

    /// Decides where the purges of a plan are written.
    fn log(&self, plan: &ServerPlan) -> Result<Option<PurgeLog>, String> {
        let Some(settings) = &plan.purges else { return Ok(None) };
        let alone = settings.alone.get();
        let with_etcd = match settings.through {
            PurgesThrough::Auto => self.etcd.as_ref(),
            PurgesThrough::Etcd => Some(self.etcd.as_ref().ok_or(
                "`purges.through: etcd` needs a configuration in etcd: start with `tidegate up \
                 etcd://…`, or write `through: redis`",
            )?),
            PurgesThrough::Redis => None,
        };
        if let Some(source) = with_etcd {
            let settings = EtcdSettings { timeout: ETCD_TIMEOUT, ..source.settings.clone() };
            let names = Rc::new(Resolver::system());
            let etcd = Rc::new(Etcd::new(&WorkerContext::default(), names, settings)?);
            let log = EtcdLog::new(etcd, &source.address, &source.node, alone);
            return Ok(Some(PurgeLog::Etcd(log)));
        }
        let shared = plan.shared.as_ref().ok_or(
            "`purges` has no place to write to: add shared: { redis: [\"redis://HOST\"] }, or \
             put the configuration into etcd",
        )?;
        let name = settings.node.clone().unwrap_or_else(hostname);
        let name = node_name(&name).map_err(|why| format!("`purges.node`: {why}"))?;
        let log = RedisLog::new(shared, name, self.process.clone(), alone);
        Ok(Some(PurgeLog::Redis(Box::new(log))))
    }

    /// Why a plan cannot be used.
    pub(crate) fn check(&self, plan: &ServerPlan) -> Result<(), String> {
        self.log(plan).map(drop)
    }

    /// Follows the log of this plan from now on. Equal settings are not a change.
    pub(crate) fn follow(&self, plan: &Arc<ServerPlan>) {
        let before = self.running.take();
        if let Some(running) = &before
            && plan.purges.as_ref() == Some(&running.sharing.settings)
            && plan.shared == running.shared
        {
            running.sharing.applier.set_plan(plan);
            self.running.replace(before);
            return;
        }
        // A plan that cannot be used was rejected by `check`.
        let log = self.log(plan).unwrap_or_default();
        let position = before.as_ref().and_then(|before| before.sharing.applier.position());
        if let Some(before) = before
            && !log.as_ref().is_some_and(|log| log.is_same(&before.sharing.log))
        {
            before.leave();
        }
        self.caches.log_progress().reset();
        if let (Some(log), Some(settings)) = (log, plan.purges.clone()) {
            self.running.replace(Some(self.start(plan, settings, log, position)));
        }
    }

    fn start(
        &self,
        plan: &Arc<ServerPlan>,
        settings: PurgesSettings,
        log: PurgeLog,
        position: Option<LogPosition>,
    ) -> Running {
        let metrics = Rc::new(PurgeMetrics::new(&self.telemetry));
        let (shown, alone) = (log.describe(), settings.alone.get());
        let applier = Applier::new(&self.caches, plan, metrics.clone(), shown, alone);
        applier.continue_from(position);
        let sharing = Rc::new(Sharing {
            caches: self.caches.clone(),
            settings,
            log,
            applier,
            metrics,
            waits: Semaphore::new(WAITS),
        });
        let of = || sharing.clone();
        let (following, counting, sending) = (of(), of(), of());
        let outgoing = self.caches.outgoing_purges();
        let tasks = vec![
            net::task::spawn_local(async move { following.log.follow(&following.applier).await }),
            net::task::spawn_local(async move { counting.count_behind().await }),
            net::task::spawn_local(async move { sending.send_all(outgoing).await }),
        ];
        Running { sharing, shared: plan.shared.clone(), tasks }
    }

    /// Updates the metrics that change by themselves: to be called before they are read.
    pub(crate) fn update_metrics(&self) {
        if let Some(running) = &*self.running.borrow() {
            let sharing = &running.sharing;
            sharing.metrics.serving.set(i64::from(sharing.applier.serves()));
        }
    }

    /// What does not work, for `/readyz`.
    pub(crate) fn problems(&self) -> Vec<String> {
        let running = self.running.borrow();
        running.as_ref().and_then(|running| running.sharing.applier.problem()).into_iter().collect()
    }

    /// Leaves the others: at the end of the process, when nothing is served any more.
    pub(crate) async fn finish(&self) {
        let Some(running) = self.running.take() else { return };
        running.tasks.iter().for_each(JoinHandle::abort);
        running.sharing.applier.save_now();
        running.sharing.log.leave().await;
    }

    /// Purges on this server and, if the plan says so, on all others. With `wait`, responds when
    /// all that can be reached have applied it.
    pub(crate) async fn purge(
        &self,
        plan: &ServerPlan,
        name: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> Result<Purged, CacheRequestError> {
        let sharing = self.running.borrow().as_ref().map(|running| running.sharing.clone());
        let Some(sharing) = sharing else {
            let purged = crate::caches::purge(&self.caches, plan, name, request).await?;
            return Ok(Purged { purged, fleet: None });
        };
        sharing.purge(plan, name, request, wait).await
    }
}

impl Sharing {
    async fn purge(
        self: &Rc<Self>,
        plan: &ServerPlan,
        name: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> Result<Purged, CacheRequestError> {
        let deadline = wait.map(|wait| clock::now().after(wait));
        crate::caches::check_purge(&self.caches, plan, name, &request)?;
        let entry = PurgeEntry { cache: name.to_owned(), purge: request.clone() };
        let text = entry.encode().map_err(|error| {
            let advice = error.advice.map(|advice| format!(": {advice}")).unwrap_or_default();
            CacheRequestError::Wrong(format!("{}{advice}", error.message))
        })?;
        let mark = new_mark();
        let refuses = self.settings.unpublished == Unpublished::Refuse;
        let mut purged = None;
        // A response of a server that does not know of the purge may be stored until the purge is
        // read from the log: there it is applied again.
        let stores_of_others = self.caches.log_progress().is_used();
        if !refuses {
            if !stores_of_others {
                self.applier.note_own(&mark);
            }
            let own = crate::caches::purge(&self.caches, plan, name, request.clone()).await?;
            purged = Some(own);
        }
        let number = match self.publish(&mark, &text).await {
            Ok(number) => number,
            Err(why) if refuses => return Err(CacheRequestError::Unpublished(why)),
            Err(why) => {
                if stores_of_others {
                    crate::caches::purge_locally(&self.caches, plan, name, request).await?;
                }
                let fleet = Some(FleetPurge { published: Err(why), waited: None });
                return Ok(Purged { purged: purged.unwrap_or(0), fleet });
            }
        };
        self.caches.log_progress().note_own(number, &mark);
        let purged = match purged {
            Some(purged) if !stores_of_others => purged,
            earlier => {
                let again = crate::caches::purge(&self.caches, plan, name, request).await?;
                earlier.unwrap_or(again)
            }
        };
        let published = Published { number, mark };
        let waited = match deadline {
            Some(deadline) => Some(self.wait(&published, deadline).await),
            None => None,
        };
        let fleet = Some(FleetPurge { published: Ok(number), waited });
        Ok(Purged { purged, fleet })
    }

    async fn publish(self: &Rc<Self>, mark: &str, text: &str) -> Result<u64, String> {
        let published = self.log.publish(mark, text).await;
        match &published {
            Ok(_) => self.metrics.published.inc(),
            Err(why) => {
                self.metrics.unpublished.inc();
                event!(
                    Level::Error,
                    "a purge could not be written: other servers do not know of it",
                    event = "purge_unpublished",
                    log = self.log.describe(),
                    error = why
                );
            }
        }
        if let PurgeLog::Etcd(_) = &self.log {
            let sharing = self.clone();
            net::task::spawn_local(async move {
                if let PurgeLog::Etcd(log) = &sharing.log {
                    // What is not removed now is removed later.
                    let _ = log.trim().await;
                }
            });
        }
        published
    }

    /// Waits until all servers that can be reached have applied a purge.
    async fn wait(&self, purge: &Published, deadline: clock::Moment) -> WaitedPurge {
        let left = || deadline.since(clock::now());
        let mut waited = WaitedPurge::default();
        let Some(Ok(_turn)) = timer::within(left(), self.waits.acquire()).await else {
            waited.problem = Some(format!("{WAITS} other requests wait for purges"));
            return waited;
        };
        let mut pause = LOOK_FIRST;
        loop {
            // At least once, also without any time.
            let within = left().clamp(Duration::from_millis(100), WITHIN);
            let read = timer::within(within, self.log.servers(purge)).await;
            match read.unwrap_or_else(|| Err("no response in time".to_owned())) {
                Ok(list) => {
                    let lost = list.lost;
                    let spread = PurgeSpread::of(list.nodes, purge.number);
                    let is_listed = spread.applied.iter().any(|name| name == self.log.node());
                    let is_complete = spread.is_complete() && is_listed && list.has_entry;
                    waited = waited_of(&spread, is_complete && lost.is_none());
                    waited.problem = match lost {
                        _ if !list.has_entry => Some("the log has lost the purge".to_owned()),
                        Some(ago) => Some(format!(
                            "the log was lost {} s ago: servers that have not reached it since \
                             are not listed",
                            ago.as_secs()
                        )),
                        None => None,
                    };
                    if is_complete || !list.has_entry {
                        return waited;
                    }
                }
                Err(why) => {
                    waited.is_confirmed = false;
                    waited.problem = Some(why);
                }
            }
            if left().is_zero() {
                return waited;
            }
            timer::sleep_precisely(pause.min(left())).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// Carries out the purges by the method PURGE.
    async fn send_all(self: Rc<Self>, mut outgoing: mpsc::Receiver<OutgoingPurge>) {
        while let Some(OutgoingPurge { entry, done }) = outgoing.recv().await {
            let sharing = self.clone();
            net::task::spawn_local(async move {
                let plan = sharing.applier.plan();
                let result = sharing.purge(&plan, &entry.cache, entry.purge, None).await;
                let receipt = result.ok().map(|purged| {
                    let number = purged.fleet.and_then(|fleet| fleet.published.ok());
                    PurgeReceipt { purged: purged.purged, number }
                });
                // The client may have left.
                let _ = done.send(receipt);
            });
        }
    }

    /// Counts the servers that have not applied what this one has, from time to time: the larger
    /// the fleet, the less often.
    async fn count_behind(&self) {
        let mut fleet = 1;
        loop {
            let tens = u32::try_from(fleet / 10).unwrap_or(u32::MAX).max(1);
            let pause = BEHIND_EVERY.saturating_mul(tens);
            timer::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            let Some(position) = self.applier.position() else { continue };
            let purge = Published { number: position.number, mark: position.mark };
            let last = self.applier.last_number();
            if let Some(Ok(list)) = timer::within(WITHIN, self.log.servers(&purge)).await {
                fleet = list.nodes.len();
                let is_behind = |node: &&NodeReport| node.applied < last;
                let behind = list.nodes.iter().filter(is_behind).count();
                self.metrics.behind.set(i64::try_from(behind).unwrap_or(i64::MAX));
            }
        }
    }
}

fn waited_of(spread: &PurgeSpread, is_whole: bool) -> WaitedPurge {
    let missing =
        |node: &NodeReport| MissingServer { name: node.name.clone(), is_live: node.is_live };
    WaitedPurge {
        is_confirmed: is_whole && spread.is_confirmed(),
        applied: spread.applied.clone(),
        missing: spread.missing.iter().map(missing).collect(),
        problem: None,
    }
}

/// A mark that no other entry, log or process has.
fn new_mark() -> String {
    format!("{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
}
