//! Profiles of a program's VM: the stacks in which it uses CPU time, or allocates.
//!
//! A timer of the thread's CPU time sends it a signal, and the allocator counts bytes; both set a
//! hook for the next instruction of Lua, as the watchdog does, and the hook records the stack. So a
//! stack is recorded where it can be read, and time in a function of C counts for the line that has
//! called it. Nothing is set while no profile is recorded.
//!
//! Promises bounded memory: the number of stacks, of functions and of frames is limited, and what
//! has no room is counted.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use mlua::ffi;

use crate::guard;
use crate::limits::PROFILE_ALLOCATED_BYTES;
use crate::meter::Meter;
use crate::stack::LuaState;

mod cpu_timer;
mod merge;
mod recorder;
mod timeline;

use cpu_timer::CpuTimer;
pub use merge::merge;
use recorder::Recorder;
pub use recorder::{ProfiledFrame, ProfiledFunction, ProfiledStack};
pub use timeline::{Timeline, TimelineSlice};
pub(crate) use timeline::{begin_timeline, end_timeline, task_runs, turn_ends};

/// What a profile measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// CPU time in nanoseconds, read so often each second.
    Cpu { per_second: u32 },
    /// Allocated bytes.
    Allocations,
}

/// A finished profile.
#[derive(Debug)]
pub struct Profile {
    pub kind: ProfileKind,
    pub functions: Vec<ProfiledFunction>,
    pub stacks: Vec<ProfiledStack>,
    /// What was measured while no Lua ran.
    pub outside: u64,
    /// What was measured beyond the limits.
    pub left_out: u64,
    pub duration: Duration,
}

impl Profile {
    /// The weight of one sample.
    pub fn period(&self) -> u64 {
        period(self.kind)
    }
}

fn period(kind: ProfileKind) -> u64 {
    match kind {
        ProfileKind::Cpu { per_second } => 1_000_000_000 / u64::from(per_second.max(1)),
        ProfileKind::Allocations => PROFILE_ALLOCATED_BYTES as u64,
    }
}

/// A profile that is being recorded.
struct Recording {
    kind: ProfileKind,
    begun: Instant,
    recorder: Recorder,
    timer: Option<CpuTimer>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
    /// The meter of the VM that is profiled on this thread, for the signal.
    static PROFILED: Cell<*const Meter> = const { Cell::new(std::ptr::null()) };
    /// The weight of a tick of the timer.
    static TICK: Cell<u64> = const { Cell::new(0) };
    /// What was measured since the last stack was recorded.
    static PENDING: Cell<u64> = const { Cell::new(0) };
    static OUTSIDE: Cell<u64> = const { Cell::new(0) };
}

/// Begins a profile of the VM that runs on this thread; the error is a sentence. [`end`] is called
/// before the meter is dropped.
pub(crate) fn begin(meter: &Meter, main: LuaState, kind: ProfileKind) -> Result<(), String> {
    if RECORDING.with_borrow(Option::is_some) {
        return Err("another profile is being recorded".to_owned());
    }
    // SAFETY: the state is alive.
    if !unsafe { guard::may_sample(main) } {
        return Err("a program with breakpoints of a debugger cannot be profiled".to_owned());
    }
    PENDING.set(0);
    OUTSIDE.set(0);
    TICK.set(period(kind));
    let timer = match kind {
        ProfileKind::Cpu { .. } => Some(CpuTimer::start(period(kind))?),
        ProfileKind::Allocations => {
            meter.sample(Some(allocated));
            None
        }
    };
    PROFILED.set(meter);
    let recording = Recording { kind, begun: Instant::now(), recorder: Recorder::default(), timer };
    RECORDING.set(Some(recording));
    Ok(())
}

/// Ends the profile of a VM; `None` if there is none.
pub(crate) fn end(meter: &Meter) -> Option<Profile> {
    if !std::ptr::eq(PROFILED.get(), meter) {
        return None;
    }
    PROFILED.set(std::ptr::null());
    meter.sample(None);
    let recording = RECORDING.take()?;
    drop(recording.timer);
    let (functions, stacks, left_out) = recording.recorder.finish();
    Some(Profile {
        kind: recording.kind,
        functions,
        stacks,
        outside: OUTSIDE.take(),
        // A stack that was not recorded any more.
        left_out: left_out + PENDING.take(),
        duration: recording.begun.elapsed(),
    })
}

/// Counts allocated bytes, for the line that runs next.
#[cold]
fn allocated(state: LuaState, bytes: u64) {
    if state.is_null() {
        OUTSIDE.set(OUTSIDE.get() + bytes);
        return;
    }
    PENDING.set(PENDING.get() + bytes);
    request_sample(state);
}

/// Has the hook called before the next instruction of Lua, instead of the one that counts
/// instructions in a server. Another hook stays, and what was measured waits for the next sample.
fn request_sample(state: LuaState) {
    // SAFETY: the state runs on this thread; Lua allows a hook to be set from a handler of a signal
    // and from an allocator: both functions only access fields of the state.
    unsafe {
        if guard::may_sample(state) {
            ffi::lua_sethook(state, Some(on_sample), ffi::LUA_MASKCOUNT, 1);
        }
    }
}

/// Removes itself, records the stack, and has instructions counted again.
unsafe extern "C-unwind" fn on_sample(state: LuaState, event: *mut ffi::lua_Debug) {
    // SAFETY: called by Lua; recording a stack raises no error.
    unsafe { ffi::lua_sethook(state, None, 0, 0) };
    let weight = PENDING.take();
    if weight > 0 {
        RECORDING.with_borrow_mut(|recording| {
            if let Some(recording) = recording {
                // SAFETY: as above.
                unsafe { recording.recorder.record(state, weight) };
            }
        });
    }
    // SAFETY: called by Lua, and nothing here has to be dropped.
    unsafe { guard::after_sample(state, event) };
}

/// Counts the time of ticks.
///
/// Called by the handler of a signal: it accesses thread-local cells and fields of the state only.
fn tick(count: u64) {
    let meter = PROFILED.get();
    if meter.is_null() {
        return;
    }
    // SAFETY: this thread's meter, which is removed here before it is dropped.
    let state = unsafe { (*meter).running() };
    if state.is_null() {
        OUTSIDE.set(OUTSIDE.get() + count * TICK.get());
    } else {
        PENDING.set(PENDING.get() + count * TICK.get());
        request_sample(state);
    }
}
