//! Readiness from the worker's own epoll instance (epoll(7), edge-triggered).
//!
//! Tokio waits for the epoll descriptor like for any other; the executor polls it. What an event
//! reports is stored in cells next to the descriptor. Slots of the [`Reactor`] are reused, so an
//! event carries a generation, and a late one reaches no other source.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Side;
use crate::task;

/// Events taken per poll.
const BATCH: usize = 256;

const READABLE: u32 = EventFlags::IN.union(EventFlags::PRI).bits();
const WRITABLE: u32 = EventFlags::OUT.bits();
/// Readiness that ends with `WouldBlock`. An end or a failure persists: no other event reports it
/// again.
const TRANSIENT: u32 = READABLE | WRITABLE;

const FAILED: u32 = EventFlags::ERR.bits();
const READ: u32 = READABLE | EventFlags::RDHUP.union(EventFlags::HUP).bits() | FAILED;
const WRITE: u32 = WRITABLE | EventFlags::HUP.bits() | FAILED;

/// The events that the three possible waiters of a source wait for: the two directions, and
/// failure.
const WAITED: [u32; 3] = [READ, WRITE, FAILED];
const FAILURE: usize = 2;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Side {
    #[inline]
    fn waited(self) -> u32 {
        WAITED[self as usize]
    }
}

/// The known readiness of one source, and its waiters.
#[derive(Default)]
struct SourceState {
    /// Events reported and not consumed.
    ready: Cell<u32>,
    /// A bit for each waiter that has not been woken since it registered.
    waiting: Cell<u8>,
    /// Kept after a wake: the next waiter is nearly always the same task.
    waiters: [Cell<Option<Waker>>; 3],
}

impl SourceState {
    #[inline]
    fn poll(&self, waiter: usize, cx: &mut Context<'_>) -> Poll<()> {
        if self.ready.get() & WAITED[waiter] != 0 {
            return Poll::Ready(());
        }
        self.waiting.set(self.waiting.get() | 1 << waiter);
        let known = self.waiters[waiter].take();
        let known = known.filter(|known| known.will_wake(cx.waker()));
        self.waiters[waiter].set(Some(known.unwrap_or_else(|| cx.waker().clone())));
        Poll::Pending
    }

    #[inline]
    fn report(&self, events: u32) {
        self.ready.set(self.ready.get() | events);
        for (waiter, waited) in WAITED.into_iter().enumerate() {
            let waiting = self.waiting.get();
            if waiting >> waiter == 0 {
                return; // no waiter with a higher number either
            }
            if events & waited != 0 && waiting & 1 << waiter != 0 {
                self.waiting.set(waiting & !(1 << waiter));
                self.wake(waiter);
            }
        }
    }

    fn wake(&self, waiter: usize) {
        // The woken task may do anything, including registering here again.
        let Some(waker) = self.waiters[waiter].take() else { return };
        waker.wake_by_ref();
        let newer = self.waiters[waiter].take();
        self.waiters[waiter].set(newer.or(Some(waker)));
    }
}

struct Entry {
    generation: u32,
    state: Rc<SourceState>,
}

/// An epoll instance and its sources.
struct Reactor {
    epoll: AsyncFd<OwnedFd>,
    generation: Cell<u32>,
    entries: RefCell<Slab<Entry>>,
}

