//! The bounded queue between the threads that record something and its reader on the control
//! thread: traces of requests, whose reader is the exporter or a client of the live log, and log
//! lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::ExportedTrace;

/// The queue of the exporter.
pub type TraceQueue = ExportQueue<ExportedTrace>;

/// A queue that never blocks a worker: an item that finds it full is dropped and counted.
pub struct ExportQueue<T> {
    items: ArrayQueue<T>,
    /// The number of items that wakes the exporter before its interval is over.
    batch: usize,
    full: Notify,
    /// True while the exporter waits for a batch.
    is_awaited: AtomicBool,
    dropped: AtomicU64,
}

impl<T> ExportQueue<T> {
    pub fn new(capacity: usize, batch: usize) -> Arc<ExportQueue<T>> {
        Arc::new(ExportQueue {
            items: ArrayQueue::new(capacity.max(1)),
            batch,
            full: Notify::new(),
            is_awaited: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        })
    }

    pub fn is_full(&self) -> bool {
        self.items.is_full()
    }

    /// True if an item finds room. Otherwise it need not be made: it counts as dropped.
    pub fn admits(&self) -> bool {
        let has_room = !self.is_full();
        if !has_room {
            self.refuse();
        }
        has_room
    }

    /// Counts an item as dropped that was not pushed, for example because it is too large.
    pub fn refuse(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub fn push(&self, item: T) {
        if self.items.push(item).is_err() {
            self.refuse();
        }
        // Waking for each item would cost a system call each.
        if self.has_batch()
            && self.is_awaited.load(Ordering::SeqCst)
            && self.is_awaited.swap(false, Ordering::SeqCst)
        {
            self.full.notify_one();
        }
    }

    pub fn pop(&self) -> Option<T> {
        self.items.pop()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns once there is a batch.
    pub async fn batch(&self) {
        loop {
            // Before the items are counted: the one that completes the batch sees it.
            self.is_awaited.store(true, Ordering::SeqCst);
            if self.has_batch() {
                break;
            }
            // May return at once, for an earlier batch: then the items are counted again.
            self.full.notified().await;
        }
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// True if so many items wait that they make a batch.
    pub fn has_batch(&self) -> bool {
        self.items.len() >= self.batch
    }

    /// The number of items dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
