//! The coroutine table of a VM and its ready queue.
//!
//! Owns the threads, which are pooled, their state and the ready queue. Promises that a woken
//! coroutine runs once for each wake, in the order of the wakes, and that a [`TaskId`] is stale
//! once its coroutine was woken. Never runs Lua: that is `vm`.

use std::collections::VecDeque;
use std::ffi::c_int;

use mlua::ffi;
use mlua::{Lua, MultiValue};

use crate::blocks::Blocks;
use crate::ids::{CallId, TaskId};
use crate::limits::SPARE_COROUTINES;
use crate::stack::LuaState;
use crate::timers::TimerId;

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

/// The observer of a coroutine's end.
#[derive(Default)]
pub(crate) enum EndObserver {
    #[default]
    Ignored,
    /// In a box of its own: most coroutines have none, and each has room for a pointer.
    Callback(Box<OnTaskEnd>),
    /// The call of a request, which needs no box and no values.
    Call(CallId),
}

impl EndObserver {
    pub(crate) fn callback(ended: OnTaskEnd) -> EndObserver {
        EndObserver::Callback(Box::new(ended))
    }
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
    /// The trace id of its log lines.
    pub(crate) trace: u64,
    /// The timer of its sleep; stale once it has woken.
    pub(crate) sleeps: TimerId,
    pub(crate) ended: EndObserver,
}

/// There may be 100 000 of them.
const _: () = assert!(size_of::<Task>() <= 56);

/// No coroutine runs.
const NONE: u32 = u32::MAX;

pub(crate) struct TaskTable {
    slots: Blocks<Task>,
    /// Indexes of spare threads, the last used last.
    spare: Vec<u32>,
    /// Indexes without a thread.
    vacant: Vec<u32>,
    ready: VecDeque<u32>,
    current: u32,
}

impl TaskTable {
    pub(crate) fn new() -> TaskTable {
        TaskTable {
            slots: Blocks::default(),
            spare: Vec::new(),
            vacant: Vec::new(),
            ready: VecDeque::new(),
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
            trace: 0,
            sleeps: TimerId::NONE,
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
        self.ready.push_back(index);
    }

    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Clears the ready queue: nothing runs after `silly.exit`.
    pub(crate) fn clear_ready(&mut self) {
        self.ready.clear();
    }

    /// Removes a coroutine that was closed from outside. Its thread is not reused, because queues
    /// of scripts may still hold it. Returns the anchor of the thread.
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
