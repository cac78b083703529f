//! `encoding.hex`: bytes as hexadecimal digits and back.
//!
//! Promises lower-case output and input in either case; other text is `nil, reason`.

use lua_vm::arguments::function;
use mlua::{Lua, LuaString, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let body = |lua: &Lua, s: LuaString| lua.create_string(encode(&s.as_bytes()));
    table.set("encode", function(lua, "encode", body)?)?;
    let body = |lua: &Lua, s: LuaString| match decode(&s.as_bytes()) {
        Ok(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
        Err(reason) => Ok((None, Some(reason))),
    };
    table.set("decode", function(lua, "decode", body)?)?;
    Ok(table)
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

fn decode(text: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    let digit = |at: usize| match text[at] {
        b @ b'0'..=b'9' => Ok(b - b'0'),
        b @ (b'a'..=b'f' | b'A'..=b'F') => Ok((b | 32) - b'a' + 10),
        b => {
            Err(format!("byte {} is {:?}, which is not a hexadecimal digit", at + 1, char::from(b)))
        }
    };
    (0..text.len()).step_by(2).map(|at| Ok(digit(at)? << 4 | digit(at + 1)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        assert_eq!(decode(b"00fFAb").unwrap(), [0, 255, 0xab]);
    }

    #[test]
    fn text_that_is_not_hexadecimal_is_named() {
        assert_eq!(decode(b"abc").unwrap_err(), "an odd number of hexadecimal digits");
        assert_eq!(decode(b"0g").unwrap_err(), "byte 2 is 'g', which is not a hexadecimal digit");
    }
}
