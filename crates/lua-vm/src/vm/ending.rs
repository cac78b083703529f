//! Ends of coroutines: return, error, exceeded budget, cancellation.
//!
//! Promises that the observer is called once, that an error is logged with its traceback, that what
//! runs while `<close>` variables are closed is counted, and that the thread is empty afterwards.
//! The thread of a coroutine that has returned is reused, that of another is not: locks of a script
//! may still have it as their holder.

use std::ffi::c_int;

use message::Request;
use mlua::{MultiValue, Result, ffi};
use telemetry::log::Level;
use telemetry::{ErrorRecord, event};

use super::Vm;
use crate::errors;
use crate::guard;
use crate::ids::{CallId, TaskId};
use crate::stack::{self, LuaState};
use crate::tasks::{EndObserver, Task, TaskEnd, TaskError, TaskStatus};
use crate::watchdog::LONG_TURN;

impl Vm {
    /// Removes a coroutine whose thread a script has closed with `coroutine.close` while it waited.
    pub(crate) fn remove_closed(&self, task: TaskId) {
        // Whatever ran while it was closed may have removed it.
        let found = self.tasks(|tasks| {
            let index = tasks.find(task)?;
            let waits = tasks.get(index).status == TaskStatus::Wait;
            waits.then(|| (index, tasks.get(index).thread, tasks.timer_of(index)))
        });
        if let Some((index, thread, timer)) = found {
            self.timers.cancel_wake(timer, task);
            self.abandon(index, thread);
        }
    }

    /// Ends a coroutine whose thread a script has closed with `coroutine.close`.
    pub(super) fn abandon(&self, index: u32, thread: LuaState) {
        const CLOSED: &str = "task closed with coroutine.close, removed from the scheduler";
        event!(Level::Warn, CLOSED);
        self.close_thread(self.tasks(|tasks| tasks.call(index)), thread);
        self.failed_tasks.forget(index);
        match self.tasks(|tasks| tasks.take_observer(index)) {
            EndObserver::Call(call) => self.calls.ended(call, false),
            EndObserver::Callback(ended) if self.exit.get().is_none() => {
                let error = TaskError { message: CLOSED.to_owned(), traceback: String::new() };
                ended(&self.lua, TaskEnd::Failed(error));
            }
            EndObserver::Ignored | EndObserver::Callback(_) => {}
        }
        self.give_up(index);
    }

    pub(super) fn returned(&self, index: u32, thread: LuaState, results: c_int) {
        match self.tasks(|tasks| tasks.take_observer(index)) {
            EndObserver::Ignored => {}
            EndObserver::Call(call) => self.calls.ended(call, true),
            EndObserver::Callback(ended) => {
                let values = self.take_from(thread, results).unwrap_or_default();
                ended(&self.lua, TaskEnd::Returned(values));
            }
        }
        self.retire(index);
    }

