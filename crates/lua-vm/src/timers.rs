//! The timers of a VM, to the millisecond.
//!
//! Owns deadlines and the action of each: a coroutine to wake, a function to call. Promises that
//! they come out in the order of their deadlines and, for equal ones, in the order they were set;
//! never early. A cancelled timer is forgotten at once; its entry in the heap is removed when it
//! comes up, or when most entries belong to cancelled timers.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::num::NonZero;
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::block_heap::BlockHeap;
use crate::blocks::Blocks;
use crate::ids::{StreamHandle, TaskId};

/// The action of a timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerAction {
    /// Wakes the coroutine, with no value.
    Wake(TaskId),
    /// A function of the registry is called with a value of the registry, or with the session.
    Call { function: c_int, argument: Option<NonZero<c_int>> },
    /// The waiting read of a connection, whose deadline this is, has taken too long.
    Read { connection: u32 },
    /// A closed connection has not sent its last bytes.
    Linger(StreamHandle),
    /// A listener that had no descriptors left tries again.
    Accept(StreamHandle),
}

/// Names a timer: never reused before 2^32 timers were set in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId {
    index: u32,
    generation: u32,
}

impl TimerId {
    /// The index of the timer, for [`Timers::cancel_wake`].
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// As Silly hands it out: a number.
    pub(crate) fn to_number(self) -> i64 {
        (i64::from(self.generation & 0x7fff_ffff) << 32) | i64::from(self.index)
    }

    pub(crate) fn from_number(number: i64) -> TimerId {
        TimerId { index: number as u32, generation: (number >> 32) as u32 }
    }
}

#[derive(Default)]
struct TimerSlot {
    generation: u32,
    due: Option<TimerAction>,
}

/// There may be 100 000 of them.
const _: () = assert!(size_of::<TimerSlot>() <= 16);

#[derive(Default)]
struct TimerHeap {
    /// Deadline, order of setting, place.
    entries: BlockHeap<(u64, u64, TimerId)>,
    slots: Blocks<TimerSlot>,
    vacant: Vec<u32>,
    set: u64,
    cancelled: usize,
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: RefCell<TimerHeap>,
    /// The earliest deadline, or a smaller number: one comparison shows that nothing is due.
    earliest_ms: Cell<u64>,
    driver: RefCell<Option<Waker>>,
    stopped: Cell<Option<StoppedClock>>,
}

/// The time of a clock that stands still: see [`crate::manual_clock`].
#[derive(Clone, Copy)]
struct StoppedClock {
    now_ms: u64,
    wall_ms: u64,
}

/// Milliseconds of the monotonic clock, read now.
pub fn now_ms() -> u64 {
    net::clock::precise_us() / 1000
}

