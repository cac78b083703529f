//! A connection to a server as the client's side of an exchange knows it.

use std::cell::Cell;
use std::rc::Rc;

use message::HeldResource;

use crate::pool::{Lease, Pool};

/// The connection of one exchange.
pub(super) struct HeldConnection {
    pool: Rc<Pool>,
    /// Its key in the list, after the exchange has waited for its client.
    key: Cell<Option<usize>>,
}

impl HeldConnection {
    /// The connection of a lease, where slow clients may hold only so many.
    pub(super) fn of(lease: &Lease) -> Option<Rc<HeldConnection>> {
        let pool = lease.pool();
        let held = || HeldConnection { pool: pool.clone(), key: Cell::new(None) };
        pool.max_slow().map(|_| Rc::new(held()))
    }
}

impl HeldResource for HeldConnection {
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
