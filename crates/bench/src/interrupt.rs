//! Ctrl-C and SIGTERM: the first signal ends the run gracefully, the second one immediately.
//!
//! Owns the handlers of SIGINT, SIGTERM and SIGHUP after [`listen`], and the list of process groups
//! that must not outlive this process. Promises that the second signal kills every listed group
//! before the process exits. A handler may run between any two instructions, so it touches only
//! atomics.
#![allow(unsafe_code, reason = "signals have no safe wrapper in std; each block says why")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// The most process groups that live at a time: servers of a case, backends, and one to spare.
const GROUPS_MAX: usize = 64;
/// A shell's exit code for a process that ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static GROUPS: [AtomicI32; GROUPS_MAX] = [const { AtomicI32::new(0) }; GROUPS_MAX];

/// Installs the handlers; the first signal sets the returned flag, a second one ends the process.
pub fn listen() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zeroes is a valid sigaction, and the fields that matter are set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is whole, and the handler only uses what a handler may.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(stop)
}

/// True after the first signal.
pub(crate) fn is_asked_to_end() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::SeqCst))
}

extern "C" fn on_signal(_signal: libc::c_int) {
    // `get` of a OnceLock that is set is one atomic load.
    let again = STOP.get().is_none_or(|stop| stop.swap(true, Ordering::SeqCst));
    if again {
        for group in &GROUPS {
            let group = group.load(Ordering::SeqCst);
            if group > 0 {
                // SAFETY: kill(2) takes numbers only and may be called in a handler.
                unsafe { libc::kill(-group, libc::SIGKILL) };
            }
        }
        // SAFETY: _exit(2) may be called in a handler and does not return.
        unsafe { libc::_exit(EXIT_INTERRUPTED) };
    }
}

/// Adds a process group; a full list is an error, because the processes could outlive the run.
pub(crate) fn note(group: i32) -> io::Result<()> {
    let free = GROUPS
        .iter()
        .any(|slot| slot.compare_exchange(0, group, Ordering::SeqCst, Ordering::SeqCst).is_ok());
    if free { Ok(()) } else { Err(io::Error::other("too many processes at a time")) }
}

/// Removes a process group that has ended.
pub(crate) fn forget(group: i32) {
    for slot in &GROUPS {
        if slot.compare_exchange(group, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return;
        }
    }
}
