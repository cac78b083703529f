//! The arguments and results of `shared`: keys, values, and how long an entry lasts.

use mlua::{Error, Lua, Result, Value};

use crate::limits::SHARED_BYTES;
use crate::shared_table::SharedValue;

/// A thousand years: what Redis takes as a time.
const LIFETIME_MS_MAX: u64 = 1000 * 366 * 86_400_000;

/// How long an entry lasts; `None` for ever.
pub(crate) fn lifetime_ms(ttl_s: Option<f64>, name: &str) -> Result<Option<u64>> {
    match ttl_s {
        None => Ok(None),
        Some(ttl) if ttl > 0.0 && ttl.is_finite() => {
            Ok(Some(((ttl * 1000.0).ceil() as u64).min(LIFETIME_MS_MAX)))
        }
        Some(_) => Err(Error::runtime(format!("bad ttl to '{name}' (seconds above 0 expected)"))),
    }
}

pub(crate) fn short<'a>(bytes: &'a [u8], name: &str) -> Result<&'a [u8]> {
    if bytes.len() <= SHARED_BYTES {
        return Ok(bytes);
    }
    Err(Error::runtime(format!("'{name}' takes keys and texts of up to {SHARED_BYTES} bytes")))
}

pub(crate) fn to_shared_value(value: &Value) -> Result<SharedValue> {
    Ok(match value {
        Value::Nil => SharedValue::Nothing,
        Value::Integer(number) => SharedValue::Integer(*number),
        Value::Number(number) => SharedValue::Number(*number),
        Value::Boolean(truth) => SharedValue::Boolean(*truth),
        Value::String(text) => SharedValue::Bytes(short(&text.as_bytes(), "set")?.into()),
        other => {
            let found = other.type_name();
            let why = format!("bad argument #2 to 'set' (a plain value expected, got {found})");
            return Err(Error::runtime(why));
        }
    })
}

pub(crate) fn value(lua: &Lua, kept: SharedValue) -> Result<Value> {
    Ok(match kept {
        SharedValue::Nothing => Value::Nil,
        SharedValue::Integer(number) => Value::Integer(number),
        SharedValue::Number(number) => Value::Number(number),
        SharedValue::Boolean(truth) => Value::Boolean(truth),
        SharedValue::Bytes(bytes) => Value::String(lua.create_string(&bytes)?),
    })
}
