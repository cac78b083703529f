//! The worker's single-threaded task executor.
//!
//! Owns the tasks and the queue of ready ones, and drives them together with the readiness of the
//! worker's sockets: one tokio task ([`Driver`]) waits for both. A turn continues while the sockets
//! report events, so a loaded worker rarely returns to tokio; after [`POLLS_PER_TURN`] polls
//! tokio's timers, channels and tasks get their turn. Never calls a future, a waker or a destructor
//! while one of its own cells is borrowed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use bytes::BytesMut;
use slab::Slab;
use tokio::task::coop;

use super::deferred::{Deferred, DeferredSender};
use super::join::drop_payload;
use super::key::{AbortHandle, Key, TASKS_MAX};
use super::remote_queue::{Received, RemoteQueue};
use super::remote_wake;
use super::{FOREIGN, STEPS, STEPS_PER_POLL};
use crate::clock;
use crate::readiness::Watch;
use crate::worker::POLLS_PER_TURN;

/// After a poll of the sockets with at least this many events they are polled again before tokio
/// gets its turn, because more have probably arrived. After fewer, tokio is asked, which sleeps if
/// there are none.
const BUSY_EVENTS: usize = 2;

thread_local! {
    /// The executor of this thread; null if there is none. Set by `start`, cleared by
    /// `Driver::drop`.
    static CURRENT: Cell<*const LocalExecutor> = const { Cell::new(std::ptr::null()) };
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Number of the task on this executor; its low bits are the generation of the task's key.
    serial: u64,
    key: Key,
    /// True if its key is in the queue.
    queued: bool,
    /// True if its future is to be dropped at its next turn.
    aborted: bool,
    /// True if it deferred bytes in its last poll.
    defers: bool,
    /// `None` while the task runs.
    future: Option<LocalFuture>,
}

pub(crate) struct LocalExecutor {
    number: u16,
    serial: Cell<u64>,
    tasks: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<Key>>,
    remote: Arc<RemoteQueue>,
    pub(crate) watch: Watch,
    /// The task that is running or ran last.
    running: Cell<Key>,
    deferred: RefCell<Deferred>,
    /// True if anything is deferred.
    is_deferred: Cell<bool>,
    /// True if the running task has deferred anything.
    defers: Cell<bool>,
    /// Wakes the tokio task that runs this executor.
    owner: RefCell<Option<Waker>>,
    /// True if the owner is running, or was woken and will run: then it need not be woken.
    awake: Cell<bool>,
    /// True if the last turn ended with ready tasks: the next one polls the sockets first.
    budget_exhausted: Cell<bool>,
    closing: Cell<bool>,
}

impl LocalExecutor {
    /// Calls `with` with the executor of this thread's event loop, which is created with its first
    /// task or socket.
    pub(crate) fn current<R>(with: impl FnOnce(&Rc<LocalExecutor>) -> R) -> R {
        let current = CURRENT.get();
        let executor = if current.is_null() {
            LocalExecutor::start()
        } else {
            // SAFETY: the pointer comes from `Rc::as_ptr` of the `Rc` that `Driver` holds until it
            // sets the pointer to null, on this thread; so the count is at least one, and it is
            // raised for the clone made here.
            unsafe {
                Rc::increment_strong_count(current);
                Rc::from_raw(current)
            }
        };
        with(&executor)
    }

    fn start() -> Rc<LocalExecutor> {
        let (remote, number) = remote_wake::open();
        let executor = Rc::new(LocalExecutor {
            number,
            serial: Cell::new(0),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            remote,
            watch: Watch::default(),
            running: Cell::new(Key::new(number, 0, 0)),
            deferred: RefCell::default(),
            is_deferred: Cell::new(false),
            defers: Cell::new(false),
            owner: RefCell::default(),
            awake: Cell::new(true), // tokio polls a new task
            budget_exhausted: Cell::new(false),
            closing: Cell::new(false),
        });
        CURRENT.set(Rc::as_ptr(&executor));
        // Without an event loop the task is dropped at once, which clears the pointer.
        tokio::task::spawn_local(Driver(executor.clone()));
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
            drop(future); // its handle reports a cancellation
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

    /// Wakes the driving tokio task unless it is awake.
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
        self.remote.set_owner(waker.clone());
    }

    /// Runs one turn; see the module documentation.
    fn turn(&self, cx: &mut Context<'_>) {
        self.set_owner(cx.waker());
        self.awake.set(true);
        // The ready tasks may fill a whole turn: the sockets must not wait for its end.
        let mut found =
            if self.budget_exhausted.replace(false) { self.watch.poll_now() } else { 0 };
        let mut polls = POLLS_PER_TURN;
        loop {
            self.receive();
            while let Some(key) = self.next() {
                self.run(key);
                polls -= 1;
                if polls == 0 || !coop::has_budget_remaining() {
                    self.send_deferred();
                    STEPS.set(FOREIGN);
                    self.budget_exhausted.set(true);
                    // Resumes after tokio has polled its own tasks and drivers.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                    return;
                }
            }
            STEPS.set(FOREIGN);
            found = if found >= BUSY_EVENTS {
                clock::refresh();
                self.watch.poll_now()
            } else {
                match self.watch.poll_events(cx) {
                    Poll::Ready(found) => found,
                    Poll::Pending => break,
                }
            };
        }
        // From here on every wake of a task wakes the owner. Nothing was woken since the queue was
        // found empty except by `poll_events`, which wakes nothing if it returns pending.
        self.awake.set(false);
    }

