//! The bounded queue between a worker that logs a line and the thread that writes it.
//!
//! A push never blocks: if the ring is full, the line is dropped and counted. Line buffers return
//! to the worker, so that steady logging allocates nothing.

use crate::cell::SharedCounter;
use crate::limits::{REUSED_BUFFER_BYTES, RING_LINES};
use crate::writer_signal::WriterSignal;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;

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

    /// Queues one line, without its line end. If the ring is full, the line is dropped and
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
    use super::LogRing;
    use crate::limits::{REUSED_BUFFER_BYTES, RING_LINES};
    use crate::writer_signal::WriterSignal;
    use std::sync::Arc;

    #[test]
    fn a_full_ring_drops_and_counts() {
        let ring = LogRing::new(Arc::default(), Arc::new(WriterSignal::default()));
        for i in 0..RING_LINES + 3 {
            ring.push(i.to_string().into_bytes());
        }
        assert_eq!(ring.dropped(), 3);
        assert_eq!(ring.pop().as_deref(), Some(&b"0"[..]), "the oldest stay");
    }

    #[test]
    fn buffers_are_reused_unless_they_grew_large() {
        let ring = LogRing::new(Arc::default(), Arc::new(WriterSignal::default()));
        let mut small = Vec::with_capacity(300);
        small.extend_from_slice(b"line");
        let address = small.as_ptr();
        ring.recycle(small);
        ring.recycle(Vec::with_capacity(REUSED_BUFFER_BYTES + 1));
        let again = ring.buffer();
        assert!(again.is_empty() && again.as_ptr() == address);
        assert_eq!(ring.buffer().capacity(), 0);
    }
}