impl Reactor {
    fn new() -> io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` names one open descriptor as long as it lives, and this one is never
        // replaced.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) };
        Ok(Reactor {
            epoll: epoll.map_err(|error| error.into_parts().1)?,
            generation: Cell::new(0),
            entries: RefCell::default(),
        })
    }

    fn add(&self, descriptor: BorrowedFd<'_>) -> io::Result<(usize, Rc<SourceState>)> {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let state = Rc::new(SourceState::default());
        let index = self.entries.borrow_mut().insert(Entry { generation, state: state.clone() });
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        // A process has fewer than 2^32 descriptors.
        let data = EventData::new_u64(u64::from(generation) << 32 | index as u64);
        if let Err(error) = epoll::add(&self.epoll, descriptor, data, flags) {
            self.entries.borrow_mut().remove(index);
            return Err(error.into());
        }
        Ok((index, state))
    }

    /// Removes a descriptor from the epoll instance.
    fn remove(&self, descriptor: BorrowedFd<'_>) {
        // Fails if the descriptor is not registered any more.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Takes the pending events and wakes their waiters, in the kernel's order.
    fn poll_now(&self) -> usize {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; BATCH];
        // An error (EINTR) returns no events and loses none.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&NO_WAIT)) else {
            return 0;
        };
        for event in &*events {
            #[cfg(debug_assertions)]
            crate::activity::add();
            let data = event.data.u64();
            let (index, generation) = (data as u32 as usize, (data >> 32) as u32);
            // A woken task may remove sources: nothing stays borrowed here.
            let state = match self.entries.borrow().get(index) {
                Some(entry) if entry.generation == generation => entry.state.clone(),
                _ => continue,
            };
            let flags = event.flags; // a field of a packed struct
            state.report(flags.bits());
        }
        events.len()
    }
}

/// A worker's reactor, created with its first source.
#[derive(Default)]
pub(crate) struct Watch(OnceCell<Rc<Reactor>>);

impl Watch {
    fn reactor(&self) -> io::Result<Rc<Reactor>> {
        if let Some(reactor) = self.0.get() {
            return Ok(reactor.clone());
        }
        let reactor = Rc::new(Reactor::new()?);
        Ok(self.0.get_or_init(|| reactor).clone())
    }

    /// Takes the pending events; returns how many there were.
    pub(crate) fn poll_now(&self) -> usize {
        self.0.get().map_or(0, |reactor| reactor.poll_now())
    }

    /// Takes the pending events once tokio reports some; registers the task otherwise.
    pub(crate) fn poll_events(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(reactor) = self.0.get() else { return Poll::Pending };
        // An error means that the event loop ends.
        let Ok(mut readiness) = ready!(reactor.epoll.poll_read_ready(cx)) else {
            return Poll::Pending;
        };
        let found = reactor.poll_now();
        if found < BATCH {
            // All were taken. The kernel reports the next one to tokio, not before this worker has
            // finished its turn.
            readiness.clear_ready();
        }
        Poll::Ready(found)
    }
}

/// A source's registration with its reactor, which ends when it is dropped.
struct Registration {
    index: usize,
    /// The descriptor, if it has to be removed explicitly: while it is open.
    explicit: Cell<Option<RawFd>>,
    reactor: Rc<Reactor>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(descriptor) = self.explicit.get() {
            // SAFETY: set by the source that holds this and drops its descriptor afterwards.
            self.reactor.remove(unsafe { BorrowedFd::borrow_raw(descriptor) });
        }
        let entry = self.reactor.entries.borrow_mut().remove(self.index);
        drop(entry);
    }
}

/// A descriptor of this worker's event loop.
pub(crate) struct Source {
    state: Rc<SourceState>,
    // Dropped before the descriptor, which it may have to remove.
    registration: Registration,
    descriptor: OwnedFd,
}

impl Source {
    /// Registers a non-blocking descriptor that has no duplicate: closing it removes it.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Source> {
        let executor = task::executor();
        let reactor = executor.watch.reactor()?;
        let (index, state) = reactor.add(descriptor.as_fd())?;
        // If this is the first source, the executor is not waiting for events yet.
        executor.wake_driver();
        let registration = Registration { index, explicit: Cell::new(None), reactor };
        Ok(Source { state, registration, descriptor })
    }

    /// Registers a descriptor whose state is known: the first attempt does not wait for the event
    /// loop.
    pub(crate) fn assuming(sides: &[Side], descriptor: OwnedFd) -> io::Result<Source> {
        let source = Source::new(descriptor)?;
        let ready = sides.iter().fold(0, |ready, side| ready | side.waited() & TRANSIENT);
        source.state.ready.set(ready);
        Ok(source)
    }

    /// Registers a descriptor that may have duplicates, here or in another process.
    pub(crate) fn shared(descriptor: OwnedFd) -> io::Result<Source> {
        let source = Source::new(descriptor)?;
        source.registration.explicit.set(Some(source.raw()));
        Ok(source)
    }

    #[inline]
    pub(crate) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Removes the descriptor from the event loop.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.registration.explicit.set(Some(self.raw()));
        drop(self.registration);
        self.descriptor
    }

    /// Runs `operation` if it may succeed; `WouldBlock` marks the direction as not ready.
    #[inline]
    pub(crate) fn try_io<R>(
        &self,
        side: Side,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let ready = &self.state.ready;
        if ready.get() & side.waited() == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = operation();
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // No event is lost: they are taken only between the polls of tasks.
            ready.set(ready.get() & !(side.waited() & TRANSIENT));
        }
        result
    }

    /// Ready when the direction may be used; registers the task otherwise.
    #[inline]
    pub(crate) fn poll_ready(&self, side: Side, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.poll(side as usize, cx).map(Ok)
    }

    /// Completes once the connection has failed.
    pub(crate) async fn failed(&self) {
        poll_fn(|cx| self.state.poll(FAILURE, cx)).await;
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.descriptor).finish()
    }
}
