//! The parameters of statements.

use std::borrow::Cow;

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};
use wire::postgres::{Parameter, execute as execute_message, oids};

use crate::limits::{POSTGRES_ARRAY_DEPTH, POSTGRES_ARRAY_ITEMS};

/// The messages that execute a statement.
pub(super) fn execute(name: &[u8], kinds: &[u32], values: &MultiValue) -> Result<Vec<u8>> {
    let mut texts: Vec<Option<Cow<'_, [u8]>>> = Vec::with_capacity(values.len());
    let strings: Vec<_> =
        values.iter().map(|value| value.as_string().map(LuaString::as_bytes)).collect();
    for (value, string) in values.iter().zip(&strings) {
        texts.push(match (value, string) {
            (Value::Nil, _) => None,
            (_, Some(bytes)) => Some(Cow::Borrowed(&**bytes)),
            (value, None) => Some(Cow::Owned(plain(value)?.into_bytes())),
        });
    }
    let parameters: Vec<Parameter<'_>> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| match text {
            None => Parameter::Null,
            Some(bytes) if kinds.get(at) == Some(&oids::BYTEA) => Parameter::Binary(bytes),
            Some(text) => Parameter::Text(text),
        })
        .collect();
    execute_message(name, &parameters).ok_or_else(|| Error::runtime("too many parameters"))
}

/// A boolean or number as PostgreSQL reads it.
fn plain(value: &Value) -> Result<String> {
    Ok(match value {
        Value::Boolean(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) if number.is_nan() => "NaN".to_owned(),
        Value::Number(number) if number.is_infinite() => {
            if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        // Digits that read back as the same number; 1.0 is 1, which integers accept too.
        Value::Number(number) if (1e-6..1e17).contains(&number.abs()) || *number == 0.0 => {
            number.to_string()
        }
        Value::Number(number) => format!("{number:e}"),
        other => {
            let kind = other.type_name();
            return Err(Error::runtime(format!("invalid parameter type: {kind}")));
        }
    })
}

/// `array(list, is_bytes)` → the list as the text of an array. Its length is `n`, or that of the
/// list without nil.
pub(super) fn array(lua: &Lua, (list, is_bytes): (Table, bool)) -> Result<LuaString> {
    let mut out = Vec::new();
    write_array(&list, is_bytes, 1, &mut out)?;
    lua.create_string(out)
}

fn write_array(list: &Table, is_bytes: bool, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > POSTGRES_ARRAY_DEPTH {
        return Err(Error::runtime("an array has at most 6 dimensions"));
    }
    let length = match list.raw_get::<Value>("n")? {
        Value::Integer(length) => usize::try_from(length).unwrap_or(0),
        _ => list.raw_len(),
    };
    if length > POSTGRES_ARRAY_ITEMS {
        return Err(Error::runtime("an array has too many elements"));
    }
    out.push(b'{');
    for at in 1..=length {
        if at > 1 {
            out.push(b',');
        }
        match list.raw_get::<Value>(at)? {
            Value::Nil => out.extend_from_slice(b"NULL"),
            Value::Table(inner) => write_array(&inner, is_bytes, depth + 1, out)?,
            Value::String(text) if is_bytes => {
                out.extend_from_slice(b"\"\\\\x");
                for byte in &*text.as_bytes() {
                    out.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
                out.push(b'"');
            }
            Value::String(text) => {
                out.push(b'"');
                for byte in &*text.as_bytes() {
                    if matches!(byte, b'"' | b'\\') {
                        out.push(b'\\');
                    }
                    out.push(*byte);
                }
                out.push(b'"');
            }
            value => out.extend_from_slice(plain(&value)?.as_bytes()),
        }
    }
    out.push(b'}');
    Ok(())
}
