//! Time-outs: one ordered timer queue per worker, one lazily moved entry per connection.
//!
//! A [`Timer`] belongs to one task. Setting a later deadline is a memory store: the entry stays in
//! the queue and is moved when its time comes up. Only a deadline earlier than that inserts it
//! again. Deadlines are rounded up to [`TICK_MS`], unless they are set as precise ones, so a timer
//! fires at most one tick late and never early. A timer dropped while its entry is queued leaves
//! the entry to the next timer, so that many short waits with long deadlines do not fill the queue.
//! One task per worker ([`drive`]) runs the queue; it sleeps until the first entry and costs
//! nothing while there is none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{self, Moment};

/// Resolution of time-outs: those of one tick are one entry of the queue and one wake-up.
pub const TICK_MS: u64 = 4;

struct Entry {
    /// When the owner is to be woken; [`Moment::NEVER`] if it is not waiting.
    deadline: Cell<Moment>,
    /// The millisecond under which the entry is queued; `u64::MAX` if it is not.
    queued_ms: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Default)]
struct TimerQueue {
    /// By the millisecond at which they come up.
    entries: BTreeMap<u64, Vec<Rc<Entry>>>,
    driver: Option<Waker>,
    /// The millisecond until which the driver sleeps.
    target_ms: u64,
}

/// Entries of dropped timers that are reused by new ones.
const SPARE_MAX: usize = 1024;

thread_local! {
    static SPARE: RefCell<Vec<Rc<Entry>>> = const { RefCell::new(Vec::new()) };
    static TIMER_QUEUE: RefCell<TimerQueue> =
        RefCell::new(TimerQueue { target_ms: u64::MAX, ..TimerQueue::default() });
}

/// A movable deadline of one task on this worker.
pub struct Timer {
    entry: Rc<Entry>,
}

/// Wakes the task that last polled its [`Timer`], whatever the deadline: this is how a drain
/// reaches idle connections.
#[derive(Clone)]
pub struct WakeHandle {
    entry: Rc<Entry>,
}

impl WakeHandle {
    pub fn wake(&self) {
        if let Some(waker) = self.entry.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

impl Default for Timer {
    fn default() -> Self {
        Timer::new()
    }
}

impl Timer {
    pub fn new() -> Timer {
        let spare = SPARE.with(|spare| spare.borrow_mut().pop());
        Timer {
            entry: spare.unwrap_or_else(|| {
                Rc::new(Entry {
                    deadline: Cell::new(Moment::NEVER),
                    queued_ms: Cell::new(u64::MAX),
                    waker: RefCell::new(None),
                })
            }),
        }
    }

    /// Sets the deadline to `span` from now.
    pub fn set(&self, span: Duration) {
        self.set_at(clock::now().after(span));
    }

    /// Sets the deadline, rounded up to a tick.
    pub fn set_at(&self, deadline: Moment) {
        let rounded = deadline.as_ms().checked_next_multiple_of(TICK_MS);
        self.set_precise_at(rounded.map_or(Moment::NEVER, Moment::from_ms));
    }

    /// Sets the deadline to the millisecond: for waits that are shorter than a tick. Time-outs of
    /// connections share wake-ups instead.
    pub fn set_precise_at(&self, deadline: Moment) {
        self.entry.deadline.set(deadline);
        if deadline.as_ms() < self.entry.queued_ms.get() {
            insert(&self.entry, deadline);
        }
    }

    /// Removes the deadline.
    pub fn clear(&self) {
        self.entry.deadline.set(Moment::NEVER);
    }

    pub fn deadline(&self) -> Moment {
        self.entry.deadline.get()
    }

    /// Ready once the deadline has passed; registers the task otherwise.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entry.deadline.get() <= clock::now() {
            return Poll::Ready(());
        }
        self.register(cx);
        Poll::Pending
    }

