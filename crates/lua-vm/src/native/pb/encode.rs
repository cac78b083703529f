//! The encoder: a table on Lua's stack to a message.
//!
//! Reads tables raw: no metamethod runs, only hooks. Errors leave the value in question on the
//! stack, so that they can show it. What can leave by longjmp has no destructor on its frames.

use std::ffi::{CStr, c_int};

use mlua::ffi;
use protobuf::{
    DEPTH_MAX, Field, FieldType, WireType, length_of_varint, write_tag, write_varint, zigzag32,
    zigzag64,
};

use super::codec_state::ENCODE_HOOKS;
use super::frame::Frame;
use super::options::{ENCODE_DEFAULTS, ENCODE_HOOKED};
use super::{CONVERT, SCRATCH, integer, scratch};
use crate::limits::PROTOBUF_BYTES;
use crate::stack::{self, LuaState};

/// Stack slots of one level: a key, a value, an element, a hook and its argument.
const STACK_PER_LEVEL: c_int = 12;

/// Why a table cannot be encoded.
#[derive(Clone, Copy)]
enum EncodeError<'a> {
    /// What a field needs; the value is at the index.
    Expected(&'static str, &'a Field, c_int),
    /// A string that is not a value of an enum.
    UnknownValue(&'a Field, c_int),
    TooDeep,
    TooLarge,
    NoStack,
}

type Encoded<'a> = Result<(), EncodeError<'a>>;

/// `encode(type, table[, buffer]) → string | buffer`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
pub(super) unsafe extern "C-unwind" fn encode(state: LuaState) -> c_int {
    // SAFETY: what can leave by longjmp has only references on this frame: the output is in the
    // userdata that `take` pushes.
    unsafe {
        ffi::lua_settop(state, 3);
        let frame = Frame::enter(state);
        let slot = frame.message();
        ffi::luaL_checktype(state, 2, ffi::LUA_TTABLE);
        let scratch = &mut *scratch::take(state, SCRATCH);
        ffi::lua_pushvalue(state, 2);
        let mut encoder = Encoder { frame, out: &mut scratch.out };
        if encoder.hooked() {
            frame.hook(ENCODE_HOOKS, slot);
            if ffi::lua_type(state, -1) != ffi::LUA_TTABLE {
                scratch.release();
                stack::raise(state, "the hook of a message returns no table");
            }
        }
        let index = ffi::lua_gettop(state);
        if let Err(error) = encoder.message(slot, index, DEPTH_MAX) {
            scratch.release();
            push_error(state, error);
            frame.argument_error(2);
        }
        let has_buffer = ffi::lua_type(state, 3) > ffi::LUA_TNIL;
        if has_buffer {
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(CONVERT));
            ffi::lua_pushvalue(state, 3);
        }
        stack::push(state, &scratch.out);
        scratch.release();
        if has_buffer {
            ffi::lua_call(state, 2, 1);
        }
        1
    }
}

struct Encoder<'a, 'o> {
    frame: Frame<'a>,
    out: &'o mut Vec<u8>,
}

