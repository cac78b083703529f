//! Failed coroutines of a debugged program, whose stacks stay until the debugger continues them.

use std::cell::Cell;
use std::ffi::c_void;

use mlua::ffi;

use super::Vm;
use crate::stack::LuaState;
use crate::tasks::TaskStatus;

/// The registry key of the debugger's function is the address of this static.
static KEY: u8 = 0;

fn key() -> *const c_void {
    (&raw const KEY).cast()
}

/// Failed coroutines whose end a debugger has delayed: at most one.
#[derive(Default)]
pub(crate) struct FailedTasks {
    are_debugged: Cell<bool>,
    kept: Cell<Option<u32>>,
}

impl FailedTasks {
    /// Stores the function on top of the stack, or nil.
    ///
    /// # Safety
    /// Called from a raw function.
    pub(crate) unsafe fn set_function(&self, state: LuaState, is_set: bool) {
        // SAFETY: the function leaves the stack for the registry.
        unsafe { ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key()) };
        self.are_debugged.set(is_set);
    }

    /// Forgets a coroutine that was cancelled.
    pub(super) fn forget(&self, index: u32) {
        if self.kept.get() == Some(index) {
            self.kept.set(None);
        }
    }
}

impl Vm {
    /// True if the end of a coroutine that has failed is delayed: its stack stays as it is.
    pub(super) fn keeps_failed(&self, index: u32, thread: LuaState) -> bool {
        if self.failed_tasks.kept.get() == Some(index) {
            self.failed_tasks.kept.set(None);
            // SAFETY: the resume that ends the delay has left an error of its own on the stack.
            unsafe { ffi::lua_settop(thread, -2) };
            return false;
        }
        // SAFETY: the thread has failed: its error is on top of its stack.
        let keeps =
            self.failed_tasks.are_debugged.get() && unsafe { call_on_failure(self.main, thread) };
        if keeps {
            self.failed_tasks.kept.set(Some(index));
            self.tasks(|tasks| tasks.get(index).status = TaskStatus::Wait);
        }
        keeps
    }

    /// Makes a coroutine ready to end; false if its end is not delayed.
    pub(crate) fn release_failed(&self, thread: LuaState) -> bool {
        let Some(index) = self.failed_tasks.kept.get() else { return false };
        self.tasks(|tasks| {
            let task = tasks.get(index);
            let waits = task.thread == thread && task.status == TaskStatus::Wait;
            if waits {
                tasks.make_ready(index, 0);
            }
            waits
        })
    }
}

/// Calls the function of `on_failure`; false if it fails or there is none.
///
/// # Safety
/// `thread` has failed, and no Lua runs.
unsafe fn call_on_failure(main: LuaState, thread: LuaState) -> bool {
    // SAFETY: the error moves to the main stack and back, which gives the thread room for itself;
    // both stacks are left as they were.
    unsafe {
        let top = ffi::lua_gettop(main);
        ffi::luaL_checkstack(main, 5, std::ptr::null());
        ffi::lua_xmove(thread, main, 1);
        let mut keeps = false;
        if ffi::lua_rawgetp(main, ffi::LUA_REGISTRYINDEX, key()) == ffi::LUA_TFUNCTION {
            ffi::lua_pushthread(thread);
            ffi::lua_xmove(thread, main, 1);
            ffi::lua_pushvalue(main, top + 1);
            let called = ffi::lua_pcall(main, 2, 1, 0);
            keeps = called == ffi::LUA_OK && ffi::lua_toboolean(main, -1) != 0;
        }
        ffi::lua_settop(main, top + 1);
        ffi::lua_xmove(main, thread, 1);
        keeps
    }
}
