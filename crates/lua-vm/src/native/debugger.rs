//! `debugger`: hooks that may pause the coroutine whose line is about to run, or that has failed.
//!
//! `lua/debugger.lua` decides by functions; a paused coroutine waits until it is woken. Without a
//! session there is no hook, and a VM pays nothing.

use std::ffi::{c_int, c_void};

use mlua::{Lua, Result, Table, ffi};

use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// The registry key of the function is the address of this static.
static KEY: u8 = 0;

fn key() -> *const c_void {
    (&raw const KEY).cast()
}

/// The functions of the module.
pub fn functions(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let named: &[raw_function::NamedFunction] =
        &[(c"hook", set_hook), (c"on_failure", set_failure_hook), (c"wake", wake)];
    raw_function::table(lua, &vm, named)
}

/// `hook(fn | nil) → true | nil, reason`: `fn(line, may_pause)` is called before each line of each
/// coroutine, which waits if it returns true.
unsafe extern "C-unwind" fn set_hook(state: LuaState) -> c_int {
    // SAFETY: hooks are set on threads that the VM keeps alive; Lua allows that at any time.
    unsafe {
        let vm = raw_function::vm(state);
        let before = ffi::lua_gethook(vm.main());
        if before.is_some_and(|hook| !std::ptr::fn_addr_eq(hook, on_line as ffi::lua_Hook)) {
            return stack::refuse(state, "handlers of a server have a budget: debug a program");
        }
        ffi::lua_settop(state, 1);
        let (hook, mask): (Option<ffi::lua_Hook>, c_int) = match ffi::lua_type(state, 1) {
            ffi::LUA_TNIL => (None, 0),
            _ => {
                ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
                (Some(on_line), ffi::LUA_MASKLINE)
            }
        };
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key());
        // New coroutines have the hook of the main one.
        ffi::lua_sethook(vm.main(), hook, mask, 0);
        let mut index = 0;
        while let Some((thread, _)) = vm.tasks(|tasks| tasks.thread_at(index)) {
            index += 1;
            if !thread.is_null() {
                ffi::lua_sethook(thread, hook, mask, 0);
            }
        }
        ffi::lua_pushboolean(state, 1);
    }
    1
}

/// `on_failure(fn | nil)`: `fn(thread, error)` is called when a coroutine has failed with an
/// uncaught error. If it returns true, the coroutine keeps its stack until it is woken, and ends
/// then.
unsafe extern "C-unwind" fn set_failure_hook(state: LuaState) -> c_int {
    // SAFETY: the function leaves the stack for the registry.
    unsafe {
        ffi::lua_settop(state, 1);
        let is_set = ffi::lua_type(state, 1) != ffi::LUA_TNIL;
        if is_set {
            ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        }
        raw_function::vm(state).failed_tasks.set_function(state, is_set);
    }
    0
}

/// `wake(thread) → boolean`: continues a coroutine that a hook has paused. It gets no value: the
/// stack of a function that was interrupted has no room for one.
unsafe extern "C-unwind" fn wake(state: LuaState) -> c_int {
    // SAFETY: the argument is checked to be a thread.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTHREAD);
        let (vm, thread) = (raw_function::vm(state), ffi::lua_tothread(state, 1));
        let paused = vm.tasks(|tasks| Some(tasks.id(tasks.of_thread(thread)?)));
        let is_woken =
            paused.is_some_and(|id| vm.wake_with(id, |_| 0)) || vm.release_failed(thread);
        ffi::lua_pushboolean(state, c_int::from(is_woken));
    }
    1
}

unsafe extern "C-unwind" fn on_line(state: LuaState, event: *mut ffi::lua_Debug) {
    // SAFETY: called by Lua with room for some values; nothing here has to be dropped. A yield in a
    // hook of lines returns, and happens once the hook has.
    unsafe {
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key()) != ffi::LUA_TFUNCTION {
            return ffi::lua_settop(state, -2);
        }
        ffi::lua_pushinteger(state, (*event).currentline.into());
        let may_pause = ffi::lua_isyieldable(state);
        ffi::lua_pushboolean(state, may_pause);
        let called = ffi::lua_pcall(state, 2, 1, 0);
        let pauses = called == ffi::LUA_OK && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, -2);
        if pauses && may_pause != 0 {
            ffi::lua_yield(state, 0);
        }
    }
}
