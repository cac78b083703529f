//! Exchanges that hold a connection to one peer while they wait for their clients.
//!
//! A client that sends its request or reads its response slowly occupies a connection all the time.
//! Where a server takes only so many, `PoolLimits::max_slow` bounds how many of them such exchanges
//! have: one more, and the slowest ends. The list is shared by all workers; it is locked once a
//! second for each exchange that waits, never for one that does not.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use slab::Slab;

use crate::pool::Pool;
use message::Held;

/// The bytes a second of each such exchange, over all workers.
#[derive(Default)]
pub(super) struct SlowClients(Mutex<Slab<u64>>);

impl SlowClients {
    fn rates(&self) -> MutexGuard<'_, Slab<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the rate of one; its key, and whether it must end: `max` others are faster, or as fast
    /// with a lower key. All that are too many end at once, not one after the other.
    fn note(&self, key: Option<usize>, rate: u64, max: usize) -> (usize, bool) {
        let mut rates = self.rates();
        let key = key.unwrap_or_else(|| rates.insert(rate));
        rates[key] = rate;
        let is_before = |other, its| its > rate || its == rate && other < key;
        let before = || rates.iter().filter(|(other, its)| is_before(*other, **its)).count();
        (key, rates.len() > max && before() >= max)
    }
}

/// The connection of one exchange.
pub(super) struct HeldConnection {
    pool: Rc<Pool>,
    /// Its place in the list, once the exchange has waited for its client.
    key: Cell<Option<usize>>,
}

impl HeldConnection {
    pub(super) fn new(pool: Rc<Pool>) -> HeldConnection {
        HeldConnection { pool, key: Cell::new(None) }
    }
}

impl Held for HeldConnection {
    fn must_give_way(&self, rate: u64) -> bool {
        let Some(max) = self.pool.max_slow() else { return false };
        let (key, slowest) = self.pool.slow_clients().note(self.key.get(), rate, max);
        self.key.set(Some(key));
        slowest
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if let Some(key) = self.key.get() {
            self.pool.slow_clients().rates().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_too_many_gives_way() {
        let clients = SlowClients::default();
        let (first, cut) = clients.note(None, 500, 2);
        assert!(!cut);
        let (second, cut) = clients.note(None, 300, 2);
        assert!(!cut);
        let (third, cut) = clients.note(None, 400, 2);
        assert!(!cut, "another one is slower");
        assert_eq!(clients.note(Some(first), 500, 2), (first, false));
        assert_eq!(clients.note(Some(second), 300, 2), (second, true));
        clients.rates().remove(second);
        assert_eq!(clients.note(Some(third), 1, 2), (third, false));
    }

    #[test]
    fn all_that_are_too_many_give_way_when_they_are_noted() {
        let clients = SlowClients::default();
        let cut: Vec<_> = (0..8).map(|_| clients.note(None, 300, 4).1).collect();
        assert_eq!(cut, [false, false, false, false, true, true, true, true]);
    }

    #[test]
    fn of_equals_exactly_one_gives_way() {
        let clients = SlowClients::default();
        let keys: Vec<_> = (0..3).map(|_| clients.note(None, 7, 2).0).collect();
        let cut: Vec<_> = keys.iter().filter(|key| clients.note(Some(**key), 7, 2).1).collect();
        assert_eq!(cut.len(), 1);
    }
}
