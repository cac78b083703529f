//! What every raw call has on its stack: the state, its schema, its names, its options.

use std::ffi::c_int;

use mlua::ffi;
use protobuf::{Field, Schema, TypeKind};

use super::codec_state::{KEYS, OPTIONS, SCHEMA};
use super::{CONVERT, HOLDER};
use crate::stack::{self, LuaState};

/// The values of a call below which its work begins.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) state: LuaState,
    pub(super) schema: &'a Schema,
    pub(super) options: u32,
    /// The table of the state, and the table of names.
    pub(super) table: c_int,
    keys: c_int,
}

impl<'a> Frame<'a> {
    /// Pushes what a call needs.
    ///
    /// # Safety
    /// `state` runs a raw function of this module, with six free slots; the frame is used only
    /// while that function runs, and what is pushed stays on its stack.
    pub(super) unsafe fn enter(state: LuaState) -> Frame<'a> {
        // SAFETY: the holder and what it has are made by this module; the schema lives as long as
        // its userdata is on the stack.
        unsafe {
            ffi::lua_rawgeti(state, ffi::lua_upvalueindex(HOLDER), 1);
            let table = ffi::lua_gettop(state);
            ffi::lua_rawgeti(state, table, SCHEMA);
            let schema = &**ffi::lua_touserdata(state, -1).cast::<std::rc::Rc<Schema>>();
            ffi::lua_rawgeti(state, table, KEYS);
            ffi::lua_rawgeti(state, table, OPTIONS);
            let options = ffi::lua_tointegerx(state, -1, std::ptr::null_mut()) as u32;
            ffi::lua_pop(state, 1);
            Frame { state, schema, options, table, keys: table + 2 }
        }
    }

    /// The slot of the message that the first argument names; raises if there is none.
    ///
    /// # Safety
    /// The raw function holds nothing to drop.
    pub(super) unsafe fn message(&self) -> u32 {
        // SAFETY: the argument stays on the stack while its bytes are used; raising leaves nothing
        // behind but a short text.
        unsafe {
            let name = stack::check_bytes(self.state, 1);
            let slot = std::str::from_utf8(name).ok().and_then(|name| self.schema.slot(name));
            let is_message = |slot: &u32| self.schema.get(*slot).kind != Some(TypeKind::Enum);
            if let Some(slot) = slot.filter(is_message) {
                return slot;
            }
            let format = match slot {
                Some(_) => c"type '%s' is an enum",
                None => c"type '%s' does not exist",
            };
            let name = ffi::lua_tolstring(self.state, 1, std::ptr::null_mut());
            ffi::lua_pushfstring(self.state, format.as_ptr(), name);
            self.argument_error(1)
        }
    }

    /// Raises the text on top of the stack as an error of an argument.
    ///
    /// # Safety
    /// The raw function holds nothing to drop.
    pub(super) unsafe fn argument_error(&self, index: c_int) -> ! {
        // SAFETY: the text is a string on the stack, which ends with a zero.
        unsafe {
            let text = ffi::lua_tolstring(self.state, -1, std::ptr::null_mut());
            ffi::luaL_argerror(self.state, index, text);
        }
        unreachable!("luaL_argerror does not return")
    }

    /// Pushes the name with this key.
    ///
    /// # Safety
    /// The stack has a free slot.
    #[inline(always)]
    pub(super) unsafe fn push_name(&self, key: u32) {
        // SAFETY: the table of names is on the stack.
        unsafe { ffi::lua_rawgeti(self.state, self.keys, ffi::lua_Integer::from(key) + 1) };
    }

    /// The type of a message field.
    #[inline(always)]
    pub(super) fn slot_of(&self, field: &Field) -> Option<u32> {
        field.type_slot.filter(|slot| self.schema.get(*slot).kind.is_some())
    }

    /// Replaces the value on top by what the hook of its type returns, unless that is nil.
    ///
    /// # Safety
    /// The stack has three free slots, and the caller holds nothing to drop: a hook may raise.
    pub(super) unsafe fn hook(&self, hooks: ffi::lua_Integer, slot: u32) {
        let state = self.state;
        // SAFETY: what is pushed is popped, except the value that replaces the one on top.
        unsafe {
            ffi::lua_rawgeti(state, self.table, hooks);
            if ffi::lua_rawgeti(state, -1, ffi::lua_Integer::from(slot) + 1) == ffi::LUA_TNIL {
                return ffi::lua_pop(state, 2);
            }
            ffi::lua_pushvalue(state, -3);
            ffi::lua_call(state, 1, 1);
            if ffi::lua_type(state, -1) == ffi::LUA_TNIL {
                return ffi::lua_pop(state, 2);
            }
            ffi::lua_replace(state, -3);
            ffi::lua_pop(state, 1);
        }
    }
}

/// Replaces the argument `index` by the string that it is a buffer or a slice of; nothing is an
/// empty string.
///
/// # Safety
/// `state` runs a raw function of this module, which holds nothing to drop.
pub(super) unsafe fn convert(state: LuaState, index: c_int) {
    // SAFETY: pushes and replaces values of the call's own frame.
    unsafe {
        match ffi::lua_type(state, index) {
            ffi::LUA_TSTRING => {}
            ffi::LUA_TNIL | ffi::LUA_TNONE => {
                stack::push(state, b"");
                ffi::lua_replace(state, index);
            }
            _ => {
                ffi::lua_pushvalue(state, ffi::lua_upvalueindex(CONVERT));
                ffi::lua_pushvalue(state, index);
                ffi::lua_call(state, 1, 1);
                ffi::lua_replace(state, index);
                ffi::luaL_checktype(state, index, ffi::LUA_TSTRING);
            }
        }
    }
}
