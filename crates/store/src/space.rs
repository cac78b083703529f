//! A store: its keys, its channels and its counters, as everyone who uses it sees them.
//!
//! One lock, held for one command: in the process that gives the store to others, only the store's
//! own thread asks for it. Knows which time it is; commands are told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::clock;

use crate::hub::Hub;
use crate::limits::{EXPIRE_ENTRIES, MEMORY_BYTES};
use crate::map::Map;
use crate::meters::Meters;

/// What a command works on.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) map: Map,
    pub(crate) hub: Hub,
}

#[derive(Debug)]
pub struct Space {
    inside: Mutex<Inside>,
    pub(crate) meters: Meters,
}

impl Space {
    /// A store of so many bytes of memory.
    pub fn new(memory_bytes: usize, meters: Meters) -> Arc<Space> {
        meters.limit(memory_bytes);
        let inside = Inside { map: Map::new(memory_bytes), hub: Hub::default() };
        Arc::new(Space { inside: Mutex::new(inside), meters })
    }

    /// A store for this process alone.
    pub fn private() -> Arc<Space> {
        Space::new(MEMORY_BYTES, Meters::default())
    }

    /// Another limit of memory; what is too much for it goes.
    pub fn resize(&self, memory_bytes: usize) {
        let (mut inside, now_ms) = (self.enter(), Space::now_ms());
        inside.map.resize(memory_bytes, now_ms);
        self.meters.limit(memory_bytes);
        self.settle(&mut inside, now_ms);
    }

    pub(crate) fn now_ms() -> u64 {
        clock::now().as_ms()
    }

    pub(crate) fn enter(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out some of what is over, and brings the counters up to date.
    pub(crate) fn settle(&self, inside: &mut Inside, now_ms: u64) {
        inside.map.expire(EXPIRE_ENTRIES, now_ms);
        let losses = inside.map.take_losses();
        self.meters.evicted.add(losses.evicted);
        self.meters.expired.add(losses.expired);
        self.meters.keys.set(i64::try_from(inside.map.len()).unwrap_or(i64::MAX));
        self.meters.memory.set(i64::try_from(inside.map.bytes()).unwrap_or(i64::MAX));
        self.meters.listeners.set(i64::try_from(inside.hub.listeners()).unwrap_or(i64::MAX));
    }
}
