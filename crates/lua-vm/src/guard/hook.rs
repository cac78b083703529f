//! The hook that counts a state's instructions.

use std::ffi::{c_int, c_void};

use mlua::{Function, Result, Table, ffi};

use crate::limits::{HOOK_STEP, METER_REFUSED_BYTES};
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;
use crate::watchdog::{self, Watched};

/// The registry key of the VM is the address of this static.
static KEY: u8 = 0;

/// Has the VM counted, with the budget of a turn that sets none.
///
/// The hook is on the main thread, and inherited: a coroutine of the VM removes it when it first
/// runs in a turn that is not counted.
pub fn arm(vm: &Vm, name: &str, budget: u64, memory_bytes: usize) -> Result<()> {
    let guard = &vm.guard;
    guard.default_budget.set(budget);
    vm.meter.set_limit(memory_bytes);
    // SAFETY: the coroutine runs, in a VM that was armed.
    vm.meter.on_full(|state| unsafe { count(state) });
    guard.set_pulse(watchdog::watch(name, Watched::Counted));
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
    strings.set("rep", bounded)?;
    let coroutines: Table = vm.lua().globals().get("coroutine")?;
    for name in ["create", "wrap"] {
        let original: Function = coroutines.get(name)?;
        // SAFETY: takes one function and leaves a closure over it.
        let counted: Function = unsafe {
            vm.lua().exec_raw(original, |state| ffi::lua_pushcclosure(state, created, 1))?
        };
        coroutines.set(name, counted)?;
    }
    Ok(())
}

/// `coroutine.create` and `coroutine.wrap`, whose coroutines are counted.
unsafe extern "C-unwind" fn created(state: LuaState) -> c_int {
    // SAFETY: the upvalue is Lua's own function, which leaves a thread, or a function whose first
    // upvalue is one; nothing here has to be dropped.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        ffi::lua_settop(state, 1);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 1, 1);
        ffi::lua_checkstack(state, 1);
        if ffi::lua_isthread(state, -1) != 0 {
            count(ffi::lua_tothread(state, -1));
        } else if !ffi::lua_getupvalue(state, -1, 1).is_null() {
            count(ffi::lua_tothread(state, -1));
            ffi::lua_settop(state, 1);
        }
    }
    1
}

/// Has the instructions of a coroutine counted, unless it has another hook.
///
/// # Safety
/// `state` is null, or alive and of a VM that was armed. Accesses fields of it only, so it may be
/// called by the handler of a signal and by an allocator.
pub(crate) unsafe fn count(state: LuaState) {
    // SAFETY: promised by the caller.
    unsafe {
        if !state.is_null() && ffi::lua_gethook(state).is_none() {
            ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, HOOK_STEP as c_int);
        }
    }
}

/// `string.rep`, limited by the memory that the VM may still allocate.
unsafe extern "C-unwind" fn repeated(state: LuaState) -> c_int {
    // SAFETY: the upvalues are the VM and Lua's own function; nothing here has to be dropped.
    unsafe {
        let text = stack::bytes(state, 1).map_or(0, <[u8]>::len);
        let between = stack::bytes(state, 3).map_or(0, <[u8]>::len);
        let times = usize::try_from(ffi::lua_tointeger(state, 2)).unwrap_or(0);
        let takes = (text + between).saturating_mul(times);
        let meter = &raw_function::vm(state).meter;
        if takes >= METER_REFUSED_BYTES && meter.used().saturating_add(takes) > meter.limit() {
            stack::raise(state, "not enough memory");
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, 1);
    }
    1
}

/// The VM whose states count instructions; null in one that was not armed.
///
/// # Safety
/// `state` is alive and has a free slot.
unsafe fn counted_vm(state: LuaState) -> *const Vm {
    // SAFETY: promised by the caller; the pointer is the one that `arm` has stored.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, (&raw const KEY).cast::<c_void>());
        let vm = ffi::lua_touserdata(state, -1).cast::<Vm>();
        ffi::lua_settop(state, -2);
        vm
    }
}

/// True if a sample of a profile may replace the hook of a thread for one instruction: it has none,
/// or counts instructions and is within its budget. A coroutine over its budget keeps its hook,
/// which ends it.
///
/// # Safety
/// `state` is alive. Accesses fields of it only, so it may be called by the handler of a signal.
pub(crate) unsafe fn may_sample(state: LuaState) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_gethook(state).is_none_or(|found| {
            std::ptr::fn_addr_eq(found, hook as ffi::lua_Hook)
                && ffi::lua_gethookcount(state) == HOOK_STEP as c_int
        })
    }
}

/// Counts instructions again after a sample has replaced the hook, in a VM that counts them.
///
/// The count began again with the sample, so that one is charged as a whole step: a turn that is
/// sampled often may end early, and none runs longer than it may.
///
/// # Safety
/// Called last in a hook that holds nothing to drop: this may leave it by an error.
pub(crate) unsafe fn after_sample(state: LuaState, event: *mut ffi::lua_Debug) {
    // SAFETY: promised by the caller.
    unsafe {
        if !counted_vm(state).is_null() {
            ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, HOOK_STEP as c_int);
            hook(state, event);
        }
    }
}

unsafe extern "C-unwind" fn hook(state: LuaState, _: *mut ffi::lua_Debug) {
    // SAFETY: called by Lua with room for some values; nothing here has to be dropped. A yield in a
    // count hook returns, and happens once the hook has.
    unsafe {
        let vm = counted_vm(state);
        if vm.is_null() {
            return;
        }
        let (guard, meter) = (&(*vm).guard, &(*vm).meter);
        // Without signals the watchdog could not have a long turn counted.
        let running = meter.running();
        let is_of_vm = cfg!(target_os = "linux") && std::ptr::eq(state, running);
        if is_of_vm && !guard.counts() && meter.used() < meter.limit() {
            ffi::lua_sethook(state, None, 0, 0);
            return;
        }
        if let Some(traceback) = guard.pulse().and_then(|pulse| pulse.log_if_requested(state)) {
            (*vm).record_long_turn(traceback);
        }
        let Some(over) = guard.exceeded_limit(meter, state) else {
            if ffi::lua_gethookcount(state) != HOOK_STEP as c_int {
                ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, HOOK_STEP as c_int);
            }
            return;
        };
        // The hook runs before each instruction from now on, so a `pcall` gets no further than the
        // next; neither does the coroutine of the VM if this one is of a script.
        ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1);
        if !running.is_null() {
            guard.exceed(over);
            ffi::lua_sethook(running, Some(hook), ffi::LUA_MASKCOUNT, 1);
        }
        // No error: a coroutine that one leaves from its hook would call no hook any more, not even
        // while its `<close>` variables are closed.
        if ffi::lua_isyieldable(state) != 0 {
            ffi::lua_yield(state, 0);
            return;
        }
        stack::push(state, over.text().as_bytes());
        ffi::lua_error(state);
    }
}
