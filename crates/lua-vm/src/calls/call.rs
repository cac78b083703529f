//! One call of a script's function for a request, and the table of all calls of a VM.
//!
//! Owns the request once the coroutine waits, and the response that the script makes. Promises that
//! an object of an ended call raises an error: a [`CallId`] is not reused within 2^32 calls.
//!
//! Raw functions reach a [`Call`] by pointer, because pushing a value may run a finalizer which may
//! access the same call: no reference to one is held while Lua may run.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use message::{Body, Fault, Request, Response};
use slab::Slab;
use wire::Known;

use super::body_read::BodyRead;
use super::object_kind::Metatables;
use super::own_fields::OwnFields;
use super::response_stream::ResponseStream;
use crate::ids::{CallId, TaskId};
use crate::limits::{KEPT_TEXT_BYTES, SPARE_CALLS};

/// The state of a call.
pub(crate) struct Call {
    serial: u32,
    pub(super) task: u32,
    /// Points to the caller's request during the first turn, then to [`Call::owned`]; null in a
    /// spare call.
    pub(super) request: *mut Request,
    pub(super) owned: Option<Box<Request>>,
    pub(super) response: Response,
    /// True if the response was given to the script with its fields: it is that of a filter.
    is_given: bool,
    pub(super) own: OwnFields,
    /// The content that was written and not streamed.
    pub(super) text: Vec<u8>,
    /// True once the script has made content, be it none.
    pub(super) replaced: bool,
    /// True once the script has set anything of the response.
    pub(super) answered: bool,
    /// True once the script has finished the response.
    pub(super) finished: bool,
    /// Set when the coroutine has ended: true if without an error.
    pub(super) ended: Option<bool>,
    /// True once the handle was dropped.
    pub(super) detached: bool,
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
    pub(super) fn open(
        &self,
        request: &mut Request,
        response: Response,
    ) -> (CallId, NonNull<Call>) {
        self.serial.set(self.serial.get().wrapping_add(1));
        let serial = self.serial.get();
        let spare = self.spare.borrow_mut().pop();
        let mut call = spare.unwrap_or_else(|| Box::new(Call::spare()));
        call.serial = serial;
        call.request = request;
        call.is_given = !response.headers.is_empty();
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

    /// Calls `look` with the request of a call; `look` must not run Lua.
    pub(crate) fn with_request<R>(
        &self,
        id: CallId,
        look: impl FnOnce(&Request) -> R,
    ) -> Option<R> {
        let call = self.find(id)?;
        // SAFETY: a call that is found is alive, and has a request as long as its coroutine has not
        // ended, a null pointer otherwise; no Lua runs while the reference lives.
        unsafe { (*call).request.as_ref() }.map(look)
    }

    pub(super) fn close(&self, id: CallId) {
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
        // SAFETY: as in `CallHandle::with`; nothing here runs Lua.
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
            is_given: false,
            own: OwnFields::default(),
            text: Vec::new(),
            replaced: false,
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
        (self.own, self.replaced) = (OwnFields::default(), false);
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
    pub(super) fn take_waiting(&mut self) -> Vec<TaskId> {
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

    /// Removes what describes the content of a response that was given, and not that of the script.
    pub(super) fn remove_description(&mut self) {
        if !self.is_given {
            return;
        }
        self.own.remove_others(&mut self.response.headers);
        if self.response.status == 206 && !self.own.has_status() {
            (self.response.status, self.response.reason) = (200, None);
        }
    }

    /// Takes the response as it is.
    pub(super) fn reply(&mut self) -> Result<Response, Fault> {
        if let (Some(fault), false) = (self.fault.take(), self.answered) {
            return Err(fault);
        }
        if self.replaced {
            self.remove_description();
            self.response.body = Body::Empty;
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
