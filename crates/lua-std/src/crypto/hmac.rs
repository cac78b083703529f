//! `crypto.hmac`: keyed message authentication (RFC 2104) with any hash of `crypto.hash`.

use super::hash;
use lua_vm::arguments::function;
use mlua::{Error, Lua, LuaString, Result, Table};
use subtle::ConstantTimeEq;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let digest = |lua: &Lua, (key, data, name): (LuaString, LuaString, String)| {
        let mac = hash::find("digest", 3, &name)?.mac;
        let mac = mac(&key.as_bytes(), &data.as_bytes());
        lua.create_string(mac.ok_or_else(|| Error::runtime("the key cannot be used"))?)
    };
    table.set("digest", function(lua, "digest", digest)?)?;
    type Verify = (LuaString, LuaString, LuaString, String);
    let verify = |_: &Lua, (key, data, expected, name): Verify| {
        let mac = hash::find("verify", 4, &name)?.mac;
        let mac = mac(&key.as_bytes(), &data.as_bytes()).unwrap_or_default();
        Ok(bool::from(mac.as_slice().ct_eq(&expected.as_bytes())))
    };
    table.set("verify", function(lua, "verify", verify)?)?;
    Ok(table)
}
