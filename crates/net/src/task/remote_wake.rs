//! Wakes and cancellations that come from other threads.
//!
//! Owns the one table of the process in which a worker is found by number, and each worker's queue.
//! Nothing of it is touched while a worker wakes its own tasks; a worker that finds nothing in its
//! queue has read one flag.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Waker;

use super::join::AbortHandle;
use super::key::{HIVES_MAX, Key};

static HIVES: RwLock<Vec<Option<Arc<RemoteQueue>>>> = RwLock::new(Vec::new());

/// What other threads leave for one worker.
#[derive(Default)]
pub(super) struct RemoteQueue {
    mail: Mutex<Mail>,
    /// Whether there is mail: spares the worker the mutex.
    any: AtomicBool,
}

#[derive(Default)]
struct Mail {
    /// A set: however often a task is woken while its worker is busy, it waits here once.
    wakes: BTreeSet<Key>,
    aborts: Vec<AbortHandle>,
    /// What wakes the worker.
    owner: Option<Waker>,
}

/// What was in an queue.
pub(super) struct Received {
    pub(super) wakes: BTreeSet<Key>,
    pub(super) aborts: Vec<AbortHandle>,
}

impl RemoteQueue {
    /// A new queue and the number under which it is found.
    pub(super) fn open() -> (Arc<RemoteQueue>, u16) {
        let queue = Arc::new(RemoteQueue::default());
        let mut executors = HIVES.write().unwrap_or_else(PoisonError::into_inner);
        let free = executors.iter().position(Option::is_none).unwrap_or(executors.len());
        // A worker is a thread, and no system has as many of them.
        assert!(free < HIVES_MAX, "too many event loops");
        if free == executors.len() {
            executors.push(None);
        }
        executors[free] = Some(queue.clone());
        (queue, free as u16)
    }

    /// Nobody finds the queue any more.
    pub(super) fn close(number: u16) {
        let mut executors = HIVES.write().unwrap_or_else(PoisonError::into_inner);
        let closed = executors.get_mut(usize::from(number)).and_then(Option::take);
        drop(executors);
        // What waits in it may be anything that wakes a task: it goes without the lock.
        drop(closed);
    }

    /// Says what wakes the worker. Whoever leaves something from now on does it.
    pub(super) fn set_owner(&self, owner: Waker) {
        let former = self.mail().owner.replace(owner);
        drop(former);
    }

    #[inline]
    pub(super) fn take(&self) -> Option<Received> {
        // The load costs what any does. Mail that it does not see yet comes with a wake of the
        // worker after it was left, and then it is seen.
        if self.any.load(Ordering::Relaxed) { Some(self.empty()) } else { None }
    }

    #[cold]
    fn empty(&self) -> Received {
        let mut mail = self.mail();
        // Under the lock, as where it is set: it is never false with mail in the box.
        self.any.store(false, Ordering::Relaxed);
        Received {
            wakes: std::mem::take(&mut mail.wakes),
            aborts: std::mem::take(&mut mail.aborts),
        }
    }

    fn leave(&self, put: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail();
        put(&mut mail);
        self.any.store(true, Ordering::Relaxed);
        let owner = mail.owner.clone();
        drop(mail);
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(executor: u16) -> Option<Arc<RemoteQueue>> {
    let executors = HIVES.read().unwrap_or_else(PoisonError::into_inner);
    executors.get(usize::from(executor))?.clone()
}

/// Wakes a task of another thread; nobody, if its worker has ended.
pub(super) fn wake(key: Key) {
    if let Some(queue) = find(key.executor()) {
        queue.leave(|mail| {
            mail.wakes.insert(key);
        });
    }
}

/// Cancels a task of another thread.
pub(super) fn abort(task: AbortHandle) {
    if let Some(queue) = find(task.key.executor()) {
        queue.leave(|mail| mail.aborts.push(task));
    }
}
