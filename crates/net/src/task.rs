//! Tasks of a worker: futures that never leave their thread.
//!
//! Owns the spawning of tasks, their handles, and how long one may go on before the others have
//! their turn. They run on the worker's `executor`: a queue of ready tasks in which a wake on the
//! worker's own thread, which is what readiness and neighbours cause, takes no lock and no atomic
//! step. Promises that tasks run in the order in which they were woken; that a wake from any thread
//! is heard, and one that comes late reaches nobody; that what panics ends alone (where panics
//! unwind at all); and that a future is dropped on its own thread, at the latest with the event
//! loop.
//!
//! A thread has one event loop at a time, made by [`crate::worker`]; outside of one, spawning
//! panics. What tokio offers to a task (its channels, timers, `yield_now`) works in these as well.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::task::coop;

mod deferred;
pub(crate) mod executor;
mod join;
mod key;
mod remote_wake;
#[cfg(test)]
mod tests;

use executor::LocalExecutor;
use join::Joined;

pub use deferred::{DeferredSender, charge_deferral, defer, may_defer, send_deferred};
pub use join::{AbortHandle, JoinError, JoinHandle};

/// Long steps a task may make before the others have their turn; tokio's own budget.
const STEPS_PER_POLL: u16 = 128;
/// Says that it is not a task of ours that runs.
const FOREIGN: u16 = u16::MAX;

thread_local! {
    /// Steps that are left to the running task.
    static STEPS: Cell<u16> = const { Cell::new(FOREIGN) };
}

/// Runs `future` as a task of this worker; it begins after the tasks that are ready now. Dropping
/// the handle lets it go on by itself.
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    LocalExecutor::current(|executor| {
        let (joined, shared) = Joined::new(future);
        JoinHandle::new(shared, executor.spawn(Box::pin(joined)))
    })
}

/// Ready while the running task may go on in this turn; its next one comes after those of the
/// others and a look at the sockets.
#[inline]
pub(crate) fn poll_turn(cx: &mut Context<'_>) -> Poll<()> {
    match STEPS.get() {
        0 => pin!(tokio::task::yield_now()).poll(cx),
        FOREIGN if !coop::has_budget_remaining() => coop::poll_proceed(cx).map(drop),
        _ => Poll::Ready(()),
    }
}

/// Counts a long step of the running task.
#[inline]
pub(crate) fn count_step(cx: &mut Context<'_>) {
    match STEPS.get() {
        FOREIGN => {
            if let Poll::Ready(step) = coop::poll_proceed(cx) {
                step.made_progress();
            }
        }
        left => STEPS.set(left.saturating_sub(1)),
    }
}

/// The worker's executor, for what else has to be driven with its tasks.
pub(crate) fn executor() -> Rc<LocalExecutor> {
    LocalExecutor::current(Rc::clone)
}
