//! Exchanges that hold a connection to one peer while they wait for their clients.
//!
//! A client that sends its request or reads its response slowly occupies a connection all the time.
//! Where a server takes only so many, `PoolLimits::max_slow` bounds how many of them such exchanges
//! have: one more, and the slowest ends. The list is shared by all workers; it is locked once a
//! second for each exchange that waits, never for one that does not.

use std::sync::{Mutex, MutexGuard, PoisonError};

use slab::Slab;

/// The bytes a second of each such exchange, over all workers.
#[derive(Default)]
pub(super) struct SlowClients(Mutex<Slab<u64>>);

impl SlowClients {
    pub(super) fn rates(&self) -> MutexGuard<'_, Slab<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the rate of one; its key, and whether it must end: `max` others are faster, or as fast
    /// with a lower key. All that are too many end at once, not one after the other.
    pub(super) fn note(&self, key: Option<usize>, rate: u64, max: usize) -> (usize, bool) {
        let mut rates = self.rates();
        let key = key.unwrap_or_else(|| rates.insert(rate));
        rates[key] = rate;
        let is_before = |other, its| its > rate || its == rate && other < key;
        let before = || rates.iter().filter(|(other, its)| is_before(*other, **its)).count();
        (key, rates.len() > max && before() >= max)
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
