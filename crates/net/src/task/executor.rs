//! Where a worker's tasks live and run.
//!
//! Owns the tasks and the queue of those that are ready, and drives them together with the
//! readiness of the worker's sockets: one tokio task ([`Run`]) waits for both. A turn goes on while
//! the sockets keep bringing work, so a loaded worker asks tokio rarely; after [`POLLS_PER_TURN`]
//! polls tokio's timers, channels and tasks have theirs. Promises never to call a future, a waker
//! or a destructor of others while it has something of its own borrowed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use slab::Slab;
use tokio::task::coop;

use super::deferred::{Deferred, DeferredSender, SPENT_MAX_US};
use super::join::{AbortHandle, drop_payload};
use super::key::{Key, TASKS_MAX};
use super::remote_wake::{Received, RemoteQueue};
use super::{FOREIGN, STEPS, STEPS_PER_POLL};
use crate::clock;
use crate::readiness::Watch;
use crate::worker::POLLS_PER_TURN;

/// A look at the sockets that found this many events is followed by another before tokio has its
/// turn: more will have come meanwhile. After fewer, tokio is asked, which waits if there are none.
const BUSY: usize = 2;

thread_local! {
    /// The executor of this thread; null while there is none. Set by `start`, cleared by `Run::drop`.
    static HERE: Cell<*const LocalExecutor> = const { Cell::new(std::ptr::null()) };
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Counts the tasks of this executor; its low bits are the generation of the task's key.
    serial: u64,
    key: Key,
    /// Whether its key is in the queue.
    queued: bool,
    /// Its future is dropped at its next turn.
    aborted: bool,
    /// Whether it deferred bytes when it ran last.
    defers: bool,
    /// Away while it runs.
    future: Option<LocalFuture>,
}

pub(crate) struct LocalExecutor {
    number: u16,
    serial: Cell<u64>,
    tasks: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<Key>>,
    inbox: Arc<RemoteQueue>,
    pub(crate) watch: Watch,
    /// The task that runs, or ran last.
    running: Cell<Key>,
    deferred: RefCell<Deferred>,
    /// Whether anything is deferred, and whether the running task has deferred anything.
    is_deferred: Cell<bool>,
    defers: Cell<bool>,
    /// What tasks have taken while it waits, as far as they say.
    spent_us: Cell<u64>,
    /// The tokio task that runs this.
    owner: RefCell<Option<Waker>>,
    /// Whether the owner runs, or was woken and will: then nobody has to wake it.
    awake: Cell<bool>,
    /// Whether the last turn ended with tasks that are ready: the sockets come first then.
    cut: Cell<bool>,
    closing: Cell<bool>,
}

impl LocalExecutor {
    /// Calls `with` with the executor of this thread's event loop, which begins with its first task or
    /// socket.
    pub(crate) fn current<R>(with: impl FnOnce(&Rc<LocalExecutor>) -> R) -> R {
        let here = HERE.get();
        let executor = if here.is_null() {
            LocalExecutor::start()
        } else {
            // SAFETY: the pointer is that of the `Rc` that `Run` holds until it sets it to null, on
            // this thread; so it is one of `Rc::as_ptr` whose count is at least one, and the count
            // is raised for the clone made here.
            unsafe {
                Rc::increment_strong_count(here);
                Rc::from_raw(here)
            }
        };
        with(&executor)
    }

    fn start() -> Rc<LocalExecutor> {
        let (inbox, number) = RemoteQueue::open();
        let executor = Rc::new(LocalExecutor {
            number,
            serial: Cell::new(0),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            inbox,
            watch: Watch::default(),
            running: Cell::new(Key::new(number, 0, 0)),
            deferred: RefCell::default(),
            is_deferred: Cell::new(false),
            defers: Cell::new(false),
            spent_us: Cell::new(0),
            owner: RefCell::default(),
            awake: Cell::new(true), // tokio polls what it is given
            cut: Cell::new(false),
            closing: Cell::new(false),
        });
        HERE.set(Rc::as_ptr(&executor));
        // Dropped at once, and with it cleared, where there is no event loop to run it.
        tokio::task::spawn_local(Run(executor.clone()));
        executor
    }

