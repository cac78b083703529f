//! Logs long turns, once each, with a traceback.
//!
//! A thread reads the heartbeats of all VMs. Only the VM's own thread can read its stack, so the
//! watchdog sends it a signal, whose handler sets a hook of Lua, as Lua's own interpreter does for
//! Ctrl-C. In a program the hook runs once and logs the stack. In a server a signal has the turn's
//! instructions counted long before; the hook that counts logs the stack as well. If the hook does
//! not run, the time is spent inside a C function, and the log says so without a traceback.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use mlua::ffi;
use telemetry::event;
use telemetry::log::Level;

use crate::limits::{LONG_TURN_MS, TRACEBACK_BYTES};
use crate::stack::{self, LuaState};

mod signal;

pub(crate) use signal::{Turning, set_turning, turning};

/// How often the watchdog reads the heartbeats within the time after which a turn is long.
const LOOKS: u64 = 4;

/// What is logged of a long turn.
pub(crate) const LONG_TURN: &str = "Lua turn has been running for more than a second";

/// What the watchdog does with a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Logs a long turn.
    Program,
    /// Has a turn counted that it finds again, and logs a long one.
    Counted,
}

/// The heartbeat of one VM: changes at the beginning and end of every turn; odd during a turn.
pub(crate) struct Heartbeat {
    beats: AtomicU64,
    name: String,
    watched: Watched,
    /// The VM's thread, for the signal.
    thread: c_int,
    /// True if the watchdog has requested the stack of the running turn.
    requested: AtomicBool,
}

impl Heartbeat {
    pub(crate) fn is_counted(&self) -> bool {
        self.watched == Watched::Counted
    }

    #[inline]
    pub(crate) fn beat(&self) {
        // Only the VM's thread writes.
        self.beats.store(self.beats.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Logs the stack of the running coroutine if the watchdog has requested it, and returns it;
    /// called from a hook.
    #[inline]
    pub(crate) fn log_if_requested(&self, state: LuaState) -> Option<String> {
        let is_requested =
            self.requested.load(Ordering::Relaxed) && self.requested.swap(false, Ordering::Relaxed);
        is_requested.then(|| {
            let traceback = traceback(state);
            self.log(&traceback);
            traceback
        })
    }

    #[cold]
    fn log(&self, traceback: &str) {
        event!(Level::Warn, LONG_TURN, vm = self.name, traceback = traceback);
    }

    fn request_stack(&self) {
        self.requested.store(true, Ordering::Relaxed);
        if !self.is_counted() {
            signal::send(self.thread);
        }
    }
}

fn traceback(state: LuaState) -> String {
    // SAFETY: called from a hook, with room for a value; the string is copied before it is popped.
    unsafe {
        ffi::luaL_traceback(state, state, std::ptr::null(), 0);
        let text = stack::bytes(state, -1).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(TRACEBACK_BYTES)]).into_owned();
        ffi::lua_settop(state, -2);
        text
    }
}

static PULSES: Mutex<Vec<Weak<Heartbeat>>> = Mutex::new(Vec::new());

/// Registers a new heartbeat, of a VM on this thread, with the watchdog.
pub(crate) fn watch(name: &str, watched: Watched) -> Arc<Heartbeat> {
    static STARTED: Once = Once::new();
    let (beats, requested) = (AtomicU64::new(0), AtomicBool::new(false));
    let thread = signal::handle();
    let pulse = Arc::new(Heartbeat { beats, name: name.to_owned(), watched, thread, requested });
    let mut pulses = PULSES.lock().unwrap_or_else(PoisonError::into_inner);
    pulses.retain(|pulse| pulse.strong_count() > 0);
    pulses.push(Arc::downgrade(&pulse));
    drop(pulses);
    STARTED.call_once(|| {
        // If no thread can be started, the program runs without a watchdog.
        let _ = std::thread::Builder::new().name("lua-watchdog".to_owned()).spawn(watchdog);
    });
    pulse
}

/// The watchdog thread: logs each long turn once.
fn watchdog() {
    let mut seen: Vec<(Weak<Heartbeat>, u64, u64)> = Vec::new();
    loop {
        std::thread::sleep(Duration::from_millis(LONG_TURN_MS / LOOKS));
        let now = PULSES.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.retain(|(pulse, ..)| pulse.strong_count() > 0);
        for weak in now {
            let Some(pulse) = weak.upgrade() else { continue };
            let beats = pulse.beats.load(Ordering::Relaxed);
            match seen.iter_mut().find(|(known, ..)| known.ptr_eq(&weak)) {
                None => seen.push((weak, beats, 0)),
                Some((_, before, looks)) if *before == beats && beats % 2 == 1 => {
                    *looks += 1;
                    if *looks == 1 && pulse.is_counted() {
                        signal::send(pulse.thread);
                    } else if *looks == LOOKS {
                        pulse.request_stack();
                    } else if *looks == LOOKS + 1 && pulse.requested.swap(false, Ordering::Relaxed)
                    {
                        pulse.log("unknown: time passes inside a function of C or a coroutine");
                    }
                }
                Some((_, before, looks)) => {
                    pulse.requested.store(false, Ordering::Relaxed);
                    (*before, *looks) = (beats, 0);
                }
            }
        }
    }
}
