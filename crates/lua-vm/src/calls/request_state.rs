//! What lies with a request between two functions of scripts: its `state`, and a handler that
//! waits.
//!
//! Promises that both go when the request does.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::{Rc, Weak};

use exchange::Request;
use mlua::ffi;

use super::call::Ticket;
use super::request;
use crate::stack;
use crate::vm::Vm;

/// The table `request.state`, in the registry of its VM.
pub(super) struct State {
    vm: Weak<Vm>,
    reference: c_int,
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(vm) = self.vm.upgrade() {
            // SAFETY: the reference was made for this table and is let go once.
            unsafe { ffi::luaL_unref(vm.main(), ffi::LUA_REGISTRYINDEX, self.reference) };
        }
    }
}

/// Pushes the table `request.state`, made if there is none of this VM.
///
/// # Safety
/// Called from a raw function.
pub(super) unsafe fn push_state(state: stack::State, request: &mut Request) {
    // SAFETY: promised by the caller.
    unsafe {
        let vm = stack::vm(state);
        let known = request.attached.as_ref().and_then(|kept| kept.downcast_ref::<State>());
        let same = known.filter(|kept| kept.vm.as_ptr().cast() == request::identity(vm));
        if let Some(reference) = same.map(|kept| kept.reference) {
            ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, i64::from(reference));
            return;
        }
        ffi::lua_createtable(state, 0, 2);
        ffi::lua_pushvalue(state, -1);
        let reference = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
        request::keep(request, State { vm: vm.weak(), reference });
    }
}

/// A call that has to be waited for, on its way from one hook to its twin.
pub(super) struct Parked(RefCell<Option<Ticket>>);

/// Leaves a call with the husk of its request.
pub(super) fn park(request: &mut Request, ticket: Ticket) {
    ticket.keep(request);
    let parked: Rc<dyn Any> = Rc::new(Parked(RefCell::new(Some(ticket))));
    request.attached = Some(parked);
}

/// Takes it up again.
pub(super) fn take(request: &Request) -> Option<Ticket> {
    let parked = request.attached.as_ref()?.downcast_ref::<Parked>()?;
    parked.0.borrow_mut().take()
}
