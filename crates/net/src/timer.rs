//! Time-outs: one ordered timer queue per worker, one lazily moved entry per connection.
//!
//! A [`Timer`] belongs to one task. Setting a later deadline is a memory store: the entry stays in
//! the queue and is moved when its tick comes up. Only a deadline earlier than the entry's tick
//! inserts it again. Deadlines are rounded up to [`TICK_MS`], so a timer fires at most one tick
//! late and never early. A timer dropped while its entry is queued leaves the entry to the next
//! timer, so that many short waits with long deadlines do not fill the queue. One task per worker
//! ([`drive`]) runs the queue; it sleeps until the first entry and costs nothing while there is
//! none.

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
    /// When the owner is to be woken; [`Moment::NEVER`] if it is not waiting.
    deadline: Cell<Moment>,
    /// The tick under which the entry is queued; `u64::MAX` if it is not.
    tick: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Default)]
struct TimerQueue {
    ticks: BTreeMap<u64, Vec<Rc<Entry>>>,
    driver: Option<Waker>,
    /// The tick until which the driver sleeps.
    target: u64,
}

/// Entries of dropped timers that are reused by new ones.
const SPARE_MAX: usize = 1024;

thread_local! {
    static SPARE: RefCell<Vec<Rc<Entry>>> = const { RefCell::new(Vec::new()) };
    static TIMER_QUEUE: RefCell<TimerQueue> =
        RefCell::new(TimerQueue { target: u64::MAX, ..TimerQueue::default() });
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
                    tick: Cell::new(u64::MAX),
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
        if deadline != Moment::NEVER && tick_of(deadline) < self.entry.tick.get() {
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
        if self.entry.tick.get() == u64::MAX {
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

fn tick_of(deadline: Moment) -> u64 {
    deadline.as_ms().div_ceil(TICK_MS)
}

fn insert(entry: &Rc<Entry>, deadline: Moment) {
    let tick = tick_of(deadline);
    entry.tick.set(tick);
    TIMER_QUEUE.with(|queue| {
        let mut queue = queue.borrow_mut();
        queue.ticks.entry(tick).or_default().push(entry.clone());
        if tick < queue.target
            && let Some(driver) = queue.driver.take()
        {
            driver.wake();
        }
    });
}

/// Wakes every owner whose deadline has passed and moves the other due entries; returns the next
/// tick.
fn turn(now: Moment) -> Option<Moment> {
    let reached = now.as_ms() / TICK_MS;
    loop {
        let due = TIMER_QUEUE.with(|queue| {
            let mut queue = queue.borrow_mut();
            let first = queue.ticks.first_entry()?;
            (*first.key() <= reached).then(|| first.remove_entry())
        });
        let Some((tick, entries)) = due else { break };
        for entry in entries {
            if entry.tick.get() != tick {
                continue; // an older copy: the entry moved forward since
            }
            entry.tick.set(u64::MAX);
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
    TIMER_QUEUE.with(|queue| {
        queue.borrow().ticks.keys().next().map(|tick| Moment::from_ms(tick.saturating_mul(TICK_MS)))
    })
}

/// When the first entry of this thread comes up.
#[cfg(debug_assertions)]
pub(crate) fn next_due() -> Option<Moment> {
    TIMER_QUEUE.with(|queue| {
        queue.borrow().ticks.keys().next().map(|tick| Moment::from_ms(tick * TICK_MS))
    })
}

/// Wakes every owner whose deadline has passed.
#[cfg(debug_assertions)]
pub(crate) fn fire_due() {
    turn(clock::now());
}

/// Runs this thread's timer queue for ever; a worker spawns it once.
pub async fn drive() {
    loop {
        clock::refresh();
        let now = clock::now();
        let next = turn(now);
        let target = next.map_or(u64::MAX, tick_of);
        TIMER_QUEUE.with(|queue| queue.borrow_mut().target = target);
        // The only sleep requested from tokio: one per worker, not one per connection.
        let mut sleep = next.map(|at| Box::pin(tokio::time::sleep(at.since(now))));
        poll_fn(|cx| {
            let earlier = TIMER_QUEUE.with(|queue| {
                let mut queue = queue.borrow_mut();
                queue.driver = Some(cx.waker().clone());
                queue.ticks.keys().next().is_some_and(|first| *first < target)
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
    use crate::manual_time;
    use crate::worker::block_on_local;

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
            let tick = timer.entry.tick.get();
            timer.set(Duration::from_millis(40));
            assert_eq!(timer.entry.tick.get(), tick);
            manual_time::advance(Duration::from_millis(39)).await;
            assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx))).await.is_pending());
            manual_time::advance(Duration::from_millis(1)).await;
            poll_fn(|cx| timer.poll(cx)).await;
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
                .with(|queue| queue.borrow().ticks.values().map(Vec::len).sum::<usize>());
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
