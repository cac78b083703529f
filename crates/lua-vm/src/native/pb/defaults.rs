//! The values that fields have without being set, and tables that have them.

use std::ffi::c_int;

use mlua::ffi;
use protobuf::{DEPTH_MAX, DefaultValue, Field, FieldType};

use super::codec_state::DEFAULTS;
use super::frame::Frame;
use super::integer;
use super::options::{
    COPY_DEFAULTS, DEFAULT_ARRAYS, DEFAULT_MESSAGES, ENUM_AS_VALUE, META_DEFAULTS, NO_DEFAULTS,
};
use crate::stack::{self, LuaState};

/// Stack slots of a table that is being filled.
const STACK_PER_LEVEL: c_int = 8;

/// The messages that a default message is within, so that none contains itself.
struct Outer<'a> {
    slot: u32,
    depth: usize,
    next: Option<&'a Outer<'a>>,
}

impl Outer<'_> {
    fn has(&self, slot: u32) -> bool {
        self.slot == slot || self.next.is_some_and(|next| next.has(slot))
    }
}

/// `defaults(type[, clear]) → table`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
pub(super) unsafe extern "C-unwind" fn defaults(state: LuaState) -> c_int {
    // SAFETY: what can leave by longjmp has only references on this frame.
    unsafe {
        ffi::lua_settop(state, 2);
        let frame = Frame::enter(state);
        let slot = frame.message();
        push_defaults(&frame, slot);
        if ffi::lua_toboolean(state, 2) != 0 {
            ffi::lua_rawgeti(state, frame.table, DEFAULTS);
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, -2, ffi::lua_Integer::from(slot) + 1);
            ffi::lua_pop(state, 1);
        }
        1
    }
}

/// Pushes the table of a type's defaults, which is its own `__index`.
///
/// # Safety
/// The stack has eight free slots; may leave by longjmp.
unsafe fn push_defaults(frame: &Frame<'_>, slot: u32) {
    let state = frame.state;
    // SAFETY: what is pushed is popped, except the table.
    unsafe {
        ffi::lua_rawgeti(state, frame.table, DEFAULTS);
        let index = ffi::lua_Integer::from(slot) + 1;
        if ffi::lua_rawgeti(state, -1, index) != ffi::LUA_TTABLE {
            ffi::lua_pop(state, 1);
            ffi::lua_createtable(state, 0, 0);
            fill(frame, slot, true, false, None);
            stack::push(state, b"__index");
            ffi::lua_pushvalue(state, -2);
            ffi::lua_rawset(state, -3);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawseti(state, -3, index);
        }
        ffi::lua_insert(state, -2);
        ffi::lua_pop(state, 1);
    }
}

/// Pushes a table for a message, with the defaults that the options ask for.
///
/// # Safety
/// The stack has a free slot; may leave by longjmp.
#[inline]
pub(super) unsafe fn push_message(frame: &Frame<'_>, slot: u32) {
    // SAFETY: promised by the caller.
    unsafe { push_nested(frame, slot, None) };
}

/// # Safety
/// As [`push_message`].
unsafe fn push_nested(frame: &Frame<'_>, slot: u32, outer: Option<&Outer<'_>>) {
    let state = frame.state;
    let message = frame.schema.get(slot);
    // SAFETY: room is asked for before anything is pushed.
    unsafe {
        ffi::luaL_checkstack(state, STACK_PER_LEVEL, c"messages are nested too deep".as_ptr());
        ffi::lua_createtable(state, 0, message.fields.len().min(16) as c_int);
        match frame.options & NO_DEFAULTS {
            0 if message.is_proto3 => fill(frame, slot, true, true, outer),
            COPY_DEFAULTS => fill(frame, slot, true, true, outer),
            META_DEFAULTS => {
                fill(frame, slot, false, true, outer);
                push_defaults(frame, slot);
                ffi::lua_setmetatable(state, -2);
            }
            _ if frame.options & (DEFAULT_ARRAYS | DEFAULT_MESSAGES) != 0 => {
                fill(frame, slot, false, true, outer);
            }
            _ => {}
        }
    }
}

