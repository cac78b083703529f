//! Readiness from an epoll of the worker's own (epoll(7), edge-triggered).
//!
//! Tokio waits for the epoll itself, as for any descriptor; the executor asks it. What an event says is
//! kept in cells beside the descriptor. A place among the [`Reactor`]'s sources is used again, so
//! an event carries a generation, and one that comes late reaches nobody.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Side;
use crate::task;

/// Events that one look brings.
const BATCH: usize = 256;

const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLPRI) as u32;
const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// What ends when an operation says so. What has failed or ended stays so: no other event tells it
/// again.
const PASSING: u32 = READABLE | WRITABLE;

const READ: u32 = READABLE | (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
const WRITE: u32 = WRITABLE | (libc::EPOLLHUP | libc::EPOLLERR) as u32;
const FAILED: u32 = libc::EPOLLERR as u32;

/// The events that the three who may wait for a source wait for: the two sides, and its failure.
const WAITED: [u32; 3] = [READ, WRITE, FAILED];
const FAILURE: usize = 2;

impl Side {
    #[inline]
    fn waited(self) -> u32 {
        WAITED[self as usize]
    }
}

/// What is known of one source, and who waits.
#[derive(Default)]
struct State {
    /// Events that were told and not used up.
    ready: Cell<u32>,
    /// A bit for each of the three that has not been woken since it asked.
    waiting: Cell<u8>,
    /// Kept when it is woken: the one who waits next is nearly always the same.
    waiters: [Cell<Option<Waker>>; 3],
}

impl State {
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
                return; // nor does any of those that follow wait
            }
            if events & waited != 0 && waiting & 1 << waiter != 0 {
                self.waiting.set(waiting & !(1 << waiter));
                self.wake(waiter);
            }
        }
    }

    fn wake(&self, waiter: usize) {
        // Whom it wakes may do anything, also wait here anew.
        let Some(waker) = self.waiters[waiter].take() else { return };
        waker.wake_by_ref();
        let newer = self.waiters[waiter].take();
        self.waiters[waiter].set(newer.or(Some(waker)));
    }
}

struct Entry {
    generation: u32,
    state: Rc<State>,
}

/// An epoll and its sources.
struct Reactor {
    epoll: AsyncFd<OwnedFd>,
    generation: Cell<u32>,
    entries: RefCell<Slab<Entry>>,
}

impl Reactor {
    fn new() -> io::Result<Reactor> {
        // SAFETY: the call takes no pointer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given the descriptor to us.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        // SAFETY: an `OwnedFd` names one open descriptor as long as it lives, and this one is never
        // exchanged.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) };
        Ok(Reactor {
            epoll: epoll.map_err(|error| error.into_parts().1)?,
            generation: Cell::new(0),
            entries: RefCell::default(),
        })
    }

    fn add(&self, descriptor: RawFd) -> io::Result<(usize, Rc<State>)> {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let state = Rc::new(State::default());
        let place = self.entries.borrow_mut().insert(Entry { generation, state: state.clone() });
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: flags as u32,
            // More than 2^32 descriptors do not exist.
            u64: u64::from(generation) << 32 | place as u64,
        };
        // SAFETY: both descriptors are open, and the kernel reads one event, a local.
        let done = unsafe {
            let epoll = self.epoll.as_raw_fd();
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &raw mut event)
        };
        if done < 0 {
            let error = io::Error::last_os_error();
            self.entries.borrow_mut().remove(place);
            return Err(error);
        }
        Ok((place, state))
    }

    /// Tells the kernel to forget a descriptor.
    fn remove(&self, descriptor: RawFd) {
        let nothing = std::ptr::null_mut();
        // SAFETY: the kernel reads no event for this operation (since Linux 2.6.9).
        unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, descriptor, nothing)
        };
    }

    /// Takes the events that are there now, and wakes who waits for them, in the kernel's order.
    fn poll_now(&self) -> usize {
        let mut events = [const { MaybeUninit::<libc::epoll_event>::uninit() }; BATCH];
        // SAFETY: the kernel writes at most `BATCH` events to a local that has room for them.
        let found = unsafe {
            let epoll = self.epoll.as_raw_fd();
            libc::epoll_wait(epoll, events.as_mut_ptr().cast(), BATCH as libc::c_int, 0)
        };
        // An error (EINTR) brings nothing, and nothing is lost by it.
        let found = usize::try_from(found).unwrap_or(0);
        for event in &events[..found] {
            // SAFETY: the kernel has written the first `found` events.
            let event = unsafe { event.assume_init_ref() };
            let (place, generation) = (event.u64 as u32 as usize, (event.u64 >> 32) as u32);
            // Who is woken may forget sources: nothing is borrowed meanwhile.
            let state = match self.entries.borrow().get(place) {
                Some(entry) if entry.generation == generation => entry.state.clone(),
                _ => continue,
            };
            state.report(event.events);
        }
        found
    }
}

