//! Time-outs: one coarse wheel per worker, one lazily moved entry per connection (seam 11).
//!
//! A [`Timer`] belongs to one task. Setting a later deadline is a memory store: the entry stays
//! where it is in the wheel and is moved when it comes up. Only a deadline earlier than the entry's
//! place inserts anew. Deadlines are rounded up to [`TICK_MS`], so a timer fires late by at most
//! one tick, never early. A timer that is dropped while the wheel holds its entry leaves it to the
//! next one, so that many short waits with long deadlines do not fill the wheel. The wheel is
//! driven by one task of the worker ([`drive`]), which sleeps until the first entry and costs
//! nothing while there is none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{self, Moment};

/// Resolution of every time-out on a worker.
pub const TICK_MS: u64 = 4;

struct Entry {
    /// When the owner wants to be woken; [`Moment::NEVER`] while it waits for nothing.
    deadline: Cell<Moment>,
    /// The tick under which the wheel holds this entry; `u64::MAX` while it does not.
    place: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Default)]
struct TimerQueue {
    ticks: BTreeMap<u64, Vec<Rc<Entry>>>,
    driver: Option<Waker>,
    /// The tick the driver sleeps towards.
    target: u64,
}

/// Entries of dropped timers that are kept for new ones.
const SPARE_MAX: usize = 1024;

thread_local! {
    static SPARE: RefCell<Vec<Rc<Entry>>> = const { RefCell::new(Vec::new()) };
    static TIMER_QUEUE: RefCell<TimerQueue> = RefCell::new(TimerQueue { target: u64::MAX, ..TimerQueue::default() });
}

/// A deadline that can be moved, belonging to one task of this worker.
pub struct Timer {
    entry: Rc<Entry>,
}

/// Wakes the task that last polled its [`Timer`], whatever the deadline: how a drain reaches idle
/// connections.
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
                    place: Cell::new(u64::MAX),
                    waker: RefCell::new(None),
                })
            }),
        }
    }

    /// Sets the deadline to `span` from now.
    pub fn set(&self, span: Duration) {
        self.set_at(clock::now().after(span));
    }

    /// Sets the deadline.
    pub fn set_at(&self, deadline: Moment) {
        self.entry.deadline.set(deadline);
        if deadline != Moment::NEVER && tick_of(deadline) < self.entry.place.get() {
            insert(&self.entry, deadline);
        }
    }

    /// Forgets the deadline.
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
        // The wheel may hold the entry for a while longer: it must wake nobody and free its task.
        self.entry.deadline.set(Moment::NEVER);
        self.entry.waker.borrow_mut().take();
        if self.entry.place.get() == u64::MAX {
            return;
        }
        // A thread that ends may have lost its spares before its tasks.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(self.entry.clone());
            }
        });
    }
}

/// Waits; for cold paths and tests of this worker.
pub async fn sleep(span: Duration) {
    let timer = Timer::new();
    timer.set(span);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Waits for `future` at most `span`; `None` when the time is up (the future is dropped).
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

fn tick_of(deadline: Moment) -> u64 {
    deadline.as_ms().div_ceil(TICK_MS)
}

fn insert(entry: &Rc<Entry>, deadline: Moment) {
    let tick = tick_of(deadline);
    entry.place.set(tick);
    TIMER_QUEUE.with(|wheel| {
        let mut wheel = wheel.borrow_mut();
        wheel.ticks.entry(tick).or_default().push(entry.clone());
        if tick < wheel.target
            && let Some(driver) = wheel.driver.take()
        {
            driver.wake();
        }
    });
}

/// Wakes every owner whose deadline has passed, moves the rest; returns when to look again.
fn turn(now: Moment) -> Option<Moment> {
    let reached = now.as_ms() / TICK_MS;
    loop {
        let due = TIMER_QUEUE.with(|wheel| {
            let mut wheel = wheel.borrow_mut();
            let first = wheel.ticks.first_entry()?;
            (*first.key() <= reached).then(|| first.remove_entry())
        });
        let Some((tick, entries)) = due else { break };
        for entry in entries {
            if entry.place.get() != tick {
                continue; // an older copy: the entry moved forward since
            }
            entry.place.set(u64::MAX);
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
    TIMER_QUEUE.with(|wheel| {
        wheel.borrow().ticks.keys().next().map(|tick| Moment::from_ms(tick.saturating_mul(TICK_MS)))
    })
}

/// Drives this thread's wheel for ever; a worker spawns it once.
pub async fn drive() {
    loop {
        clock::refresh();
        let now = clock::now();
        let next = turn(now);
        let target = next.map_or(u64::MAX, tick_of);
        TIMER_QUEUE.with(|wheel| wheel.borrow_mut().target = target);
        // The only place that asks tokio for time: one sleep per worker, not one per connection.
        let mut sleep = next.map(|at| Box::pin(tokio::time::sleep(at.since(now))));
        poll_fn(|cx| {
            let earlier = TIMER_QUEUE.with(|wheel| {
                let mut wheel = wheel.borrow_mut();
                wheel.driver = Some(cx.waker().clone());
                wheel.ticks.keys().next().is_some_and(|first| *first < target)
            });
            match &mut sleep {
                _ if earlier => Poll::Ready(()),
                Some(sleep) => sleep.as_mut().poll(cx),
                None => Poll::Pending,
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::block_on_local;

    #[test]
    fn fires_after_its_deadline_and_not_before() {
        block_on_local(async {
            let begin = clock::precise_us();
            sleep(Duration::from_millis(20)).await;
            assert!(clock::precise_us() - begin >= 19_000);
        });
    }

    #[test]
    fn a_later_deadline_moves_the_entry_without_inserting() {
        block_on_local(async {
            let timer = Timer::new();
            timer.set(Duration::from_millis(20));
            let place = timer.entry.place.get();
            timer.set(Duration::from_millis(40));
            assert_eq!(timer.entry.place.get(), place);
            let begin = clock::precise_us();
            poll_fn(|cx| timer.poll(cx)).await;
            assert!(clock::precise_us() - begin >= 39_000);
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
    fn short_waits_with_long_deadlines_do_not_fill_the_wheel() {
        block_on_local(async {
            for _ in 0..1000 {
                let done = within(Duration::from_secs(3600), std::future::ready(())).await;
                assert!(done.is_some());
            }
            let held = TIMER_QUEUE
                .with(|wheel| wheel.borrow().ticks.values().map(Vec::len).sum::<usize>());
            assert_eq!(held, 1);
            // What was left by the others is as good as a new one.
            let begin = clock::precise_us();
            sleep(Duration::from_millis(20)).await;
            assert!(clock::precise_us() - begin >= 19_000);
        });
    }

    #[test]
    fn a_nudge_wakes_the_owner() {
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
