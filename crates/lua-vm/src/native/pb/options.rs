//! `pb.option`: how tables and messages correspond.

use mlua::{Error, Lua, Result, Table};

use super::codec_state::{self, OPTIONS};

/// The bits of a state's options; none is the default of each.
pub(super) const ENUM_AS_VALUE: u32 = 1;
pub(super) const INT64_AS_STRING: u32 = 2;
pub(super) const INT64_AS_HEX: u32 = 4;
pub(super) const ENCODE_DEFAULTS: u32 = 8;
pub(super) const DEFAULT_ARRAYS: u32 = 16;
pub(super) const DEFAULT_MESSAGES: u32 = 32;
pub(super) const DECODE_HOOKED: u32 = 64;
pub(super) const ENCODE_HOOKED: u32 = 128;
/// Which defaults a decoded table has. With neither: those of proto3.
pub(super) const COPY_DEFAULTS: u32 = 256;
pub(super) const META_DEFAULTS: u32 = 512;
pub(super) const NO_DEFAULTS: u32 = COPY_DEFAULTS | META_DEFAULTS;

const INT64: u32 = INT64_AS_STRING | INT64_AS_HEX;

/// A name, the bits it clears and the bits it sets.
const NAMES: &[(&str, u32, u32)] = &[
    ("enum_as_name", ENUM_AS_VALUE, 0),
    ("enum_as_value", 0, ENUM_AS_VALUE),
    ("int64_as_number", INT64, 0),
    ("int64_as_string", INT64, INT64_AS_STRING),
    ("int64_as_hexstring", INT64, INT64_AS_HEX),
    // Fields are always written in the order of their numbers.
    ("encode_order", 0, 0),
    ("no_encode_order", 0, 0),
    ("encode_default_values", 0, ENCODE_DEFAULTS),
    ("no_encode_default_values", ENCODE_DEFAULTS, 0),
    ("auto_default_values", NO_DEFAULTS, 0),
    ("no_default_values", 0, NO_DEFAULTS),
    ("use_default_values", NO_DEFAULTS, COPY_DEFAULTS),
    ("use_default_metatable", NO_DEFAULTS, META_DEFAULTS),
    ("decode_default_array", 0, DEFAULT_ARRAYS),
    ("no_decode_default_array", DEFAULT_ARRAYS, 0),
    ("decode_default_message", 0, DEFAULT_MESSAGES),
    ("no_decode_default_message", DEFAULT_MESSAGES, 0),
    ("enable_hooks", 0, DECODE_HOOKED),
    ("disable_hooks", DECODE_HOOKED, 0),
    ("enable_enchooks", 0, ENCODE_HOOKED),
    ("disable_enchooks", ENCODE_HOOKED, 0),
];

/// Adds `option(name)`.
pub(super) fn add(lua: &Lua, table: &Table, holder: &Table) -> Result<()> {
    let holder = holder.clone();
    let option = move |_: &Lua, name: String| {
        let Some((_, clears, sets)) = NAMES.iter().find(|option| option.0 == name) else {
            let names: Vec<&str> = NAMES.iter().map(|option| option.0).collect();
            let names = names.join(", ");
            let text = format!("bad argument #1 to 'option' (invalid option '{name}': {names})");
            return Err(Error::runtime(text));
        };
        let state = codec_state::current(&holder)?;
        let bits: u32 = state.raw_get(OPTIONS)?;
        state.raw_set(OPTIONS, bits & !clears | sets)
    };
    table.set("option", crate::arguments::function(lua, "option", option)?)
}
