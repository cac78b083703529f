//! Tasks of a worker: futures that never leave their thread.
//!
//! Owns the spawning of tasks, their handles, and the budget of one poll. Tasks run on the worker's
//! `executor`: a queue of ready tasks in which a wake on the worker's own thread (by readiness or
//! by another task) takes no lock and no atomic operation. Guarantees: tasks run in the order in
//! which they were woken; a wake from any thread is delivered, and a late one reaches no other
//! task; a panic ends only its task (where panics unwind); a future is dropped on its own thread,
//! at the latest with the event loop.
//!
//! A thread has one event loop at a time, created by [`crate::worker`]; without one, spawning
//! panics. Tokio's channels, timers and `yield_now` work in these tasks as well.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::task::coop;

mod deferred;
pub(crate) mod executor;
mod join;
mod key;
mod remote_queue;
mod remote_wake;
#[cfg(test)]
mod tests;

use executor::LocalExecutor;
use join::Joined;

pub use deferred::DeferredSender;
pub use join::{JoinError, JoinHandle};
pub use key::AbortHandle;

/// Long steps a task may make in one poll; the same as tokio's budget.
const STEPS_PER_POLL: u16 = 128;
/// Marks that no task of this executor is running.
const FOREIGN: u16 = u16::MAX;

thread_local! {
    /// Long steps left to the running task.
    static STEPS: Cell<u16> = const { Cell::new(FOREIGN) };
}

/// Runs `future` as a task of this worker, after the tasks that are ready now. Dropping the handle
/// detaches the task.
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    LocalExecutor::current(|executor| {
        let (joined, shared) = Joined::new(future);
        JoinHandle::new(shared, executor.spawn(Box::pin(joined)))
    })
}

/// Takes out and wakes all of these wakers, of tasks of workers or of anything else. Tasks of one
/// worker cost about as much as one of them: a thread that responds to many of them collects their
/// wakers.
pub fn wake_all(wakers: &mut Vec<Waker>) {
    executor::wake_all(wakers);
}

/// Ready while the running task has budget left; otherwise the task is polled again after the other
/// tasks and the sockets.
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

/// True if a task of this worker is running, which may [`defer`].
#[inline]
pub fn may_defer() -> bool {
    STEPS.get() != FOREIGN
}

/// Defers what `write` writes, at most about `room_min` bytes. Only for a running task
/// ([`may_defer`]) whose step is short; outside a task nothing would send the bytes.
#[inline]
pub fn defer(sender: Rc<dyn DeferredSender>, room_min: usize, write: impl FnOnce(&mut BytesMut)) {
    debug_assert!(may_defer(), "only a task of the worker may defer");
    LocalExecutor::current(|executor| executor.defer(sender, room_min, write));
}

/// Sends what was deferred; call it before a step that may take long.
#[inline]
pub fn send_deferred() {
    if may_defer() {
        LocalExecutor::current(|executor| executor.send_deferred());
    }
}

/// Returns the worker's executor, which also drives the readiness of sockets.
pub(crate) fn executor() -> Rc<LocalExecutor> {
    LocalExecutor::current(Rc::clone)
}
