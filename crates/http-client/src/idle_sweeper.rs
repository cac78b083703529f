//! Looks after a worker's idle connections: one task per worker, asleep while there are none.
//!
//! A pool that keeps a connection arms the keeper, which is a look at one cell when it is armed
//! already. Once a second the keeper closes what is dead, too old or idle for too long, and parks
//! what has been idle for over a second.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};

use net::{Timer, clock};

use crate::limits::{SHED_AT_ONCE, SWEEP_EVERY};
use crate::pool::Pool;

#[derive(Default)]
pub(super) struct Keeper {
    pools: RefCell<Vec<Weak<Pool>>>,
    timer: Timer,
    armed: Cell<bool>,
    running: Cell<bool>,
}

impl Keeper {
    pub(super) fn look_after(&self, pool: &Rc<Pool>) {
        let mut pools = self.pools.borrow_mut();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Rc::downgrade(pool));
    }

    /// Closes idle connections of all pools, those that have been idle longest first, because there
    /// are no descriptors left. How many.
    pub(super) fn close_idle(&self) -> usize {
        let pools: Vec<Rc<Pool>> = self.pools.borrow().iter().filter_map(Weak::upgrade).collect();
        let mut closed = 0;
        while closed < SHED_AT_ONCE {
            let oldest = pools
                .iter()
                .filter_map(|pool| Some((pool.idle_since()?, pool)))
                .min_by_key(|(since, _)| *since);
            let parked = || pools.iter().any(|pool| pool.close_parked());
            match oldest {
                _ if parked() => {}
                Some((_, pool)) => pool.close_longest_idle(),
                None => break,
            }
            closed += 1;
        }
        closed
    }

    /// Says that there is an idle connection.
    pub(super) fn arm(self: &Rc<Self>) {
        if self.armed.replace(true) {
            return;
        }
        self.timer.set(SWEEP_EVERY);
        if !self.running.replace(true) {
            // The task ends when no pool of this worker is left.
            net::task::spawn_local(Keeper::run(Rc::downgrade(self)));
        }
    }

    async fn run(keeper: Weak<Keeper>) {
        while let Some(keeper) = keeper.upgrade() {
            poll_fn(|cx| keeper.timer.poll(cx)).await;
            keeper.timer.clear();
            keeper.armed.set(false);
            let now = clock::now();
            let pools = keeper.pools.borrow().clone();
            let living: Vec<Rc<Pool>> = pools.iter().filter_map(Weak::upgrade).collect();
            let mut more = false;
            for pool in &living {
                more |= pool.sweep(now);
            }
            if living.is_empty() {
                keeper.running.set(false);
                return;
            }
            if more {
                keeper.arm();
            }
        }
    }
}