    /// Returns the next ready task. If there is none, sends what was deferred, which may wake the
    /// tasks whose bytes are stuck.
    #[inline]
    fn next(&self) -> Option<Key> {
        let ready = || self.ready.borrow_mut().pop_front();
        ready().or_else(|| {
            self.send_deferred();
            ready()
        })
    }

    fn receive(&self) {
        if let Some(Received { wakes, aborts }) = self.remote.take() {
            wakes.into_iter().for_each(|key| self.wake(key));
            aborts.into_iter().for_each(|handle| self.abort(handle));
        }
    }

    fn run(&self, key: Key) {
        #[cfg(debug_assertions)]
        crate::activity::add();
        let (mut future, defers) = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(key.slot()).filter(|task| task.key == key) else {
                return; // the task ended after it was woken
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
            // It may take long.
            self.send_deferred();
        }
        self.running.set(key);
        self.defers.set(false);
        STEPS.set(STEPS_PER_POLL);
        let waker = key.waker();
        // `Joined` catches a panic of the future.
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
    pub(super) fn send_deferred(&self) {
        if self.is_deferred.get() {
            self.send_all_deferred();
        }
    }

    #[inline(never)]
    fn send_all_deferred(&self) {
        self.is_deferred.set(false);
        let mut deferred = self.deferred.take();
        deferred.send(|task| self.wake(task));
        // Reuses the buffer.
        let mut newer = self.deferred.borrow_mut();
        if newer.is_empty() {
            *newer = deferred;
        }
    }

    /// Drops every task; later spawns are rejected.
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

/// Drops a future and catches a panic of its destructors.
fn drop_catching_panic(future: LocalFuture) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(move || drop(future))) {
        drop_payload(payload);
    }
}

/// Calls `with` with the executor of this number if it belongs to this thread.
#[inline]
fn with_current(number: u16, with: impl FnOnce(&LocalExecutor)) -> bool {
    let current = CURRENT.get();
    // SAFETY: null, or the executor that `Driver` holds until it has set the pointer to null on
    // this thread. The two closures given here at most wake the owner, which drops no `Driver`: its
    // runtime drops a tokio task, not the waker. So the executor lives across the call.
    match unsafe { current.as_ref() } {
        Some(executor) if executor.number == number => {
            with(executor);
            true
        }
        _ => false,
    }
}

impl Key {
    /// Returns a waker that needs no drop: it owns nothing, so that cloning it is free and it may
    /// be stored for ever. The task is looked up when it fires.
    #[inline]
    fn waker(self) -> ManuallyDrop<Waker> {
        // SAFETY: the contract of `RawWaker` holds for the functions of `VTABLE`: they treat the
        // word as a number and never as an address, so nothing is owned or freed, cloning and
        // dropping are no-ops, and waking is safe on every thread.
        ManuallyDrop::new(unsafe { Waker::from_raw(raw_waker(self)) })
    }
}

#[inline]
fn raw_waker(key: Key) -> RawWaker {
    RawWaker::new(ptr::without_provenance(key.word()), &VTABLE)
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake, drop_waker);

fn clone_waker(word: *const ()) -> RawWaker {
    raw_waker(Key::from_word(word.addr()))
}

/// Wakes a task, from any thread.
fn wake(word: *const ()) {
    let key = Key::from_word(word.addr());
    if !with_current(key.executor(), |executor| executor.wake(key)) {
        remote_wake::wake(key.executor(), [key]);
    }
}

/// Wakes tasks; successive ones of one executor cost about as much as one of them.
pub(super) fn wake_all(wakers: &mut Vec<Waker>) {
    while let Some(last) = wakers.pop() {
        let Some(key) = key_of(&last) else {
            last.wake();
            continue;
        };
        let executor = key.executor();
        let is_of_it = |waker: &&Waker| key_of(waker).is_some_and(|key| key.executor() == executor);
        let others = wakers.iter().rev().take_while(is_of_it).count();
        let others = wakers.drain(wakers.len() - others..);
        let keys = others.filter_map(|waker| key_of(&waker)).chain([key]);
        remote_wake::wake(executor, keys);
    }
}

/// The key of the task that a waker of an executor wakes.
fn key_of(waker: &Waker) -> Option<Key> {
    ptr::eq(waker.vtable(), &VTABLE).then(|| Key::from_word(waker.data().addr()))
}

fn drop_waker(_: *const ()) {}

impl AbortHandle {
    /// Like [`JoinHandle::abort`](super::JoinHandle::abort).
    pub fn abort(&self) {
        if !with_current(self.key.executor(), |executor| executor.abort(*self)) {
            remote_wake::abort(*self);
        }
    }
}

/// The tokio task that runs the executor as long as the event loop lives, and drops the tasks with
/// it.
struct Driver(Rc<LocalExecutor>);

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.turn(cx);
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.close();
        // Last, because destructors of tasks may still wake, spawn and close streams.
        CURRENT.set(std::ptr::null());
        remote_wake::close(self.0.number);
    }
}
