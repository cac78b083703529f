//! How coroutines end: by returning, by an error, over their budget, closed from outside.
//!
//! Promises that whoever waits for the end hears of it once, that an error is logged with its
//! traceback, and that the thread is empty and good for another coroutine afterwards.

use std::ffi::c_int;

use mlua::{MultiValue, Result, ffi};
use telemetry::event;
use telemetry::log::Level;

use super::Vm;
use crate::errors;
use crate::stack::{self, State};
use crate::tasks::{End, Ended, Status};

impl Vm {
    fn take_ended(&self, index: u32) -> Ended {
        std::mem::take(&mut self.tasks.borrow_mut().get(index).ended)
    }

    /// A coroutine whose thread a script has closed under the scheduler's feet is over.
    pub(super) fn abandon(&self, index: u32, thread: State) {
        event!(Level::Error, "a task was closed with coroutine.close; it is over");
        // SAFETY: the thread does not run.
        unsafe { ffi::lua_closethread(thread, self.main) };
        if let Ended::Call(call) = self.take_ended(index) {
            self.calls.ended(call, false);
        }
        self.retire(index);
    }

    pub(super) fn returned(&self, index: u32, thread: State, results: c_int) {
        match self.take_ended(index) {
            Ended::Nobody => {}
            Ended::Call(call) => self.calls.ended(call, true),
            Ended::Told(ended) => {
                let values = self.take_from(thread, results).unwrap_or_default();
                ended(&self.lua, End::Returned(values));
            }
        }
        self.retire(index);
    }

    /// Takes the topmost values of a thread that does not run.
    fn take_from(&self, thread: State, count: c_int) -> Result<MultiValue> {
        if count == 0 {
            return Ok(MultiValue::new());
        }
        // SAFETY: `exec_raw` gives a stack with room for what is moved, checked before.
        unsafe {
            self.lua.exec_raw((), |state| {
                ffi::luaL_checkstack(state, count, std::ptr::null());
                ffi::lua_xmove(thread, state, count);
            })
        }
    }

    pub(super) fn failed(&self, index: u32, thread: State) {
        let text = errors::report(self, thread);
        self.failures.set(self.failures.get() + 1);
        // Closes what the coroutine left open (`local x <close>`); such a thread is good as new.
        // SAFETY: the thread ended with an error and is not running.
        unsafe { ffi::lua_closethread(thread, self.main) };
        match self.take_ended(index) {
            Ended::Call(call) => self.calls.ended(call, false),
            Ended::Told(ended) if self.exit.get().is_none() => {
                ended(&self.lua, End::Failed(text));
            }
            Ended::Told(_) | Ended::Nobody => {}
        }
        self.retire(index);
    }

    /// Ends a coroutine that has used up its turn: it yielded from the hook and is never resumed.
    pub(super) fn stop(&self, index: u32, thread: State) {
        let why = self.guard.forgive();
        // SAFETY: the thread is suspended, and never goes on with the stack it has.
        unsafe {
            ffi::lua_checkstack(thread, 2);
            stack::push(thread, why.as_bytes());
        }
        self.failed(index, thread);
    }

    /// Closes a coroutine that waits: what it left open is closed, what it waits for wakes nobody,
    /// and nobody hears of it.
    pub(crate) fn cancel(&self, index: u32) {
        let (thread, ended, sleeps) = {
            let mut tasks = self.tasks.borrow_mut();
            let task = tasks.get(index);
            if task.status != Status::Wait {
                return;
            }
            (task.thread, std::mem::take(&mut task.ended), task.sleeps.take())
        };
        drop(ended);
        if let Some(session) = sleeps {
            // Nobody is there to be woken; the place must not be kept until then.
            self.timers.cancel_wake(session);
        }
        // SAFETY: the thread is suspended.
        unsafe { ffi::lua_closethread(thread, self.main) };
        // Whoever still has it in a queue must not wake another coroutine in its place.
        self.tell_end(index);
        let anchor = self.tasks.borrow_mut().give_up(index);
        // SAFETY: the anchor was made for this thread and is let go once.
        unsafe { ffi::luaL_unref(self.main, ffi::LUA_REGISTRYINDEX, anchor) };
    }

    /// The thread, emptied, is ready for another function.
    pub(super) fn retire(&self, index: u32) {
        self.tell_end(index);
        let thread = self.tasks.borrow_mut().get(index).thread;
        // SAFETY: the thread does not run.
        unsafe { ffi::lua_settop(thread, 0) };
        let given_up = self.tasks.borrow_mut().retire(index);
        if let Some(anchor) = given_up {
            // SAFETY: the anchor was made for this thread and is let go once.
            unsafe { ffi::luaL_unref(self.main, ffi::LUA_REGISTRYINDEX, anchor) };
        }
    }
}
