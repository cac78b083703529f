//! From the tape to Lua's stack.
//!
//! Every call here may leave by longjmp when memory is out. No value on these frames has a
//! destructor: they hold pointers into a codec that Lua's collector owns and frees.

use super::keys::{Key, KeyCache, SLOTS};
use super::tape::{Node, read};
use mlua::ffi;
use std::ffi::c_int;

/// Stack slots of one level of nesting: its table and a key; twice that, and some for the value
/// being made.
pub(super) const STACK_PER_LEVEL: usize = 2;
pub(super) const STACK_SPARE: usize = 4;

/// The state of a build.
pub(super) struct Builder<'a> {
    pub(super) words: &'a [u64],
    pub(super) at: usize,
    pub(super) text: &'a [u8],
    pub(super) unescaped: &'a [u8],
    pub(super) keys: &'a mut KeyCache,
    /// The stack index of the table of cached keys.
    pub(super) kept: c_int,
    /// The stack index of the value for null.
    pub(super) null: c_int,
}

/// Pushes the empty table of a [`KeyCache`].
///
/// # Safety
/// `state` is a valid Lua state inside a protected call, with a free slot on its stack.
pub(super) unsafe fn push_kept(state: *mut ffi::lua_State) {
    // SAFETY: as the caller promises.
    unsafe { ffi::lua_createtable(state, SLOTS as c_int, 0) };
}

impl Builder<'_> {
    /// Pushes the next value.
    ///
    /// # Safety
    /// `state` is a valid Lua state inside a protected call, whose stack has room for
    /// `STACK_PER_LEVEL` times the depth of the tape and `STACK_SPARE`; the tables are at the
    /// indexes in the fields.
    pub(super) unsafe fn value(&mut self, state: *mut ffi::lua_State) {
        let node = read(self.words, &mut self.at);
        // SAFETY: pushes of one value, for which there is room; the strings are slices that live
        // while Lua copies them; the recursion is as deep as the tape, which is bounded.
        unsafe {
            match node {
                Node::Plain { start, length } => push(state, piece(self.text, start, length)),
                Node::Integer(value) => ffi::lua_pushinteger(state, value),
                Node::Float(value) => ffi::lua_pushnumber(state, value),
                Node::Object(count) => self.object(state, count),
                Node::Array(count) => self.array(state, count),
                Node::Boolean(value) => ffi::lua_pushboolean(state, c_int::from(value)),
                Node::Null => ffi::lua_pushvalue(state, self.null),
                Node::Unescaped { start, length } => {
                    push(state, piece(self.unescaped, start, length));
                }
            }
        }
    }

    /// # Safety
    /// As `value`.
    unsafe fn array(&mut self, state: *mut ffi::lua_State, count: usize) {
        // SAFETY: the new table stands right below each value.
        unsafe {
            ffi::lua_createtable(state, count as c_int, 0);
            for index in 1..=count as ffi::lua_Integer {
                self.value(state);
                ffi::lua_rawseti(state, -2, index);
            }
        }
    }

    /// # Safety
    /// As `value`.
    unsafe fn object(&mut self, state: *mut ffi::lua_State, count: usize) {
        // SAFETY: the new table stands right below each key and value; a key is a string, which
        // `lua_rawset` takes without complaint. A key that comes twice is set twice: the last wins.
        unsafe {
            ffi::lua_createtable(state, 0, count as c_int);
            for _ in 0..count {
                self.key(state);
                self.value(state);
                ffi::lua_rawset(state, -3);
            }
        }
    }

    /// # Safety
    /// As `value`.
    #[inline(always)]
    unsafe fn key(&mut self, state: *mut ffi::lua_State) {
        let bytes = match read(self.words, &mut self.at) {
            Node::Plain { start, length } => piece(self.text, start, length),
            Node::Unescaped { start, length } => piece(self.unescaped, start, length),
            _ => &[],
        };
        // SAFETY: pushes of one value and a copy of it, for which there is room; the slot is one of
        // the kept table's. A key is cached only once Lua has it.
        unsafe {
            let Some(key) = Key::new(bytes) else { return push(state, bytes) };
            let slot = key.slot();
            let index = slot as ffi::lua_Integer + 1;
            if self.keys.holds(slot, &key) {
                ffi::lua_rawgeti(state, self.kept, index);
            } else {
                push(state, bytes);
                ffi::lua_pushvalue(state, -1);
                ffi::lua_rawseti(state, self.kept, index);
                self.keys.put(slot, key);
            }
        }
    }
}

/// # Safety
/// `state` is a valid Lua state inside a protected call, with a free slot on its stack.
#[inline(always)]
unsafe fn push(state: *mut ffi::lua_State, bytes: &[u8]) {
    // SAFETY: as the caller promises; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
}

#[inline(always)]
fn piece(text: &[u8], start: usize, length: usize) -> &[u8] {
    text.get(start..start + length).unwrap_or(&[])
}
