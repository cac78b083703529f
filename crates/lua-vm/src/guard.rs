//! Instruction and memory budget of a turn.
//!
//! A debug hook on every coroutine counts instructions: `coroutine.create` passes it on, and in a
//! server scripts cannot remove it. Promises that a coroutine over its budget yields and is never
//! resumed (so no `pcall` keeps it alive), that the error is raised again where it cannot yield,
//! and that the other coroutines continue. A VM that was not armed counts nothing. Time is not
//! limited: the [`watchdog`] logs long turns.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mlua::{Function, Result, Table, ffi};

use crate::limits::{HOOK_STEP, METER_REFUSED_BYTES, STOPPED_PER_TURN, TURN_INSTRUCTIONS};
use crate::stack::{self, LuaState};
use crate::vm::Vm;
use crate::watchdog::{self, Heartbeat};

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
    over: Cell<Option<ExceededLimit>>,
    stopped: Cell<u32>,
    pulse: Cell<Option<Arc<Heartbeat>>>,
}

/// The registry key of the VM is the address of this static.
static KEY: u8 = 0;

impl Default for Guard {
    fn default() -> Guard {
        Guard {
            budget: Cell::new(TURN_INSTRUCTIONS),
            default_budget: Cell::new(TURN_INSTRUCTIONS),
            spent: Cell::new(0),
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
        self.budget.set(self.default_budget.get());
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
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.get().is_some()
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
    pub(crate) fn is_too_large(&self, vm: &Vm, state: LuaState) -> bool {
        // Lua's own count lacks the content of long strings.
        if vm.meter.used() < vm.meter.limit() {
            return false;
        }
        // SAFETY: the state is alive; a collection may run finalizers, of which nothing is
        // borrowed.
        unsafe { ffi::lua_gc(state, ffi::LUA_GCCOLLECT) };
        vm.meter.used() >= vm.meter.limit()
    }

    fn look(&self, vm: &Vm, state: LuaState) -> Option<ExceededLimit> {
        self.spent.set(self.spent.get() + u64::from(HOOK_STEP));
        if self.spent.get() > self.budget.get() {
            return Some(ExceededLimit::Instructions);
        }
        self.is_too_large(vm, state).then_some(ExceededLimit::Memory)
    }
}

/// Sets the hook on the main thread; its coroutines inherit it.
pub fn arm(vm: &Vm, name: &str, budget: u64, memory_bytes: usize) -> Result<()> {
    let guard = &vm.guard;
    guard.default_budget.set(budget);
    vm.meter.set_limit(memory_bytes);
    guard.set_pulse(watchdog::watch(name, None));
    let pointer: *const Vm = vm;
    // SAFETY: the registry gets a pointer to the VM that owns the state.
    unsafe {
        vm.lua().exec_raw::<()>((), |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, (&raw const KEY).cast::<c_void>());
        })?;
        ffi::lua_sethook(vm.main(), Some(hook), ffi::LUA_MASKCOUNT, HOOK_STEP as c_int);
    }
    let strings: Table = vm.lua().globals().get("string")?;
    let original: Function = strings.get("rep")?;
    // SAFETY: takes one function and leaves a closure over the VM and it.
    let bounded: Function = unsafe {
        vm.lua().exec_raw(original, |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, repeated, 2);
        })?
    };
    strings.set("rep", bounded)
}

/// `string.rep`, limited by the memory that the VM may still allocate.
unsafe extern "C-unwind" fn repeated(state: LuaState) -> c_int {
    // SAFETY: the upvalues are the VM and Lua's own function; nothing here has to be dropped.
    unsafe {
        let text = stack::bytes(state, 1).map_or(0, <[u8]>::len);
        let between = stack::bytes(state, 3).map_or(0, <[u8]>::len);
        let times = usize::try_from(ffi::lua_tointeger(state, 2)).unwrap_or(0);
        let takes = (text + between).saturating_mul(times);
        let meter = &stack::vm(state).meter;
        if takes >= METER_REFUSED_BYTES && meter.used().saturating_add(takes) > meter.limit() {
            stack::raise(state, "not enough memory");
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, 1);
    }
    1
}

unsafe extern "C-unwind" fn hook(state: LuaState, _: *mut ffi::lua_Debug) {
    // SAFETY: called by Lua with room for some values; nothing here has to be dropped. A yield in a
    // count hook returns, and happens once the hook has.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, (&raw const KEY).cast::<c_void>());
        let vm = ffi::lua_touserdata(state, -1).cast::<Vm>();
        ffi::lua_settop(state, -2);
        if vm.is_null() {
            return;
        }
        let guard = &(*vm).guard;
        if let Some(pulse) = guard.pulse() {
            pulse.log_if_asked(state);
        }
        let Some(over) = guard.look(&*vm, state) else {
            if ffi::lua_gethookcount(state) != HOOK_STEP as c_int {
                ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, HOOK_STEP as c_int);
            }
            return;
        };
        // The hook runs before each instruction from now on, so a `pcall` gets no further than the
        // next.
        ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1);
        if ffi::lua_isyieldable(state) != 0 {
            guard.over.set(Some(over));
            ffi::lua_yield(state, 0);
            return;
        }
        stack::push(state, over.text().as_bytes());
        ffi::lua_error(state);
    }
}
