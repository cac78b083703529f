//! The stacks of a profile, each once, with what was measured in it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};

use mlua::ffi;

use crate::limits::{PROFILE_FRAMES, PROFILE_FUNCTIONS, PROFILE_PATH_BYTES, PROFILE_STACKS};
use crate::stack::LuaState;

/// A function that was in a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProfiledFunction {
    /// The file, or Lua's short name of a chunk that is none; `[C]` for a function of C.
    pub source: String,
    /// The line at which it begins; 0 for a main chunk, -1 for a function of C.
    pub line: i32,
    /// Its name where it was first seen.
    pub name: String,
}

/// A call in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfiledFrame {
    /// The index of its function.
    pub function: u32,
    /// The line that runs; -1 in a function of C.
    pub line: i32,
}

/// A stack, and what was measured in it.
#[derive(Debug)]
pub struct ProfiledStack {
    /// The innermost call first.
    pub frames: Vec<ProfiledFrame>,
    pub samples: u64,
    pub weight: u64,
}

/// Source, line, and the name of a function of C.
type FunctionKey = (Box<[u8]>, i32, Box<[u8]>);

#[derive(Default)]
pub(super) struct Recorder {
    functions: Vec<ProfiledFunction>,
    indexes: HashMap<FunctionKey, u32>,
    stacks: HashMap<Box<[ProfiledFrame]>, (u64, u64)>,
    left_out: u64,
}

/// The bytes of a text of Lua's; none if there is none.
///
/// # Safety
/// Lua has returned the pointer for a function that is alive.
pub(super) unsafe fn text<'a>(start: *const c_char) -> &'a [u8] {
    if start.is_null() {
        return b"";
    }
    // SAFETY: Lua's texts end with a zero, and live as long as the function they describe.
    unsafe { CStr::from_ptr(start) }.to_bytes()
}

/// The path of the file that a function is in, or Lua's short name of a chunk that is none, whose
/// source is its text.
///
/// # Safety
/// `about` is zero, or was filled in by Lua for a function that is alive.
pub(super) unsafe fn source_of(about: &ffi::lua_Debug) -> &[u8] {
    // SAFETY: promised by the caller.
    let (source, short) = unsafe { (text(about.source), text(about.short_src.as_ptr())) };
    let path = source.strip_prefix(b"@").filter(|path| path.len() <= PROFILE_PATH_BYTES);
    path.unwrap_or(short)
}

impl Recorder {
    /// Adds a weight to the stack of a coroutine that runs.
    ///
    /// # Safety
    /// Called from a hook of `state`.
    pub(super) unsafe fn record(&mut self, state: LuaState, weight: u64) {
        let mut frames = Vec::new();
        // SAFETY: a plain structure that Lua fills in, without an error for these fields.
        let mut about: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        for level in 0..PROFILE_FRAMES {
            // SAFETY: as above.
            let is_there = unsafe {
                ffi::lua_getstack(state, level, &raw mut about) != 0
                    && ffi::lua_getinfo(state, c"Sln".as_ptr(), &raw mut about) != 0
            };
            if !is_there {
                break;
            }
            // SAFETY: Lua has just filled it in.
            let Some(function) = (unsafe { self.function(&about) }) else {
                self.left_out += weight;
                return;
            };
            frames.push(ProfiledFrame { function, line: about.currentline });
        }
        if let Some((samples, sum)) = self.stacks.get_mut(frames.as_slice()) {
            *samples += 1;
            *sum += weight;
        } else if self.stacks.len() < PROFILE_STACKS {
            self.stacks.insert(frames.into_boxed_slice(), (1, weight));
        } else {
            self.left_out += weight;
        }
    }

    /// The index of a function; `None` if there are too many.
    ///
    /// # Safety
    /// `about` was filled in by Lua for a call that has not ended.
    unsafe fn function(&mut self, about: &ffi::lua_Debug) -> Option<u32> {
        // SAFETY: promised by the caller.
        let (source, name, what) =
            unsafe { (source_of(about), text(about.name), text(about.what)) };
        let is_c = what == b"C";
        let own_name = if is_c { name } else { b"" };
        let key = (source.into(), about.linedefined, own_name.into());
        if let Some(index) = self.indexes.get(&key) {
            return Some(*index);
        }
        if self.functions.len() == PROFILE_FUNCTIONS {
            return None;
        }
        let name = match (what, name) {
            (b"main", _) => "main chunk".into(),
            (_, b"") => "function".into(),
            (_, name) => String::from_utf8_lossy(name),
        };
        let index = self.functions.len() as u32;
        self.functions.push(ProfiledFunction {
            source: String::from_utf8_lossy(source).into_owned(),
            line: about.linedefined,
            name: name.into_owned(),
        });
        self.indexes.insert(key, index);
        Some(index)
    }

    /// The functions, the stacks, and what had no room.
    pub(super) fn finish(self) -> (Vec<ProfiledFunction>, Vec<ProfiledStack>, u64) {
        let stack = |(frames, (samples, weight)): (Box<[ProfiledFrame]>, (u64, u64))| {
            ProfiledStack { frames: frames.into_vec(), samples, weight }
        };
        (self.functions, self.stacks.into_iter().map(stack).collect(), self.left_out)
    }
}
