//! `time`: clocks, sleeping, timers.
//!
//! Promises timers to the millisecond, never early; `after` and `cancel` never wait. Time-outs,
//! throttle and debounce are in `lua/time.lua`.

use std::ffi::c_int;
use std::num::NonZero;

use mlua::{Lua, Result, Table, ffi};

use crate::errno;
use crate::limits::TIMER_MS;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::timers::{TimerAction, TimerId};
use crate::vm::{Turn, Vm};

/// The functions of the module.
pub fn functions(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let functions: &[raw_function::NamedFunction] = &[
        (c"now", now),
        (c"monotonic", monotonic),
        (c"sleep", sleep),
        (c"after", after),
        (c"cancel", cancel),
    ];
    let raw = raw_function::table(lua, &vm, functions)?;
    raw.set("TIMEDOUT", errno::of_number(libc::ETIMEDOUT))?;
    Ok(raw)
}

/// Runs the function of a due `after` in a new coroutine.
pub(crate) fn call(
    turn: &Turn<'_>,
    session: TimerId,
    function: c_int,
    argument: Option<NonZero<c_int>>,
) {
    let index = turn.new_task();
    let thread = turn.tasks(|tasks| tasks.get(index).thread);
    // SAFETY: the references are those `after` made, used once and then released.
    unsafe {
        ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(function));
        match argument {
            Some(argument) => {
                ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(argument.get()));
            }
            None => ffi::lua_pushinteger(thread, session.to_number()),
        }
        release(thread, function, argument);
    }
    turn.run(index, 1);
}

/// # Safety
/// The references are from `luaL_ref` and not used afterwards.
unsafe fn release(state: LuaState, function: c_int, argument: Option<NonZero<c_int>>) {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::luaL_unref(state, ffi::LUA_REGISTRYINDEX, function);
        if let Some(argument) = argument {
            ffi::luaL_unref(state, ffi::LUA_REGISTRYINDEX, argument.get());
        }
    }
}

/// A span in milliseconds; negative is zero, beyond [`TIMER_MS`] raises.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
pub(crate) unsafe fn check_span(state: LuaState, index: c_int) -> u64 {
    // SAFETY: raising leaves nothing behind.
    unsafe {
        let ms = match ffi::lua_isinteger(state, index) {
            0 => ffi::luaL_checknumber(state, index).ceil() as i64,
            _ => ffi::lua_tointeger(state, index),
        };
        if ms > TIMER_MS {
            ffi::luaL_argerror(state, index, c"longer than 2^32-1 milliseconds".as_ptr());
        }
        ms.max(0) as u64
    }
}

/// `now() → ms`: the wall clock.
unsafe extern "C-unwind" fn now(state: LuaState) -> c_int {
    // SAFETY: pushes one value.
    unsafe {
        let ms = raw_function::vm(state).timers.wall_ms();
        ffi::lua_pushinteger(state, ms as i64);
    }
    1
}

/// `monotonic() → ms`: since the process began; never goes back.
unsafe extern "C-unwind" fn monotonic(state: LuaState) -> c_int {
    // SAFETY: pushes one value.
    unsafe {
        let ms = raw_function::vm(state).timers.now_ms();
        ffi::lua_pushinteger(state, ms as i64);
    }
    1
}

/// `sleep(ms)`
unsafe extern "C-unwind" fn sleep(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped when the coroutine is left.
    unsafe {
        let span_ms = check_span(state, 1);
        let vm = raw_function::vm(state);
        let Some(task) = vm.waiter(state) else {
            stack::raise(state, "only a task may sleep");
        };
        let session = vm.timers.set(span_ms, TimerAction::Wake(task));
        vm.tasks(|tasks| tasks.set_timer(task.index, session.index()));
        ffi::lua_yieldk(state, 0, 0, None)
    }
}

/// `after(ms, fn[, value]) → session`: calls `fn(value)`, or `fn(session)`, in a new coroutine.
unsafe extern "C-unwind" fn after(state: LuaState) -> c_int {
    // SAFETY: the references are let go when the timer is due or cancelled.
    unsafe {
        let span_ms = check_span(state, 1);
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        ffi::lua_settop(state, 3);
        // As in Silly, a false value counts as none. No reference is zero.
        let argument = (ffi::lua_toboolean(state, 3) != 0)
            .then(|| ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX))
            .and_then(NonZero::new);
        ffi::lua_settop(state, 2);
        let function = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
        let session =
            raw_function::vm(state).timers.set(span_ms, TimerAction::Call { function, argument });
        ffi::lua_pushinteger(state, session.to_number());
    }
    1
}

/// `cancel(session)`: ignored if there is no such timer or it was due.
unsafe extern "C-unwind" fn cancel(state: LuaState) -> c_int {
    // SAFETY: a cancelled timer gives up its references.
    unsafe {
        let session = TimerId::from_number(ffi::luaL_checkinteger(state, 1));
        let timers = &raw_function::vm(state).timers;
        if let Some(TimerAction::Call { function, argument }) = timers.cancel_call(session) {
            release(state, function, argument);
        }
    }
    0
}
