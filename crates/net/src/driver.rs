//! Lets one owner drive many streams, with a ready queue of its own.
//!
//! A task per connection leaves the order of events to the task scheduler. A Lua program is
//! promised more: one event at a time, in the order the kernel reported them, each handled before
//! the next. A [`Driver`] holds the streams and listeners of such an owner. Guarantees: events come
//! out in the kernel's order, a source is in the queue at most once, a source that was not read to
//! its end is queued again behind the others, and the key of a removed source is ignored.
//!
//! It never reads or writes by itself, has no time-outs, and takes no lock unless another thread
//! wakes one of its sources, which a worker's event loop does not do.

use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;

use crate::clock;
use crate::listener::{Accepted, Listener};
use crate::stream::Stream;

mod queue;
#[cfg(test)]
mod tests;

use queue::{Queue, SourceWaker};

/// Events returned before the event loop gets a turn: sources that are always ready must not starve
/// the worker's other tasks.
const BATCH: usize = 64;

/// Identifies a source of one driver; not reused before 2^32 insertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// The events the owner waits for on a stream. A listener waits for connections while `read` is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    pub const NONE: Interest = Interest { read: false, write: false };
    pub const READ: Interest = Interest { read: true, write: false };
    pub const WRITE: Interest = Interest { read: false, write: true };
    pub const BOTH: Interest = Interest { read: true, write: true };
}

/// An event of a source.
#[derive(Debug)]
pub enum Event {
    /// The stream may be read (bytes, its end, an error) or written; `try_receive` and `try_send`
    /// return `WouldBlock` if the wake-up was spurious.
    Ready(Interest),
    /// A listener has a new connection, or failed to accept one. After an error with
    /// [`crate::is_exhausted`] the owner sets [`Interest::NONE`] for a while, because the same
    /// error would follow at once.
    Accepted(io::Result<Accepted>),
}

/// A source that was removed.
#[derive(Debug)]
pub enum Source {
    Stream(Stream),
    Listener(Listener),
}

struct DriverSlot<T> {
    source: Source,
    data: T,
    interest: Interest,
    generation: u32,
    source_waker: Arc<SourceWaker>,
    waker: Waker,
}

/// The streams and listeners of one owner, each with the owner's data `T`.
pub struct Driver<T> {
    slots: Slab<DriverSlot<T>>,
    generation: u32,
    queue: Arc<Queue>,
    /// The source whose event the owner is handling; it is watched again on the next poll.
    handled_key: Option<Key>,
    handed_out: usize,
    /// The queue belongs to this thread.
    _thread: PhantomData<Rc<()>>,
}

impl<T> Default for Driver<T> {
    fn default() -> Self {
        Driver::new()
    }
}

impl<T> Driver<T> {
    /// Creates an empty driver on this worker.
    pub fn new() -> Driver<T> {
        Driver {
            slots: Slab::new(),
            generation: 0,
            queue: Arc::new(Queue::new()),
            handled_key: None,
            handed_out: 0,
            _thread: PhantomData,
        }
    }

    /// Adds a stream and watches it for bytes.
    pub fn insert(&mut self, stream: Stream, data: T) -> Key {
        self.insert_source(Source::Stream(stream), data)
    }

    /// Adds a listener and watches it for connections.
    pub fn listen(&mut self, listener: Listener, data: T) -> Key {
        self.insert_source(Source::Listener(listener), data)
    }

    fn insert_source(&mut self, source: Source, data: T) -> Key {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let entry = self.slots.vacant_entry();
        // More than 2^32 descriptors at a time do not exist.
        let key = Key { index: entry.key() as u32, generation };
        let source_waker = Arc::new(SourceWaker::new(key, self.queue.clone()));
        let waker = Waker::from(source_waker.clone());
        entry.insert(DriverSlot {
            source,
            data,
            interest: Interest::READ,
            generation,
            source_waker,
            waker,
        });
        self.watch(key);
        key
    }

    /// Removes a source without closing it.
    pub fn remove(&mut self, key: Key) -> Option<(Source, T)> {
        self.slot(key)?;
        let slot = self.slots.remove(key.index as usize);
        Some((slot.source, slot.data))
    }

    /// Returns the stream of this key and the owner's data for it.
    pub fn stream(&mut self, key: Key) -> Option<(&Stream, &mut T)> {
        match self.slot(key)? {
            DriverSlot { source: Source::Stream(stream), data, .. } => Some((stream, data)),
            _ => None,
        }
    }

    /// Returns the owner's data for this key.
    pub fn data(&mut self, key: Key) -> Option<&mut T> {
        self.slot(key).map(|slot| &mut slot.data)
    }

    /// Sets the events to wait for; a stale key is ignored.
    pub fn set_interest(&mut self, key: Key, interest: Interest) {
        if let Some(slot) = self.slot(key)
            && slot.interest != interest
        {
            slot.interest = interest;
            self.watch(key);
        }
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the keys of all sources in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.slots
            .iter()
            .map(|(index, slot)| Key { index: index as u32, generation: slot.generation })
    }

    /// Waits for the next event; for ever if there are no sources.
    pub async fn next_ready(&mut self) -> (Key, Event) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// Returns the next event. Nothing is lost if the caller stops polling.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<(Key, Event)> {
        if let Some(key) = self.handled_key.take() {
            self.watch(key);
        }
        if self.handed_out >= BATCH {
            self.handed_out = 0;
            // A loop that never sleeps does not refresh the clock.
            clock::refresh();
            // Resumes after the event loop has polled the sockets; waking this task itself would
            // not do that.
            ready!(pin!(tokio::task::yield_now()).poll(cx));
        }
        while let Some(key) = self.queue.take(cx) {
            if let Some(event) = self.event(key) {
                self.handed_out += 1;
                self.handled_key = Some(key);
                return Poll::Ready((key, event));
            }
        }
        self.handed_out = 0;
        Poll::Pending
    }

    fn slot(&mut self, key: Key) -> Option<&mut DriverSlot<T>> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }

    /// Registers interest in a source; queues it if it is ready already.
    fn watch(&mut self, key: Key) {
        let Some(slot) = self.slot(key) else { return };
        let mut cx = Context::from_waker(&slot.waker);
        let Interest { read, write } = slot.interest;
        let queued = match &slot.source {
            Source::Stream(stream) => {
                let readable = read && stream.poll_readable(&mut cx).is_ready();
                let writable = write && stream.poll_writable(&mut cx).is_ready();
                readable || writable
            }
            // Only accept(2) tells whether there is a connection, so the listener is queued.
            Source::Listener(_) => read,
        };
        if queued {
            slot.source_waker.queue();
        }
    }

    /// Returns the event of a source taken from the queue.
    fn event(&mut self, key: Key) -> Option<Event> {
        let slot = self.slot(key)?;
        slot.source_waker.taken();
        let mut cx = Context::from_waker(&slot.waker);
        match (&slot.source, slot.interest) {
            (_, Interest::NONE) => None,
            (Source::Stream(stream), Interest::BOTH) => {
                let read = stream.poll_readable(&mut cx).is_ready();
                let write = stream.poll_writable(&mut cx).is_ready();
                (read || write).then_some(Event::Ready(Interest { read, write }))
            }
            (Source::Stream(_), interest) => Some(Event::Ready(interest)),
            (Source::Listener(listener), interest) => {
                let accepted = interest.read.then(|| listener.poll_accept(&mut cx))?;
                match accepted {
                    Poll::Ready(accepted) => Some(Event::Accepted(accepted)),
                    Poll::Pending => None,
                }
            }
        }
    }
}
