//! One call of a script's function for a request: what the objects in its hands stand for.
//!
//! Owns the request once the coroutine waits, the response it makes, and the end of both. Promises
//! that an object of a call that is over reaches nothing (a [`CallId`] is never used again before
//! 2^32 calls), and that a [`Ticket`] which is dropped before the end closes the coroutine: that is
//! how a client that goes away ends its handler.
//!
//! Raw functions reach a [`Call`] by pointer, because pushing a value may run a finalizer which may
//! ask for the same call: no reference to one is held while Lua may run.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

use bytes::Bytes;
use exchange::{Body, Fault, Request, Response};
use mlua::{Lua, ffi};
use slab::Slab;
use wire::Known;

use super::generation::Running;
use super::object;
use super::outlet::Outlet;
use super::reading::Reading;
use crate::tasks::{End, OnEnd};
use crate::vm::Vm;

/// Names a call; stale once it is over.
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
    /// The caller's while the first turn runs, then [`Call::owned`].
    pub(super) request: *mut Request,
    owned: Option<Box<Request>>,
    pub(super) response: Response,
    /// What was written and not streamed.
    pub(super) text: Vec<u8>,
    /// The script has said something of the answer.
    pub(super) answered: bool,
    /// The script has said all of the answer.
    pub(super) finished: bool,
    /// Whether the coroutine ended well, once it has ended.
    ended: Option<bool>,
    /// Nobody waits for the end any more.
    detached: bool,
    waker: Option<Waker>,
    /// The request's body, once it was read.
    pub(super) body: Option<Bytes>,
    pub(super) reading: Option<Reading>,
    /// Why the body could not be read.
    pub(super) fault: Option<Fault>,
    pub(super) outlet: Option<Rc<Outlet>>,
}

/// The calls of a VM.
#[derive(Default)]
pub(crate) struct Calls {
    #[allow(clippy::vec_box)] // raw functions hold the address of a call
    slots: RefCell<Slab<Box<Call>>>,
    serial: Cell<u32>,
}

impl Calls {
    fn open(&self, request: &mut Request, response: Response) -> CallId {
        self.serial.set(self.serial.get().wrapping_add(1));
        let serial = self.serial.get();
        let call = Call {
            serial,
            task: 0,
            request,
            owned: None,
            response,
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
        };
        let index = self.slots.borrow_mut().insert(Box::new(call)) as u32;
        CallId { index, serial }
    }

    /// The address of a call that is not over.
    pub(super) fn find(&self, id: CallId) -> Option<*mut Call> {
        let mut slots = self.slots.borrow_mut();
        let call = slots.get_mut(id.index as usize)?;
        if call.serial == id.serial { Some(&raw mut **call) } else { None }
    }

    fn close(&self, id: CallId) -> Option<Box<Call>> {
        let mut slots = self.slots.borrow_mut();
        let known = slots.get(id.index as usize).is_some_and(|call| call.serial == id.serial);
        if known { Some(slots.remove(id.index as usize)) } else { None }
    }
}

impl Call {
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn ended(&self) -> Option<bool> {
        self.ended
    }

    pub(super) fn sleep(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// The answer as it stands.
    pub(super) fn reply(&mut self) -> Result<Response, Fault> {
        if let (Some(fault), false) = (self.fault.take(), self.answered) {
            return Err(fault);
        }
        let mut response = std::mem::take(&mut self.response);
        if !self.text.is_empty() {
            if !response.headers.contains(Known::ContentType) {
                response.headers.append(Known::ContentType, "text/plain; charset=utf-8");
            }
            let text = std::mem::take(&mut self.text);
            response.body = Body::Kept(Rc::from(text));
        }
        Ok(response)
    }
}

/// Holds a call, and with it the VM. Dropped, the call is over.
pub(super) struct Ticket {
    pub(super) running: Rc<Running>,
    pub(super) id: CallId,
}

impl Ticket {
    /// Looks at the call, which is there as long as its ticket. `look` must not run Lua.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Call) -> R) -> R {
        let call = self.running.vm.calls.find(self.id);
        let call = call.expect("a ticket's call is there");
        // SAFETY: a boxed call stays where it is until its ticket goes, no Lua runs, and references
        // to it live no longer than a `look`.
        look(unsafe { &mut *call })
    }

    /// The call keeps its request from now on; the caller's place gets a husk.
    pub(super) fn keep(&self, request: &mut Request) {
        let owned = Box::new(request.take());
        self.with(|call| {
            let owned = call.owned.insert(owned);
            call.request = &raw mut **owned;
        });
    }

    /// Gives the request back, once the coroutine has ended.
    pub(super) fn give_back(&self, request: &mut Request) {
        if let Some(owned) = self.with(|call| call.owned.take()) {
            *request = *owned;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let vm = &self.running.vm;
        let (ended, finished, task) = self.with(|call| {
            call.detached = true;
            // The caller's request is out of reach from now on.
            (call.ended.is_some(), call.finished && call.owned.is_some(), call.task)
        });
        // A handler that has said all may go on with what else it has to do.
        if ended || !finished {
            if !ended {
                vm.turn(|turn| turn.cancel(task));
            }
            drop(vm.calls.close(self.id));
        }
    }
}

/// Tells the call that its coroutine has ended, or will never.
struct Finish {
    vm: Weak<Vm>,
    id: CallId,
}

impl Finish {
    fn tell(&self, well: bool) {
        let Some(vm) = self.vm.upgrade() else { return };
        let Some(call) = vm.calls.find(self.id) else { return };
        // SAFETY: as in `Ticket::with`; nothing here runs Lua.
        let call = unsafe { &mut *call };
        if call.ended.is_some() {
            return;
        }
        call.ended = Some(well);
        call.wake();
        if let Some(outlet) = &call.outlet {
            outlet.wake();
        }
        if call.detached {
            drop(vm.calls.close(self.id));
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.tell(false);
    }
}

/// Calls `function(request, response)` in a new coroutine, up to where it first waits. The request
/// is not moved before that.
pub(super) fn begin(
    running: &Rc<Running>,
    function: i32,
    request: &mut Request,
    response: Response,
    budget: u64,
) -> Ticket {
    let vm = &running.vm;
    let ticket = Ticket { running: running.clone(), id: vm.calls.open(request, response) };
    let id = ticket.id;
    let finish = Finish { vm: vm.weak(), id };
    let ended: OnEnd =
        Box::new(move |_: &Lua, end: End| finish.tell(matches!(end, End::Returned(_))));
    vm.turn(|turn| {
        turn.guard.allow(budget);
        let index = turn.new_task();
        let thread = turn.tasks(|tasks| {
            let task = tasks.get(index);
            task.ended = Some(ended);
            task.thread
        });
        ticket.with(|call| call.task = index);
        // SAFETY: the thread is empty and has room for a call's worth of values.
        unsafe {
            ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(function));
            object::push(thread, object::REQUEST, id);
            object::push(thread, object::RESPONSE, id);
        }
        turn.run(index, 2);
    });
    ticket
}
