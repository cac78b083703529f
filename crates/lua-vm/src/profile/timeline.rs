//! The time line of a VM: when each coroutine ran, and from where.
//!
//! A coroutine runs from its resume until the next one, or the end of the turn. Without a recording
//! this costs nothing: the VM asks with the hooks of tasks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use mlua::ffi;

use super::recorder::{self, source_of};
use crate::limits::{PROFILE_FRAMES, PROFILE_FUNCTIONS, TIMELINE_SLICES};
use crate::stack::LuaState;

/// A part of a turn in which one coroutine ran.
#[derive(Clone, Copy, Debug)]
pub struct TimelineSlice {
    /// The number of the coroutine; ended ones give theirs to later ones.
    pub task: u32,
    /// The index of the line at which it was resumed.
    pub place: u32,
    /// Since the beginning of the recording.
    pub begin: Duration,
    pub duration: Duration,
}

/// A finished recording.
#[derive(Debug)]
pub struct Timeline {
    pub slices: Vec<TimelineSlice>,
    /// `file:line`.
    pub places: Vec<String>,
    /// Slices that had no room.
    pub left_out: u64,
}

struct TimelineRecording {
    begun: Instant,
    timeline: Timeline,
    /// The indexes of the places.
    indexes: HashMap<(Box<[u8]>, i32), u32>,
    /// The coroutine that runs, its place, and since when.
    running: Option<(u32, u32, Duration)>,
}

thread_local! {
    static RECORDING: RefCell<Option<TimelineRecording>> = const { RefCell::new(None) };
}

/// Begins a recording of the VM that runs on this thread; the error is a sentence.
pub(crate) fn begin_timeline() -> Result<(), String> {
    if RECORDING.with_borrow(Option::is_some) {
        return Err("another time line is being recorded".to_owned());
    }
    RECORDING.set(Some(TimelineRecording {
        begun: Instant::now(),
        timeline: Timeline { slices: Vec::new(), places: Vec::new(), left_out: 0 },
        indexes: HashMap::new(),
        running: None,
    }));
    Ok(())
}

/// Ends the recording of this thread; `None` if there is none.
pub(crate) fn end_timeline() -> Option<Timeline> {
    let mut recording = RECORDING.take()?;
    recording.stop_running();
    Some(recording.timeline)
}

/// Notes that a coroutine is about to run.
///
/// # Safety
/// The thread is alive and does not run.
pub(crate) unsafe fn task_runs(index: u32, thread: LuaState) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.stop_running();
            // SAFETY: promised by the caller.
            let place = unsafe { recording.place(thread) };
            recording.running = Some((index, place, recording.begun.elapsed()));
        }
    });
}

/// Notes that a turn has ended: no coroutine runs.
pub(crate) fn turn_ends() {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.stop_running();
        }
    });
}

impl TimelineRecording {
    fn stop_running(&mut self) {
        let Some((task, place, begin)) = self.running.take() else { return };
        if self.timeline.slices.len() == TIMELINE_SLICES {
            self.timeline.left_out += 1;
            return;
        }
        let duration = self.begun.elapsed().saturating_sub(begin);
        self.timeline.slices.push(TimelineSlice { task, place, begin, duration });
    }

    /// The line at which a coroutine continues, or at which its function begins.
    ///
    /// # Safety
    /// The thread is alive and does not run.
    unsafe fn place(&mut self, thread: LuaState) -> u32 {
        // SAFETY: a plain structure that Lua fills in, without an error for these fields; the copy
        // of the function is popped by `lua_getinfo`, and a thread has room for some values.
        unsafe {
            let mut about: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_status(thread) == ffi::LUA_OK {
                if ffi::lua_type(thread, 1) == ffi::LUA_TFUNCTION {
                    ffi::lua_pushvalue(thread, 1);
                    ffi::lua_getinfo(thread, c">S".as_ptr(), &raw mut about);
                    return self.index(&about, about.linedefined);
                }
                return self.index(&about, 0);
            }
            for level in 0..PROFILE_FRAMES {
                if ffi::lua_getstack(thread, level, &raw mut about) == 0 {
                    break;
                }
                ffi::lua_getinfo(thread, c"Sl".as_ptr(), &raw mut about);
                let is_own = recorder::text(about.source).starts_with(b"=tidegate/");
                if about.currentline > 0 && !is_own {
                    return self.index(&about, about.currentline);
                }
            }
            self.index(&about, about.currentline)
        }
    }

    /// # Safety
    /// `about` is zero, or was filled in by Lua for a function that is alive.
    unsafe fn index(&mut self, about: &ffi::lua_Debug, line: i32) -> u32 {
        // SAFETY: promised by the caller.
        let source = unsafe { source_of(about) };
        if let Some(index) = self.indexes.get(&(source.into(), line)) {
            return *index;
        }
        if self.timeline.places.len() == PROFILE_FUNCTIONS {
            // The last one stands for all further ones.
            return PROFILE_FUNCTIONS as u32 - 1;
        }
        let index = self.timeline.places.len() as u32;
        let shown = String::from_utf8_lossy(source);
        self.timeline.places.push(match index as usize + 1 {
            PROFILE_FUNCTIONS => "other lines".to_owned(),
            _ => format!("{shown}:{line}"),
        });
        self.indexes.insert((source.into(), line), index);
        index
    }
}
