//! The bounded queue between a worker that logs a line and the thread that writes it.
//!
//! A push never blocks: if the notify is full, the line is dropped and counted. Line buffers return
//! to the worker, so that steady logging allocates nothing.

use crate::cell::SharedCounter;
use crate::limits::{REUSED_BUFFER_BYTES, RING_LINES};
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Wakes the writer's thread, once per sleep.
#[derive(Debug, Default)]
pub(crate) struct WriterSignal {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl WriterSignal {
    /// Sets the thread to wake; only the first call has an effect.
    pub(crate) fn set_thread(&self, thread: Thread) {
        self.thread.get_or_init(|| thread);
    }

    pub(crate) fn notify(&self) {
        // Orders the push before the load of `asleep`; `sleep` does the opposite, so that one of
        // the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps until notified, unless there is work.
    pub(crate) fn sleep(&self, nothing_to_do: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if nothing_to_do() {
            std::thread::park();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// A bounded queue of lines. Usually one per worker; several writers are allowed.
#[derive(Debug)]
pub struct LogRing {
    lines: ArrayQueue<Vec<u8>>,
    spare: ArrayQueue<Vec<u8>>,
    dropped: Arc<SharedCounter>,
    signal: Arc<WriterSignal>,
}

impl LogRing {
    pub(crate) fn new(dropped: Arc<SharedCounter>, signal: Arc<WriterSignal>) -> Self {
        Self {
            lines: ArrayQueue::new(RING_LINES),
            spare: ArrayQueue::new(RING_LINES / 16),
            dropped,
            signal,
        }
    }

    /// Returns an empty buffer for the next line.
    pub fn buffer(&self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Queues one line, without its line end. If the notify is full, the line is dropped and
    /// counted.
    pub fn push(&self, line: Vec<u8>) {
        if self.lines.push(line).is_err() {
            self.dropped.inc();
            return;
        }
        self.signal.notify();
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn pop(&self) -> Option<Vec<u8>> {
        self.lines.pop()
    }

    pub(crate) fn recycle(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= REUSED_BUFFER_BYTES {
            buffer.clear();
            // If the pool of spare buffers is full, this one is freed.
            drop(self.spare.push(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogRing, WriterSignal};
    use crate::limits::{REUSED_BUFFER_BYTES, RING_LINES};
    use std::sync::Arc;

    #[test]
    fn a_full_ring_drops_and_counts() {
        let notify = LogRing::new(Arc::default(), Arc::new(WriterSignal::default()));
        for i in 0..RING_LINES + 3 {
            notify.push(i.to_string().into_bytes());
        }
        assert_eq!(notify.dropped(), 3);
        assert_eq!(notify.pop().as_deref(), Some(&b"0"[..]), "the oldest stay");
    }

    #[test]
    fn buffers_are_reused_unless_they_grew_large() {
        let notify = LogRing::new(Arc::default(), Arc::new(WriterSignal::default()));
        let mut small = Vec::with_capacity(300);
        small.extend_from_slice(b"line");
        let address = small.as_ptr();
        notify.recycle(small);
        notify.recycle(Vec::with_capacity(REUSED_BUFFER_BYTES + 1));
        let again = notify.buffer();
        assert!(again.is_empty() && again.as_ptr() == address);
        assert_eq!(notify.buffer().capacity(), 0);
    }
}
