//! Closes and parks a worker's idle connections: one task per worker, asleep while there are none.
//!
//! A pool that stores a connection arms the sweeper, which reads one cell if it is armed already.
//! Once a second the sweeper closes connections that are dead, too old or idle for too long, and
//! parks those that have been idle for over a second.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};

use net::Timer;
use net::clock::{self, Moment};

use crate::limits::{SHED_AT_ONCE, SWEEP_EVERY};

/// A pool of one worker, as the sweeper sees it.
pub(super) trait SweptPool {
    /// Since when the connection that has been idle longest is idle.
    fn idle_since(&self) -> Option<Moment>;

    /// Closes that connection.
    fn close_longest_idle(&self);

    /// Closes the connection that was parked first; false if there is none.
    fn close_parked(&self) -> bool;

    /// Closes dead and expired connections, and parks those idle for long; true if connections
    /// remain.
    fn sweep(&self, now: Moment) -> bool;
}

#[derive(Default)]
pub(super) struct IdleSweeper {
    pools: RefCell<Vec<Weak<dyn SweptPool>>>,
    timer: Timer,
    armed: Cell<bool>,
    running: Cell<bool>,
}

impl IdleSweeper {
    pub(super) fn add(&self, pool: Rc<dyn SweptPool>) {
        let mut pools = self.pools.borrow_mut();
        if pools.len() == pools.capacity() {
            // Not each time: a plan may have thousands of servers.
            pools.retain(|pool| pool.strong_count() > 0);
        }
        pools.push(Rc::downgrade(&pool));
    }

    /// Closes idle connections of all pools, those that have been idle longest first, because there
    /// are no descriptors left. How many.
    pub(super) fn close_idle(&self) -> usize {
        let pools: Vec<Rc<dyn SweptPool>> =
            self.pools.borrow().iter().filter_map(Weak::upgrade).collect();
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

    /// Starts the timer: there is an idle connection.
    pub(super) fn arm(self: &Rc<Self>) {
        if self.armed.replace(true) {
            return;
        }
        self.timer.set(SWEEP_EVERY);
        if !self.running.replace(true) {
            // The task ends when no pool of this worker is left.
            net::task::spawn_local(IdleSweeper::run(Rc::downgrade(self)));
        }
    }

    async fn run(sweeper: Weak<IdleSweeper>) {
        while let Some(sweeper) = sweeper.upgrade() {
            poll_fn(|cx| sweeper.timer.poll(cx)).await;
            sweeper.timer.clear();
            sweeper.armed.set(false);
            let now = clock::now();
            let pools = sweeper.pools.borrow().clone();
            let living: Vec<Rc<dyn SweptPool>> = pools.iter().filter_map(Weak::upgrade).collect();
            let mut more = false;
            for pool in &living {
                more |= pool.sweep(now);
            }
            if living.is_empty() {
                sweeper.running.set(false);
                return;
            }
            if more {
                sweeper.arm();
            }
        }
    }
}
