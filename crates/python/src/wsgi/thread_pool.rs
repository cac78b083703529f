//! The threads that run an application: which are idle, which is woken, when another one starts.
//!
//! Promises that one thread is awake as long as it keeps up, and that no request waits while all
//! awake threads block and another thread is available: the [`watcher`](super::watcher) checks
//! that. No lock of this file is held while a thread waits for the GIL.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use super::limits::IDLE_TIMEOUT;
use super::pool_thread::PoolThread;
use crate::app_status::AppStatus;

pub struct ThreadPool {
    status: OnceLock<Arc<AppStatus>>,
    threads: Mutex<Threads>,
    /// Signalled when a thread has exited.
    exited: Condvar,
    watcher: OnceLock<Thread>,
    /// True while the watcher sleeps until it is woken.
    watcher_asleep: AtomicBool,
    /// How long the request taken last had waited.
    last_wait_us: AtomicU64,
}

#[derive(Default)]
struct Threads {
    all: Vec<Arc<PoolThread>>,
    /// Threads without a request; the most recent one is woken first.
    idle: Vec<Arc<PoolThread>>,
    started: usize,
}

/// What a thread does after it was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterIdle {
    CheckQueue,
    Exit,
}

impl ThreadPool {
    /// A pool without threads. It exists before the application's interface is known, because the
    /// queue notifies it.
    #[allow(clippy::new_without_default, reason = "an empty pool is not a default of anything")]
    pub fn new() -> Arc<ThreadPool> {
        Arc::new(ThreadPool {
            status: OnceLock::new(),
            threads: Mutex::default(),
            exited: Condvar::new(),
            watcher: OnceLock::new(),
            watcher_asleep: AtomicBool::new(false),
            last_wait_us: AtomicU64::new(0),
        })
    }

    /// Wakes a thread for the queue. False if the pool is not in use.
    pub fn notify(&self) -> bool {
        let Some(_) = self.status.get() else { return false };
        if !self.wake_one() {
            self.wake_watcher();
        }
        true
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the pool into use.
    pub(super) fn activate(&self, status: Arc<AppStatus>) {
        // A process runs an application once.
        let _ = self.status.set(status);
    }

    /// Adds a thread, unless there are `max`.
    pub(super) fn add(&self, max: usize) -> Option<Arc<PoolThread>> {
        let mut threads = self.threads();
        if threads.all.len() >= max {
            return None;
        }
        threads.started += 1;
        let thread = PoolThread::new(threads.started);
        threads.all.push(thread.clone());
        Some(thread)
    }

    /// Removes a thread that exits.
    pub(super) fn remove(&self, thread: &Arc<PoolThread>) {
        let mut threads = self.threads();
        threads.all.retain(|other| !Arc::ptr_eq(other, thread));
        drop(threads);
        self.exited.notify_all();
    }

    /// Waits until all threads have exited; false if the time-out expired first.
    pub(super) fn wait_until_empty(&self, timeout: Duration) -> bool {
        let busy = |threads: &mut Threads| !threads.all.is_empty();
        let waited = self.exited.wait_timeout_while(self.threads(), timeout, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub(super) fn for_each(&self, with: impl FnMut(&Arc<PoolThread>)) {
        self.threads().all.iter().for_each(with);
    }

    /// Wakes an idle thread; false if there is none.
    pub(super) fn wake_one(&self) -> bool {
        let idle = self.threads().idle.pop();
        if let Some(thread) = &idle {
            thread.wake();
        }
        idle.is_some()
    }

    pub(super) fn wake_all(&self) {
        let idle = std::mem::take(&mut self.threads().idle);
        idle.iter().for_each(|thread| thread.wake());
    }

    /// Lets `thread` sleep while the queue is empty. `without_gil` runs its argument without the
    /// GIL. A `permanent` thread does not exit after the idle time-out.
    pub(super) fn idle(
        &self,
        thread: &Arc<PoolThread>,
        permanent: bool,
        without_gil: impl FnOnce(&mut (dyn FnMut() -> bool + Send)) -> bool,
    ) -> AfterIdle {
        let Some(status) = self.status.get() else { return AfterIdle::Exit };
        self.threads().idle.push(thread.clone());
        let mut woken = true;
        let may_sleep = status.queue().sleep();
        if may_sleep && !status.is_stopping() {
            let timeout = (!permanent).then_some(IDLE_TIMEOUT);
            woken = without_gil(&mut || thread.sleep(timeout));
        }
        // A thread that was woken is no longer in the list.
        let mut threads = self.threads();
        let before = threads.idle.len();
        threads.idle.retain(|idle| !Arc::ptr_eq(idle, thread));
        let was_removed = threads.idle.len() == before;
        drop(threads);
        if may_sleep {
            status.queue().acknowledge();
        }
        self.wake_watcher();
        if status.is_stopping() {
            self.wake_all();
            return AfterIdle::Exit;
        }
        if woken || was_removed { AfterIdle::CheckQueue } else { AfterIdle::Exit }
    }

    pub(super) fn set_last_wait_us(&self, waited_us: u64) {
        self.last_wait_us.store(waited_us, Ordering::Relaxed);
    }

    pub(super) fn last_wait_us(&self) -> u64 {
        self.last_wait_us.load(Ordering::Relaxed)
    }

    pub(super) fn set_watcher(&self, thread: Thread) {
        // A pool has one watcher.
        let _ = self.watcher.set(thread);
    }

    /// Wakes the watcher if it sleeps.
    pub(super) fn wake_watcher(&self) {
        if self.watcher_asleep.load(Ordering::Relaxed)
            && self.watcher_asleep.swap(false, Ordering::AcqRel)
            && let Some(watcher) = self.watcher.get()
        {
            watcher.unpark();
        }
    }

    /// Announces that the watcher is about to sleep until it is woken, or that it is awake.
    pub(super) fn set_watcher_asleep(&self, asleep: bool) {
        self.watcher_asleep.store(asleep, Ordering::SeqCst);
    }

    pub(super) fn is_watcher_asleep(&self) -> bool {
        self.watcher_asleep.load(Ordering::Acquire)
    }
}
