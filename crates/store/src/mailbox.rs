//! Messages that wait for one listener, in bounded memory.
//!
//! Whoever publishes never waits: a mailbox that is full is shut, and its owner learns that it was
//! too slow, after what it can still read. One owner reads, in whatever way it likes to wait: with
//! the waker of a task, or by blocking its thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::MESSAGE_OVERHEAD_BYTES;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub channel: Bytes,
    pub payload: Bytes,
    /// Whether the payload was published as a text: it is UTF-8 then.
    pub text: bool,
}

impl Message {
    fn weight(&self) -> usize {
        self.payload.len() + MESSAGE_OVERHEAD_BYTES
    }
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// More waited than there is room for.
    TooSlow,
    /// The connection to the store broke: messages may have been missed.
    Lost,
    /// Its owner has left.
    Left,
}

#[derive(Debug, Default)]
struct Inner {
    messages: VecDeque<Message>,
    bytes: usize,
    shut: Option<Shut>,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub struct Mailbox {
    number: u64,
    limit: usize,
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Mailbox {
    pub fn new(limit: usize) -> Arc<Mailbox> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Mailbox { number, limit, inner: Mutex::default(), arrived: Condvar::new() })
    }

    /// Its own among all of this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a message; false when this was too much, now or before.
    pub fn leave(&self, message: Message) -> bool {
        let mut inner = self.inner();
        if inner.shut.is_some() {
            return false;
        }
        let bytes = inner.bytes + message.weight();
        let fits = bytes <= self.limit;
        if fits {
            inner.bytes = bytes;
            inner.messages.push_back(message);
        } else {
            inner.shut = Some(Shut::TooSlow);
        }
        self.tell(inner);
        fits
    }

    /// Nothing more comes. The first reason stands.
    pub fn shut(&self, why: Shut) {
        let mut inner = self.inner();
        inner.shut.get_or_insert(why);
        if why == Shut::Left {
            inner.messages = VecDeque::new();
            inner.bytes = 0;
        }
        self.tell(inner);
    }

    /// Why nothing more comes, even if there is something left to read; where it is open, `waker`
    /// is woken once when something happens.
    pub fn watch(&self, waker: &Waker) -> Option<Shut> {
        let mut inner = self.inner();
        if inner.shut.is_none() && !inner.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            inner.waker = Some(waker.clone());
        }
        inner.shut
    }

    fn tell(&self, mut inner: MutexGuard<'_, Inner>) {
        let waker = inner.waker.take();
        drop(inner);
        self.arrived.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next message, if there is one; the reason when there will be none.
    pub fn take(&self) -> Result<Option<Message>, Shut> {
        take(&mut self.inner())
    }

    /// The same; where there is none yet, `waker` is woken once when that changes.
    pub fn take_or_wake(&self, waker: &Waker) -> Result<Option<Message>, Shut> {
        let mut inner = self.inner();
        let taken = take(&mut inner)?;
        if taken.is_none() {
            inner.waker = Some(waker.clone());
        }
        Ok(taken)
    }

    /// The same; blocks until there is one, at most `within`.
    pub fn take_within(&self, within: Duration) -> Result<Option<Message>, Shut> {
        let inner = self.inner();
        let nothing = |inner: &mut Inner| inner.messages.is_empty() && inner.shut.is_none();
        let waited = self.arrived.wait_timeout_while(inner, within, nothing);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        take(&mut inner)
    }
}

fn take(inner: &mut Inner) -> Result<Option<Message>, Shut> {
    match (inner.messages.pop_front(), inner.shut) {
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
    use super::{MESSAGE_OVERHEAD_BYTES, Mailbox, Message, Shut};
    use bytes::Bytes;
    use std::task::Waker;
    use std::time::Duration;

    fn message(payload: &'static str) -> Message {
        let (channel, payload) = (Bytes::from_static(b"c"), Bytes::from_static(payload.as_bytes()));
        Message { channel, payload, text: true }
    }

    #[test]
    fn what_is_too_much_shuts_it_and_what_was_left_is_read() {
        let mailbox = Mailbox::new(2 * (MESSAGE_OVERHEAD_BYTES + 1));
        assert!(mailbox.leave(message("a")) && mailbox.leave(message("b")));
        assert_eq!(mailbox.take(), Ok(Some(message("a"))));
        assert!(mailbox.leave(message("c")));
        assert!(!mailbox.leave(message("")), "room for two");
        assert!(!mailbox.leave(message("")), "it stays shut");
        mailbox.shut(Shut::Lost);
        assert_eq!(mailbox.watch(Waker::noop()), Some(Shut::TooSlow));
        assert_eq!(mailbox.take(), Ok(Some(message("b"))));
        assert_eq!(mailbox.take(), Ok(Some(message("c"))));
        assert_eq!(mailbox.take(), Err(Shut::TooSlow));
    }

    #[test]
    fn a_thread_that_waits_hears_of_a_message_and_of_the_end() {
        let mailbox = Mailbox::new(1024);
        assert_eq!(mailbox.take_within(Duration::ZERO), Ok(None));
        std::thread::scope(|scope| {
            scope.spawn(|| mailbox.leave(message("late")));
            let found = mailbox.take_within(Duration::from_secs(60));
            assert_eq!(found, Ok(Some(message("late"))));
            scope.spawn(|| mailbox.shut(Shut::Left));
            assert_eq!(mailbox.take_within(Duration::from_secs(60)), Err(Shut::Left));
        });
    }
}
