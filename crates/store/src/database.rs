//! The database of a store: its keys, its channels and its counters.
//!
//! One lock, held for one command: in the process that serves the store, only the store's own
//! thread takes it. Reads the clock; commands get the time as a value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::clock;

use crate::limits::{EXPIRE_ENTRIES, MEMORY_BYTES};
use crate::map::ExpiringMap;
use crate::metrics::StoreMetrics;
use crate::pubsub::PubSub;
use crate::tasks::{TaskCounts, TaskLoad, TaskQueues};

/// The locked part of a database: what a command works on.
#[derive(Debug)]
pub(crate) struct DatabaseState {
    pub(crate) map: ExpiringMap,
    pub(crate) pubsub: PubSub,
    pub(crate) tasks: TaskQueues,
}

#[derive(Debug)]
pub struct Database {
    state: Mutex<DatabaseState>,
    pub(crate) metrics: StoreMetrics,
}

impl Database {
    /// Creates a database with a memory limit.
    pub fn new(memory_bytes: usize, metrics: StoreMetrics) -> Arc<Database> {
        metrics.limit(memory_bytes);
        let state = DatabaseState {
            map: ExpiringMap::new(memory_bytes),
            pubsub: PubSub::default(),
            tasks: TaskQueues::default(),
        };
        Arc::new(Database { state: Mutex::new(state), metrics })
    }

    /// Creates a database for this process alone.
    pub fn private() -> Arc<Database> {
        Database::new(MEMORY_BYTES, StoreMetrics::default())
    }

    /// Sets the memory limit and evicts what exceeds it.
    pub fn resize(&self, memory_bytes: usize) {
        let (mut state, now_ms) = (self.lock(), Database::now_ms());
        state.map.resize(memory_bytes, now_ms);
        self.metrics.limit(memory_bytes);
        self.expire_some(&mut state, now_ms);
    }

    /// Returns how many background jobs wait and run, and how many ended, by how.
    pub fn tasks(&self) -> (TaskLoad, TaskCounts) {
        let state = self.lock();
        state.tasks.summary()
    }

    pub(crate) fn now_ms() -> u64 {
        clock::now().as_ms()
    }

    /// Milliseconds since 1970.
    pub(crate) fn wall_ms() -> u64 {
        clock::wall_us() / 1000
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes some expired entries and updates the metrics.
    pub(crate) fn expire_some(&self, state: &mut DatabaseState, now_ms: u64) {
        state.map.expire(EXPIRE_ENTRIES, now_ms);
        state.tasks.expire(EXPIRE_ENTRIES, now_ms);
        let (load, counts) = state.tasks.summary();
        self.metrics.tasks.set(load, counts);
        let losses = state.map.take_removals();
        self.metrics.evicted.add(losses.evicted);
        self.metrics.expired.add(losses.expired);
        self.metrics.keys.set(i64::try_from(state.map.len()).unwrap_or(i64::MAX));
        self.metrics.memory.set(i64::try_from(state.map.bytes()).unwrap_or(i64::MAX));
        self.metrics
            .subscriptions
            .set(i64::try_from(state.pubsub.subscriptions()).unwrap_or(i64::MAX));
    }
}
