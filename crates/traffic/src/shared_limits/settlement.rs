//! The task of the control thread that settles shared limits with Redis.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::clock::{self, Moment};
use net::task::JoinHandle;
use net::timer;
use plugin::Shared;
use plugin::keyed::NEWS_BATCH;
use redis::{RedisClient, RedisPlan};
use telemetry::log::Level;
use telemetry::{SharedCounter, SharedGauge, Telemetry, event, families};

use super::batches::BatchSender;
use super::register::SharedLimits;
use super::scripts::Scripts;

/// How often this server reports that it is there.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The longest pause after failures: Redis is used again soon after it is back.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Batches of one limit in one round; further keys are settled in the next.
const BATCHES: usize = 64;

/// Settles the shared limits of a process under the current plan.
pub struct Settlement {
    limits: Arc<SharedLimits>,
    metrics: Rc<SettlementMetrics>,
    running: RefCell<Option<Running>>,
    /// This process, among the servers that share.
    server: String,
}

struct Running {
    plan: Arc<RedisPlan>,
    settler: Rc<Settler>,
    task: JoinHandle<()>,
}

struct SettlementMetrics {
    connected: Arc<SharedGauge>,
    servers: Arc<SharedGauge>,
    keys: Arc<SharedCounter>,
    failures: Arc<SharedCounter>,
}

impl Settlement {
    pub fn new(shared: &Shared, telemetry: &Telemetry) -> Settlement {
        let metrics = SettlementMetrics {
            connected: telemetry.gauge(&families::SHARED_CONNECTED, &[]),
            servers: telemetry.gauge(&families::SHARED_SERVERS, &[]),
            keys: telemetry.counter(&families::SHARED_KEYS, &[]),
            failures: telemetry.counter(&families::SHARED_FAILURES, &[]),
        };
        Settlement {
            limits: shared.get((), SharedLimits::default),
            metrics: Rc::new(metrics),
            running: RefCell::default(),
            server: format!("{:016x}", fastrand::u64(..)),
        }
    }

    /// Settles as the section `shared` of this plan says from now on. An equal section is not a
    /// change.
    pub fn follow(&self, plan: Option<&Arc<RedisPlan>>) {
        let mut running = self.running.borrow_mut();
        if running.as_ref().map(|running| &running.plan) == plan {
            return;
        }
        let before = running.take();
        before.iter().for_each(|before| before.task.abort());
        let Some(plan) = plan else {
            self.limits.sharing().set_connected(false);
            self.metrics.connected.set(0);
            return;
        };
        if before.is_none() {
            self.limits.sharing().set_servers(plan.servers());
        }
        let settler = Rc::new(Settler::new(self, plan));
        let task = net::task::spawn_local(settler.clone().run());
        *running = Some(Running { plan: plan.clone(), settler, task });
    }

    /// Settles what is not settled, and leaves the servers that share: at the end of the process.
    pub async fn finish(&self) {
        let Some(running) = self.running.take() else { return };
        running.task.abort();
        // The connection of the aborted task may be in use; this one is new.
        let settler = Settler::new(self, &running.plan);
        if running.settler.limits.sharing().is_connected() && settler.settle().await.is_ok() {
            // Without it the others notice after some seconds.
            let _ = settler.sender.servers(&self.server, true).await;
        }
    }

    /// What does not work, for `/readyz`.
    pub fn problems(&self) -> Vec<String> {
        let running = self.running.borrow();
        let problem = running.as_ref().and_then(|running| running.settler.problem.borrow().clone());
        problem.into_iter().map(|problem| format!("shared limits: {problem}")).collect()
    }
}

/// Settles with one Redis.
struct Settler {
    limits: Arc<SharedLimits>,
    metrics: Rc<SettlementMetrics>,
    sender: BatchSender,
    server: String,
    shown: String,
    is_cluster: bool,
    interval: Duration,
    counts_at: Cell<Moment>,
    /// Why the last round failed, or a part of it.
    problem: RefCell<Option<String>>,
}

