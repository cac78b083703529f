//! Wakes and cancellations from other threads.
//!
//! Owns the process-wide table of the executors' queues by number. A worker that wakes its own
//! tasks does not touch it.

use std::sync::{Arc, PoisonError, RwLock};

use super::key::{AbortHandle, EXECUTORS_MAX, Key};
use super::remote_queue::RemoteQueue;

static EXECUTORS: RwLock<Vec<Option<Arc<RemoteQueue>>>> = RwLock::new(Vec::new());

/// Creates a queue and returns it with its executor's number.
pub(super) fn open() -> (Arc<RemoteQueue>, u16) {
    let queue = Arc::new(RemoteQueue::default());
    let mut executors = EXECUTORS.write().unwrap_or_else(PoisonError::into_inner);
    let free = executors.iter().position(Option::is_none).unwrap_or(executors.len());
    // An executor is a thread, and no system has that many.
    assert!(free < EXECUTORS_MAX, "too many event loops");
    if free == executors.len() {
        executors.push(None);
    }
    executors[free] = Some(queue.clone());
    (queue, free as u16)
}

/// Removes the queue from the table.
pub(super) fn close(number: u16) {
    let mut executors = EXECUTORS.write().unwrap_or_else(PoisonError::into_inner);
    let closed = executors.get_mut(usize::from(number)).and_then(Option::take);
    drop(executors);
    // Dropped without the lock: it holds wakers, whose drop may wake tasks.
    drop(closed);
}

fn find(executor: u16) -> Option<Arc<RemoteQueue>> {
    let executors = EXECUTORS.read().unwrap_or_else(PoisonError::into_inner);
    executors.get(usize::from(executor))?.clone()
}

/// Wakes tasks of an executor, of another thread; no effect if its worker has ended.
pub(super) fn wake(executor: u16, keys: impl IntoIterator<Item = Key>) {
    if let Some(queue) = find(executor) {
        queue.wake(keys);
    }
}

/// Cancels a task of another thread.
pub(super) fn abort(task: AbortHandle) {
    if let Some(queue) = find(task.key.executor()) {
        queue.abort(task);
    }
}
