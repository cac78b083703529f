//! `crypto.utils`: random bytes from the kernel, and helpers for keys.

use crate::limits;
use lua_vm::arguments::function;
use mlua::{Error, Lua, LuaString, Result, Table};
use subtle::ConstantTimeEq;

/// The largest multiple of 26 in a byte: bytes above it would favour the first letters.
const FAIR: u8 = 26 * 9;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let xor = |lua: &Lua, (key, data): (LuaString, LuaString)| {
        let (key, data) = (key.as_bytes(), data.as_bytes());
        if key.is_empty() {
            return Err(Error::runtime("bad argument #1 to 'xor' (an empty key)"));
        }
        let mixed: Vec<u8> = data.iter().zip(key.iter().cycle()).map(|(d, k)| d ^ k).collect();
        lua.create_string(mixed)
    };
    table.set("xor", function(lua, "xor", xor)?)?;
    let randomkey = |lua: &Lua, count: i64| lua.create_string(letters(size("randomkey", count)?)?);
    table.set("randomkey", function(lua, "randomkey", randomkey)?)?;
    let random = |lua: &Lua, count: i64| {
        let mut bytes = vec![0; size("random", count)?];
        fill(&mut bytes)?;
        lua.create_string(bytes)
    };
    table.set("random", function(lua, "random", random)?)?;
    let equal = |_: &Lua, (a, b): (LuaString, LuaString)| {
        Ok(bool::from(a.as_bytes().as_ref().ct_eq(b.as_bytes().as_ref())))
    };
    table.set("equal", function(lua, "equal", equal)?)?;
    Ok(table)
}

fn size(name: &str, count: i64) -> Result<usize> {
    let most = limits::RANDOM_BYTES;
    usize::try_from(count).ok().filter(|count| *count <= most).ok_or_else(|| {
        Error::runtime(format!(
            "bad argument #1 to '{name}' (a number from 0 to {most} expected, got {count})"
        ))
    })
}

fn fill(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::runtime(format!("no random bytes: {error}")))
}

/// Uniform lower-case letters: 4.7 bits each.
fn letters(count: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(count);
    // A few system calls for many letters, and no more bytes than a short key needs.
    let mut pool = vec![0; (count + count / 8).clamp(16, 64 * 1024)];
    while out.len() < count {
        fill(&mut pool)?;
        let fair = pool.iter().filter(|byte| **byte < FAIR).map(|byte| b'a' + byte % 26);
        out.extend(fair.take(count - out.len()));
    }
    Ok(out)
}
