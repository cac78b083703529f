//! The coroutines of a VM: which there are, what each is doing, which may run.
//!
//! Owns the threads (pooled: an ended one serves the next), their state and the ready queue.
//! Promises that a woken coroutine runs once for each wake and in the order of the wakes, and that
//! a [`TaskId`] reaches nothing once its coroutine was woken, by whomever. Never runs Lua: that is
//! `vm`.

use std::collections::VecDeque;
use std::ffi::c_int;

use mlua::ffi;
use mlua::{Lua, MultiValue};

use crate::calls::CallId;
use crate::limits::SPARE_COROUTINES;
use crate::stack::State;
use crate::timers::Session;

/// Names one wait of one coroutine: stale once it has been woken, so that of a deadline and an
/// answer the later one does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) index: u32,
    generation: u32,
}

/// How a coroutine ended.
#[derive(Debug)]
pub enum End {
    /// What its function returned.
    Returned(MultiValue),
    /// The text of its error, which has been logged with its traceback.
    Failed(String),
}

/// Called when a coroutine has ended, in the turn it ended in; dropped uncalled if the program
/// exits.
pub type OnEnd = Box<dyn FnOnce(&Lua, End)>;

/// Who hears that a coroutine has ended.
#[derive(Default)]
pub(crate) enum Ended {
    #[default]
    Nobody,
    Told(OnEnd),
    /// A request's call, which needs no box and no values.
    Call(CallId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Ended, or not yet begun.
    Spare,
    Ready,
    Run,
    Wait,
}

impl Status {
    /// Silly's word for it.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Status::Spare => None,
            Status::Ready => Some("READY"),
            Status::Run => Some("RUN"),
            Status::Wait => Some("WAIT"),
        }
    }
}

pub(crate) struct Task {
    pub(crate) thread: State,
    /// Keeps the thread from being collected.
    anchor: c_int,
    generation: u32,
    pub(crate) status: Status,
    /// Values on the thread's stack that its next resume takes.
    pub(crate) values: c_int,
    /// What log lines of this coroutine carry.
    pub(crate) trace: u64,
    /// The timer it sleeps by; another's or none's once it has woken.
    pub(crate) sleeps: Option<Session>,
    pub(crate) ended: Ended,
}

/// No coroutine runs.
const NONE: u32 = u32::MAX;

pub(crate) struct Tasks {
    slots: Vec<Task>,
    /// Places of spare threads, the last used last.
    spare: Vec<u32>,
    /// Places whose thread was given up.
    vacant: Vec<u32>,
    ready: VecDeque<u32>,
    current: u32,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks {
            slots: Vec::new(),
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

    /// The coroutine that runs on this very thread: not one that a script made inside of it.
    pub(crate) fn running_on(&self, state: State) -> Option<u32> {
        let current = self.current()?;
        (self.slots[current as usize].thread == state).then_some(current)
    }

    pub(crate) fn id(&self, index: u32) -> TaskId {
        TaskId { index, generation: self.slots[index as usize].generation }
    }

    /// The place of a coroutine that has not ended.
    pub(crate) fn find(&self, id: TaskId) -> Option<u32> {
        let task = self.slots.get(id.index as usize)?;
        (task.generation == id.generation && task.status != Status::Spare).then_some(id.index)
    }

    /// The coroutine of a thread, if it is one of ours.
    pub(crate) fn of_thread(&self, thread: State) -> Option<u32> {
        // SAFETY: the extra space of a live thread is a pointer's room, which only this file
        // writes.
        let mark = unsafe { *ffi::lua_getextraspace(thread).cast::<usize>() };
        let index = mark.checked_sub(1)?;
        (self.slots.get(index)?.thread == thread).then_some(index as u32)
    }

    /// A spare thread, if there is one: `begin` otherwise needs [`Tasks::adopt`] first.
    pub(crate) fn take_spare(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// A thread's pointer and anchor become a spare task.
    pub(crate) fn adopt(&mut self, thread: State, anchor: c_int) -> u32 {
        let task = Task {
            thread,
            anchor,
            generation: 0,
            status: Status::Spare,
            values: 0,
            trace: 0,
            sleeps: None,
            ended: Ended::Nobody,
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
        task.status = Status::Ready;
        task.values = values;
        self.ready.push_back(index);
    }

    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Forgets what was to run: nothing runs after `silly.exit`.
    pub(crate) fn clear_ready(&mut self) {
        self.ready.clear();
    }

    /// A coroutine that was closed from outside: its thread is not used again, because scripts may
    /// still have it in their queues. Returns the anchor of the thread.
    pub(crate) fn give_up(&mut self, index: u32) -> c_int {
        let task = &mut self.slots[index as usize];
        task.generation = task.generation.wrapping_add(1);
        task.status = Status::Spare;
        task.trace = 0;
        task.thread = std::ptr::null_mut();
        self.vacant.push(index);
        task.anchor
    }

    /// An ended coroutine becomes spare; returns the anchor of a thread that is not kept.
    pub(crate) fn retire(&mut self, index: u32) -> Option<c_int> {
        let task = &mut self.slots[index as usize];
        task.generation = task.generation.wrapping_add(1);
        task.status = Status::Spare;
        task.trace = 0;
        if self.spare.len() < SPARE_COROUTINES {
            self.spare.push(index);
            return None;
        }
        task.thread = std::ptr::null_mut();
        self.vacant.push(index);
        Some(task.anchor)
    }

    /// The thread at a place and what it does; `None` behind the last place.
    pub(crate) fn look(&self, index: usize) -> Option<(State, Option<&'static str>)> {
        self.slots.get(index).map(|task| (task.thread, task.status.word()))
    }
}
