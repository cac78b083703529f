//! What the watchdog's signal does with the VM whose turn runs on its thread.

use std::cell::Cell;
use std::ffi::c_int;

use mlua::ffi;

use super::Vm;
use crate::guard;
use crate::stack::LuaState;
use crate::watchdog::{self, Turning, Watched};

thread_local! {
    /// The program's own hook while the watchdog's replaces it.
    static BEFORE: Cell<(Option<ffi::lua_Hook>, c_int, c_int)> = const { Cell::new((None, 0, 0)) };
}

impl Vm {
    /// Has long turns logged; called on the thread that runs the VM, of a program.
    pub fn watch(&self, name: &str) {
        self.guard.set_pulse(watchdog::watch(name, Watched::Program));
    }

    pub(super) fn when_signalled(&self) -> Turning {
        let this: *const Vm = self;
        Some((on_signal, this.cast()))
    }
}

/// # Safety
/// `vm` is the VM whose turn runs on this thread, which the handler of a signal has interrupted.
unsafe fn on_signal(vm: *const ()) {
    let vm = vm.cast::<Vm>();
    // SAFETY: the VM lives as long as its turn, and so does the coroutine that runs in it; Lua
    // allows a hook to be set here.
    unsafe {
        let state = (*vm).meter.running();
        if (*vm).guard.is_counted() {
            (*vm).guard.begin_count();
            return guard::count(state);
        }
        if state.is_null() {
            return;
        }
        let before = ffi::lua_gethook(state);
        if before.is_some_and(|hook| std::ptr::fn_addr_eq(hook, log_stack as ffi::lua_Hook)) {
            return;
        }
        BEFORE.set((before, ffi::lua_gethookmask(state), ffi::lua_gethookcount(state)));
        ffi::lua_sethook(state, Some(log_stack), ffi::LUA_MASKCOUNT, 1);
    }
}

/// Restores the program's hook and logs the stack.
unsafe extern "C-unwind" fn log_stack(state: LuaState, _: *mut ffi::lua_Debug) {
    let (hook, mask, count) = BEFORE.take();
    // SAFETY: called by Lua within the turn of this VM.
    unsafe {
        ffi::lua_sethook(state, hook, mask, count);
        if let Some((_, vm)) = watchdog::turning()
            && let Some(pulse) = (*vm.cast::<Vm>()).guard.pulse()
        {
            drop(pulse.log_if_requested(state));
        }
    }
}
