//! Instruction and memory budget of a turn.
//!
//! A debug hook counts the instructions of a coroutine. It makes each of them cost two or three
//! times as much, so a turn whose budget is the usual one or more is counted only once the watchdog
//! has found it long, or its VM has reached its limit of memory. The coroutines that a script makes
//! itself, and what runs outside of turns, are always counted. Scripts cannot remove the hook.
//! Promises that a coroutine over its budget yields and is never resumed (so no `pcall` keeps it
//! alive), that the error is raised again where it cannot yield, that a coroutine of a script which
//! exceeds the budget ends the coroutine of the VM that runs it, and that the other coroutines of
//! the VM continue. A VM that was not armed counts nothing. Time is not limited: the watchdog logs
//! long turns.

use std::cell::Cell;
use std::sync::Arc;

use mlua::ffi;

use crate::limits::{HOOK_STEP, STOPPED_PER_TURN, TURN_INSTRUCTIONS};
use crate::meter::Meter;
use crate::stack::LuaState;
use crate::watchdog::Heartbeat;

mod hook;

pub use hook::arm;
pub(crate) use hook::{after_sample, count, may_sample};

/// The budget that a coroutine has exceeded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    Instructions,
    Memory,
}

impl ExceededLimit {
    fn text(self) -> &'static str {
        match self {
            ExceededLimit::Instructions => "the turn has used up its instructions",
            ExceededLimit::Memory => "the VM has used up its memory",
        }
    }
}

/// The budget of one VM.
pub(crate) struct Guard {
    budget: Cell<u64>,
    /// The instruction budget of the next turn.
    default_budget: Cell<u64>,
    spent: Cell<u64>,
    /// True if the coroutines of this turn are counted.
    counts: Cell<bool>,
    over: Cell<Option<ExceededLimit>>,
    stopped: Cell<u32>,
    pulse: Cell<Option<Arc<Heartbeat>>>,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard {
            budget: Cell::new(TURN_INSTRUCTIONS),
            default_budget: Cell::new(TURN_INSTRUCTIONS),
            spent: Cell::new(0),
            counts: Cell::new(false),
            over: Cell::new(None),
            stopped: Cell::new(0),
            pulse: Cell::new(None),
        }
    }
}

impl Guard {
    pub(crate) fn begin(&self) {
        self.spent.set(0);
        self.stopped.set(0);
        self.over.set(None);
        self.allow(self.default_budget.get());
        self.beat();
    }

    pub(crate) fn end(&self) {
        self.beat();
    }

    fn beat(&self) {
        if let Some(pulse) = self.pulse() {
            pulse.beat();
        }
    }

    /// The heartbeat that the watchdog reads; `None` in a VM that is not watched.
    pub(crate) fn pulse(&self) -> Option<&Heartbeat> {
        // SAFETY: the cell is only looked at here and set once; nothing in between runs other code.
        unsafe { &*self.pulse.as_ptr() }.as_deref()
    }

    pub(crate) fn set_pulse(&self, pulse: Arc<Heartbeat>) {
        self.pulse.set(Some(pulse));
    }

    /// Sets the budget of the running turn.
    pub(crate) fn allow(&self, instructions: u64) {
        self.budget.set(instructions);
        self.counts.set(instructions < TURN_INSTRUCTIONS);
    }

    /// True if the instructions of this turn are counted.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.counts.get()
    }

    /// True if turns of this VM may be counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.pulse().is_some_and(Heartbeat::is_counted)
    }

    /// Has the rest of this turn counted.
    pub(crate) fn begin_count(&self) {
        self.counts.set(true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    /// True if nothing but the end of the running coroutine should run.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_over() || self.spent.get() > self.budget.get()
    }

    /// Has the coroutine of the VM that runs stopped; it is counted until then.
    fn exceed(&self, over: ExceededLimit) {
        self.over.set(Some(over));
        self.counts.set(true);
    }

    /// Takes the exceeded budget. The other coroutines of this turn start from zero, a limited
    /// number of times.
    pub(crate) fn take_exceeded(&self) -> &'static str {
        self.stopped.set(self.stopped.get() + 1);
        if self.stopped.get() < STOPPED_PER_TURN {
            self.spent.set(0);
        }
        self.over.take().map_or("", ExceededLimit::text)
    }

    /// True if the VM exceeds its memory limit, even after a full collection.
    pub(crate) fn is_too_large(&self, meter: &Meter, state: LuaState) -> bool {
        // Lua's own count lacks the content of long strings.
        if meter.used() < meter.limit() {
            return false;
        }
        // SAFETY: the state is alive; a collection may run finalizers, of which nothing is
        // borrowed.
        unsafe { ffi::lua_gc(state, ffi::LUA_GCCOLLECT) };
        meter.used() >= meter.limit()
    }

    fn exceeded_limit(&self, meter: &Meter, state: LuaState) -> Option<ExceededLimit> {
        if let Some(over) = self.over.get() {
            return Some(over);
        }
        self.spent.set(self.spent.get() + u64::from(HOOK_STEP));
        if self.spent.get() > self.budget.get() {
            return Some(ExceededLimit::Instructions);
        }
        self.is_too_large(meter, state).then_some(ExceededLimit::Memory)
    }
}
