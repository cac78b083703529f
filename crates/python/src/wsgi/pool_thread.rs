//! One thread of the pool, as the pool and the watcher see it.
//!
//! Owns the progress that the thread reports, and its sleep. Does not touch Python.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use offload::wake_batch::{self, WakeBatch};

/// A thread of the pool.
pub(super) struct PoolThread {
    number: usize,
    /// When its call last made progress, in microseconds; 0 while it runs none, or waits for a
    /// client.
    progress_us: AtomicU64,
    /// True if it was woken to check the queue.
    woken: AtomicBool,
    handles: OnceLock<Handles>,
}

/// Handles that only the thread itself can obtain.
struct Handles {
    thread: Thread,
    id: libc::pid_t,
    cpu_clock: Option<libc::clockid_t>,
    wakes: Arc<WakeBatch>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<PoolThread>>> = const { RefCell::new(None) };
}

impl PoolThread {
    pub(super) fn new(number: usize) -> Arc<PoolThread> {
        Arc::new(PoolThread {
            number,
            progress_us: AtomicU64::new(0),
            woken: AtomicBool::new(false),
            handles: OnceLock::new(),
        })
    }

    /// Binds the running thread to this entry of the pool.
    pub(super) fn bind_current(self: &Arc<Self>) {
        let mut clock = 0;
        // SAFETY: the calls query the running thread and write to a local variable.
        let (id, known) = unsafe {
            let thread = libc::pthread_self();
            (libc::gettid(), libc::pthread_getcpuclockid(thread, &raw mut clock) == 0)
        };
        let handles = Handles {
            thread: std::thread::current(),
            id,
            cpu_clock: known.then_some(clock),
            wakes: wake_batch::mine(),
        };
        // An entry is bound once.
        let _ = self.handles.set(handles);
        CURRENT.set(Some(self.clone()));
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Reports that a call begins, or has made progress.
    pub(super) fn set_progress(&self, now_us: u64) {
        self.progress_us.store(now_us.max(1), Ordering::Relaxed);
    }

    /// Reports that no call runs.
    pub(super) fn set_idle(&self) {
        self.progress_us.store(0, Ordering::Relaxed);
    }

    /// When the running call last made progress; `None` without a call.
    pub(super) fn progress_us(&self) -> Option<u64> {
        match self.progress_us.load(Ordering::Relaxed) {
            0 => None,
            at => Some(at),
        }
    }

    /// Wakes the I/O thread for the responses that this thread has batched.
    pub(super) fn flush_wakes(&self) {
        if let Some(handles) = self.handles.get() {
            handles.wakes.flush();
        }
    }

    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        if let Some(handles) = self.handles.get() {
            handles.thread.unpark();
        }
    }

    /// Sleeps until the thread is woken; false if the time-out expired first.
    pub(super) fn sleep(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        while !self.woken.swap(false, Ordering::Acquire) {
            match until {
                None => std::thread::park(),
                Some(until) => match until.checked_duration_since(Instant::now()) {
                    Some(left) => std::thread::park_timeout(left),
                    None => return false,
                },
            }
        }
        true
    }

    /// The processor time of the thread, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Option<u64> {
        let clock = self.handles.get()?.cpu_clock?;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to a local variable; fails if the thread has exited.
        let known = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        let nanoseconds = time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?;
        if known { u64::try_from(nanoseconds).ok() } else { None }
    }

    /// True if the thread runs or waits for a processor.
    pub(super) fn is_runnable(&self) -> bool {
        let Some(handles) = self.handles.get() else { return true };
        let stat = std::fs::read(format!("/proc/self/task/{}/stat", handles.id));
        // "pid (name) state": the name may contain any byte.
        let state = stat.ok().and_then(|stat| {
            let end = stat.iter().rposition(|byte| *byte == b')')?;
            stat.get(end + 2).copied()
        });
        state == Some(b'R')
    }
}

/// Calls `with` for the running thread, if it belongs to the pool.
pub(super) fn with_current(with: impl FnOnce(&PoolThread)) {
    CURRENT.with_borrow(|current| {
        if let Some(thread) = current {
            with(thread);
        }
    });
}
