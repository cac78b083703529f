//! The bounded message queue of one subscriber.
//!
//! A publisher never waits: a full queue is closed, and its owner learns that it was too slow after
//! it has read the rest. One owner reads, either with the waker of a task or by blocking its
//! thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::MESSAGE_OVERHEAD_BYTES;

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub channel: Bytes,
    pub payload: Bytes,
    /// True if the payload was published as text; it is UTF-8 then.
    pub text: bool,
}

impl Message {
    fn weight(&self) -> usize {
        self.payload.len() + MESSAGE_OVERHEAD_BYTES
    }
}

/// Why a subscriber's queue is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueClosed {
    /// The queue was full.
    TooSlow,
    /// The connection to the store broke; messages may have been missed.
    Lost,
    /// The subscriber unsubscribed.
    Left,
}

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<Message>,
    bytes: usize,
    closed: Option<QueueClosed>,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub struct SubscriberQueue {
    id: u64,
    limit: usize,
    inner: Mutex<QueueState>,
    arrived: Condvar,
}

impl SubscriberQueue {
    pub fn new(limit: usize) -> Arc<SubscriberQueue> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(SubscriberQueue { id, limit, inner: Mutex::default(), arrived: Condvar::new() })
    }

    /// Unique within the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn inner(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a message; returns false if the queue is closed or becomes closed because it is
    /// full.
    pub fn push(&self, message: Message) -> bool {
        let mut inner = self.inner();
        if inner.closed.is_some() {
            return false;
        }
        let bytes = inner.bytes + message.weight();
        let fits = bytes <= self.limit;
        if fits {
            inner.bytes = bytes;
            inner.messages.push_back(message);
        } else {
            inner.closed = Some(QueueClosed::TooSlow);
        }
        self.notify(inner);
        fits
    }

    /// Closes the queue. The first reason stands.
    pub fn close(&self, why: QueueClosed) {
        let mut inner = self.inner();
        inner.closed.get_or_insert(why);
        if why == QueueClosed::Left {
            inner.messages = VecDeque::new();
            inner.bytes = 0;
        }
        self.notify(inner);
    }

    /// Returns why the queue is closed, even if messages remain. While it is open, `waker` is woken
    /// once at the next change.
    pub fn poll_closed(&self, waker: &Waker) -> Option<QueueClosed> {
        let mut inner = self.inner();
        if inner.closed.is_none() && !inner.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            inner.waker = Some(waker.clone());
        }
        inner.closed
    }

    fn notify(&self, mut inner: MutexGuard<'_, QueueState>) {
        let waker = inner.waker.take();
        drop(inner);
        self.arrived.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the next message if there is one, or the reason once the queue is closed and empty.
    pub fn pop(&self) -> Result<Option<Message>, QueueClosed> {
        pop(&mut self.inner())
    }

    /// Like [`SubscriberQueue::pop`]; if the queue is empty, `waker` is woken once at the next
    /// change.
    pub fn pop_or_wake(&self, waker: &Waker) -> Result<Option<Message>, QueueClosed> {
        let mut inner = self.inner();
        let taken = pop(&mut inner)?;
        if taken.is_none() {
            inner.waker = Some(waker.clone());
        }
        Ok(taken)
    }

    /// Like [`SubscriberQueue::pop`]; blocks until there is a message, at most `timeout`.
    pub fn pop_timeout(&self, timeout: Duration) -> Result<Option<Message>, QueueClosed> {
        let inner = self.inner();
        let nothing = |inner: &mut QueueState| inner.messages.is_empty() && inner.closed.is_none();
        let waited = self.arrived.wait_timeout_while(inner, timeout, nothing);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pop(&mut inner)
    }
}

fn pop(inner: &mut QueueState) -> Result<Option<Message>, QueueClosed> {
    match (inner.messages.pop_front(), inner.closed) {
        (Some(message), _) => {
            inner.bytes -= message.weight();
            Ok(Some(message))
        }
        (None, Some(why)) => Err(why),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_OVERHEAD_BYTES, Message, QueueClosed, SubscriberQueue};
    use bytes::Bytes;
    use std::task::Waker;
    use std::time::Duration;

    fn message(payload: &'static str) -> Message {
        let (channel, payload) = (Bytes::from_static(b"c"), Bytes::from_static(payload.as_bytes()));
        Message { channel, payload, text: true }
    }

    #[test]
    fn a_full_queue_is_closed_and_its_rest_is_read() {
        let queue = SubscriberQueue::new(2 * (MESSAGE_OVERHEAD_BYTES + 1));
        assert!(queue.push(message("a")) && queue.push(message("b")));
        assert_eq!(queue.pop(), Ok(Some(message("a"))));
        assert!(queue.push(message("c")));
        assert!(!queue.push(message("")), "room for two");
        assert!(!queue.push(message("")), "it stays closed");
        queue.close(QueueClosed::Lost);
        assert_eq!(queue.poll_closed(Waker::noop()), Some(QueueClosed::TooSlow));
        assert_eq!(queue.pop(), Ok(Some(message("b"))));
        assert_eq!(queue.pop(), Ok(Some(message("c"))));
        assert_eq!(queue.pop(), Err(QueueClosed::TooSlow));
    }

    #[test]
    fn a_blocked_thread_gets_a_message_and_the_end() {
        let queue = SubscriberQueue::new(1024);
        assert_eq!(queue.pop_timeout(Duration::ZERO), Ok(None));
        std::thread::scope(|scope| {
            scope.spawn(|| queue.push(message("late")));
            let found = queue.pop_timeout(Duration::from_secs(60));
            assert_eq!(found, Ok(Some(message("late"))));
            scope.spawn(|| queue.close(QueueClosed::Left));
            assert_eq!(queue.pop_timeout(Duration::from_secs(60)), Err(QueueClosed::Left));
        });
    }
}
