//! The ready queue of a driver.
//!
//! Owns the keys of sources that have something to say, in the order they said it, each at most
//! once. The event loop wakes a source on the driver's own thread, where queueing takes no lock; a
//! wake from another thread, which `Waker` allows and a worker's loop does not do, goes through a
//! mutex.

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

/// What the driver's own thread sees.
#[derive(Default)]
struct Waiting {
    keys: VecDeque<Key>,
    /// The owner's task while it waits.
    owner: Option<Waker>,
    /// The task that `Abroad` wakes.
    known_abroad: Option<Waker>,
}

/// What other threads see.
#[derive(Default)]
struct Abroad {
    keys: VecDeque<Key>,
    owner: Option<Waker>,
}

/// What only one thread may touch, inside what all threads may hold.
struct Home<T> {
    thread: ThreadId,
    inner: T,
}

// SAFETY: `inner` is reached only through `get`, which checks that it runs on `thread`; a
// `ThreadId` is never given to a second thread. It may be dropped elsewhere, hence `T: Send`.
unsafe impl<T: Send> Sync for Home<T> {}

impl<T> Home<T> {
    fn new(inner: T) -> Home<T> {
        Home { thread: THIS.with(|id| *id), inner }
    }

    fn get(&self) -> Option<&T> {
        (THIS.with(|id| *id) == self.thread).then_some(&self.inner)
    }
}

pub(super) struct Queue {
    home: Home<RefCell<Waiting>>,
    abroad: Mutex<Abroad>,
    /// Whether `abroad` holds keys: spares the owner the mutex.
    any_abroad: AtomicBool,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            home: Home::new(RefCell::default()),
            abroad: Mutex::default(),
            any_abroad: AtomicBool::new(false),
        }
    }

    fn push(&self, key: Key) {
        let owner = match self.home.get() {
            Some(home) => {
                let mut waiting = home.borrow_mut();
                waiting.keys.push_back(key);
                // Taken: the owner is woken once, however many follow before it runs.
                waiting.owner.take()
            }
            None => {
                let mut abroad = self.abroad();
                abroad.keys.push_back(key);
                self.any_abroad.store(true, Ordering::Release);
                abroad.owner.clone()
            }
        };
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    /// The first key; where there is none, the next wakes the owner's task. Nothing on a thread
    /// that is not the driver's.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Option<Key> {
        let mut waiting = self.home.get()?.borrow_mut();
        if let Some(key) = waiting.keys.pop_front() {
            return Some(key);
        }
        if !waiting.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            waiting.owner = Some(cx.waker().clone());
        }
        if !waiting.known_abroad.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            waiting.known_abroad = Some(cx.waker().clone());
            self.abroad().owner = Some(cx.waker().clone());
        }
        // After the owner is known abroad: whoever queues from now on wakes it.
        if self.any_abroad.swap(false, Ordering::Acquire) {
            waiting.keys.append(&mut self.abroad().keys);
        }
        waiting.keys.pop_front()
    }

    fn abroad(&self) -> MutexGuard<'_, Abroad> {
        self.abroad.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One source's place in the queue; its waker.
pub(super) struct Mark {
    key: Key,
    queued: AtomicBool,
    queue: Arc<Queue>,
}

impl Mark {
    pub(super) fn new(key: Key, queue: Arc<Queue>) -> Mark {
        Mark { key, queued: AtomicBool::new(false), queue }
    }

    /// Puts the source at the end of the queue unless it waits there.
    pub(super) fn queue(&self) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.key);
        }
    }

    /// The source has left the queue.
    pub(super) fn taken(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.queue();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue();
    }
}