/// A worker's reactor, once it has a source.
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

    /// Takes the events that are there now; how many there were.
    pub(crate) fn poll_now(&self) -> usize {
        self.0.get().map_or(0, |reactor| reactor.poll_now())
    }

    /// The same once tokio says that there are some; registers the task otherwise.
    pub(crate) fn poll_events(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(reactor) = self.0.get() else { return Poll::Pending };
        // An error means that the event loop ends.
        let Ok(mut there) = ready!(reactor.epoll.poll_read_ready(cx)) else {
            return Poll::Pending;
        };
        let found = reactor.poll_now();
        if found < BATCH {
            // All were taken. Tokio learns of the next from the kernel, and not before this worker
            // is done with its turn.
            there.clear_ready();
        }
        Poll::Ready(found)
    }
}

/// A source's place in its reactor, which it leaves when it is dropped.
struct Place {
    index: usize,
    /// The descriptor, where the kernel has to be told: while it is open.
    told: Cell<Option<RawFd>>,
    reactor: Rc<Reactor>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(descriptor) = self.told.get() {
            self.reactor.remove(descriptor);
        }
        let entry = self.reactor.entries.borrow_mut().remove(self.index);
        drop(entry);
    }
}

/// A descriptor of this worker's event loop.
pub(crate) struct Source {
    state: Rc<State>,
    // Before the descriptor, which it may have to name.
    place: Place,
    descriptor: OwnedFd,
}

impl Source {
    /// For a non-blocking descriptor that has no copy: the kernel forgets it when it is closed.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Source> {
        let executor = task::executor();
        let reactor = executor.watch.reactor()?;
        let (index, state) = reactor.add(descriptor.as_raw_fd())?;
        // Should this be the first, the executor does not wait for events yet.
        executor.wake_driver();
        let place = Place { index, told: Cell::new(None), reactor };
        Ok(Source { state, place, descriptor })
    }

    /// For one of which something is known already: what is tried first need not wait for the
    /// event loop to say so.
    pub(crate) fn assuming(sides: &[Side], descriptor: OwnedFd) -> io::Result<Source> {
        let source = Source::new(descriptor)?;
        let ready = sides.iter().fold(0, |ready, side| ready | side.waited() & PASSING);
        source.state.ready.set(ready);
        Ok(source)
    }

    /// For one that may have copies, here or in another process.
    pub(crate) fn shared(descriptor: OwnedFd) -> io::Result<Source> {
        let source = Source::new(descriptor)?;
        source.place.told.set(Some(source.raw()));
        Ok(source)
    }

    #[inline]
    pub(crate) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Leaves the event loop.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.place.told.set(Some(self.raw()));
        drop(self.place);
        self.descriptor
    }

    /// Does `operation` if it may succeed; when it says `WouldBlock`, the side is not ready any
    /// more.
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
        let outcome = operation();
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // No event is overlooked: they are only taken between the polls of tasks.
            ready.set(ready.get() & !(side.waited() & PASSING));
        }
        outcome
    }

    /// Ready when the side may be used; registers the task otherwise.
    #[inline]
    pub(crate) fn poll_ready(&self, side: Side, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.poll(side as usize, cx).map(Ok)
    }

    /// Ends once the connection has failed.
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
