//! The threads that run an application: who sleeps, who is woken, and when another one is started.
//!
//! Owns their seats. Promises that one thread is awake as long as it keeps up, and that nothing
//! waits while all that are awake block and another one may be had: [`watch`](super::watch) looks
//! after that. No lock of this file is held while the GIL is waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use super::limits::IDLE;
use super::seat::Seat;
use crate::life::Life;

pub struct Crew {
    life: OnceLock<Arc<Life>>,
    seats: Mutex<Seats>,
    /// Signalled when a thread has ended.
    ended: Condvar,
    watcher: OnceLock<Thread>,
    /// Whether nobody looks after the crew until it is asked to.
    unwatched: AtomicBool,
    /// How long what was taken last had waited.
    waited_us: AtomicU64,
}

#[derive(Default)]
struct Seats {
    taken: Vec<Arc<Seat>>,
    /// Those of `taken` that sleep, the last one to lie down last.
    asleep: Vec<Arc<Seat>>,
    begun: usize,
}

/// What a thread that has slept is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rested {
    Look,
    End,
}

impl Crew {
    /// A crew without threads. It is told of arrivals before it is known whether there will be one.
    #[allow(clippy::new_without_default, reason = "an empty crew is no default of anything")]
    pub fn new() -> Arc<Crew> {
        Arc::new(Crew {
            life: OnceLock::new(),
            seats: Mutex::default(),
            ended: Condvar::new(),
            watcher: OnceLock::new(),
            unwatched: AtomicBool::new(false),
            waited_us: AtomicU64::new(0),
        })
    }

    /// The desk's alarm: somebody is to look at it. Whether there is a crew.
    pub fn alarm(&self) -> bool {
        let Some(_) = self.life.get() else { return false };
        let sleeper = self.seats().asleep.pop();
        match sleeper {
            Some(seat) => seat.wake(),
            None => self.watch(),
        }
        true
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There will be threads.
    pub(super) fn begin(&self, life: Arc<Life>) {
        // A process runs an application once.
        let _ = self.life.set(life);
    }

    /// A seat for a thread that begins, while there are fewer than `most`.
    pub(super) fn take_seat(&self, most: usize) -> Option<Arc<Seat>> {
        let mut seats = self.seats();
        if seats.taken.len() >= most {
            return None;
        }
        seats.begun += 1;
        let seat = Seat::new(seats.begun);
        seats.taken.push(seat.clone());
        Some(seat)
    }

    /// The thread ends.
    pub(super) fn leave(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats();
        seats.taken.retain(|taken| !Arc::ptr_eq(taken, seat));
        drop(seats);
        self.ended.notify_all();
    }

    /// Waits until no thread is left; `false` when one is after `most`.
    pub(super) fn wait_for_end(&self, most: Duration) -> bool {
        let busy = |seats: &mut Seats| !seats.taken.is_empty();
        let waited = self.ended.wait_timeout_while(self.seats(), most, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Calls `with` for each thread.
    pub(super) fn each(&self, with: impl FnMut(&Arc<Seat>)) {
        self.seats().taken.iter().for_each(with);
    }

    /// Has one of those that sleep look at the desk; whether there was one.
    pub(super) fn wake_one(&self) -> bool {
        let sleeper = self.seats().asleep.pop();
        if let Some(seat) = &sleeper {
            seat.wake();
        }
        sleeper.is_some()
    }

    pub(super) fn wake_all(&self) {
        let sleepers = std::mem::take(&mut self.seats().asleep);
        sleepers.iter().for_each(|seat| seat.wake());
    }

    /// The desk is empty: the thread of `seat` sleeps. `released` runs what it is given without the
    /// GIL. A thread that `stays` does not end for want of work.
    pub(super) fn rest(
        &self,
        seat: &Arc<Seat>,
        stays: bool,
        released: impl FnOnce(&mut (dyn FnMut() -> bool + Send)) -> bool,
    ) -> Rested {
        let Some(life) = self.life.get() else { return Rested::End };
        self.seats().asleep.push(seat.clone());
        let mut woken = true;
        let may_sleep = life.desk().sleep();
        if may_sleep && !life.is_stopping() {
            let most = (!stays).then_some(IDLE);
            woken = released(&mut || seat.sleep(most));
        }
        // Whoever has woken it has taken it from the list; nobody has where something had come.
        let mut seats = self.seats();
        let before = seats.asleep.len();
        seats.asleep.retain(|sleeper| !Arc::ptr_eq(sleeper, seat));
        let was_called = seats.asleep.len() == before;
        drop(seats);
        if may_sleep {
            life.desk().heard();
        }
        self.watch();
        if life.is_stopping() {
            self.wake_all();
            return Rested::End;
        }
        if woken || was_called { Rested::Look } else { Rested::End }
    }

    /// Notes how long what was taken had waited.
    pub(super) fn waited(&self, waited_us: u64) {
        self.waited_us.store(waited_us, Ordering::Relaxed);
    }

    pub(super) fn waited_us(&self) -> u64 {
        self.waited_us.load(Ordering::Relaxed)
    }

    // The watcher.

    pub(super) fn set_watcher(&self, thread: Thread) {
        // There is one.
        let _ = self.watcher.set(thread);
    }

    /// From now on somebody looks after the crew again.
    pub(super) fn watch(&self) {
        if self.unwatched.load(Ordering::Relaxed)
            && self.unwatched.swap(false, Ordering::AcqRel)
            && let Some(watcher) = self.watcher.get()
        {
            watcher.unpark();
        }
    }

    /// The watcher says that it is about to sleep until it is asked for.
    pub(super) fn leave_unwatched(&self) {
        self.unwatched.store(true, Ordering::SeqCst);
    }

    /// It does not, or has been woken.
    pub(super) fn is_watched(&self) -> bool {
        !self.unwatched.load(Ordering::Acquire)
    }

    pub(super) fn stay_watched(&self) {
        self.unwatched.store(false, Ordering::Release);
    }
}
