//! `task.hook`: functions of a script that are called at every coroutine's beginning and end.
//!
//! Promises that both are called for each coroutine of the scheduler, however it began and ended;
//! that neither can wait or end one; and that its error is only logged. A VM without hooks pays for
//! one comparison.

use std::ffi::c_int;

use mlua::ffi;
use telemetry::event_limited;
use telemetry::log::Level;

use super::Vm;
use crate::limits::ERROR_LINES_PER_SECOND;
use crate::profile;
use crate::stack;
use crate::tasks::TaskStatus;

/// References of the registry; 0 where there is none.
#[derive(Clone, Copy, Default)]
pub(crate) struct TaskHooks {
    begins: c_int,
    ends: c_int,
    /// 1 while a time line is recorded.
    traced: c_int,
}

impl TaskHooks {
    fn are_set(self) -> bool {
        self.begins | self.ends | self.traced != 0
    }
}

impl Vm {
    /// Replaces the hooks; the VM owns the references.
    pub(crate) fn set_hooks(&self, begins: c_int, ends: c_int) {
        let before = self.hooks.get();
        self.hooks.set(TaskHooks { begins, ends, ..before });
        for reference in [before.begins, before.ends] {
            if reference != 0 {
                // SAFETY: the reference was given to the VM and is released once.
                unsafe { ffi::luaL_unref(self.main, ffi::LUA_REGISTRYINDEX, reference) };
            }
        }
    }

    /// Begins or ends that a time line is told what runs.
    pub(super) fn trace_tasks(&self, is_traced: bool) {
        self.hooks.set(TaskHooks { traced: c_int::from(is_traced), ..self.hooks.get() });
    }

    /// True while a time line is recorded.
    pub(super) fn is_traced(&self) -> bool {
        self.hooks.get().traced != 0
    }

    /// Calls the hook of beginnings for a coroutine that is about to run first, and tells the time
    /// line of each that runs.
    #[inline]
    pub(super) fn call_begin_hook(&self, index: u32) {
        let hooks = self.hooks.get();
        if hooks.are_set() {
            let thread = self.tasks(|tasks| tasks.get(index).thread);
            if hooks.traced != 0 {
                // SAFETY: the thread is anchored and about to run.
                unsafe { profile::task_runs(index, thread) };
            }
            // SAFETY: the thread is anchored.
            if unsafe { ffi::lua_status(thread) } == ffi::LUA_OK {
                self.call_hook(hooks.begins, index);
            }
        }
    }

    /// Calls the hook of ends for a coroutine that has ended.
    #[inline]
    pub(super) fn call_end_hook(&self, index: u32) {
        let hooks = self.hooks.get();
        if hooks.are_set() && self.tasks(|tasks| tasks.get(index).status) != TaskStatus::Spare {
            self.call_hook(hooks.ends, index);
        }
    }

    #[cold]
    fn call_hook(&self, hook: c_int, index: u32) {
        if hook == 0 || self.exit.get().is_some() {
            return;
        }
        let thread = self.tasks(|tasks| tasks.get(index).thread);
        // SAFETY: no Lua runs; the hook and the thread are pushed on the main stack, which is left
        // as it was found.
        unsafe {
            let top = ffi::lua_gettop(self.main);
            ffi::lua_checkstack(self.main, 4);
            ffi::lua_rawgeti(self.main, ffi::LUA_REGISTRYINDEX, i64::from(hook));
            ffi::lua_pushthread(thread);
            ffi::lua_xmove(thread, self.main, 1);
            if ffi::lua_pcall(self.main, 1, 0, 0) != ffi::LUA_OK {
                self.failures.set(self.failures.get() + 1);
                let why = stack::bytes(self.main, -1).unwrap_or(b"an error that is not text");
                let why = String::from_utf8_lossy(why);
                event_limited!(
                    ERROR_LINES_PER_SECOND,
                    Level::Error,
                    "Lua task hook failed",
                    error = why
                );
            }
            ffi::lua_settop(self.main, top);
        }
    }
}
