//! Limits the number of open connections.
//!
//! Updated when a connection is accepted and when it ends, never while it is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A connection limit that workers share.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    open: AtomicUsize,
    limit: AtomicUsize,
    /// True if the limit is that of descriptors, which is below the configured one.
    is_capped: AtomicBool,
    /// Time at which descriptors last ran out; 0 is never.
    full_ms: AtomicU64,
}

impl ConnectionLimiter {
    pub(crate) fn new(limit: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter {
            open: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            is_capped: AtomicBool::new(false),
            full_ms: AtomicU64::new(0),
        })
    }

    /// Changes the limit; open connections stay.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Sets the configured limit, or that of descriptors if it is lower.
    pub(crate) fn set_limit_within(&self, limit: usize, descriptors: usize) {
        self.set_limit(limit.min(descriptors));
        self.is_capped.store(descriptors < limit, Ordering::Relaxed);
    }

    pub(crate) fn is_capped(&self) -> bool {
        self.is_capped.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Records that there was no descriptor for another connection.
    pub(crate) fn note_full(&self) {
        self.full_ms.store(net::clock::now().as_ms().max(1), Ordering::Relaxed);
    }

    /// Returns true if descriptors ran out within that time.
    pub(crate) fn was_full_within(&self, time: Duration) -> bool {
        let full_ms = self.full_ms.load(Ordering::Relaxed);
        let age_ms = net::clock::now().as_ms().saturating_sub(full_ms);
        full_ms != 0 && u128::from(age_ms) <= time.as_millis()
    }

    /// Acquires a permit above the limit, for a connection that replaces one that is being closed.
    pub(crate) fn acquire_over_limit(self: &Arc<Self>) -> Permit {
        self.open.fetch_add(1, Ordering::Relaxed);
        Permit { limiter: self.clone() }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Acquires a permit if the limit is not reached.
    pub(crate) fn acquire(self: &Arc<Self>) -> Option<Permit> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let permit = Permit { limiter: self.clone() };
        (before < self.limit.load(Ordering::Relaxed)).then_some(permit)
    }
}

/// The permit of one connection.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<ConnectionLimiter>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_run_out_and_come_back() {
        let limiter = ConnectionLimiter::new(1);
        let first = limiter.acquire();
        assert!(first.is_some());
        assert!(limiter.acquire().is_none());
        assert_eq!(limiter.open(), 1);
        drop(first);
        assert!(limiter.acquire().is_some());
        limiter.set_limit(0);
        assert!(limiter.acquire().is_none());
        assert_eq!(limiter.open(), 0);
    }
}
