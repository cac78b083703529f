//! The handle of a call.
//!
//! Promises that dropping it before the end cancels the coroutine: that is how a client that
//! disconnects ends its handler.

use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll};

use message::{Body, Request, Response};
use mlua::ffi;

use super::call::Call;
use super::object;
use super::object_kind::{REQUEST, RESPONSE};
use super::running::{FunctionRef, RunningVm};
use crate::ids::CallId;
use crate::tasks::EndObserver;

/// The handle of a call; it keeps the VM alive, and dropping it ends the call.
pub struct CallHandle {
    pub(super) running: Rc<RunningVm>,
    id: CallId,
    call: NonNull<Call>,
}

impl CallHandle {
    /// Calls `look` with the call, which lives as long as its handle. `look` must not run Lua.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Call) -> R) -> R {
        // SAFETY: a boxed call does not move, and is closed by its handle or after it; no Lua runs,
        // and references to it live no longer than a `look`.
        look(unsafe { &mut *self.call.as_ptr() })
    }

    /// Moves the request into the call; the caller keeps an empty one.
    pub fn keep(&self, request: &mut Request) {
        let owned = Box::new(request.take());
        self.with(|call| {
            let owned = call.owned.insert(owned);
            call.request = &raw mut **owned;
        });
    }

    /// Moves the request back to the caller, once the coroutine has ended.
    pub fn give_back(&self, request: &mut Request) {
        if let Some(owned) = self.with(|call| call.owned.take()) {
            *request = *owned;
        }
    }

    /// Continues the read of a call; ready when its coroutine has been woken.
    pub(super) fn poll_body(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut reading) = self.with(|call| call.reading.take()) else { return Poll::Pending };
        let outcome = match reading.poll(cx) {
            Poll::Pending => {
                self.with(|call| call.reading = Some(reading));
                return Poll::Pending;
            }
            Poll::Ready(outcome) => outcome,
        };
        self.with(|call| match outcome {
            Ok(bytes) => {
                // SAFETY: the call keeps its request while its coroutine waits.
                unsafe { (*call.request).body = Body::from(bytes.clone()) };
                call.body = Some(bytes);
            }
            Err(fault) => call.fault = Some(fault),
        });
        self.running.vm().turn(|turn| turn.wake_with(reading.task, |_| 0));
        Poll::Ready(())
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        let vm = self.running.vm();
        if vm.is_turning() {
            // Lua's collector has dropped a response that another handler streams: the end of that
            // one needs a turn of its own.
            let CallHandle { id, call, .. } = *self;
            let later = CallHandle { running: self.running.clone(), id, call };
            net::task::spawn_local(async move { drop(later) });
            return;
        }
        let (ended, finished, task) = self.with(|call| {
            call.detached = true;
            // The caller's request must not be accessed from now on.
            (call.ended.is_some(), call.finished && call.owned.is_some(), call.task)
        });
        // Coroutines that read the body or write to the client are woken: both have ended.
        let waiting = self.with(Call::take_waiting);
        // A handler that has finished its response may continue with other work.
        let continues = !ended && finished;
        if !(ended || continues) {
            vm.turn(|turn| turn.cancel(task));
        }
        if !continues {
            vm.calls.close(self.id);
        }
        if !waiting.is_empty() {
            vm.turn(|turn| {
                for task in waiting {
                    turn.wake_with(task, |_| 0);
                }
            });
        }
    }
}

/// Calls `function(request, response)` in a new coroutine, until it first waits. The request is not
/// moved before that.
pub fn begin(
    function: &FunctionRef,
    request: &mut Request,
    response: Response,
    budget: u64,
) -> CallHandle {
    let running = function.running();
    let vm = running.vm();
    let (id, call) = vm.calls.open(request, response);
    let handle = CallHandle { running: running.clone(), id, call };
    let begun = vm.turn(|turn| {
        turn.guard.allow(budget);
        let index = turn.new_task();
        let thread = turn.tasks(|tasks| {
            tasks.observe(index, EndObserver::Call(id));
            tasks.get(index).thread
        });
        handle.with(|call| call.task = index);
        // SAFETY: the thread is empty and has room for a call's worth of values.
        unsafe {
            ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(function.reference()));
            object::push(thread, vm, REQUEST, id);
            object::push(thread, vm, RESPONSE, id);
        }
        turn.run(index, 2);
    });
    if begun.is_none() {
        // A VM that has exited runs nothing.
        vm.calls.ended(id, false);
    }
    handle
}
