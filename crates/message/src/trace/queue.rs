//! The bounded queue between workers, whose requests end, and the reader of their traces: the
//! exporter, or a client of the live log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::FinishedTrace;

/// A queue that never blocks a worker: a trace that finds it full is dropped and counted.
pub struct TraceQueue {
    traces: ArrayQueue<FinishedTrace>,
    /// The number of traces that wakes the exporter before its interval is over.
    batch: usize,
    full: Notify,
    dropped: AtomicU64,
}

impl TraceQueue {
    pub fn new(capacity: usize, batch: usize) -> Arc<TraceQueue> {
        Arc::new(TraceQueue {
            traces: ArrayQueue::new(capacity.max(1)),
            batch,
            full: Notify::new(),
            dropped: AtomicU64::new(0),
        })
    }

    /// True if a trace finds room. Otherwise it need not be made: it counts as dropped.
    pub fn admits(&self) -> bool {
        let has_room = !self.traces.is_full();
        if !has_room {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    pub fn push(&self, trace: FinishedTrace) {
        if self.traces.push(trace).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        // One of the traces makes a batch; waking for each of them would cost a system call each.
        if self.traces.len() == self.batch {
            self.full.notify_one();
        }
    }

    pub fn pop(&self) -> Option<FinishedTrace> {
        self.traces.pop()
    }

    pub fn len(&self) -> usize {
        self.traces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Returns once there is a batch.
    pub async fn batch(&self) {
        if self.traces.len() < self.batch {
            self.full.notified().await;
        }
    }

    /// The number of traces dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
