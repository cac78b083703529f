//! The metrics of a store.

use std::sync::Arc;

use telemetry::{SharedCounter, SharedGauge, Telemetry, families};

use crate::tasks::{TaskCounts, TaskLoad};

/// The metrics of one store. By default they are not exported.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    pub(crate) commands: Arc<SharedCounter>,
    pub(crate) refused: Arc<SharedCounter>,
    pub(crate) hits: Arc<SharedCounter>,
    pub(crate) misses: Arc<SharedCounter>,
    pub(crate) evicted: Arc<SharedCounter>,
    pub(crate) expired: Arc<SharedCounter>,
    pub(crate) keys: Arc<SharedGauge>,
    pub(crate) memory: Arc<SharedGauge>,
    pub(crate) memory_limit: Arc<SharedGauge>,
    pub(crate) connections: Arc<SharedGauge>,
    pub(crate) published: Arc<SharedCounter>,
    pub(crate) subscriptions: Arc<SharedGauge>,
    pub(crate) slow: Arc<SharedCounter>,
    pub(crate) tasks: TaskMetrics,
}

/// The metrics of background jobs.
#[derive(Debug, Default)]
pub(crate) struct TaskMetrics {
    waiting: Arc<SharedGauge>,
    running: Arc<SharedGauge>,
    /// In the order of [`RESULTS`].
    ended: [Arc<SharedCounter>; RESULTS.len()],
}

/// How a job ends, or why it was not accepted.
const RESULTS: [&str; 7] =
    ["done", "failed", "retried", "lost", "expired", "cancelled", "rejected"];

impl TaskMetrics {
    pub(crate) fn set(&self, load: TaskLoad, counts: TaskCounts) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.set(gauge(load.waiting));
        self.running.set(gauge(load.running));
        let TaskCounts { done, failed, retried, lost, expired, cancelled, rejected } = counts;
        let all = [done, failed, retried, lost, expired, cancelled, rejected];
        for (counter, count) in self.ended.iter().zip(all) {
            counter.add(count.saturating_sub(counter.get()));
        }
    }
}

impl StoreMetrics {
    pub(crate) fn limit(&self, memory_bytes: usize) {
        self.memory_limit.set(i64::try_from(memory_bytes).unwrap_or(i64::MAX));
    }

    pub fn of(telemetry: &Telemetry, app: &str) -> StoreMetrics {
        let counter = |family| telemetry.counter(family, &[app]);
        let gauge = |family| telemetry.gauge(family, &[app]);
        StoreMetrics {
            commands: counter(&families::STORE_COMMANDS),
            refused: counter(&families::STORE_REFUSED),
            hits: counter(&families::STORE_HITS),
            misses: counter(&families::STORE_MISSES),
            evicted: counter(&families::STORE_EVICTED),
            expired: counter(&families::STORE_EXPIRED),
            keys: gauge(&families::STORE_KEYS),
            memory: gauge(&families::STORE_MEMORY),
            memory_limit: gauge(&families::STORE_MEMORY_LIMIT),
            connections: gauge(&families::STORE_CONNECTIONS),
            published: counter(&families::STORE_PUBLISHED),
            subscriptions: gauge(&families::STORE_LISTENERS),
            slow: counter(&families::STORE_SLOW),
            tasks: TaskMetrics {
                waiting: gauge(&families::STORE_TASKS_WAITING),
                running: gauge(&families::STORE_TASKS_RUNNING),
                ended: RESULTS
                    .map(|result| telemetry.counter(&families::STORE_TASKS, &[app, result])),
            },
        }
    }
}
