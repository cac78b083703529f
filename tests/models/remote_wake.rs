//! A worker hears of every wake and cancellation that another thread sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;

use loom::thread;

use key::{AbortHandle, Key};
use remote_queue::RemoteQueue;

#[path = "../../crates/net/src/task/remote_queue.rs"]
mod remote_queue;

mod key {
    pub(super) type Key = u64;
    pub(super) struct AbortHandle;
}

/// Runs the worker until it has received so many wakes of different tasks and cancellations.
fn receive(queue: &RemoteQueue, wakes: usize, aborts: usize) {
    let (mut woken, mut aborted) = (BTreeSet::new(), 0);
    crate::Sleep::new().until(|cx| {
        // As in each turn of the executor.
        queue.set_owner(cx.waker().clone());
        if let Some(received) = queue.take() {
            woken.extend(received.wakes);
            aborted += received.aborts.len();
        }
        if (woken.len(), aborted) == (wakes, aborts) { Poll::Ready(()) } else { Poll::Pending }
    });
}

#[test]
fn a_wake_reaches_a_worker_that_is_about_to_sleep() {
    crate::check(|| {
        let queue = Arc::new(RemoteQueue::default());
        let other = queue.clone();
        thread::spawn(move || {
            other.wake([1]);
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
            thread::spawn(move || other.wake([key]));
        }
        receive(&queue, 2, 0);
    });
}