    pub(super) fn spawn(&self, future: LocalFuture) -> AbortHandle {
        let serial = self.serial.get() + 1;
        self.serial.set(serial);
        let mut tasks = self.tasks.borrow_mut();
        let entry = tasks.vacant_entry();
        let key = Key::new(self.number, entry.key(), serial);
        if self.closing.get() || entry.key() >= TASKS_MAX {
            drop(tasks);
            drop(future); // its handle says that it was cancelled
            return AbortHandle { key, serial };
        }
        let task =
            Task { serial, key, queued: true, aborted: false, defers: false, future: Some(future) };
        entry.insert(task);
        drop(tasks);
        self.ready.borrow_mut().push_back(key);
        self.wake_driver();
        AbortHandle { key, serial }
    }

    #[inline]
    fn wake(&self, key: Key) {
        match self.tasks.borrow_mut().get_mut(key.slot()) {
            Some(task) if task.key == key && !task.queued => task.queued = true,
            _ => return,
        }
        self.ready.borrow_mut().push_back(key);
        self.wake_driver();
    }

    fn abort(&self, handle: AbortHandle) {
        match self.tasks.borrow_mut().get_mut(handle.key.slot()) {
            Some(task) if task.serial == handle.serial => task.aborted = true,
            _ => return,
        }
        self.wake(handle.key);
    }

    /// Has the tokio task run, if it does not already.
    #[inline]
    pub(crate) fn wake_driver(&self) {
        if !self.awake.get() {
            self.call_owner();
        }
    }

    #[cold]
    fn call_owner(&self) {
        self.awake.set(true);
        let owner = self.owner.borrow().clone();
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    fn set_owner(&self, waker: &Waker) {
        if self.owner.borrow().as_ref().is_some_and(|owner| owner.will_wake(waker)) {
            return;
        }
        let former = self.owner.borrow_mut().replace(waker.clone());
        drop(former);
        self.inbox.set_owner(waker.clone());
    }

    /// One turn; see the contract above.
    fn turn(&self, cx: &mut Context<'_>) {
        self.set_owner(cx.waker());
        self.awake.set(true);
        // What is ready may be more than a turn: the sockets must not wait for the end of it.
        let mut found = if self.cut.replace(false) { self.watch.look() } else { 0 };
        let mut polls = POLLS_PER_TURN;
        loop {
            self.receive();
            while let Some(key) = self.next() {
                self.run(key);
                polls -= 1;
                if polls == 0 || !coop::has_budget_remaining() {
                    self.send_deferred();
                    STEPS.set(FOREIGN);
                    self.cut.set(true);
                    // Comes back after tokio has looked at what is its own.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                    return;
                }
            }
            STEPS.set(FOREIGN);
            found = if found >= BUSY {
                clock::refresh();
                self.watch.look()
            } else {
                match self.watch.poll_events(cx) {
                    Poll::Ready(found) => found,
                    Poll::Pending => break,
                }
            };
        }
        // From here on whoever wakes a task wakes the owner; nothing was woken since the queue was
        // found empty but by `poll_events`, which wakes nobody where it is pending.
        self.awake.set(false);
    }

    /// The next task that is ready. Once there is none, what was deferred leaves, which may wake
    /// whose bytes do not.
    #[inline]
    fn next(&self) -> Option<Key> {
        let ready = || self.ready.borrow_mut().pop_front();
        ready().or_else(|| {
            self.send_deferred();
            ready()
        })
    }

    fn receive(&self) {
        if let Some(Received { wakes, aborts }) = self.inbox.take() {
            wakes.into_iter().for_each(|key| self.wake(key));
            aborts.into_iter().for_each(|handle| self.abort(handle));
        }
    }

    fn run(&self, key: Key) {
        let (mut future, defers) = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(key.slot()).filter(|task| task.key == key) else {
                return; // it ended after it was woken
            };
            task.queued = false;
            let Some(future) = task.future.take() else { return };
            if task.aborted {
                tasks.remove(key.slot());
                drop(tasks);
                return drop_catching_panic(future);
            }
            (future, task.defers)
        };
        if !defers {
            // It may take its time.
            self.send_deferred();
        }
        self.running.set(key);
        self.defers.set(false);
        STEPS.set(STEPS_PER_POLL);
        let waker = key.waker();
        // A panic ends in the future itself, which is a `Joined`.
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if ended {
            tasks.remove(key.slot());
            drop(tasks);
            drop_catching_panic(future);
        } else if let Some(task) = tasks.get_mut(key.slot()) {
            task.future = Some(future);
            task.defers = self.defers.get();
        }
    }

