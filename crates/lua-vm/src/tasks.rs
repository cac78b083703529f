//! The coroutine table of a VM and its ready queue.
//!
//! Owns the threads, which are pooled, their state and the ready queue. Promises that a woken
//! coroutine runs once for each wake, in the order of the wakes, and that a [`TaskId`] is stale
//! once its coroutine was woken. Never runs Lua: that is `vm`.

use std::ffi::c_int;

use mlua::ffi;
use mlua::{Lua, MultiValue};
use slab::Slab;

use crate::blocks::Blocks;
use crate::ids::{CallId, TaskId};
use crate::limits::SPARE_COROUTINES;
use crate::stack::LuaState;

/// The result of an ended coroutine.
#[derive(Debug)]
pub enum TaskEnd {
    /// The values its function returned.
    Returned(MultiValue),
    /// Its error, which has been logged.
    Failed(TaskError),
}

/// The error that a coroutine ended with.
#[derive(Clone, Debug)]
pub struct TaskError {
    pub message: String,
    /// Lua's traceback, several lines.
    pub traceback: String,
}

/// Called when a coroutine has ended, in the same turn; dropped without a call if the program
/// exits.
pub type OnTaskEnd = Box<dyn FnOnce(&Lua, TaskEnd)>;

/// The observer of a coroutine's end; `C` is its callback, or the index of that in the table.
pub(crate) enum EndObserver<C = OnTaskEnd> {
    Ignored,
    Callback(C),
    /// The call of a request, which needs no callback and no values.
    Call(CallId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    /// Ended, or not yet begun.
    Spare,
    Ready,
    Run,
    Wait,
}

impl TaskStatus {
    /// Silly's name of the status.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            TaskStatus::Spare => None,
            TaskStatus::Ready => Some("READY"),
            TaskStatus::Run => Some("RUN"),
            TaskStatus::Wait => Some("WAIT"),
        }
    }
}

pub(crate) struct Task {
    pub(crate) thread: LuaState,
    /// Keeps the thread from being collected.
    anchor: c_int,
    generation: u32,
    pub(crate) status: TaskStatus,
    /// Values on the thread's stack that its next resume passes.
    pub(crate) values: c_int,
    /// While it is ready, the task behind it in the queue; while it waits, the index of its timer.
    link: u32,
    /// The trace id of its log lines.
    pub(crate) trace: u64,
    ended: EndObserver<u32>,
}

/// There may be 100 000 of them.
const _: () = assert!(size_of::<Task>() <= 48);

/// The index of no task and no timer.
const NONE: u32 = u32::MAX;

/// The ready queue: a list that is linked inside the tasks.
struct ReadyQueue {
    first: u32,
    last: u32,
    count: usize,
}

impl ReadyQueue {
    const EMPTY: ReadyQueue = ReadyQueue { first: NONE, last: NONE, count: 0 };
}

pub(crate) struct TaskTable {
    slots: Blocks<Task>,
    /// Indexes of spare threads, the last used last.
    spare: Vec<u32>,
    /// Indexes without a thread.
    vacant: Vec<u32>,
    ready: ReadyQueue,
    callbacks: Slab<OnTaskEnd>,
    current: u32,
}

impl TaskTable {
    pub(crate) fn new() -> TaskTable {
        TaskTable {
            slots: Blocks::default(),
            spare: Vec::new(),
            vacant: Vec::new(),
            ready: ReadyQueue::EMPTY,
            callbacks: Slab::new(),
            current: NONE,
        }
    }

    pub(crate) fn get(&mut self, index: u32) -> &mut Task {
        &mut self.slots[index as usize]
    }

    /// The coroutine that runs.
    pub(crate) fn current(&self) -> Option<u32> {
        (self.current != NONE).then_some(self.current)
    }

    pub(crate) fn set_current(&mut self, index: Option<u32>) {
        self.current = index.unwrap_or(NONE);
    }

    /// The coroutine that runs on this thread; `None` for a coroutine that a script created in it.
    pub(crate) fn running_on(&self, state: LuaState) -> Option<u32> {
        let current = self.current()?;
        (self.slots[current as usize].thread == state).then_some(current)
    }

    pub(crate) fn id(&self, index: u32) -> TaskId {
        TaskId { index, generation: self.slots[index as usize].generation }
    }

    /// The index of a coroutine that has not ended.
    pub(crate) fn find(&self, id: TaskId) -> Option<u32> {
        let task = self.slots.get(id.index as usize)?;
        (task.generation == id.generation && task.status != TaskStatus::Spare).then_some(id.index)
    }

    /// The coroutine of a thread, if it belongs to the scheduler.
    pub(crate) fn of_thread(&self, thread: LuaState) -> Option<u32> {
        // SAFETY: the extra space of a live thread has the size of a pointer, and only this file
        // writes it.
        let mark = unsafe { *ffi::lua_getextraspace(thread).cast::<usize>() };
        let index = mark.checked_sub(1)?;
        (self.slots.get(index)?.thread == thread).then_some(index as u32)
    }

