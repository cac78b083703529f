//! One thread of the crew, as the others see it.
//!
//! Owns what the thread says of itself (what it runs, since when), and how it sleeps. Nothing here
//! touches Python.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use exchange::offload::wake_batch::{self, WakeBatch};

/// A thread's place.
pub(super) struct Seat {
    number: usize,
    /// When what it runs last got on, in microseconds; 0 while it runs nothing, or waits for a
    /// client.
    since_us: AtomicU64,
    /// Whether it was asked to look at the desk.
    woken: AtomicBool,
    of_thread: OnceLock<OfThread>,
}

/// What only the thread itself can find out.
struct OfThread {
    thread: Thread,
    id: libc::pid_t,
    clock: Option<libc::clockid_t>,
    held: Arc<WakeBatch>,
}

thread_local! {
    static MINE: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

impl Seat {
    pub(super) fn new(number: usize) -> Arc<Seat> {
        Arc::new(Seat {
            number,
            since_us: AtomicU64::new(0),
            woken: AtomicBool::new(false),
            of_thread: OnceLock::new(),
        })
    }

    /// The running thread takes the seat.
    pub(super) fn sit_down(self: &Arc<Self>) {
        let mut clock = 0;
        // SAFETY: the calls ask about the running thread, and write to a place of ours.
        let (id, known) = unsafe {
            let thread = libc::pthread_self();
            (libc::gettid(), libc::pthread_getcpuclockid(thread, &raw mut clock) == 0)
        };
        let of_thread = OfThread {
            thread: std::thread::current(),
            id,
            clock: known.then_some(clock),
            held: wake_batch::mine(),
        };
        // A seat is taken once.
        let _ = self.of_thread.set(of_thread);
        MINE.set(Some(self.clone()));
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Something begins, or has got on.
    pub(super) fn gets_on(&self, now_us: u64) {
        self.since_us.store(now_us.max(1), Ordering::Relaxed);
    }

    /// What it ran has ended.
    pub(super) fn has_ended(&self) {
        self.since_us.store(0, Ordering::Relaxed);
    }

    /// Since when what it runs does not get on; none where it runs nothing.
    pub(super) fn since_us(&self) -> Option<u64> {
        match self.since_us.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        }
    }

    /// Wakes the worker for what the thread has answered.
    pub(super) fn flush(&self) {
        if let Some(of_thread) = self.of_thread.get() {
            of_thread.held.flush();
        }
    }

    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        if let Some(of_thread) = self.of_thread.get() {
            of_thread.thread.unpark();
        }
    }

    /// Sleeps until it is woken; `false` when it was not, for so long.
    pub(super) fn sleep(&self, most: Option<Duration>) -> bool {
        let until = most.map(|most| Instant::now() + most);
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

    /// How long the thread has run on a processor, in nanoseconds.
    pub(super) fn processor_ns(&self) -> Option<u64> {
        let clock = self.of_thread.get()?.clock?;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to a place of ours; fails where the thread has ended.
        let known = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        let nanoseconds = time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?;
        if known { u64::try_from(nanoseconds).ok() } else { None }
    }

    /// Whether the thread runs, or would if it had a processor.
    pub(super) fn is_runnable(&self) -> bool {
        let Some(of_thread) = self.of_thread.get() else { return true };
        let stat = std::fs::read(format!("/proc/self/task/{}/stat", of_thread.id));
        // "pid (name) state": the name may hold anything.
        let state = stat.ok().and_then(|stat| {
            let end = stat.iter().rposition(|byte| *byte == b')')?;
            stat.get(end + 2).copied()
        });
        state == Some(b'R')
    }
}

/// Calls `with` for the seat of the running thread, if it has one.
pub(super) fn with_mine(with: impl FnOnce(&Seat)) {
    MINE.with_borrow(|mine| {
        if let Some(seat) = mine {
            with(seat);
        }
    });
}
