//! The signal to the thread of a VM whose turn lasts.

use std::ffi::c_int;

#[cfg(target_os = "linux")]
pub(super) use linux::{handle, send};
#[cfg(target_os = "linux")]
pub(crate) use linux::{set_turning, turning};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{handle, send};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{set_turning, turning};

/// What the signal calls while a turn runs, and with what.
// SAFETY: called with what it was set with, on its thread and before the turn has ended. It may
// access thread-local cells and fields of a state only, and call what Lua documents as safe there.
pub(crate) type Turning = Option<(unsafe fn(*const ()), *const ())>;

/// Without signals a program's long turn is logged without its stack.
#[cfg(not(target_os = "linux"))]
mod portable {
    use super::*;

    pub(in crate::watchdog) fn handle() -> c_int {
        0
    }

    pub(in crate::watchdog) fn send(_: c_int) {}

    pub(crate) fn turning() -> Turning {
        None
    }

    pub(crate) fn set_turning(_: Turning) -> Turning {
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::Cell;
    use std::sync::Once;

    use super::*;

    thread_local! {
        static TURNING: Cell<Turning> = const { Cell::new(None) };
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

    /// What the signal calls on this thread.
    pub(crate) fn turning() -> Turning {
        TURNING.get()
    }

    /// Sets what the signal calls on this thread; returns what it called before.
    #[inline]
    pub(crate) fn set_turning(turning: Turning) -> Turning {
        TURNING.replace(turning)
    }

    extern "C" fn on_signal(_: c_int) {
        if let Some((call, with)) = TURNING.get() {
            // SAFETY: set by the turn that runs further down the stack, with its own argument.
            unsafe { call(with) };
        }
    }
}
