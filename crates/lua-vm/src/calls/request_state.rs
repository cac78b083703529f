//! The table `request.state` of scripts, which is dropped with its request.

use std::ffi::c_int;
use std::rc::{Rc, Weak};

use message::Request;
use mlua::ffi;

use crate::raw_function;
use crate::stack;
use crate::vm::Vm;

/// The table `request.state`, in the registry of its VM.
pub(super) struct RequestState {
    vm: Weak<Vm>,
    reference: c_int,
}

impl Drop for RequestState {
    fn drop(&mut self) {
        if let Some(vm) = self.vm.upgrade() {
            // SAFETY: the reference was made for this table and is released once.
            unsafe { ffi::luaL_unref(vm.main(), ffi::LUA_REGISTRYINDEX, self.reference) };
        }
    }
}

/// Pushes the table `request.state`, created if there is none of this VM.
///
/// # Safety
/// Called from a raw function.
pub(super) unsafe fn push_state(state: stack::LuaState, request: &mut Request) {
    // SAFETY: promised by the caller.
    unsafe {
        let vm = raw_function::vm(state);
        let known = request.attached.as_ref().and_then(|kept| kept.downcast_ref::<RequestState>());
        let same = known.filter(|kept| std::ptr::eq(kept.vm.as_ptr(), vm));
        if let Some(reference) = same.map(|kept| kept.reference) {
            ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, i64::from(reference));
            return;
        }
        ffi::lua_createtable(state, 0, 2);
        ffi::lua_pushvalue(state, -1);
        let reference = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
        request.attached = Some(Rc::new(RequestState { vm: vm.weak(), reference }));
    }
}