/// Sets the defaults of a type in the table on top.
///
/// # Safety
/// The stack has six free slots; may leave by longjmp.
unsafe fn fill(
    frame: &Frame<'_>,
    slot: u32,
    has_scalars: bool,
    has_tables: bool,
    outer: Option<&Outer<'_>>,
) {
    let state = frame.state;
    let message = frame.schema.get(slot);
    let depth = outer.map_or(0, |outer| outer.depth + 1);
    let here = Outer { slot, depth, next: outer };
    for field in &message.fields {
        // SAFETY: each value is taken by the table.
        unsafe {
            let is_pushed = if field.is_repeated {
                let is_set = has_tables && (message.is_proto3 || has(frame, DEFAULT_ARRAYS));
                if is_set {
                    ffi::lua_createtable(state, 0, 0);
                }
                is_set
            } else if field.oneof.is_some() {
                false
            } else if matches!(field.kind, FieldType::Message | FieldType::Group) {
                let nested = frame.slot_of(field).filter(|nested| {
                    has_tables
                        && has(frame, DEFAULT_MESSAGES)
                        && depth < DEPTH_MAX
                        && !here.has(*nested)
                });
                nested.inspect(|nested| push_nested(frame, *nested, Some(&here))).is_some()
            } else {
                let is_unset = message.is_proto3 && field.has_presence;
                has_scalars && !is_unset && push_default(frame, field, message.is_proto3)
            };
            if is_pushed {
                frame.push_name(field.key);
                ffi::lua_insert(state, -2);
                ffi::lua_rawset(state, -3);
            }
        }
    }
}

fn has(frame: &Frame<'_>, option: u32) -> bool {
    frame.options & option != 0
}

/// Pushes the default of a scalar field; without one that is declared, zero if `is_proto3`. Returns
/// whether it has one.
///
/// # Safety
/// The stack has two free slots; may leave by longjmp.
pub(super) unsafe fn push_default(frame: &Frame<'_>, field: &Field, is_proto3: bool) -> bool {
    let state = frame.state;
    // SAFETY: pushes one value.
    unsafe {
        match &field.default {
            Some(DefaultValue::Integer(value)) => integer::push(state, *value, frame.options),
            Some(DefaultValue::Float(value)) => ffi::lua_pushnumber(state, *value),
            Some(DefaultValue::Bool(value)) => ffi::lua_pushboolean(state, c_int::from(*value)),
            Some(DefaultValue::Bytes(bytes)) => stack::push(state, bytes),
            Some(DefaultValue::Enum(name)) => return push_enum(frame, field, Some(name)),
            None if !is_proto3 => return false,
            None => match field.kind {
                FieldType::Message | FieldType::Group => return false,
                FieldType::Enum => return push_enum(frame, field, None),
                FieldType::Double | FieldType::Float => ffi::lua_pushnumber(state, 0.0),
                FieldType::Bool => ffi::lua_pushboolean(state, 0),
                FieldType::String | FieldType::Bytes => stack::push(state, b""),
                _ => ffi::lua_pushinteger(state, 0),
            },
        }
    }
    true
}

/// Pushes the value of an enum with this name, or its zero.
///
/// # Safety
/// As [`push_default`].
unsafe fn push_enum(frame: &Frame<'_>, field: &Field, name: Option<&str>) -> bool {
    let known = frame.slot_of(field).map(|slot| frame.schema.get(slot));
    let value = match (known, name) {
        (Some(known), Some(name)) => known.field_named(name),
        (Some(known), None) => known.field(0),
        (None, _) => None,
    };
    // SAFETY: pushes one value.
    unsafe {
        match value {
            Some(value) if has(frame, ENUM_AS_VALUE) => {
                ffi::lua_pushinteger(frame.state, value.number.into());
            }
            Some(value) => frame.push_name(value.key),
            None if name.is_some() => return false,
            None => ffi::lua_pushinteger(frame.state, 0),
        }
    }
    true
}
