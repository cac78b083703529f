//! Wakes and cancellations from other threads.
//!
//! Owns the process-wide table of executors by number, and each executor's queue. A worker that
//! wakes its own tasks touches none of it; a worker with an empty queue reads one flag.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Waker;

use super::join::AbortHandle;
use super::key::{EXECUTORS_MAX, Key};

static EXECUTORS: RwLock<Vec<Option<Arc<RemoteQueue>>>> = RwLock::new(Vec::new());

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
    /// Creates a queue and returns it with its executor's number.
    pub(super) fn open() -> (Arc<RemoteQueue>, u16) {
        let queue = Arc::new(RemoteQueue::default());
        let mut executors = EXECUTORS.write().unwrap_or_else(PoisonError::into_inner);
        let free = executors.iter().position(Option::is_none).unwrap_or(executors.len());
        // An executor is a thread, and no system has that many.
        assert!(free < EXECUTORS_MAX, "too many event loops");
        if free == executors.len() {
            executors.push(None);
        }
        executors[free] = Some(queue.clone());
        (queue, free as u16)
    }

    /// Removes the queue from the table.
    pub(super) fn close(number: u16) {
        let mut executors = EXECUTORS.write().unwrap_or_else(PoisonError::into_inner);
        let closed = executors.get_mut(usize::from(number)).and_then(Option::take);
        drop(executors);
        // Dropped without the lock: it holds wakers, whose drop may wake tasks.
        drop(closed);
    }

    /// Sets the waker of the worker, which every later push wakes.
    pub(super) fn set_owner(&self, owner: Waker) {
        let former = self.pending().owner.replace(owner);
        drop(former);
    }

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

fn find(executor: u16) -> Option<Arc<RemoteQueue>> {
    let executors = EXECUTORS.read().unwrap_or_else(PoisonError::into_inner);
    executors.get(usize::from(executor))?.clone()
}

/// Wakes a task of another thread; no effect if its worker has ended.
pub(super) fn wake(key: Key) {
    if let Some(queue) = find(key.executor()) {
        queue.push(|pending| {
            pending.wakes.insert(key);
        });
    }
}

/// Cancels a task of another thread.
pub(super) fn abort(task: AbortHandle) {
    if let Some(queue) = find(task.key.executor()) {
        queue.push(|pending| pending.aborts.push(task));
    }
}
