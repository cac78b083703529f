//! Connections that belong to no worker (extension point 13): one table per peer identity.
//!
//! A worker that has a connection to spare leaves it here, and one that has none takes it over. The
//! lock is taken when parking and when a worker's own pool is empty, never for a hit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use net::Parked;
use net::clock::Moment;
use telemetry::{CachePadded, Gauge};

use crate::limits::PARKED_LOOK;
use crate::slow::SlowClients;

/// A connection without its worker.
pub(super) struct ParkedConnection {
    pub(super) socket: Parked,
    pub(super) retires: Moment,
    pub(super) requests: u32,
    pub(super) idle_until: Moment,
    /// When the kernel was last queried.
    pub(super) looked_at: Moment,
}

/// The table of one peer, shared by all workers.
pub(super) struct Parking {
    /// The most recently parked last.
    places: Mutex<VecDeque<ParkedConnection>>,
    /// The number of parked connections, readable without the lock.
    count: AtomicUsize,
    /// Idle connections of each worker's own pool, for metrics and the admin API.
    pub(super) idle: Box<[CachePadded<Gauge>]>,
    /// Connections of HTTP/2 of each worker.
    pub(super) shared: Box<[CachePadded<Gauge>]>,
    /// Requests on them.
    pub(super) streams: Box<[CachePadded<Gauge>]>,
    /// Leased connections of each worker, and requests on those of HTTP/2.
    pub(super) active: Box<[CachePadded<Gauge>]>,
    /// Permits of a server that has a `max_connections`.
    pub(super) permits: CachePadded<AtomicU32>,
    /// Leased connections whose exchange waits for its client.
    pub(super) slow: SlowClients,
}

impl Parking {
    pub(super) fn new(workers: usize) -> Parking {
        let lanes = || (0..workers.max(1)).map(|_| CachePadded::default()).collect();
        Parking {
            places: Mutex::default(),
            count: AtomicUsize::new(0),
            idle: lanes(),
            shared: lanes(),
            streams: lanes(),
            active: lanes(),
            permits: CachePadded::default(),
            slow: SlowClients::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ParkedConnection>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, places: &VecDeque<ParkedConnection>) {
        self.count.store(places.len(), Ordering::Relaxed);
    }

    /// Leaves a connection here; the one that has been here longest makes room. How many more there
    /// are afterwards.
    pub(super) fn park(&self, connection: ParkedConnection, at_most: usize) -> i64 {
        let mut places = self.lock();
        places.push_back(connection);
        let evicted = if places.len() > at_most { places.pop_front() } else { None };
        self.changed(&places);
        drop(places);
        // Closed outside of the lock.
        if evicted.is_some() { 0 } else { 1 }
    }

    /// The most recently parked connection; it may have died here.
    pub(super) fn take(&self) -> Option<ParkedConnection> {
        if self.len() == 0 {
            return None;
        }
        let mut places = self.lock();
        let taken = places.pop_back();
        self.changed(&places);
        taken
    }

    /// Closes the connection that has been here longest; false if there is none.
    pub(super) fn close_oldest(&self) -> bool {
        if self.len() == 0 {
            return false;
        }
        let mut places = self.lock();
        let oldest = places.pop_front();
        self.changed(&places);
        drop(places);
        oldest.is_some()
    }

    /// Closes what has been idle for too long or is dead; how many that were.
    pub(super) fn sweep(&self, now: Moment) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut closed = Vec::new();
        let mut places = self.lock();
        let mut at = 0;
        while at < places.len() {
            let place = &mut places[at];
            let mut over = place.idle_until <= now || place.retires <= now;
            if !over && now.since(place.looked_at) >= PARKED_LOOK {
                place.looked_at = now;
                over = !place.socket.is_idle();
            }
            if over {
                closed.extend(places.remove(at));
            } else {
                at += 1;
            }
        }
        self.changed(&places);
        drop(places);
        closed.len()
    }
}
