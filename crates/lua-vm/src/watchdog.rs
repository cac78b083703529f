//! Logs long turns, once each, with a traceback.
//!
//! A thread reads the heartbeats of all VMs. Only the VM's own thread can read its stack: the
//! watchdog requests it, and a debug hook of Lua logs it. In a server the hook that counts
//! instructions serves both. The VM of a program has no hook, because counting costs time with
//! every instruction: a signal to its thread sets a hook for one instruction, as Lua's own
//! interpreter does for Ctrl-C. If the hook does not run, the time is spent inside a C function,
//! and the log says so without a traceback.
//!
//! The signal handler accesses only thread-local cells and calls `lua_sethook`, which Lua documents
//! as safe there.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use mlua::ffi;
use telemetry::event;
use telemetry::log::Level;

use crate::limits::{LONG_TURN_MS, TRACEBACK_BYTES};
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// How often the watchdog reads the heartbeats within the time after which a turn is long.
const LOOKS: u64 = 4;

/// The heartbeat of one VM: changes at the beginning and end of every turn; odd during a turn.
pub(crate) struct Heartbeat {
    beats: AtomicU64,
    name: String,
    /// The thread of a program's VM, for the signal.
    thread: Option<c_int>,
    /// True if the watchdog has requested the stack of the running turn.
    asked: AtomicBool,
}

impl Heartbeat {
    #[inline]
    pub(crate) fn beat(&self) {
        // Only the VM's thread writes.
        self.beats.store(self.beats.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Logs the stack of the running coroutine if the watchdog asked for it; called from a hook.
    #[inline]
    pub(crate) fn log_if_asked(&self, state: LuaState) {
        if self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed) {
            self.log(&traceback(state));
        }
    }

    #[cold]
    fn log(&self, traceback: &str) {
        event!(
            Level::Warn,
            "Lua turn has been running for more than a second",
            vm = self.name,
            traceback = traceback
        );
    }

    fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        if let Some(thread) = self.thread {
            // SAFETY: takes numbers only; a thread that has ended gives an error.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
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

thread_local! {
    /// The program's VM on this thread.
    static PROGRAM: Cell<*const Vm> = const { Cell::new(std::ptr::null()) };
    /// The program's own hook while the watchdog's replaces it.
    static BEFORE: Cell<(Option<ffi::lua_Hook>, c_int, c_int)> = const { Cell::new((None, 0, 0)) };
}

/// Watches the VM of a program, on the thread that runs it.
pub fn watch_program(vm: &Vm, name: &str) {
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
        PROGRAM.set(vm);
        // SAFETY: takes nothing and returns a number.
        vm.guard.set_pulse(watch(name, Some(unsafe { libc::gettid() })));
    }
    #[cfg(not(target_os = "linux"))]
    vm.guard.set_pulse(watch(name, None));
}

/// Stops watching a VM that is dropped.
pub(crate) fn forget(vm: &Vm) {
    if std::ptr::eq(PROGRAM.get(), vm) {
        PROGRAM.set(std::ptr::null());
    }
}

/// A real-time signal: no convention gives these a meaning.
#[cfg(target_os = "linux")]
fn signal() -> c_int {
    libc::SIGRTMIN() + 7
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
        if before.is_some_and(|hook| std::ptr::fn_addr_eq(hook, answer as ffi::lua_Hook)) {
            return;
        }
        BEFORE.set((before, ffi::lua_gethookmask(state), ffi::lua_gethookcount(state)));
        ffi::lua_sethook(state, Some(answer), ffi::LUA_MASKCOUNT, 1);
    }
}

/// Restores the program's hook and logs the stack.
#[cfg(target_os = "linux")]
unsafe extern "C-unwind" fn answer(state: LuaState, _: *mut ffi::lua_Debug) {
    let (hook, mask, count) = BEFORE.take();
    let vm = PROGRAM.get();
    // SAFETY: called by Lua on the thread of this VM.
    unsafe {
        ffi::lua_sethook(state, hook, mask, count);
        if let Some(pulse) = (!vm.is_null()).then(|| (*vm).guard.pulse()).flatten() {
            pulse.log_if_asked(state);
        }
    }
}

static PULSES: Mutex<Vec<Weak<Heartbeat>>> = Mutex::new(Vec::new());

/// Registers a new heartbeat with the watchdog.
pub(crate) fn watch(name: &str, thread: Option<c_int>) -> Arc<Heartbeat> {
    static STARTED: Once = Once::new();
    let (beats, asked) = (AtomicU64::new(0), AtomicBool::new(false));
    let pulse = Arc::new(Heartbeat { beats, name: name.to_owned(), thread, asked });
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
                    if *looks == LOOKS {
                        pulse.ask();
                    } else if *looks == LOOKS + 1 && pulse.asked.swap(false, Ordering::Relaxed) {
                        pulse.log("unknown: time passes inside a function of C or a coroutine");
                    }
                }
                Some((_, before, looks)) => {
                    pulse.asked.store(false, Ordering::Relaxed);
                    (*before, *looks) = (beats, 0);
                }
            }
        }
    }
}
