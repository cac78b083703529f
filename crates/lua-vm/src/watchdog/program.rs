//! The stack of a program's VM, which has no hook: a signal to its thread sets one.
//!
//! The signal handler accesses only thread-local cells and calls `lua_sethook`, which Lua documents
//! as safe there.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Once;

use mlua::ffi;

#[cfg(target_os = "linux")]
use super::signal;
use super::watch;
use crate::stack::LuaState;
use crate::vm::Vm;

thread_local! {
    /// The program's VM on this thread.
    static PROGRAM: Cell<*const Vm> = const { Cell::new(std::ptr::null()) };
    /// The program's own hook while the watchdog's replaces it.
    static BEFORE: Cell<(Option<ffi::lua_Hook>, c_int, c_int)> = const { Cell::new((None, 0, 0)) };
}

/// A program's VM that is watched; dropping it ends that.
#[must_use]
pub struct WatchedProgram {
    /// Outlives the pointer in [`PROGRAM`].
    _vm: Rc<Vm>,
}

impl Drop for WatchedProgram {
    fn drop(&mut self) {
        PROGRAM.set(std::ptr::null());
    }
}

/// Watches the VM of a program, on the thread that runs it.
pub fn watch_program(vm: &Rc<Vm>, name: &str) -> WatchedProgram {
    #[cfg(target_os = "linux")]
    {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            // SAFETY: all zeroes is a valid sigaction; the handler is async-signal-safe.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as extern "C" fn(c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal(), &raw const action, std::ptr::null_mut());
            }
        });
        PROGRAM.set(Rc::as_ptr(vm));
        // SAFETY: takes nothing and returns a number.
        vm.guard.set_pulse(watch(name, Some(unsafe { libc::gettid() })));
    }
    #[cfg(not(target_os = "linux"))]
    vm.guard.set_pulse(watch(name, None));
    WatchedProgram { _vm: vm.clone() }
}

#[cfg(target_os = "linux")]
extern "C" fn on_signal(_: c_int) {
    let vm = PROGRAM.get();
    if vm.is_null() {
        return;
    }
    // SAFETY: this thread's VM, which is removed here before it is dropped; the state runs on this
    // thread, and Lua allows a hook to be set from a handler of a signal.
    unsafe {
        let state = (*vm).meter.running();
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
#[cfg(target_os = "linux")]
unsafe extern "C-unwind" fn log_stack(state: LuaState, _: *mut ffi::lua_Debug) {
    let (hook, mask, count) = BEFORE.take();
    let vm = PROGRAM.get();
    // SAFETY: called by Lua on the thread of this VM.
    unsafe {
        ffi::lua_sethook(state, hook, mask, count);
        if let Some(pulse) = (!vm.is_null()).then(|| (*vm).guard.pulse()).flatten() {
            drop(pulse.log_if_requested(state));
        }
    }
}
