//! The decoder: a message to a table on Lua's stack.
//!
//! Any push may leave by longjmp, so no value on these frames has a destructor.

use std::ffi::c_int;
use std::fmt;

use mlua::ffi;
use protobuf::{DEPTH_MAX, Field, FieldType, MessageType, Reader, WireError, WireType};

use super::codec_state::DECODE_HOOKS;
use super::defaults::{push_default, push_message};
use super::frame::{Frame, convert};
use super::integer;
use super::options::{DECODE_HOOKED, ENUM_AS_VALUE};
use crate::stack::{self, LuaState};

/// Stack slots of one level: its table, a list or map, an entry's key and value, and what is being
/// made.
const STACK_PER_LEVEL: c_int = 16;

/// Why a message cannot be decoded.
#[derive(Clone, Copy)]
enum DecodeError<'a> {
    Wire(WireError),
    Mismatch { field: &'a Field, tag: u32, at: usize },
    NoStack,
}

impl From<WireError> for DecodeError<'_> {
    fn from(error: WireError) -> Self {
        DecodeError::Wire(error)
    }
}

impl DecodeError<'_> {
    /// The error of a slice that begins at `base` of the one around it.
    fn moved(self, base: usize) -> Self {
        match self {
            DecodeError::Wire(error) => DecodeError::Wire(error.moved(base)),
            DecodeError::Mismatch { field, tag, at } => {
                DecodeError::Mismatch { field, tag, at: base + at }
            }
            DecodeError::NoStack => DecodeError::NoStack,
        }
    }
}

impl fmt::Display for DecodeError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Wire(error) => error.fmt(f),
            DecodeError::NoStack => f.write_str("the Lua stack is full"),
            DecodeError::Mismatch { field, tag, at } => {
                let packed = if field.is_packed { "packed " } else { "" };
                let repeated = if field.is_repeated { "repeated " } else { "" };
                write!(
                    f,
                    "type mismatch for {packed}{repeated}field '{}' at offset {}, {} expected for \
                     type {}, got {}",
                    field.name,
                    at + 1,
                    field.kind.wire_type().name(),
                    field.kind.name(),
                    WireType::of_tag(*tag).map_or("unknown", WireType::name)
                )
            }
        }
    }
}

type Decoded<'a> = Result<(), DecodeError<'a>>;

/// `decode(type, data[, table]) → table`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
pub(super) unsafe extern "C-unwind" fn decode(state: LuaState) -> c_int {
    // SAFETY: what can leave by longjmp has only references on this frame; the data is a string
    // that stays on the stack while it is read.
    unsafe {
        ffi::lua_settop(state, 3);
        convert(state, 2);
        let frame = Frame::enter(state);
        let slot = frame.message();
        let data = stack::bytes(state, 2).unwrap_or_default();
        if ffi::lua_type(state, 3) == ffi::LUA_TTABLE {
            ffi::lua_pushvalue(state, 3);
        } else {
            push_message(&frame, slot);
        }
        match (Decoder { frame }).message(slot, data, DEPTH_MAX) {
            Ok(()) => 1,
            Err(error) => stack::raise(state, error.to_string()),
        }
    }
}

struct Decoder<'a> {
    frame: Frame<'a>,
}

/// The list or map of a repeated field, which stays on the stack while the field repeats.
struct OpenTable {
    index: c_int,
    number: i32,
    length: ffi::lua_Integer,
}

