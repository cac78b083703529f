//! The cells that hold metric values.
//!
//! `Counter` and `Gauge` have exactly one writer (their worker) and any number of readers: a plain
//! load and store, no locked instruction. A second writer would lose updates, never tear them.
//! `SharedCounter` and `SharedGauge` allow any number of writers and are meant for rare events.

use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A monotonic counter written by one thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A gauge written by one thread.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    #[inline]
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    #[inline]
    pub fn dec(&self) {
        self.add(-1);
    }

    #[inline]
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A monotonic counter written by any thread.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub fn inc(&self) {
        self.add(1);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A gauge written by any thread.
#[derive(Debug, Default)]
pub struct SharedGauge(AtomicI64);

impl SharedGauge {
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub fn inc(&self) {
        self.add(1);
    }

    pub fn dec(&self) {
        self.add(-1);
    }

    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A value on a cache line of its own, so that the values of two workers never share one.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CachePadded, Counter, Gauge, SharedCounter, SharedGauge};
    use std::thread;

    #[test]
    fn counts_up_and_down() {
        let counter = Counter::new();
        counter.inc();
        counter.add(41);
        assert_eq!(counter.get(), 42);
        let gauge = Gauge::new();
        gauge.inc();
        gauge.add(5);
        gauge.dec();
        assert_eq!(gauge.get(), 5);
        gauge.set(-3);
        assert_eq!(gauge.get(), -3);
    }

    #[test]
    fn shared_cells_lose_no_update_between_threads() {
        let (counter, gauge) = (SharedCounter::new(), SharedGauge::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        counter.inc();
                        gauge.inc();
                        gauge.add(-2);
                    }
                });
            }
        });
        assert_eq!(counter.get(), 40_000);
        assert_eq!(gauge.get(), -40_000);
    }

    #[test]
    fn a_padded_value_fills_a_cache_line() {
        assert_eq!(size_of::<CachePadded<Counter>>(), 64);
        assert_eq!(align_of::<CachePadded<Counter>>(), 64);
    }
}