impl<'a> Encoder<'a, '_> {
    fn hooked(&self) -> bool {
        self.frame.options & ENCODE_HOOKED != 0
    }

    /// Appends the fields of the table at `index`.
    ///
    /// # Safety
    /// The stack is that of the frame, and `index` counts from its bottom.
    unsafe fn message(&mut self, slot: u32, index: c_int, depth_left: usize) -> Encoded<'a> {
        let state = self.frame.state;
        let depth_left = depth_left.checked_sub(1).ok_or(EncodeError::TooDeep)?;
        let schema = self.frame.schema;
        // SAFETY: room is asked for before anything is pushed; what is pushed is popped, unless
        // the encoding fails.
        unsafe {
            if ffi::lua_checkstack(state, STACK_PER_LEVEL) == 0 {
                return Err(EncodeError::NoStack);
            }
            for field in &schema.get(slot).fields {
                self.frame.push_name(field.key);
                if ffi::lua_rawget(state, index) != ffi::LUA_TNIL {
                    let value = ffi::lua_gettop(state);
                    self.field(field, value, depth_left)?;
                    if self.out.len() > PROTOBUF_BYTES {
                        return Err(EncodeError::TooLarge);
                    }
                    ffi::lua_settop(state, value);
                }
                ffi::lua_pop(state, 1);
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn field(&mut self, field: &'a Field, value: c_int, depth_left: usize) -> Encoded<'a> {
        // SAFETY: promised by the caller.
        unsafe {
            if !field.is_repeated {
                let keeps_zero = field.has_presence || self.frame.options & ENCODE_DEFAULTS != 0;
                return self.tagged(field, value, keeps_zero, depth_left);
            }
            if ffi::lua_type(self.frame.state, value) != ffi::LUA_TTABLE {
                return Err(EncodeError::Expected("table", field, value));
            }
            let entry =
                self.frame.slot_of(field).filter(|slot| self.frame.schema.get(*slot).is_map());
            match entry {
                Some(entry) => self.map(field, entry, value, depth_left),
                None => self.list(field, value, depth_left),
            }
        }
    }

    /// Appends the elements of a list up to its first nil.
    ///
    /// # Safety
    /// As [`Encoder::message`]; the value is a table.
    unsafe fn list(&mut self, field: &'a Field, value: c_int, depth_left: usize) -> Encoded<'a> {
        let state = self.frame.state;
        let begin = self.out.len();
        if field.is_packed {
            write_tag(self.out, field.number as u32, WireType::Bytes);
        }
        let content = if field.is_packed { self.begin_length() } else { begin };
        // SAFETY: each element is popped before the next is pushed.
        unsafe {
            for index in 1.. {
                if ffi::lua_rawgeti(state, value, index) == ffi::LUA_TNIL {
                    ffi::lua_pop(state, 1);
                    break;
                }
                let element = ffi::lua_gettop(state);
                if field.is_packed {
                    self.value(field, element, depth_left)?;
                } else {
                    self.tagged(field, element, true, depth_left)?;
                }
                if self.out.len() > PROTOBUF_BYTES {
                    return Err(EncodeError::TooLarge);
                }
                ffi::lua_settop(state, element - 1);
            }
        }
        if !field.is_packed {
            return Ok(());
        }
        if self.out.len() == content && self.frame.options & ENCODE_DEFAULTS == 0 {
            self.out.truncate(begin);
        } else {
            self.end_length(content);
        }
        Ok(())
    }

    /// Appends the entries of a map.
    ///
    /// # Safety
    /// As [`Encoder::message`]; the value is a table.
    unsafe fn map(
        &mut self,
        field: &'a Field,
        entry: u32,
        value: c_int,
        depth_left: usize,
    ) -> Encoded<'a> {
        let state = self.frame.state;
        let schema = self.frame.schema;
        let entry = schema.get(entry);
        let (Some(key_field), Some(value_field)) = (entry.field(1), entry.field(2)) else {
            return Ok(());
        };
        // SAFETY: a copy of the key is encoded, so that nothing changes the one `lua_next` needs;
        // each entry is popped before the next is pushed.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, value) != 0 {
                let top = ffi::lua_gettop(state);
                write_tag(self.out, field.number as u32, WireType::Bytes);
                let content = self.begin_length();
                ffi::lua_pushvalue(state, top - 1);
                self.tagged(key_field, top + 1, true, depth_left)?;
                self.tagged(value_field, top, true, depth_left)?;
                self.end_length(content);
                if self.out.len() > PROTOBUF_BYTES {
                    return Err(EncodeError::TooLarge);
                }
                ffi::lua_settop(state, top - 1);
            }
        }
        Ok(())
    }

    /// Appends a tag and a value, or nothing for a zero that is not kept.
    ///
    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn tagged(
        &mut self,
        field: &'a Field,
        value: c_int,
        keeps_zero: bool,
        depth_left: usize,
    ) -> Encoded<'a> {
        let begin = self.out.len();
        write_tag(self.out, field.number as u32, field.kind.wire_type());
        let content = self.out.len();
        // SAFETY: promised by the caller.
        unsafe { self.value(field, value, depth_left)? };
        // A zero is zeros in every type: of a varint, of a fixed integer, of a length.
        if !keeps_zero && self.out[content..].iter().all(|byte| *byte == 0) {
            self.out.truncate(begin);
        }
        if field.kind == FieldType::Group {
            write_tag(self.out, field.number as u32, WireType::GroupEnd);
        }
        Ok(())
    }

    /// Appends a value.
    ///
    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn value(&mut self, field: &'a Field, value: c_int, depth_left: usize) -> Encoded<'a> {
        let state = self.frame.state;
        // SAFETY: values are asked for what their types may become; none is changed.
        unsafe {
            match field.kind {
                FieldType::String | FieldType::Bytes => return self.bytes(field, value),
                FieldType::Message | FieldType::Group => {
                    return self.nested(field, value, depth_left);
                }
                FieldType::Enum => return self.enumeration(field, value),
                FieldType::Bool => self.out.push(u8::from(ffi::lua_toboolean(state, value) != 0)),
                FieldType::Double => {
                    let number = self.number(field, value)?;
                    self.out.extend_from_slice(&number.to_le_bytes());
                }
                FieldType::Float => {
                    let number = self.number(field, value)? as f32;
                    self.out.extend_from_slice(&number.to_le_bytes());
                }
                _ => {
                    let number = integer::read(state, value);
                    let Some(number) = number else {
                        let is_number = ffi::lua_type(state, value) == ffi::LUA_TNUMBER;
                        let what = if is_number { "integer" } else { "number" };
                        return Err(EncodeError::Expected(what, field, value));
                    };
                    self.integer(field.kind, number);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn integer(&mut self, kind: FieldType, value: u64) {
        match kind {
            FieldType::Int32 => write_varint(self.out, i64::from(value as i32) as u64),
            FieldType::Uint32 => write_varint(self.out, u64::from(value as u32)),
            FieldType::Sint32 => write_varint(self.out, zigzag32(value as i32).into()),
            FieldType::Sint64 => write_varint(self.out, zigzag64(value as i64)),
            FieldType::Fixed32 | FieldType::Sfixed32 => {
                self.out.extend_from_slice(&(value as u32).to_le_bytes());
            }
            FieldType::Fixed64 | FieldType::Sfixed64 => {
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            _ => write_varint(self.out, value),
        }
    }

    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn number(&self, field: &'a Field, value: c_int) -> Result<f64, EncodeError<'a>> {
        let mut is_number = 0;
        // SAFETY: promised by the caller.
        let number = unsafe { ffi::lua_tonumberx(self.frame.state, value, &raw mut is_number) };
        if is_number != 0 { Ok(number) } else { Err(EncodeError::Expected("number", field, value)) }
    }

    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn bytes(&mut self, field: &'a Field, value: c_int) -> Encoded<'a> {
        let state = self.frame.state;
        // SAFETY: only a string is read as one; it stays on the stack while its bytes are copied.
        let bytes = unsafe {
            if ffi::lua_type(state, value) != ffi::LUA_TSTRING {
                return Err(EncodeError::Expected("string", field, value));
            }
            stack::bytes(state, value).unwrap_or_default()
        };
        if bytes.len() > PROTOBUF_BYTES {
            return Err(EncodeError::TooLarge);
        }
        write_varint(self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn enumeration(&mut self, field: &'a Field, value: c_int) -> Encoded<'a> {
        let state = self.frame.state;
        // SAFETY: a hook replaces a copy of the value, which is on top.
        unsafe {
            let mut value = value;
            let slot = self.frame.slot_of(field);
            if let Some(slot) = slot.filter(|_| self.hooked()) {
                ffi::lua_pushvalue(state, value);
                self.frame.hook(ENCODE_HOOKS, slot);
                value = ffi::lua_gettop(state);
            }
            if ffi::lua_type(state, value) == ffi::LUA_TNUMBER {
                let number = integer::read(state, value);
                let number = number.ok_or(EncodeError::Expected("number/string", field, value))?;
                write_varint(self.out, i64::from(number as i32) as u64);
                return Ok(());
            }
            if ffi::lua_type(state, value) != ffi::LUA_TSTRING {
                return Err(EncodeError::Expected("number/string", field, value));
            }
            let name = std::str::from_utf8(stack::bytes(state, value).unwrap_or_default());
            let known = slot.map(|slot| self.frame.schema.get(slot));
            let found = known.zip(name.ok()).and_then(|(known, name)| known.field_named(name));
            let found = found.ok_or(EncodeError::UnknownValue(field, value))?;
            write_varint(self.out, i64::from(found.number) as u64);
        }
        Ok(())
    }

    /// # Safety
    /// As [`Encoder::message`].
    unsafe fn nested(&mut self, field: &'a Field, value: c_int, depth_left: usize) -> Encoded<'a> {
        let state = self.frame.state;
        // SAFETY: a hook replaces a copy of the table, which is on top.
        unsafe {
            let mut value = value;
            let slot = self.frame.slot_of(field);
            if let Some(slot) = slot.filter(|_| self.hooked()) {
                ffi::lua_pushvalue(state, value);
                self.frame.hook(ENCODE_HOOKS, slot);
                value = ffi::lua_gettop(state);
            }
            if ffi::lua_type(state, value) != ffi::LUA_TTABLE {
                return Err(EncodeError::Expected("table", field, value));
            }
            let is_group = field.kind == FieldType::Group;
            let content = if is_group { 0 } else { self.begin_length() };
            if let Some(slot) = slot {
                self.message(slot, value, depth_left)?;
            }
            if !is_group {
                self.end_length(content);
            }
        }
        Ok(())
    }

    /// Leaves room for a short length; returns where the content begins.
    fn begin_length(&mut self) -> usize {
        self.out.push(0);
        self.out.len()
    }

    /// Writes the length of what was appended since `content`.
    fn end_length(&mut self, content: usize) {
        let length = self.out.len() - content;
        if length < 0x80 {
            self.out[content - 1] = length as u8;
            return;
        }
        let extra = length_of_varint(length as u64) - 1;
        self.out.resize(self.out.len() + extra, 0);
        self.out.copy_within(content..content + length, content + extra);
        let mut rest = length;
        for byte in &mut self.out[content - 1..content + extra] {
            *byte = rest as u8 | 0x80;
            rest >>= 7;
        }
        self.out[content + extra - 1] &= 0x7f;
    }
}

/// Pushes the text of an error.
///
/// # Safety
/// The stack is as the encoder left it.
unsafe fn push_error(state: LuaState, error: EncodeError<'_>) {
    let text = match error {
        EncodeError::TooDeep => "messages are nested more than 100 deep".to_owned(),
        EncodeError::TooLarge => "the message would be longer than 256 MiB".to_owned(),
        EncodeError::NoStack => "the Lua stack is full".to_owned(),
        EncodeError::Expected(what, field, value) => {
            // SAFETY: names of types are static strings of Lua.
            let got = unsafe { CStr::from_ptr(ffi::luaL_typename(state, value)) };
            let got = got.to_string_lossy();
            if what == "table" {
                format!("table expected at field '{}', got {got}", field.name)
            } else {
                format!("{what} expected for field '{}', got {got}", field.name)
            }
        }
        EncodeError::UnknownValue(field, value) => {
            // SAFETY: the value is a string on the stack.
            let given = unsafe { stack::bytes(state, value) }.unwrap_or_default();
            let given = String::from_utf8_lossy(&given[..given.len().min(64)]);
            format!("can not encode unknown enum '{given}' at field '{}'", field.name)
        }
    };
    // SAFETY: the encoder left room; the text is dropped before anything raises, unless memory is
    // out.
    unsafe {
        ffi::luaL_checkstack(state, 4, std::ptr::null());
        stack::push(state, text.as_bytes());
    }
    drop(text);
}
