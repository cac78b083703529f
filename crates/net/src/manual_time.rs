//! A clock that only the test moves.
//!
//! Inside [`block_on`] the time of [`crate::clock`] stands still and the timers of [`crate::timer`]
//! fire in [`advance`] only. A test that something does not happen in time then takes no time, and
//! a busy machine cannot make it fail. Exists in builds with debug assertions only, so that a
//! release does not ask which clock to read. Does not move `tokio::time` or the clocks of other
//! threads.

use std::time::{Duration, Instant};

use crate::{activity, clock, timer, worker};

/// Turns of the event loop without any activity after which it is idle: a wake may pass through
/// tasks of tokio, which are not counted.
const IDLE_TURNS: u32 = 8;
/// Real time after which an event loop that never becomes idle fails the test.
const IDLE_WITHIN: Duration = Duration::from_secs(20);
/// The same for a future that does not end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Where the manual clock begins, in microseconds since the process began: the same in every run.
const START_US: u64 = 1_000_000_000;

/// Runs `future` on a fresh event loop of this thread whose clock stands still.
///
/// # Panics
///
/// Panics within another `block_on`, and when `future` has not ended after a minute of real time.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            clock::set_manual_us(None);
        }
    }
    assert!(clock::manual_us().is_none(), "this thread has a manual clock already");
    clock::set_manual_us(Some(START_US));
    let _restore = Restore;
    // Without `timer::drive`, which would sleep in real time.
    let runtime = worker::runtime().expect("an event loop can be built");
    let ended = async { tokio::time::timeout(ENDS_WITHIN, future).await };
    worker::run_to_end(&runtime, ended)
        .expect("the test ends: nothing waits for time that is not advanced")
}

/// Moves the clock of this thread forward by `span`. Timers fire in the order of their deadlines,
/// each at its time, and what they cause has happened before the next one fires.
///
/// # Panics
///
/// Panics outside of [`block_on`].
pub async fn advance(span: Duration) {
    idle().await;
    let now = clock::manual_us().expect("`advance` runs within `manual_time::block_on`");
    let end = now.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    while let Some(due) = timer::next_due().map(|due| due.as_ms() * 1000).filter(|us| *us <= end) {
        move_to(due.max(now)).await;
    }
    move_to(end).await;
}

async fn move_to(us: u64) {
    clock::set_manual_us(Some(us));
    clock::refresh();
    timer::fire_due();
    idle().await;
}

/// Waits until no task of this event loop is ready and no socket of it has an event. Call it from
/// the future of [`block_on`], not from a task. Does not wait for other threads.
pub async fn idle() {
    let begin = Instant::now();
    let (mut seen, mut quiet) = (activity::count(), 0);
    while quiet < IDLE_TURNS {
        assert!(begin.elapsed() < IDLE_WITHIN, "the event loop never becomes idle");
        // Tokio looks at the sockets before it comes back.
        tokio::task::yield_now().await;
        let now = activity::count();
        quiet = if now == seen { quiet + 1 } else { 0 };
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;
    use crate::{Outgoing, Stream, task};

    #[test]
    fn the_clock_moves_only_in_advance() {
        block_on(async {
            let (begin, began_at) = (clock::now(), clock::wall_secs());
            std::thread::sleep(Duration::from_millis(5));
            clock::refresh();
            assert_eq!((clock::now(), clock::precise_us() / 1000), (begin, begin.as_ms()));
            advance(Duration::from_secs(3600)).await;
            assert_eq!(clock::now().since(begin), Duration::from_secs(3600));
            assert_eq!(clock::wall_secs(), began_at + 3600);
        });
        assert!(clock::manual_us().is_none());
    }

    #[test]
    fn timers_fire_in_order_and_what_they_cause_comes_first() {
        block_on(async {
            let log = Rc::new(RefCell::new(Vec::new()));
            for (name, ms) in [("late", 300), ("early", 100)] {
                let log = log.clone();
                task::spawn_local(async move {
                    timer::sleep(Duration::from_millis(ms)).await;
                    log.borrow_mut().push(name);
                    timer::sleep(Duration::from_millis(50)).await;
                    log.borrow_mut().push("after");
                });
            }
            advance(Duration::from_millis(99)).await;
            assert_eq!(*log.borrow(), [""; 0]);
            advance(Duration::from_secs(1)).await;
            assert_eq!(*log.borrow(), ["early", "after", "late", "after"]);
        });
    }

    #[test]
    fn an_idle_event_loop_has_moved_every_byte() {
        block_on(async {
            let (one, other) = Stream::pair().unwrap();
            let received = Rc::new(Cell::new(0));
            let count = received.clone();
            task::spawn_local(async move {
                while let Ok(bytes) = other.receive().await {
                    count.set(count.get() + bytes.len());
                }
            });
            task::spawn_local(async move {
                let mut outgoing = Outgoing::default();
                outgoing.push(bytes::Bytes::from(vec![7; 4 << 20]));
                one.send_all(&mut outgoing).await.unwrap();
                std::future::pending::<()>().await;
            });
            idle().await;
            assert_eq!(received.get(), 4 << 20);
        });
    }
}