    #[inline]
    pub(super) fn defer(
        &self,
        sender: Rc<dyn DeferredSender>,
        room_min: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        self.defers.set(true);
        self.is_deferred.set(true);
        let task = self.running.get();
        let is_enough = self.deferred.borrow_mut().push(sender, task, room_min, write);
        if is_enough {
            self.send_deferred();
        }
    }

    #[inline]
    pub(super) fn charge_deferral(&self, spent_us: u64) {
        if self.is_deferred.get() {
            let spent = self.spent_us.get() + spent_us;
            self.spent_us.set(spent);
            if spent > SPENT_MAX_US {
                self.send_all_deferred();
            }
        }
    }

    #[inline]
    pub(super) fn send_deferred(&self) {
        if self.is_deferred.get() {
            self.send_all_deferred();
        }
    }

    #[inline(never)]
    fn send_all_deferred(&self) {
        self.is_deferred.set(false);
        self.spent_us.set(0);
        let mut deferred = self.deferred.take();
        deferred.send(|task| self.wake(task));
        // Its room is used again.
        let mut newer = self.deferred.borrow_mut();
        if newer.is_empty() {
            *newer = deferred;
        }
        // Nobody is to blame for the time that took.
        clock::lap_us();
    }

    /// Ends every task; none begins any more.
    fn close(&self) {
        self.closing.set(true);
        loop {
            let mut tasks = self.tasks.borrow_mut();
            let Some(slot) = tasks.iter().next().map(|(slot, _)| slot) else { break };
            let task = tasks.remove(slot);
            drop(tasks);
            task.future.into_iter().for_each(drop_catching_panic);
        }
    }
}

/// Drops a future; a panic of its destructors ends here.
fn drop_catching_panic(future: LocalFuture) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(move || drop(future))) {
        drop_payload(payload);
    }
}

/// Calls `with` with the executor of this number, if it is this thread's.
#[inline]
fn here(number: u16, with: impl FnOnce(&LocalExecutor)) -> bool {
    let here = HERE.get();
    // SAFETY: null, or the executor that `Run` keeps until it has set this to null on this thread. The
    // two functions given here wake the owner at most, which drops no `Run`: its runtime drops a
    // tokio task, and not who wakes it. So the executor lives across the call.
    match unsafe { here.as_ref() } {
        Some(executor) if executor.number == number => {
            with(executor);
            true
        }
        _ => false,
    }
}

/// Wakes a task if it is of this thread.
#[inline]
pub(super) fn wake_here(key: Key) -> bool {
    here(key.executor(), |executor| executor.wake(key))
}

/// Cancels a task if it is of this thread.
pub(super) fn abort_here(handle: AbortHandle) -> bool {
    here(handle.key.executor(), |executor| executor.abort(handle))
}

/// The tokio task: runs as long as the event loop, and takes the tasks with it.
struct Run(Rc<LocalExecutor>);

impl Future for Run {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.turn(cx);
        Poll::Pending
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.close();
        // Only now: destructors of tasks may still wake, spawn and close streams.
        HERE.set(std::ptr::null());
        RemoteQueue::close(self.0.number);
    }
}
