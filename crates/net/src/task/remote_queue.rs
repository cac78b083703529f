//! The queue of wakes and cancellations that other threads send to one worker.
//!
//! A worker with an empty queue reads one flag. Promises that the worker is woken after each push,
//! and then finds it; `tests/models` shows it for every order of the steps.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::task::Waker;

use super::key::{AbortHandle, Key};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};

/// Wakes and cancellations that other threads have queued for one worker.
#[derive(Default)]
pub(super) struct RemoteQueue {
    pending: Mutex<Pending>,
    /// True if the queue is not empty: saves the worker the mutex.
    is_pending: AtomicBool,
}

#[derive(Default)]
struct Pending {
    /// A set: a task that is woken repeatedly while its worker is busy is queued once.
    wakes: BTreeSet<Key>,
    aborts: Vec<AbortHandle>,
    /// Wakes the worker.
    owner: Option<Waker>,
}

/// The content of a queue.
pub(super) struct Received {
    pub(super) wakes: BTreeSet<Key>,
    pub(super) aborts: Vec<AbortHandle>,
}

impl RemoteQueue {
    /// Sets the waker of the worker, which every later push wakes.
    pub(super) fn set_owner(&self, owner: Waker) {
        let former = self.pending().owner.replace(owner);
        drop(former);
    }

    /// Returns what was queued since the last call.
    #[inline]
    pub(super) fn take(&self) -> Option<Received> {
        // A plain load. A push that it does not see yet wakes the worker afterwards, and is seen
        // then.
        if self.is_pending.load(Ordering::Relaxed) { Some(self.take_all()) } else { None }
    }

    #[cold]
    fn take_all(&self) -> Received {
        let mut pending = self.pending();
        // Under the lock, as where it is set: it is never false while the queue is not empty.
        self.is_pending.store(false, Ordering::Relaxed);
        Received {
            wakes: std::mem::take(&mut pending.wakes),
            aborts: std::mem::take(&mut pending.aborts),
        }
    }

    /// Queues the wake-ups of tasks.
    pub(super) fn wake(&self, keys: impl IntoIterator<Item = Key>) {
        self.push(|pending| pending.wakes.extend(keys));
    }

    /// Queues the cancellation of a task.
    pub(super) fn abort(&self, task: AbortHandle) {
        self.push(|pending| pending.aborts.push(task));
    }

    fn push(&self, put: impl FnOnce(&mut Pending)) {
        let mut pending = self.pending();
        put(&mut pending);
        self.is_pending.store(true, Ordering::Relaxed);
        let owner = pending.owner.clone();
        drop(pending);
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
