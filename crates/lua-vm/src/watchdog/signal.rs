//! The signal to the thread of a VM whose turn lasts.
//!
//! The handler accesses only thread-local cells and fields of a state, and calls `lua_sethook`,
//! which Lua documents as safe there.

use std::ffi::c_int;

use crate::vm::Vm;

#[cfg(target_os = "linux")]
pub(crate) use linux::set_turning;
#[cfg(target_os = "linux")]
pub(super) use linux::{handle, send};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::set_turning;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{handle, send};

/// Without signals a program's long turn is logged without its stack.
#[cfg(not(target_os = "linux"))]
mod portable {
    use super::*;

    pub(in crate::watchdog) fn handle() -> c_int {
        0
    }

    pub(in crate::watchdog) fn send(_: c_int) {}

    pub(crate) fn set_turning(_: *const Vm) -> *const Vm {
        std::ptr::null()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::Cell;
    use std::sync::Once;

    use mlua::ffi;

    use super::*;
    use crate::guard;
    use crate::stack::LuaState;

    thread_local! {
        /// The VM whose turn runs on this thread.
        static TURNING: Cell<*const Vm> = const { Cell::new(std::ptr::null()) };
        /// The program's own hook while the watchdog's replaces it.
        static BEFORE: Cell<(Option<ffi::lua_Hook>, c_int, c_int)> =
            const { Cell::new((None, 0, 0)) };
    }

    /// A real-time signal: no convention gives these a meaning.
    fn signal() -> c_int {
        libc::SIGRTMIN() + 7
    }

    /// Has the signal handled, and returns this thread's number for [`send`].
    pub(in crate::watchdog) fn handle() -> c_int {
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
        // SAFETY: takes nothing and returns a number.
        unsafe { libc::gettid() }
    }

    pub(in crate::watchdog) fn send(thread: c_int) {
        // SAFETY: takes numbers only; a thread that has ended gives an error.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }

    /// Sets the VM whose turn runs on this thread, until the turn ends; returns the one before.
    #[inline]
    pub(crate) fn set_turning(vm: *const Vm) -> *const Vm {
        TURNING.replace(vm)
    }

    extern "C" fn on_signal(_: c_int) {
        let vm = TURNING.get();
        if vm.is_null() {
            return;
        }
        // SAFETY: its turn runs on this thread, further down the stack, and so does the state; Lua
        // allows a hook to be set from a handler of a signal.
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
        let vm = TURNING.get();
        // SAFETY: called by Lua within the turn of this VM.
        unsafe {
            ffi::lua_sethook(state, hook, mask, count);
            if let Some(pulse) = (!vm.is_null()).then(|| (*vm).guard.pulse()).flatten() {
                drop(pulse.log_if_requested(state));
            }
        }
    }
}
