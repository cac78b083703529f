//! `task`: coroutines as the scheduler sees them.
//!
//! Promises Silly's names and rules: `fork` and `wakeup` queue and never run anything, `wait`
//! raises outside a coroutine of the scheduler, `wakeup` raises an error with "BUG" in it if its
//! target does not wait, and a wake carries one value. Hooks are in `lua/task.lua`.

use std::ffi::c_int;

use mlua::{Lua, Result, Table, ffi};
use telemetry::event;
use telemetry::log::Level;

use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// The functions of the module.
pub fn functions(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let functions: &[raw_function::NamedFunction] = &[
        (c"running", running),
        (c"fork", fork),
        (c"wait", wait),
        (c"wakeup", wakeup),
        (c"status", status),
        (c"readycount", ready_count),
        (c"inspect", inspect),
        (c"error", error),
        (c"sethooks", set_hooks),
    ];
    raw_function::table(lua, &vm, functions)
}

/// `running() → thread`
unsafe extern "C-unwind" fn running(state: LuaState) -> c_int {
    // SAFETY: pushes one value.
    unsafe { ffi::lua_pushthread(state) };
    1
}

/// `fork(fn, …) → thread`: queues a coroutine that calls `fn(…)`.
unsafe extern "C-unwind" fn fork(state: LuaState) -> c_int {
    // SAFETY: the new thread is empty and gets the function and its arguments, at most as many as
    // a call may have.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        let vm = raw_function::vm(state);
        let count = ffi::lua_gettop(state);
        let index = vm.new_task();
        let thread = vm.tasks(|tasks| tasks.get(index).thread);
        if ffi::lua_checkstack(thread, count + 1) == 0 {
            vm.tasks(|tasks| tasks.retire(index));
            stack::raise(state, "fork: too many arguments");
        }
        ffi::lua_xmove(state, thread, count);
        vm.tasks(|tasks| tasks.make_ready(index, count - 1));
        ffi::lua_pushthread(thread);
        ffi::lua_xmove(thread, state, 1);
    }
    1
}

/// `wait() → value`
unsafe extern "C-unwind" fn wait(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped when the coroutine is left.
    unsafe {
        if raw_function::vm(state).waiter(state).is_none() {
            stack::raise(state, "BUG: task.wait outside a running task");
        }
        ffi::lua_yieldk(state, 0, 0, None)
    }
}

/// `wakeup(thread[, value])`
unsafe extern "C-unwind" fn wakeup(state: LuaState) -> c_int {
    // SAFETY: the thread waits, so its stack takes the value of its wake.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTHREAD);
        let vm = raw_function::vm(state);
        let thread = ffi::lua_tothread(state, 1);
        let Some(id) = vm.waiting_task(thread) else {
            stack::raise(state, "BUG: task.wakeup of a task that does not wait");
        };
        ffi::lua_settop(state, 2);
        vm.wake_with(id, |thread| {
            ffi::lua_xmove(state, thread, 1);
            1
        });
    }
    0
}

/// `status(thread) → "RUN" | "WAIT" | "READY" | nil`
unsafe extern "C-unwind" fn status(state: LuaState) -> c_int {
    // SAFETY: the argument is checked to be a thread.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTHREAD);
        let thread = ffi::lua_tothread(state, 1);
        let word = raw_function::vm(state).tasks(|tasks| {
            let index = tasks.of_thread(thread)?;
            tasks.get(index).status.word()
        });
        match word {
            Some(word) => stack::push(state, word.as_bytes()),
            None => ffi::lua_pushnil(state),
        }
    }
    1
}

/// `readycount() → integer`
unsafe extern "C-unwind" fn ready_count(state: LuaState) -> c_int {
    // SAFETY: pushes one value.
    unsafe {
        let count = raw_function::vm(state).tasks(|tasks| tasks.ready_count());
        ffi::lua_pushinteger(state, count as i64);
    }
    1
}

/// `inspect() → { [thread] = { traceback, status } }`
unsafe extern "C-unwind" fn inspect(state: LuaState) -> c_int {
    // SAFETY: indexes are looked up again each time, as building the tables may run the collector;
    // no other coroutine ends while this one runs.
    unsafe {
        let vm = raw_function::vm(state);
        ffi::lua_createtable(state, 0, 0);
        let mut index = 0;
        while let Some(task) = vm.tasks(|tasks| tasks.thread_at(index)) {
            index += 1;
            let (thread, Some(word)) = task else { continue };
            ffi::lua_pushthread(thread);
            if thread != state {
                ffi::lua_xmove(thread, state, 1);
            }
            ffi::lua_createtable(state, 0, 2);
            ffi::luaL_traceback(state, thread, std::ptr::null(), 0);
            ffi::lua_setfield(state, -2, c"traceback".as_ptr());
            stack::push(state, word.as_bytes());
            ffi::lua_setfield(state, -2, c"status".as_ptr());
            ffi::lua_rawset(state, -3);
        }
    }
    1
}

/// `sethooks(create | nil, term | nil)`
unsafe extern "C-unwind" fn set_hooks(state: LuaState) -> c_int {
    // SAFETY: the references go to the VM, which lets them go.
    unsafe {
        for place in 1..=2 {
            if ffi::lua_type(state, place) > ffi::LUA_TNIL {
                ffi::luaL_checktype(state, place, ffi::LUA_TFUNCTION);
            }
        }
        ffi::lua_settop(state, 2);
        let mut references = [0; 2];
        // In reverse: a reference pops its value.
        for reference in references.iter_mut().rev() {
            match ffi::lua_type(state, -1) {
                ffi::LUA_TNIL => ffi::lua_settop(state, -2),
                _ => *reference = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX),
            }
        }
        let [begins, ends] = references;
        raw_function::vm(state).set_hooks(begins, ends);
    }
    0
}

/// `error(message)`: logs it with a traceback and continues.
unsafe extern "C-unwind" fn error(state: LuaState) -> c_int {
    // SAFETY: the text stays on the stack while it is read, and nothing raises.
    unsafe {
        ffi::lua_settop(state, 1);
        let text = ffi::luaL_tolstring(state, 1, std::ptr::null_mut());
        ffi::luaL_traceback(state, state, text, 1);
        let text = String::from_utf8_lossy(stack::bytes(state, -1).unwrap_or_default());
        let (message, traceback) = text.split_once('\n').unwrap_or((&text, ""));
        event!(
            Level::Error,
            "reported by a Lua program",
            error = message,
            traceback = traceback,
            trace_id = raw_function::vm(state).request_trace_id()
        );
    }
    0
}
