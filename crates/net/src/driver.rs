//! One owner drives many streams, with a ready queue of its own (seam 7).
//!
//! A task per connection leaves the order of events to the task scheduler. A Lua program is
//! promised more: events one by one, in the order the kernel reported them, each seen through
//! before the next. A [`Driver`] holds the streams and listeners of such an owner. It promises that
//! events come out in that order, that a source waits in the queue at most once, that a source
//! which was not read to its end comes again behind the others, and that a key of a removed source
//! reaches nothing.
//!
//! It never reads or writes by itself, knows no time-outs, and takes no lock unless another thread
//! wakes one of its sources, which the event loop of a worker does not do.

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

use queue::{Mark, Queue};

/// Events handed out before the event loop gets a turn: the owner of sources that are always ready
/// must not starve the worker's other tasks.
const BATCH: usize = 64;

/// Names a source of one driver, never reused before 2^32 insertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// What the owner waits for on a stream. A listener waits for connections while `read` is set.
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

/// What happened to a source.
#[derive(Debug)]
pub enum Event {
    /// The stream may be read (bytes, its end, an error) or written: `try_receive` and `try_send`
    /// say `WouldBlock` where it was a false alarm.
    Ready(Interest),
    /// A listener has a new connection, or failed to accept one (see [`crate::is_exhausted`]: then
    /// the owner sets [`Interest::NONE`] for a while, as the same error would come again at once).
    Accepted(io::Result<Accepted>),
}

/// A source that was removed.
#[derive(Debug)]
pub enum Source {
    Stream(Stream),
    Listener(Listener),
}

struct Slot<T> {
    source: Source,
    state: T,
    interest: Interest,
    generation: u32,
    mark: Arc<Mark>,
    waker: Waker,
}

/// The streams and listeners of one owner, each with the owner's state `T`.
pub struct Driver<T> {
    slots: Slab<Slot<T>>,
    generation: u32,
    queue: Arc<Queue>,
    /// The source whose event the owner has just seen; it is watched again when the next is asked
    /// for.
    seen: Option<Key>,
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
    /// An empty driver of this worker.
    pub fn new() -> Driver<T> {
        Driver {
            slots: Slab::new(),
            generation: 0,
            queue: Arc::new(Queue::new()),
            seen: None,
            handed_out: 0,
            _thread: PhantomData,
        }
    }

    /// Takes a stream over, watching for bytes.
    pub fn insert(&mut self, stream: Stream, state: T) -> Key {
        self.put(Source::Stream(stream), state)
    }

    /// Takes a listener over, watching for connections.
    pub fn listen(&mut self, listener: Listener, state: T) -> Key {
        self.put(Source::Listener(listener), state)
    }

    fn put(&mut self, source: Source, state: T) -> Key {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let entry = self.slots.vacant_entry();
        // More than 2^32 descriptors at a time do not exist.
        let key = Key { index: entry.key() as u32, generation };
        let mark = Arc::new(Mark::new(key, self.queue.clone()));
        let waker = Waker::from(mark.clone());
        entry.insert(Slot { source, state, interest: Interest::READ, generation, mark, waker });
        self.watch(key);
        key
    }

    /// Gives a source back, open.
    pub fn remove(&mut self, key: Key) -> Option<(Source, T)> {
        self.slot(key)?;
        let slot = self.slots.remove(key.index as usize);
        Some((slot.source, slot.state))
    }

    /// The stream of this key and the owner's state for it.
    pub fn stream(&mut self, key: Key) -> Option<(&Stream, &mut T)> {
        match self.slot(key)? {
            Slot { source: Source::Stream(stream), state, .. } => Some((stream, state)),
            _ => None,
        }
    }

    /// The owner's state for this key.
    pub fn state(&mut self, key: Key) -> Option<&mut T> {
        self.slot(key).map(|slot| &mut slot.state)
    }

    /// Says what to wait for from now on; a stale key is ignored.
    pub fn set_interest(&mut self, key: Key, interest: Interest) {
        if let Some(slot) = self.slot(key)
            && slot.interest != interest
        {
            slot.interest = interest;
            self.watch(key);
        }
    }

    /// Number of sources.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The keys of all sources, in no order.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.slots
            .iter()
            .map(|(index, slot)| Key { index: index as u32, generation: slot.generation })
    }

    /// The next event. Waits for ever while there are no sources.
    pub async fn next_ready(&mut self) -> (Key, Event) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// The next event. Nothing is lost when it is asked for and not waited for.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<(Key, Event)> {
        if let Some(key) = self.seen.take() {
            self.watch(key);
        }
        if self.handed_out >= BATCH {
            self.handed_out = 0;
            // A loop that never sleeps reads no clock.
            clock::refresh();
            // Comes back after the event loop has looked at the sockets, which waking oneself does
            // not.
            ready!(pin!(tokio::task::yield_now()).poll(cx));
        }
        while let Some(key) = self.queue.take(cx) {
            if let Some(event) = self.event(key) {
                self.handed_out += 1;
                self.seen = Some(key);
                return Poll::Ready((key, event));
            }
        }
        self.handed_out = 0;
        Poll::Pending
    }

    fn slot(&mut self, key: Key) -> Option<&mut Slot<T>> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }

    /// Asks the event loop to report this source; queues it if there is something already.
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
            // Only accepting tells whether there is a connection; that waits for its turn.
            Source::Listener(_) => read,
        };
        if queued {
            slot.mark.queue();
        }
    }

    /// What there is to say about a source whose turn has come.
    fn event(&mut self, key: Key) -> Option<Event> {
        let slot = self.slot(key)?;
        slot.mark.taken();
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
