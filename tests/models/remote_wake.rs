//! A worker hears of every wake and cancellation that another thread sends.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::Notify;
use loom::thread;

use join::AbortHandle;
use key::Key;
use remote_queue::RemoteQueue;

#[path = "../../crates/net/src/task/remote_queue.rs"]
mod remote_queue;

mod key {
    pub(super) type Key = u64;
}

mod join {
    pub(super) struct AbortHandle;
}

/// Wakes the model's worker.
struct Driver(Notify);

impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Runs the worker until it has received so many wakes of different tasks and cancellations.
fn receive(queue: &RemoteQueue, wakes: usize, aborts: usize) {
    let driver = Arc::new(Driver(Notify::new()));
    let mut seen = (std::collections::BTreeSet::new(), 0);
    loop {
        // As in each turn of the executor.
        queue.set_owner(Waker::from(driver.clone()));
        if let Some(received) = queue.take() {
            seen.0.extend(received.wakes);
            seen.1 += received.aborts.len();
        }
        if (seen.0.len(), seen.1) == (wakes, aborts) {
            return;
        }
        driver.0.wait();
    }
}

#[test]
fn a_wake_reaches_a_worker_that_is_about_to_sleep() {
    crate::check(|| {
        let queue = Arc::new(RemoteQueue::default());
        let other = queue.clone();
        thread::spawn(move || {
            other.wake(1);
            other.abort(AbortHandle);
        });
        receive(&queue, 1, 1);
    });
}

#[test]
fn wakes_of_two_threads_are_both_received() {
    crate::check(|| {
        let queue = Arc::new(RemoteQueue::default());
        for key in [1 as Key, 2] {
            let other = queue.clone();
            thread::spawn(move || other.wake(key));
        }
        receive(&queue, 2, 0);
    });
}