    /// Registers the task for [`WakeHandle`] and for the deadline.
    pub fn register(&self, cx: &mut Context<'_>) {
        let mut waker = self.entry.waker.borrow_mut();
        match waker.as_ref() {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => *waker = Some(cx.waker().clone()),
        }
    }

    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle { entry: self.entry.clone() }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The entry may stay queued: it must wake nothing and release its task.
        self.entry.deadline.set(Moment::NEVER);
        self.entry.waker.borrow_mut().take();
        if self.entry.queued_ms.get() == u64::MAX {
            return;
        }
        // A thread that ends may have dropped its spare entries before its tasks.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(self.entry.clone());
            }
        });
    }
}

/// Sleeps; for cold paths and tests of this worker.
pub async fn sleep(span: Duration) {
    let timer = Timer::new();
    timer.set(span);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// The pause after a number of failures: `first` doubled with each, at most `longest` or what the
/// user chose for `first`. Up to half of it is left out at random, so that those that failed
/// together do not return together.
pub fn pause(first: Duration, longest: Duration, failures: u32) -> Duration {
    let doubled = first.saturating_mul(1 << failures.min(16)).min(longest.max(first));
    doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Sleeps to the millisecond: for spans shorter than a tick.
pub async fn sleep_precisely(span: Duration) {
    let timer = Timer::new();
    timer.set_precise_at(clock::now().after(span));
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Waits for `future` at most `span`; `None` once the time has passed (the future is dropped).
pub async fn within<F: Future>(span: Duration, future: F) -> Option<F::Output> {
    let timer = Timer::new();
    timer.set(span);
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        timer.poll(cx).map(|()| None)
    })
    .await
}

fn insert(entry: &Rc<Entry>, deadline: Moment) {
    let at_ms = deadline.as_ms();
    entry.queued_ms.set(at_ms);
    TIMER_QUEUE.with(|queue| {
        let mut queue = queue.borrow_mut();
        queue.entries.entry(at_ms).or_default().push(entry.clone());
        if at_ms < queue.target_ms
            && let Some(driver) = queue.driver.take()
        {
            driver.wake();
        }
    });
}

/// Wakes every owner whose deadline has passed and moves the other due entries; returns when the
/// next entry comes up.
fn turn(now: Moment) -> Option<Moment> {
    loop {
        let due = TIMER_QUEUE.with(|queue| {
            let mut queue = queue.borrow_mut();
            let first = queue.entries.first_entry()?;
            (*first.key() <= now.as_ms()).then(|| first.remove_entry())
        });
        let Some((at_ms, entries)) = due else { break };
        for entry in entries {
            if entry.queued_ms.get() != at_ms {
                continue; // an older copy: the entry moved forward since
            }
            entry.queued_ms.set(u64::MAX);
            let deadline = entry.deadline.get();
            if deadline <= now {
                if let Some(waker) = entry.waker.borrow().as_ref() {
                    waker.wake_by_ref();
                }
            } else if deadline != Moment::NEVER {
                insert(&entry, deadline);
            }
        }
    }
    next_due()
}

/// When the first entry of this thread comes up.
pub(crate) fn next_due() -> Option<Moment> {
    TIMER_QUEUE.with(|queue| queue.borrow().entries.keys().next().copied().map(Moment::from_ms))
}

/// Wakes every owner whose deadline has passed.
#[cfg(debug_assertions)]
pub(crate) fn fire_due() {
    turn(clock::now());
}

/// Runs this thread's timer queue for ever; a worker spawns it once.
pub async fn drive() {
    // The only sleep requested from tokio: one per worker, not one per connection.
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        clock::refresh();
        let now = clock::now();
        let next = turn(now);
        let target_ms = next.map_or(u64::MAX, Moment::as_ms);
        TIMER_QUEUE.with(|queue| queue.borrow_mut().target_ms = target_ms);
        if let Some(at) = next {
            sleep.as_mut().reset(Instant::now() + at.since(now));
        }
        poll_fn(|cx| {
            let earlier = TIMER_QUEUE.with(|queue| {
                let mut queue = queue.borrow_mut();
                queue.driver = Some(cx.waker().clone());
                queue.entries.keys().next().is_some_and(|first| *first < target_ms)
            });
            match next {
                _ if earlier => Poll::Ready(()),
                Some(_) => sleep.as_mut().poll(cx),
                None => Poll::Pending,
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual_time;
    use crate::worker::block_on_local;

    #[test]
    fn pauses_grow_and_differ() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(4));
        for failures in 0..40 {
            let longest = most.min(first * (1 << failures.min(10)));
            let one = pause(first, most, failures);
            assert!(one <= longest && one >= longest / 2, "{failures}: {one:?}");
        }
        let long = Duration::from_secs(60);
        assert!(pause(long, most, 3) >= long / 2, "a longer pause is what the user chose");
        let some: Vec<Duration> = (0..8).map(|_| pause(first, most, 4)).collect();
        assert!(some.iter().any(|one| *one != some[0]));
    }

    #[test]
    fn fires_after_its_deadline_and_not_before() {
        manual_time::block_on(async {
            let fired = Rc::new(Cell::new(false));
            let task = fired.clone();
            crate::task::spawn_local(async move {
                sleep(Duration::from_millis(20)).await;
                task.set(true);
            });
            manual_time::advance(Duration::from_millis(19)).await;
            assert!(!fired.get());
            manual_time::advance(Duration::from_millis(1 + TICK_MS)).await;
            assert!(fired.get());
        });
    }

    #[test]
    fn a_later_deadline_moves_the_entry_without_inserting() {
        manual_time::block_on(async {
            let timer = Timer::new();
            timer.set(Duration::from_millis(20));
            let queued_ms = timer.entry.queued_ms.get();
            timer.set(Duration::from_millis(40));
            assert_eq!(timer.entry.queued_ms.get(), queued_ms);
            manual_time::advance(Duration::from_millis(39)).await;
            assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx))).await.is_pending());
            manual_time::advance(Duration::from_millis(1)).await;
            poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn a_precise_deadline_is_not_rounded() {
        manual_time::block_on(async {
            for span_ms in 1..=2 * TICK_MS {
                let timer = Timer::new();
                timer.set_precise_at(clock::now().after(Duration::from_millis(span_ms)));
                manual_time::advance(Duration::from_millis(span_ms - 1)).await;
                assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx))).await.is_pending());
                assert_eq!(next_due(), Some(timer.deadline()));
                manual_time::advance(Duration::from_millis(1)).await;
                poll_fn(|cx| timer.poll(cx)).await;
            }
        });
    }

    #[test]
    fn an_earlier_deadline_wakes_a_sleeping_driver() {
        block_on_local(async {
            let slow = Timer::new();
            slow.set(Duration::from_secs(3600));
            tokio::task::yield_now().await;
            assert!(within(Duration::from_millis(8), std::future::pending::<()>()).await.is_none());
            slow.clear();
        });
    }

    #[test]
    fn short_waits_with_long_deadlines_do_not_fill_the_queue() {
        block_on_local(async {
            for _ in 0..1000 {
                let done = within(Duration::from_secs(3600), std::future::ready(())).await;
                assert!(done.is_some());
            }
            let queued = TIMER_QUEUE
                .with(|queue| queue.borrow().entries.values().map(Vec::len).sum::<usize>());
            assert_eq!(queued, 1);
            // A reused entry works like a new one.
            let begin = clock::now();
            sleep(Duration::from_millis(20)).await;
            assert!(clock::now().since(begin) >= Duration::from_millis(20));
        });
    }

    #[test]
    fn a_wake_handle_wakes_the_owner() {
        block_on_local(async {
            let timer = Timer::new();
            let wake = timer.wake_handle();
            let mut polls = 0;
            crate::task::spawn_local(async move { wake.wake() });
            poll_fn(|cx| {
                polls += 1;
                timer.register(cx);
                if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
    }
}