impl Timers {
    /// Milliseconds of the VM's monotonic clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.stopped.get().map_or_else(now_ms, |stopped| stopped.now_ms)
    }

    /// Milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        match self.stopped.get() {
            Some(stopped) => stopped.wall_ms,
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
        }
    }

    /// The time that timers are due at: the worker's cached clock.
    pub(crate) fn turn_ms(&self) -> u64 {
        self.stopped.get().map_or_else(|| net::clock::now().as_ms(), |stopped| stopped.now_ms)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Stops the clock, at this time since 1970.
    pub(crate) fn stop(&self, wall_ms: u64) {
        self.stopped.set(Some(StoppedClock { now_ms: self.now_ms(), wall_ms }));
        self.wake_loop();
    }

    /// Moves a stopped clock forward.
    pub(crate) fn move_to(&self, now_ms: u64) {
        if let Some(stopped) = self.stopped.get() {
            let wall_ms = stopped.wall_ms + now_ms.saturating_sub(stopped.now_ms);
            self.stopped.set(Some(StoppedClock { now_ms, wall_ms }));
            self.wake_loop();
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.heap.borrow().entries.peek().map(|(deadline, ..)| deadline)
    }

    /// Timers that are set, and how many were set so far.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let heap = self.heap.borrow();
        (heap.slots.len() - heap.vacant.len(), heap.set)
    }

    /// Sets a timer for `span_ms` from now.
    pub(crate) fn set(&self, span_ms: u64, due: TimerAction) -> TimerId {
        // One more than the whole milliseconds that have passed: never early.
        let begun = u64::from(span_ms > 0 && !self.is_stopped());
        let deadline = self.now_ms() + span_ms + begun;
        let mut heap = self.heap.borrow_mut();
        let index = heap.vacant.pop().unwrap_or_else(|| {
            heap.slots.push(TimerSlot::default());
            (heap.slots.len() - 1) as u32
        });
        let slot = &mut heap.slots[index as usize];
        slot.due = Some(due);
        let session = TimerId { index, generation: slot.generation };
        heap.set += 1;
        let order = heap.set;
        let first = heap.entries.peek().is_none_or(|first| deadline < first.0);
        heap.entries.push((deadline, order, session));
        drop(heap);
        if first {
            self.earliest_ms.set(deadline);
            self.wake_loop();
        }
        session
    }

    /// Wakes the loop, because something that it does not watch has changed.
    pub(crate) fn wake_loop(&self) {
        if let Some(driver) = self.driver.borrow_mut().take() {
            driver.wake();
        }
    }

    /// Forgets a timer; `None` if it is none or was due already.
    pub(crate) fn cancel(&self, session: TimerId) -> Option<TimerAction> {
        let mut heap = self.heap.borrow_mut();
        let due = heap.take(session)?;
        heap.cancelled += 1;
        if heap.cancelled > 64 && heap.cancelled > heap.entries.len() / 2 {
            heap.sweep();
        }
        Some(due)
    }

    /// Removes the timer at an index if it wakes this coroutine.
    pub(crate) fn cancel_wake(&self, index: u32, task: TaskId) {
        let generation = {
            let heap = self.heap.borrow();
            let slot = heap.slots.get(index as usize);
            slot.filter(|slot| slot.due == Some(TimerAction::Wake(task)))
                .map(|slot| slot.generation)
        };
        if let Some(generation) = generation {
            self.cancel(TimerId { index, generation });
        }
    }

    /// Removes a timer that calls a function, the only kind whose id scripts have.
    pub(crate) fn cancel_call(&self, session: TimerId) -> Option<TimerAction> {
        let call = matches!(
            self.heap.borrow().slots.get(session.index as usize).and_then(|slot| slot.due),
            Some(TimerAction::Call { .. })
        );
        call.then(|| self.cancel(session)).flatten()
    }

    /// The next timer whose deadline has passed.
    pub(crate) fn next_due(&self, now_ms: u64) -> Option<(TimerId, TimerAction)> {
        if self.earliest_ms.get() > now_ms {
            return None;
        }
        let mut heap = self.heap.borrow_mut();
        loop {
            let Some((deadline, _, session)) = heap.entries.peek() else {
                self.earliest_ms.set(u64::MAX);
                return None;
            };
            let alive = heap.slots[session.index as usize].generation == session.generation;
            if alive && deadline > now_ms {
                self.earliest_ms.set(deadline);
                return None;
            }
            heap.entries.pop();
            match heap.take(session) {
                Some(due) => return Some((session, due)),
                None => heap.cancelled = heap.cancelled.saturating_sub(1),
            }
        }
    }

    /// The earliest deadline; the task of `waker` is woken if it becomes earlier.
    pub(crate) fn earliest_ms(&self, waker: &Waker) -> Option<u64> {
        let mut driver = self.driver.borrow_mut();
        if !driver.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
        self.next_ms()
    }
}

impl TimerHeap {
    fn take(&mut self, session: TimerId) -> Option<TimerAction> {
        let slot = self.slots.get_mut(session.index as usize)?;
        if slot.generation != session.generation {
            return None;
        }
        let due = slot.due.take()?;
        // Scripts have the id as a positive number.
        slot.generation = (slot.generation + 1) & 0x7fff_ffff;
        self.vacant.push(session.index);
        Some(due)
    }

    fn sweep(&mut self) {
        let slots = &self.slots;
        self.entries.retain(|(_, _, session)| {
            slots[session.index as usize].generation == session.generation
        });
        self.cancelled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{TimerAction, TimerId, Timers, now_ms};

    fn call(function: i32) -> TimerAction {
        TimerAction::Call { function, argument: None }
    }

    #[test]
    fn due_in_order_of_deadline_then_of_setting() {
        let timers = Timers::default();
        timers.stop(0);
        for (span, function) in [(20, 3), (10, 1), (10, 2), (0, 0)] {
            timers.set(span, call(function));
        }
        let later = timers.now_ms() + 30;
        let order: Vec<TimerAction> =
            std::iter::from_fn(|| timers.next_due(later)).map(|(_, due)| due).collect();
        assert_eq!(order, [call(0), call(1), call(2), call(3)]);
    }

    #[test]
    fn a_cancelled_timer_is_never_due_and_its_session_reaches_no_other() {
        let timers = Timers::default();
        let first = timers.set(1, call(1));
        assert_eq!(TimerId::from_number(first.to_number()), first);
        assert_eq!(timers.cancel(first), Some(call(1)));
        let second = timers.set(1, call(2));
        assert_eq!(timers.cancel(first), None);
        assert_eq!(timers.next_due(now_ms() + 5), Some((second, call(2))));
        assert_eq!(timers.next_due(now_ms() + 5), None);
    }

    #[test]
    fn cancelled_entries_do_not_accumulate() {
        let timers = Timers::default();
        for _ in 0..10_000 {
            let session = timers.set(100_000, call(1));
            timers.cancel(session);
        }
        assert!(timers.heap.borrow().entries.len() < 200);
    }
}