impl<'a> Decoder<'a> {
    /// Decodes into the table on top, which a hook may replace.
    ///
    /// # Safety
    /// The stack is that of the frame, with the table on top of it.
    unsafe fn message(&self, slot: u32, data: &[u8], depth_left: usize) -> Decoded<'a> {
        let state = self.frame.state;
        let message = self.frame.schema.get(slot);
        let depth_left = depth_left.checked_sub(1).ok_or(WireError::TooDeep)?;
        // SAFETY: room is asked for before anything is pushed; only the table is left.
        unsafe {
            if ffi::lua_checkstack(state, STACK_PER_LEVEL) == 0 {
                return Err(DecodeError::NoStack);
            }
            let table = ffi::lua_gettop(state);
            ffi::lua_pushnil(state);
            let mut open = OpenTable { index: table + 1, number: 0, length: 0 };
            let mut reader = Reader::new(data);
            while !reader.is_empty() {
                let tag = reader.tag()?;
                match message.field((tag >> 3) as i32) {
                    None => reader.skip(tag, depth_left)?,
                    Some(field) if field.is_repeated => {
                        self.open(table, field, &mut open);
                        self.element(field, tag, &mut reader, &mut open, depth_left)?;
                    }
                    Some(field) => {
                        self.frame.push_name(field.key);
                        if field.oneof.is_some() {
                            self.choose(message, field, table);
                        }
                        self.single(field, tag, &mut reader, table, depth_left)?;
                        ffi::lua_rawset(state, table);
                    }
                }
            }
            ffi::lua_settop(state, table);
            if self.frame.options & DECODE_HOOKED != 0 {
                self.frame.hook(DECODE_HOOKS, slot);
            }
        }
        Ok(())
    }

    /// Notes the field, whose name is on top, as the chosen one of its oneof.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    unsafe fn choose(&self, message: &MessageType, field: &Field, table: c_int) {
        let state = self.frame.state;
        let Some((_, key)) = field.oneof.and_then(|index| message.oneofs.get(index as usize))
        else {
            return;
        };
        // SAFETY: what is pushed is popped.
        unsafe {
            self.frame.push_name(*key);
            let before = ffi::lua_rawget(state, table);
            if before == ffi::LUA_TSTRING && ffi::lua_rawequal(state, -1, -2) == 0 {
                // Of several the last one counts.
                ffi::lua_pushnil(state);
                ffi::lua_rawset(state, table);
            } else {
                ffi::lua_pop(state, 1);
            }
            self.frame.push_name(*key);
            ffi::lua_pushvalue(state, -2);
            ffi::lua_rawset(state, table);
        }
    }

    /// Has the table of a repeated field at the index of `open`.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    #[inline(always)]
    unsafe fn open(&self, table: c_int, field: &Field, open: &mut OpenTable) {
        if open.number == field.number {
            return;
        }
        let state = self.frame.state;
        // SAFETY: what is pushed is popped.
        unsafe {
            self.frame.push_name(field.key);
            if ffi::lua_rawget(state, table) != ffi::LUA_TTABLE {
                ffi::lua_pop(state, 1);
                ffi::lua_createtable(state, 0, 0);
                self.frame.push_name(field.key);
                ffi::lua_pushvalue(state, -2);
                ffi::lua_rawset(state, table);
            }
            open.number = field.number;
            open.length = ffi::lua_rawlen(state, -1) as ffi::lua_Integer;
            ffi::lua_replace(state, open.index);
        }
    }

    /// Adds what a repeated field has: one element, several that are packed, or an entry.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    unsafe fn element(
        &self,
        field: &'a Field,
        tag: u32,
        reader: &mut Reader<'_>,
        open: &mut OpenTable,
        depth_left: usize,
    ) -> Decoded<'a> {
        let state = self.frame.state;
        // SAFETY: each value is taken by the table.
        unsafe {
            if let Some(entry) = self.frame.schema.type_of(field).filter(|found| found.is_map()) {
                return self.entry(field, entry, tag, reader, open.index, depth_left);
            }
            if field.kind.is_packable() && WireType::of_tag(tag) == Some(WireType::Bytes) {
                let packed = reader.bytes()?;
                let base = reader.position() - packed.len();
                let mut values = Reader::new(packed);
                while !values.is_empty() {
                    self.value(field, tag, &mut values, 0).map_err(|error| error.moved(base))?;
                    open.length += 1;
                    ffi::lua_rawseti(state, open.index, open.length);
                }
                return Ok(());
            }
            check(field, tag, reader)?;
            self.fresh(field, tag, reader, depth_left)?;
            open.length += 1;
            ffi::lua_rawseti(state, open.index, open.length);
        }
        Ok(())
    }

    /// Adds an entry to the map at `index`.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    unsafe fn entry(
        &self,
        field: &'a Field,
        entry: &'a MessageType,
        tag: u32,
        reader: &mut Reader<'_>,
        index: c_int,
        depth_left: usize,
    ) -> Decoded<'a> {
        let state = self.frame.state;
        check(field, tag, reader)?;
        let data = reader.bytes()?;
        let base = reader.position() - data.len();
        let parts = [entry.field(1), entry.field(2)];
        // SAFETY: key and value are at two slots that are pushed here and popped in the end.
        unsafe {
            let top = ffi::lua_gettop(state);
            ffi::lua_settop(state, top + 2);
            let mut has = [false; 2];
            let mut values = Reader::new(data);
            while !values.is_empty() {
                let at = |error: WireError| DecodeError::from(error).moved(base);
                let tag = values.tag().map_err(at)?;
                let part = (tag >> 3) as usize;
                match parts.get(part.wrapping_sub(1)).copied().flatten() {
                    None => values.skip(tag, depth_left).map_err(at)?,
                    Some(field) => {
                        let found = check(field, tag, &values)
                            .and_then(|()| self.fresh(field, tag, &mut values, depth_left));
                        found.map_err(|error| error.moved(base))?;
                        ffi::lua_replace(state, top + part as c_int);
                        has[part - 1] = true;
                    }
                }
            }
            for (part, field) in parts.iter().enumerate() {
                let Some(field) = field.filter(|_| !has[part]) else { continue };
                let is_pushed = match self.frame.slot_of(field) {
                    Some(slot) if field.kind != FieldType::Enum => {
                        push_message(&self.frame, slot);
                        true
                    }
                    _ => push_default(&self.frame, field, true),
                };
                if is_pushed {
                    ffi::lua_replace(state, top + 1 + part as c_int);
                }
            }
            if ffi::lua_type(state, top + 1) == ffi::LUA_TNIL {
                ffi::lua_settop(state, top);
            } else {
                ffi::lua_rawset(state, index);
            }
        }
        Ok(())
    }

    /// Pushes the value of a field that does not repeat. A message that is there already gets what
    /// this one has.
    ///
    /// # Safety
    /// As [`Decoder::message`], with the name of the field on top.
    unsafe fn single(
        &self,
        field: &'a Field,
        tag: u32,
        reader: &mut Reader<'_>,
        table: c_int,
        depth_left: usize,
    ) -> Decoded<'a> {
        let state = self.frame.state;
        check(field, tag, reader)?;
        let Some(slot) = self.message_slot(field) else {
            // SAFETY: promised by the caller.
            return unsafe { self.fresh(field, tag, reader, depth_left) };
        };
        // SAFETY: as above.
        unsafe {
            ffi::lua_pushvalue(state, -1);
            if ffi::lua_rawget(state, table) != ffi::LUA_TTABLE {
                ffi::lua_pop(state, 1);
                push_message(&self.frame, slot);
            }
            self.nested(field, slot, tag, reader, depth_left)
        }
    }

    /// Pushes a new value of a field.
    ///
    /// # Safety
    /// As [`Decoder::message`]; the wire type is that of the field.
    #[inline(always)]
    unsafe fn fresh(
        &self,
        field: &'a Field,
        tag: u32,
        reader: &mut Reader<'_>,
        depth_left: usize,
    ) -> Decoded<'a> {
        // SAFETY: promised by the caller.
        unsafe {
            match self.message_slot(field) {
                None => self.value(field, tag, reader, depth_left),
                Some(slot) => {
                    push_message(&self.frame, slot);
                    self.nested(field, slot, tag, reader, depth_left)
                }
            }
        }
    }

    /// The type of a field that is a message, if it is defined.
    #[inline(always)]
    fn message_slot(&self, field: &Field) -> Option<u32> {
        let is_message = matches!(field.kind, FieldType::Message | FieldType::Group);
        self.frame.slot_of(field).filter(|_| is_message)
    }

    /// Decodes a message within another one into the table on top.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    unsafe fn nested(
        &self,
        field: &Field,
        slot: u32,
        tag: u32,
        reader: &mut Reader<'_>,
        depth_left: usize,
    ) -> Decoded<'a> {
        let begin = reader.position();
        let (data, base) = if field.kind == FieldType::Group {
            (reader.group(tag, depth_left)?, begin)
        } else {
            let data = reader.bytes()?;
            (data, reader.position() - data.len())
        };
        // SAFETY: promised by the caller.
        unsafe { self.message(slot, data, depth_left) }.map_err(|error| error.moved(base))
    }

    /// Pushes a scalar, or nil for a message of a type that is not loaded.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    #[inline(always)]
    unsafe fn value(
        &self,
        field: &Field,
        tag: u32,
        reader: &mut Reader<'_>,
        depth_left: usize,
    ) -> Decoded<'a> {
        let (state, options) = (self.frame.state, self.frame.options);
        // SAFETY: pushes one value.
        unsafe {
            match field.kind {
                FieldType::Int32 => ffi::lua_pushinteger(state, (reader.varint()? as i32).into()),
                FieldType::Uint32 => ffi::lua_pushinteger(state, (reader.varint()? as u32).into()),
                FieldType::Int64 | FieldType::Uint64 => {
                    integer::push(state, reader.varint()? as i64, options);
                }
                FieldType::Bool => ffi::lua_pushboolean(state, c_int::from(reader.varint()? != 0)),
                FieldType::String | FieldType::Bytes => stack::push(state, reader.bytes()?),
                FieldType::Double => {
                    ffi::lua_pushnumber(state, f64::from_bits(reader.fixed64()?));
                }
                FieldType::Float => {
                    ffi::lua_pushnumber(state, f32::from_bits(reader.fixed32()?).into());
                }
                FieldType::Enum => self.enumeration(field, reader.varint()?),
                FieldType::Sint32 => {
                    let value = reader.varint()? as u32;
                    let value = (value >> 1) as i32 ^ -((value & 1) as i32);
                    ffi::lua_pushinteger(state, value.into());
                }
                FieldType::Sint64 => {
                    let value = reader.varint()?;
                    let value = (value >> 1) as i64 ^ -((value & 1) as i64);
                    integer::push(state, value, options);
                }
                FieldType::Fixed32 => ffi::lua_pushinteger(state, reader.fixed32()?.into()),
                FieldType::Sfixed32 => {
                    ffi::lua_pushinteger(state, (reader.fixed32()? as i32).into());
                }
                FieldType::Fixed64 | FieldType::Sfixed64 => {
                    integer::push(state, reader.fixed64()? as i64, options);
                }
                FieldType::Message | FieldType::Group => {
                    reader.skip(tag, depth_left)?;
                    ffi::lua_pushnil(state);
                }
            }
        }
        Ok(())
    }

    /// Pushes a value of an enum: its name, or its number if it has none.
    ///
    /// # Safety
    /// As [`Decoder::message`].
    unsafe fn enumeration(&self, field: &Field, value: u64) {
        let number = value as i32;
        let slot = self.frame.slot_of(field);
        let known = slot.filter(|_| self.frame.options & ENUM_AS_VALUE == 0);
        let named = known.and_then(|slot| self.frame.schema.get(slot).field(number));
        // SAFETY: pushes one value, which a hook may replace.
        unsafe {
            match named {
                Some(value) => self.frame.push_name(value.key),
                None => ffi::lua_pushinteger(self.frame.state, number.into()),
            }
            if let Some(slot) = slot.filter(|_| self.frame.options & DECODE_HOOKED != 0) {
                self.frame.hook(DECODE_HOOKS, slot);
            }
        }
    }
}

/// The wire type of a field is the one that its type has.
#[inline(always)]
fn check<'a>(field: &'a Field, tag: u32, reader: &Reader<'_>) -> Decoded<'a> {
    if tag & 7 == field.kind.wire_type() as u32 {
        return Ok(());
    }
    Err(DecodeError::Mismatch { field, tag, at: reader.position() })
}