impl Settler {
    fn new(settlement: &Settlement, plan: &Arc<RedisPlan>) -> Settler {
        let scripts = Scripts::new();
        let client = RedisClient::new(plan.clone(), scripts.all());
        Settler {
            limits: settlement.limits.clone(),
            metrics: settlement.metrics.clone(),
            sender: BatchSender::new(client, scripts, plan.prefix()),
            server: settlement.server.clone(),
            shown: plan.describe(),
            is_cluster: plan.is_cluster(),
            interval: plan.interval(),
            counts_at: Cell::new(Moment::from_ms(0)),
            problem: RefCell::default(),
        }
    }

    async fn run(self: Rc<Self>) {
        let mut failures = 0;
        loop {
            let result = self.round().await;
            failures = if result.is_ok() { 0 } else { failures + 1 };
            self.report(result.err().map(|error| error.to_string()));
            timer::sleep(match failures {
                0 => self.interval,
                _ => timer::pause(self.interval, PAUSE_MAX, failures),
            })
            .await;
        }
    }

    /// An error if Redis is not reached; if a part of a Cluster is not, that is noted.
    async fn round(&self) -> io::Result<()> {
        let counted = self.count_servers().await;
        if !self.is_cluster {
            counted?;
            return self.settle().await.map(drop);
        }
        let keys = self.settle().await?;
        match counted {
            Err(error) if keys == 0 => Err(error),
            Err(error) => {
                self.sender.note(&error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reports that this server is there, from time to time, and learns how many there are.
    async fn count_servers(&self) -> io::Result<()> {
        if clock::now() >= self.counts_at.get() {
            let servers = self.sender.servers(&self.server, false).await?;
            self.limits.sharing().set_servers(servers);
            self.metrics.servers.set(i64::from(servers.max(1)));
            self.counts_at.set(clock::now().after(COUNT_EVERY));
        }
        Ok(())
    }

    /// Settles the changed keys of all limits; returns how many were.
    async fn settle(&self) -> io::Result<usize> {
        let mut all = 0;
        for limit in self.limits.living() {
            for _ in 0..BATCHES {
                let keys = match limit.settle(&self.sender).await {
                    Ok(keys) => keys,
                    // Another limit may have its keys on other nodes.
                    Err(error) if self.is_cluster => {
                        self.sender.note(&error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                all += keys;
                self.metrics.keys.add(keys as u64);
                if keys < NEWS_BATCH {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Notes whether Redis is reached. Logs the first failure in a row, and the end of failures.
    fn report(&self, failed: Option<String>) {
        let sharing = self.limits.sharing();
        let (was_failing, is_failing) = (self.problem.borrow().is_some(), failed.is_some());
        sharing.set_connected(!is_failing);
        self.metrics.connected.set(i64::from(!is_failing));
        if is_failing {
            self.metrics.failures.inc();
            // The connection is checked before anything else.
            self.counts_at.set(Moment::from_ms(0));
        }
        let partly = self.sender.take_failure();
        match &failed {
            Some(error) if !was_failing => event!(
                Level::Error,
                "Redis cannot be reached: shared limits and quotas allow this server's share",
                event = "shared_limits_alone",
                redis = self.shown,
                servers = sharing.servers(),
                error = error
            ),
            None if was_failing && partly.is_none() => event!(
                Level::Info,
                "shared limits and quotas are settled with Redis again",
                event = "shared_limits_settled",
                redis = self.shown,
                servers = sharing.servers()
            ),
            _ => {}
        }
        if let Some(error) = partly.as_ref().filter(|_| !was_failing) {
            event!(
                Level::Error,
                "some keys of shared limits cannot be settled: they are sent again",
                event = "shared_limits_partly",
                redis = self.shown,
                error = error
            );
        }
        self.problem.replace(failed.or(partly));
    }
}
