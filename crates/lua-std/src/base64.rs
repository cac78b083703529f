//! `encoding.base64`: bytes as text of RFC 4648, in its two alphabets, and back.
//!
//! Promises Silly's four functions, whose decoding accepts both alphabets and skips other bytes;
//! and two strict ones, which return `nil, reason` for text that no encoder writes.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine};
use base64::{DecodeError, alphabet};
use lua_vm::arguments::function;
use mlua::{Lua, LuaString, Result, Table};

/// Padding is optional (RFC 4648 section 5), but otherwise each value has one encoding only.
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type Encode = fn(&[u8]) -> String;
type Decode = fn(&[u8]) -> Decoded;
type Decoded = std::result::Result<Vec<u8>, DecodeError>;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let encoders: [(&'static str, Encode); 2] = [
        ("encode", |bytes| STANDARD.encode(bytes)),
        ("urlsafe_encode", |bytes| URL_SAFE.encode(bytes)),
    ];
    for (name, encode) in encoders {
        let body = move |lua: &Lua, s: LuaString| lua.create_string(encode(&s.as_bytes()));
        table.set(name, function(lua, name, body)?)?;
    }
    for name in ["decode", "urlsafe_decode"] {
        let body = |lua: &Lua, s: LuaString| lua.create_string(lenient(&s.as_bytes()));
        table.set(name, function(lua, name, body)?)?;
    }
    let strict: [(&'static str, Decode); 2] = [
        ("decode_strict", |text| STANDARD.decode(text)),
        ("urlsafe_decode_strict", |text| URL_SAFE.decode(text)),
    ];
    for (name, decode) in strict {
        let body = move |lua: &Lua, s: LuaString| match decode(&s.as_bytes()) {
            Ok(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
            Err(error) => Ok((None, Some(describe(&error)))),
        };
        table.set(name, function(lua, name, body)?)?;
    }
    Ok(table)
}

/// The encoding of `jwt`: unpadded, URL-safe.
pub(super) fn encode_url_safe(bytes: &[u8]) -> String {
    URL_SAFE.encode(bytes)
}

/// Decodes strictly; `None` if the text is not base64.
pub(super) fn decode_url_safe(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE.decode(text).ok()
}

/// Decodes leniently: a truncated text gives the complete bytes before its end, and decoding
/// restarts after padding, so that texts may be concatenated.
fn lenient(text: &[u8]) -> Vec<u8> {
    // Most text is valid, and the engine is faster than the loop below.
    if let Ok(bytes) = STANDARD.decode(text) {
        return bytes;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0);
    for &byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                count = 0;
                continue;
            }
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

fn describe(error: &DecodeError) -> String {
    match *error {
        DecodeError::InvalidByte(at, byte) => {
            format!("byte {} is {:?}, which is not a base64 digit", at + 1, char::from(byte))
        }
        DecodeError::InvalidLength(_) => "the text ends within a group of digits".to_owned(),
        DecodeError::InvalidLastSymbol { offset, .. } => {
            format!("the last digit, at byte {}, has unused bits that are not zero", offset + 1)
        }
        DecodeError::InvalidPadding => "the padding is missing or wrong".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::lenient;
    use mlua::Lua;

    fn holds(code: &str) {
        let lua = Lua::new();
        lua.globals().set("base64", super::open(&lua).unwrap()).unwrap();
        lua.load(code).exec().unwrap();
    }

    #[test]
    fn the_vectors_of_rfc_4648() {
        holds(
            r#"
            local plain = {"", "f", "fo", "foo", "foob", "fooba", "foobar"}
            local coded = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"}
            for i, text in ipairs(plain) do
                assert(base64.encode(text) == coded[i])
                assert(base64.decode(coded[i]) == text)
                assert(base64.decode_strict(coded[i]) == text)
                local bare = coded[i]:gsub("=", "")
                assert(base64.urlsafe_encode(text) == bare)
                assert(base64.urlsafe_decode(bare) == text and base64.decode(bare) == text)
                assert(base64.urlsafe_decode_strict(bare) == text)
                assert(base64.urlsafe_decode_strict(coded[i]) == text)
            end
            assert(base64.encode("\xfb\xef\xff") == "++//")
            assert(base64.urlsafe_encode("\xfb\xef\xff") == "--__")"#,
        );
    }

    #[test]
    fn decoding_takes_both_alphabets_and_skips_the_rest() {
        assert_eq!(lenient(b"++//--__"), b"\xfb\xef\xff\xfb\xef\xff");
        assert_eq!(lenient(b" Z m\r\n9!v "), b"foo");
        assert_eq!(lenient(b"Zg==Zg=="), b"ff");
        assert_eq!(lenient(b"Zm9vY"), b"foo");
        assert_eq!(lenient(b"===="), b"");
    }

    #[test]
    fn strict_decoding_says_why() {
        holds(
            r#"
            local function refuses(name, text, reason)
                local value, found = base64[name](text)
                assert(value == nil and found == reason, found)
            end
            refuses("decode_strict", "Zm9v!", "byte 5 is '!', which is not a base64 digit")
            refuses("decode_strict", "Zm-v", "byte 3 is '-', which is not a base64 digit")
            refuses("urlsafe_decode_strict", "Zm+v", "byte 3 is '+', which is not a base64 digit")
            refuses("decode_strict", "Zg", "the padding is missing or wrong")
            refuses("decode_strict", "Zh==",
                "the last digit, at byte 2, has unused bits that are not zero")
            assert(not pcall(base64.encode, {}))"#,
        );
    }
}
