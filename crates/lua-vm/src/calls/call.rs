//! One call of a script's function for a request.
//!
//! Owns the request once the coroutine waits, and the response that the script makes. Promises that
//! an object of an ended call raises an error (a [`CallId`] is not reused within 2^32 calls), and
//! that dropping a [`CallHandle`] before the end cancels the coroutine: that is how a client that
//! disconnects ends its handler.
//!
//! Raw functions reach a [`Call`] by pointer, because pushing a value may run a finalizer which may
//! access the same call: no reference to one is held while Lua may run.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use message::{Body, Fault, Request, Response};
use mlua::ffi;
use slab::Slab;
use wire::Known;

use super::body_read::BodyRead;
use super::object::{self, Metatables};
use super::response_stream::ResponseStream;
use super::running::{FunctionRef, RunningVm};
use crate::limits::{KEPT_TEXT_BYTES, SPARE_CALLS};
use crate::tasks::{EndObserver, TaskId};

/// The id of a call; stale once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct CallId {
    index: u32,
    serial: u32,
}

/// The state of a call.
pub(super) struct Call {
    serial: u32,
    task: u32,
    /// Points to the caller's request during the first turn, then to [`Call::owned`]; null in a
    /// spare call.
    pub(super) request: *mut Request,
    owned: Option<Box<Request>>,
    pub(super) response: Response,
    /// The content that was written and not streamed.
    pub(super) text: Vec<u8>,
    /// True once the script has set anything of the response.
    pub(super) answered: bool,
    /// True once the script has finished the response.
    pub(super) finished: bool,
    /// Set when the coroutine has ended: true if without an error.
    ended: Option<bool>,
    /// True once the handle was dropped.
    detached: bool,
    waker: Option<Waker>,
    /// The request's body, once it was read.
    pub(super) body: Option<Bytes>,
    pub(super) reading: Option<BodyRead>,
    /// Why the body could not be read.
    pub(super) fault: Option<Fault>,
    pub(super) outlet: Option<Rc<ResponseStream>>,
}

/// The calls of a VM.
#[derive(Default)]
#[allow(clippy::vec_box)] // raw functions hold the address of a call
pub(crate) struct CallTable {
    slots: RefCell<Slab<Box<Call>>>,
    /// Calls for reuse: a call is larger than its contents in most handlers.
    spare: RefCell<Vec<Box<Call>>>,
    serial: Cell<u32>,
    pub(super) metatables: Metatables,
}

impl CallTable {
    fn open(&self, request: &mut Request, response: Response) -> (CallId, NonNull<Call>) {
        self.serial.set(self.serial.get().wrapping_add(1));
        let serial = self.serial.get();
        let spare = self.spare.borrow_mut().pop();
        let mut call = spare.unwrap_or_else(|| Box::new(Call::spare()));
        call.serial = serial;
        call.request = request;
        call.response = response;
        let place = NonNull::from(&mut *call);
        let index = self.slots.borrow_mut().insert(call) as u32;
        (CallId { index, serial }, place)
    }

    /// The address of a call that has not ended.
    pub(super) fn find(&self, id: CallId) -> Option<*mut Call> {
        let mut slots = self.slots.borrow_mut();
        let call = slots.get_mut(id.index as usize)?;
        if call.serial == id.serial { Some(&raw mut **call) } else { None }
    }

    fn close(&self, id: CallId) {
        let mut slots = self.slots.borrow_mut();
        let known = slots.get(id.index as usize).is_some_and(|call| call.serial == id.serial);
        if !known {
            return;
        }
        let mut call = slots.remove(id.index as usize);
        drop(slots);
        // Dropping its contents may close other calls.
        call.clear();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_CALLS {
            spare.push(call);
        }
    }

    /// Marks the coroutine of a call as ended, with or without an error.
    pub(crate) fn ended(&self, id: CallId, well: bool) {
        let Some(call) = self.find(id) else { return };
        // SAFETY: as in `Ticket::with`; nothing here runs Lua.
        let call = unsafe { &mut *call };
        call.ended = Some(well);
        call.wake();
        if let Some(outlet) = &call.outlet {
            outlet.wake();
        }
        if call.detached {
            self.close(id);
        }
    }
}

impl Call {
    fn spare() -> Call {
        Call {
            serial: 0,
            task: 0,
            request: std::ptr::null_mut(),
            owned: None,
            response: Response::default(),
            text: Vec::new(),
            answered: false,
            finished: false,
            ended: None,
            detached: false,
            waker: None,
            body: None,
            reading: None,
            fault: None,
            outlet: None,
        }
    }

    /// Clears everything except the text buffer's capacity.
    fn clear(&mut self) {
        self.request = std::ptr::null_mut();
        self.owned = None;
        self.response = Response::default();
        self.text.clear();
        self.text.shrink_to(KEPT_TEXT_BYTES);
        (self.answered, self.finished, self.ended, self.detached) = (false, false, None, false);
        self.waker = None;
        self.body = None;
        self.reading = None;
        self.fault = None;
        self.outlet = None;
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Takes the coroutines that wait for the client.
    fn take_waiting(&mut self) -> Vec<TaskId> {
        let mut waiting = self.outlet.as_ref().map(|o| o.take_writers()).unwrap_or_default();
        if let Some(reading) = self.reading.take() {
            self.fault = Some(Fault::client_gone("the request was over before its body was read"));
            waiting.push(reading.task);
        }
        waiting
    }

    pub(super) fn ended(&self) -> Option<bool> {
        self.ended
    }

    pub(super) fn sleep(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// Takes the response as it is.
    pub(super) fn reply(&mut self) -> Result<Response, Fault> {
        if let (Some(fault), false) = (self.fault.take(), self.answered) {
            return Err(fault);
        }
        let mut response = std::mem::take(&mut self.response);
        if !self.text.is_empty() {
            if !response.headers.contains(Known::ContentType) {
                response.headers.append(Known::ContentType, "text/plain; charset=utf-8");
            }
            response.body = Body::Kept(Rc::from(&self.text[..]));
            self.text.clear();
        }
        Ok(response)
    }
}

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
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        let vm = self.running.vm();
        if vm.is_turning() {
            // Lua's collector dropped a response that another handler streams: its end needs a turn
            // of its own.
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
        let goes_on = !ended && finished;
        if !(ended || goes_on) {
            vm.turn(|turn| turn.cancel(task));
        }
        if !goes_on {
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
    let ticket = CallHandle { running: running.clone(), id, call };
    let begun = vm.turn(|turn| {
        turn.guard.allow(budget);
        let index = turn.new_task();
        let thread = turn.tasks(|tasks| {
            let task = tasks.get(index);
            task.ended = EndObserver::Call(id);
            task.thread
        });
        ticket.with(|call| call.task = index);
        // SAFETY: the thread is empty and has room for a call's worth of values.
        unsafe {
            ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(function.reference()));
            object::push(thread, vm, object::REQUEST, id);
            object::push(thread, vm, object::RESPONSE, id);
        }
        turn.run(index, 2);
    });
    if begun.is_none() {
        // A VM that has exited runs nothing.
        vm.calls.ended(id, false);
    }
    ticket
}
