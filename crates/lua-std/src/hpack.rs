//! `http2.hpack`: field blocks of HTTP/2 (RFC 7541), for programs that speak it on their own.

use lua_vm::arguments::function;
use mlua::{
    AnyUserData, Error, FromLua, Lua, LuaString, Result, Table, UserData, UserDataRefMut, Value,
    Variadic,
};
use wire::Known;
use wire::h2::{Decoder, Encoder, TABLE_SIZE};

use crate::limits::HPACK_FIELDS_BYTES;

/// The tables of one direction: a context encodes or decodes.
#[derive(Default)]
struct Context {
    encoder: Encoder,
    decoder: Decoder,
}

impl UserData for Context {}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let new = |_: &Lua, size: Option<usize>| {
        let mut context = Context::default();
        context.encoder.set_max(size.unwrap_or(TABLE_SIZE));
        Ok(context)
    };
    table.set("new", function(lua, "new", new)?)?;
    table.set("pack", lua.create_function(pack)?)?;
    table.set("unpack", lua.create_function(unpack)?)?;
    let limit = |_: &Lua, (mut context, size): (UserDataRefMut<Context>, usize)| {
        context.encoder.set_max(size);
        Ok(())
    };
    table.set("hardlimit", function(lua, "hardlimit", limit)?)?;
    Ok(table)
}

fn wrong(index: usize, why: &str) -> Error {
    Error::runtime(format!("bad argument #{index} to 'pack' ({why})"))
}

/// The text of a name or a value.
fn text(lua: &Lua, index: usize, value: &Value) -> Result<LuaString> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            LuaString::from_lua(value.clone(), lua)
        }
        other => Err(wrong(index, &format!("string expected, got {}", other.type_name()))),
    }
}

/// `pack(context, header | nil, name, value, …) → block`: the pairs, then the fields of the table.
fn pack(lua: &Lua, values: Variadic<Value>) -> Result<LuaString> {
    let context = values.first().and_then(Value::as_userdata);
    let context: &AnyUserData = context.ok_or_else(|| wrong(1, "hpack context expected"))?;
    let mut context = context.borrow_mut::<Context>()?;
    let (encoder, mut out) = (&mut context.encoder, Vec::new());
    encoder.begin(&mut out);
    let pairs = values.get(2..).unwrap_or_default();
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong(values.len(), "a value for each name expected"));
    }
    for (at, pair) in pairs.chunks_exact(2).enumerate() {
        let name = text(lua, 3 + 2 * at, &pair[0])?;
        let value = text(lua, 4 + 2 * at, &pair[1])?;
        append(encoder, &mut out, &name.as_bytes(), &value.as_bytes())?;
    }
    match values.get(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Table(header)) => {
            for pair in header.pairs::<Value, Value>() {
                let (name, value) = pair?;
                let name = text(lua, 2, &name)?;
                let several = match value {
                    Value::Table(several) => {
                        several.sequence_values::<Value>().collect::<Result<Vec<_>>>()?
                    }
                    one => vec![one],
                };
                for value in several {
                    let value = text(lua, 2, &value)?;
                    append(encoder, &mut out, &name.as_bytes(), &value.as_bytes())?;
                }
            }
        }
        Some(other) => {
            return Err(wrong(2, &format!("table expected, got {}", other.type_name())));
        }
    }
    lua.create_string(&out)
}

fn append(encoder: &mut Encoder, out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<()> {
    match name {
        b":status" => {
            let status = std::str::from_utf8(value).ok().and_then(|status| status.parse().ok());
            let status = status.filter(|status| (100..1000).contains(status));
            encoder
                .status(out, status.ok_or_else(|| wrong(4, "a status of three digits expected"))?);
        }
        b":method" => encoder.method(out, value),
        b":scheme" => encoder.scheme(out, value.eq_ignore_ascii_case(b"https")),
        b":path" => encoder.path(out, value),
        b":authority" => encoder.authority(out, value),
        b":protocol" => encoder.protocol(out, value),
        _ => encoder.field(out, Known::from_bytes(name), name, value),
    }
    Ok(())
}

/// `unpack(context, block) → header | nil, reason`; a repeated field is an array.
fn unpack(
    lua: &Lua,
    (mut context, block): (UserDataRefMut<Context>, LuaString),
) -> Result<(Option<Table>, Option<&'static str>)> {
    let mut fields = Vec::new();
    let decoded =
        context.decoder.decode(&block.as_bytes(), HPACK_FIELDS_BYTES, |_, name, value| {
            fields.push((name.to_vec(), value.to_vec()));
        });
    if decoded.is_err() {
        return Ok((None, Some("the block is malformed, or its fields have more than 64 KiB")));
    }
    let header = lua.create_table()?;
    for (name, value) in fields {
        let (name, value) = (lua.create_string(name)?, lua.create_string(value)?);
        match header.raw_get::<Value>(&name)? {
            Value::Nil => header.raw_set(name, value)?,
            Value::Table(values) => values.raw_push(value)?,
            first => {
                header.raw_set(name, lua.create_sequence_from([first, Value::String(value)])?)?;
            }
        }
    }
    Ok((Some(header), None))
}

#[cfg(test)]
mod tests {
    use crate::testing::output;

    #[test]
    fn blocks_there_and_back() {
        let lines = output(
            r#"
            local hpack = require "silly.http2.hpack"
            local sender, receiver = hpack.new(4096), hpack.new(4096)
            local lengths = {}
            for round = 1, 2 do
                local fields = { ["Content-Type"] = "text/x", ["x-a"] = { "1", "2" } }
                local block = hpack.pack(sender, fields, ":status", 200, "server", "tidegate")
                lengths[round] = #block
                local header = assert(hpack.unpack(receiver, block))
                local several = table.concat(header["x-a"], "|")
                say(header[":status"], header.server, header["content-type"], several)
            end
            say(lengths[2] < lengths[1])
            -- RFC 7541 C.4.1
            local request = "\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"
            local header = hpack.unpack(hpack.new(), request)
            say(header[":method"], header[":scheme"], header[":path"], header[":authority"])
            say(hpack.unpack(hpack.new(), "\xff\xff\xff\xff\xff\xff"))
            say(pcall(hpack.pack, sender, nil, "a"))
            say(pcall(hpack.pack, sender, nil, ":status", "abc"))
            hpack.hardlimit(sender, 0)
            say(hpack.unpack(receiver, hpack.pack(sender, nil, ":path", "/x"))[":path"])
            require "silly".exit()
            "#,
        );
        assert_eq!(
            lines,
            [
                "200 tidegate text/x 1|2",
                "200 tidegate text/x 1|2",
                "true",
                "GET http / www.example.com",
                "nil the block is malformed, or its fields have more than 64 KiB",
                "false bad argument #3 to 'pack' (a value for each name expected)",
                "false bad argument #4 to 'pack' (a status of three digits expected)",
                "/x",
            ]
        );
    }
}