    /// Takes the topmost values of a thread that does not run.
    fn take_from(&self, thread: LuaState, count: c_int) -> Result<MultiValue> {
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

    pub(super) fn failed(&self, index: u32, thread: LuaState) {
        if self.exit.get().is_none() && self.keeps_failed(index, thread) {
            return;
        }
        let call = self.tasks(|tasks| tasks.call(index));
        let error = self.report(call, thread);
        self.close_thread(call, thread);
        match self.tasks(|tasks| tasks.take_observer(index)) {
            EndObserver::Call(call) => self.calls.ended(call, false),
            EndObserver::Callback(ended) if self.exit.get().is_none() => {
                if let Some(error) = error {
                    ended(&self.lua, TaskEnd::Failed(error));
                }
            }
            EndObserver::Ignored => {
                if let Some(error) = error {
                    // The first one stays.
                    let _ = self.first_failure.set(error);
                }
            }
            EndObserver::Callback(_) => {}
        }
        self.give_up(index);
    }

    /// Logs, records and counts the error on top of a thread's stack, unless the program exits.
    fn report(&self, call: Option<CallId>, thread: LuaState) -> Option<TaskError> {
        self.failures.set(self.failures.get() + 1);
        if self.exit.get().is_some() {
            return None;
        }
        let trace = call.and_then(|call| self.calls.with_request(call, Request::trace_id));
        let error = errors::report(self.main, thread, trace.flatten());
        if let Some(recorder) = self.error_recorder.get() {
            let TaskError { message, traceback } = error.clone();
            let file = errors::file_of(thread);
            let shown = ErrorRecord { file, message, traceback, ..self.error_of_request(call) };
            recorder.record(shown);
        }
        Some(error)
    }

    /// The parts of an error that the request of its coroutine determines.
    fn error_of_request(&self, call: Option<CallId>) -> ErrorRecord {
        let of_request = |request: &Request| ErrorRecord {
            route: request.route.as_ref().map(|route| route.name.to_string()),
            trace_id: request.trace_id(),
            ..ErrorRecord::default()
        };
        call.and_then(|call| self.calls.with_request(call, of_request)).unwrap_or_default()
    }

    /// Records the stack of a turn that has been running for long.
    pub(crate) fn record_long_turn(&self, traceback: String) {
        if let Some(recorder) = self.error_recorder.get() {
            let call = self.tasks(|tasks| tasks.current().and_then(|index| tasks.call(index)));
            let error = self.error_of_request(call);
            let message = LONG_TURN.to_owned();
            recorder.note(ErrorRecord { message, traceback, ..error });
        }
    }

    /// Ends a coroutine that has exceeded a budget, whatever its last resume returned: most have
    /// yielded from the hook. It is never resumed.
    pub(super) fn stop(&self, index: u32, thread: LuaState) {
        let why = self.guard.take_exceeded();
        // SAFETY: the thread does not run, and never continues with the stack it has.
        unsafe {
            ffi::lua_checkstack(thread, 2);
            stack::push(thread, why.as_bytes());
        }
        self.failed(index, thread);
    }

    /// Cancels a coroutine that waits: its `<close>` variables are closed, what it waits for wakes
    /// nothing, and its observer is not called.
    pub(crate) fn cancel(&self, index: u32) {
        let (thread, call, observer, timer, id) = {
            let mut tasks = self.tasks.borrow_mut();
            let Task { status: TaskStatus::Wait, thread, .. } = *tasks.get(index) else { return };
            let (call, timer) = (tasks.call(index), tasks.timer_of(index));
            (thread, call, tasks.take_observer(index), timer, tasks.id(index))
        };
        drop(observer);
        self.failed_tasks.forget(index);
        // There is nothing to wake; the timer must not stay until its deadline.
        self.timers.cancel_wake(timer, id);
        // What runs while it is closed must not cancel it once more.
        self.tasks(|tasks| tasks.get(index).status = TaskStatus::Run);
        self.close_thread(call, thread);
        // A queue that still holds the thread must not wake another coroutine with it.
        self.give_up(index);
    }

    /// Closes what a coroutine that does not run has left open (`local x <close>`), counted as the
    /// turn is. An error of that is reported, unless it is the one that the coroutine failed with.
    fn close_thread(&self, call: Option<CallId>, thread: LuaState) {
        // A coroutine that closes another one is stopped for it: the VM still runs the first.
        let is_outermost = self.meter.running().is_null();
        if is_outermost {
            self.meter.runs(Some(thread));
        }
        // SAFETY: the thread does not run, and is counted in a VM that was armed. A copy of its
        // error is on the main stack until the end, where that of closing comes for a comparison.
        unsafe {
            if self.guard.counts() || !is_outermost && self.guard.is_counted() {
                guard::count(thread);
            }
            let top = ffi::lua_gettop(self.main);
            ffi::lua_checkstack(self.main, 3);
            if ffi::lua_status(thread) > ffi::LUA_YIELD {
                ffi::lua_xmove(thread, self.main, 1);
                ffi::lua_pushvalue(self.main, -1);
                ffi::lua_xmove(self.main, thread, 1);
            } else {
                ffi::lua_pushnil(self.main);
            }
            if ffi::lua_closethread(thread, self.main) != ffi::LUA_OK {
                ffi::lua_xmove(thread, self.main, 1);
                let is_known = ffi::lua_rawequal(self.main, -1, -2) != 0;
                ffi::lua_xmove(self.main, thread, 1);
                if !is_known {
                    self.report(call, thread);
                }
            }
            ffi::lua_settop(self.main, top);
        }
        if is_outermost {
            self.meter.runs(None);
            if self.guard.is_over() {
                self.guard.take_exceeded();
            }
        }
    }

    /// Removes a coroutine and its thread, which is not reused.
    fn give_up(&self, index: u32) {
        self.call_end_hook(index);
        let anchor = self.tasks.borrow_mut().give_up(index);
        // SAFETY: the anchor was made for this thread and is released once.
        unsafe { ffi::luaL_unref(self.main, ffi::LUA_REGISTRYINDEX, anchor) };
    }

    /// Empties the thread for the next function.
    pub(super) fn retire(&self, index: u32) {
        self.call_end_hook(index);
        let thread = self.tasks.borrow_mut().get(index).thread;
        // SAFETY: the thread does not run.
        unsafe { ffi::lua_settop(thread, 0) };
        let given_up = self.tasks.borrow_mut().retire(index);
        if let Some(anchor) = given_up {
            // SAFETY: the anchor was made for this thread and is released once.
            unsafe { ffi::luaL_unref(self.main, ffi::LUA_REGISTRYINDEX, anchor) };
        }
    }
}
