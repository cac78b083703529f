//! The ready queue of a driver.
//!
//! Owns the keys of ready sources in the order of their events, each at most once. The event loop
//! wakes a source on the driver's own thread, where queueing takes no lock; a wake from another
//! thread (which `Waker` allows and a worker's loop does not do) goes through a mutex.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::{self, ThreadId};

use super::Key;

thread_local! {
    static THIS: ThreadId = thread::current().id();
}

/// The keys queued by the driver's own thread.
#[derive(Default)]
struct LocalKeys {
    keys: VecDeque<Key>,
    /// The waker of the owner's task while it waits.
    owner: Option<Waker>,
    /// The waker stored in `RemoteKeys`.
    remote_owner: Option<Waker>,
}

/// The keys queued by other threads.
#[derive(Default)]
struct RemoteKeys {
    keys: VecDeque<Key>,
    owner: Option<Waker>,
}

/// A value that only one thread may access, inside a type that all threads may hold.
struct ThreadBound<T> {
    thread: ThreadId,
    inner: T,
}

// SAFETY: `inner` is reached only through `get`, which checks that it runs on `thread`; a
// `ThreadId` is never assigned to a second thread. It may be dropped on another thread, hence `T:
// Send`.
unsafe impl<T: Send> Sync for ThreadBound<T> {}

impl<T> ThreadBound<T> {
    fn new(inner: T) -> ThreadBound<T> {
        ThreadBound { thread: THIS.with(|id| *id), inner }
    }

    fn get(&self) -> Option<&T> {
        (THIS.with(|id| *id) == self.thread).then_some(&self.inner)
    }
}

pub(super) struct Queue {
    local: ThreadBound<RefCell<LocalKeys>>,
    remote: Mutex<RemoteKeys>,
    /// True if `remote` holds keys: saves the owner the mutex.
    has_remote: AtomicBool,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            local: ThreadBound::new(RefCell::default()),
            remote: Mutex::default(),
            has_remote: AtomicBool::new(false),
        }
    }

    fn push(&self, key: Key) {
        let owner = match self.local.get() {
            Some(local) => {
                let mut local = local.borrow_mut();
                local.keys.push_back(key);
                // Taken, so that the owner is woken once for all keys queued before it runs.
                local.owner.take()
            }
            None => {
                let mut remote = self.remote();
                remote.keys.push_back(key);
                self.has_remote.store(true, Ordering::Release);
                remote.owner.clone()
            }
        };
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    /// Takes the first key. If there is none, registers the owner's task. Returns `None` on a
    /// thread other than the driver's.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Option<Key> {
        let mut local = self.local.get()?.borrow_mut();
        if let Some(key) = local.keys.pop_front() {
            return Some(key);
        }
        if !local.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            local.owner = Some(cx.waker().clone());
        }
        if !local.remote_owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            local.remote_owner = Some(cx.waker().clone());
            self.remote().owner = Some(cx.waker().clone());
        }
        // Checked after the owner is registered: every later push from another thread wakes it.
        if self.has_remote.swap(false, Ordering::Acquire) {
            local.keys.append(&mut self.remote().keys);
        }
        local.keys.pop_front()
    }

    fn remote(&self) -> MutexGuard<'_, RemoteKeys> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One source's entry in the queue; its waker.
pub(super) struct SourceWaker {
    key: Key,
    queued: AtomicBool,
    queue: Arc<Queue>,
}

impl SourceWaker {
    pub(super) fn new(key: Key, queue: Arc<Queue>) -> SourceWaker {
        SourceWaker { key, queued: AtomicBool::new(false), queue }
    }

    /// Appends the source to the queue unless it is queued already.
    pub(super) fn queue(&self) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.key);
        }
    }

    /// Marks the source as no longer queued.
    pub(super) fn taken(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for SourceWaker {
    fn wake(self: Arc<Self>) {
        self.queue();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue();
    }
}