    /// Takes a spare thread; [`TaskTable::adopt`] adds one if there is none.
    pub(crate) fn take_spare(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// Adds a thread as a spare task.
    pub(crate) fn adopt(&mut self, thread: LuaState, anchor: c_int) -> u32 {
        let task = Task {
            thread,
            anchor,
            generation: 0,
            status: TaskStatus::Spare,
            values: 0,
            link: NONE,
            trace: 0,
            ended: EndObserver::Ignored,
        };
        let index = match self.vacant.pop() {
            Some(index) => {
                let generation = self.slots[index as usize].generation;
                self.slots[index as usize] = Task { generation, ..task };
                index
            }
            None => {
                self.slots.push(task);
                (self.slots.len() - 1) as u32
            }
        };
        // SAFETY: as in `of_thread`.
        unsafe { *ffi::lua_getextraspace(thread).cast::<usize>() = index as usize + 1 };
        index
    }

    /// Puts a coroutine at the end of the ready queue, with values that are on its stack.
    pub(crate) fn make_ready(&mut self, index: u32, values: c_int) {
        let task = self.get(index);
        task.generation = task.generation.wrapping_add(1);
        task.status = TaskStatus::Ready;
        task.values = values;
        match std::mem::replace(&mut self.ready.last, index) {
            NONE => self.ready.first = index,
            last => self.get(last).link = index,
        }
        self.ready.count += 1;
    }

    /// Takes the first coroutine of the ready queue.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.count = self.ready.count.checked_sub(1)?;
        let first = self.ready.first;
        if first == self.ready.last {
            self.ready.last = NONE;
        }
        self.ready.first = std::mem::replace(&mut self.get(first).link, NONE);
        Some(first)
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.count
    }

    /// Clears the ready queue: nothing runs after `silly.exit`.
    pub(crate) fn clear_ready(&mut self) {
        self.ready = ReadyQueue::EMPTY;
    }

    /// Stores the index of the timer that ends the next wait of the running coroutine.
    pub(crate) fn set_timer(&mut self, index: u32, timer: u32) {
        self.get(index).link = timer;
    }

    /// The index of the timer that ends the wait of a coroutine, if there is one.
    pub(crate) fn timer_of(&mut self, index: u32) -> u32 {
        self.get(index).link
    }

    /// Sets the observer of a coroutine's end, which has none.
    pub(crate) fn observe(&mut self, index: u32, observer: EndObserver) {
        self.get(index).ended = match observer {
            EndObserver::Ignored => EndObserver::Ignored,
            EndObserver::Callback(ended) => {
                EndObserver::Callback(self.callbacks.insert(ended) as u32)
            }
            EndObserver::Call(call) => EndObserver::Call(call),
        };
    }

    /// Takes the observer of a coroutine's end.
    pub(crate) fn take_observer(&mut self, index: u32) -> EndObserver {
        match std::mem::replace(&mut self.get(index).ended, EndObserver::Ignored) {
            EndObserver::Ignored => EndObserver::Ignored,
            EndObserver::Callback(at) => EndObserver::Callback(self.callbacks.remove(at as usize)),
            EndObserver::Call(call) => EndObserver::Call(call),
        }
    }

    /// The call of the request that a coroutine handles.
    pub(crate) fn call(&self, index: u32) -> Option<CallId> {
        match self.slots[index as usize].ended {
            EndObserver::Call(call) => Some(call),
            EndObserver::Ignored | EndObserver::Callback(_) => None,
        }
    }

    /// Removes a coroutine that has failed or was closed from outside. Its thread is not reused,
    /// because queues of scripts may still hold it. Returns the anchor of the thread.
    pub(crate) fn give_up(&mut self, index: u32) -> c_int {
        let task = &mut self.slots[index as usize];
        task.generation = task.generation.wrapping_add(1);
        task.status = TaskStatus::Spare;
        task.trace = 0;
        task.thread = std::ptr::null_mut();
        self.vacant.push(index);
        task.anchor
    }

    /// Makes an ended coroutine spare; returns the anchor of a thread that is not pooled.
    pub(crate) fn retire(&mut self, index: u32) -> Option<c_int> {
        let task = &mut self.slots[index as usize];
        task.generation = task.generation.wrapping_add(1);
        task.status = TaskStatus::Spare;
        task.trace = 0;
        if self.spare.len() < SPARE_COROUTINES {
            self.spare.push(index);
            return None;
        }
        task.thread = std::ptr::null_mut();
        self.vacant.push(index);
        Some(task.anchor)
    }

    /// The thread at an index and its status; `None` past the end.
    pub(crate) fn thread_at(&self, index: usize) -> Option<(LuaState, Option<&'static str>)> {
        self.slots.get(index).map(|task| (task.thread, task.status.word()))
    }
}
