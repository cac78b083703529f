//! The reader of a request queue hears of everything that is put there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use queue::{Event, RequestQueue};

#[allow(dead_code, unreachable_pub, reason = "a part of a crate as a module of this test")]
#[path = "../../crates/offload/src/request_queue.rs"]
mod queue;

pub(crate) type Arrival = u64;

pub(crate) mod clock {
    pub(crate) fn precise_us() -> u64 {
        0
    }
}

/// The queues of crossbeam as far as they matter here: a push is a release, and whether a queue is
/// empty may be an old value.
#[derive(Default)]
pub(crate) struct SegQueue<T> {
    length: AtomicUsize,
    entries: std::sync::Mutex<VecDeque<T>>,
}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> SegQueue<T> {
        SegQueue { length: AtomicUsize::new(0), entries: std::sync::Mutex::default() }
    }

    pub(crate) fn push(&self, entry: T) {
        self.entries.lock().expect("not poisoned").push_back(entry);
        self.length.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let taken =
            self.length.fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.ok().and_then(|_| self.entries.lock().expect("not poisoned").pop_front())
    }

    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub(crate) struct ArrayQueue<T>(SegQueue<T>);

impl<T> ArrayQueue<T> {
    /// The models put less than fits.
    pub(crate) fn new(_places: usize) -> ArrayQueue<T> {
        ArrayQueue(SegQueue::new())
    }

    pub(crate) fn push(&self, entry: T) -> Result<(), T> {
        self.0.push(entry);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Runs `senders` and a reader that takes `count` events and sleeps in between.
fn read(count: usize, senders: &'static [fn(&Arc<RequestQueue>)]) {
    crate::check(move || {
        let sleep = crate::Sleep::new();
        let alarm = sleep.clone();
        let queue = RequestQueue::new(8, move || alarm.0.notify());
        for sender in senders {
            let queue = queue.clone();
            thread::spawn(move || sender(&queue));
        }
        let (mut arrived, mut ended) = (0, 0);
        sleep.until(|_| {
            queue.mark_awake();
            loop {
                match queue.take() {
                    Some(Event::Arrived(..)) => arrived += 1,
                    Some(Event::Ended(_)) => ended += 1,
                    None if arrived + ended == count => return Poll::Ready(()),
                    None if queue.sleep() => return Poll::Pending,
                    None => {}
                }
            }
        });
    });
}

fn put(queue: &Arc<RequestQueue>) {
    assert!(queue.put(1).is_ok());
    queue.alert();
}

#[test]
fn a_request_reaches_a_reader_that_is_about_to_sleep() {
    read(1, &[put]);
}

#[test]
fn requests_of_two_workers_are_both_taken() {
    read(2, &[put, put]);
}

#[test]
fn a_wait_that_ends_is_reported_once_next_to_a_request() {
    read(
        2,
        &[put, |queue| {
            let waker = queue.waker(7);
            waker.wake_by_ref();
            waker.wake();
        }],
    );
}
