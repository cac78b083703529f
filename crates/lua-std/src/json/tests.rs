//! The incremental decoder, from a script's side.

use mlua::Lua;

fn lua() -> Lua {
    let lua = Lua::new();
    lua.globals().set("json", super::open(&lua).unwrap()).unwrap();
    lua
}

#[track_caller]
fn holds(code: &str) {
    lua().load(code).exec().unwrap_or_else(|error| panic!("{code}: {error}"));
}

#[test]
fn wrong_options_are_named() {
    let error = lua().load("json.decoder(1)").exec().unwrap_err();
    assert!(lua_vm::errors::text(&error).contains("bad argument #1 to 'decoder'"));
}

#[test]
fn values_arrive_in_pieces() {
    holds(
        r##"
        local text = ' {"a": "}\\"]", "b": [1, {"c": 2}]}\n[1,2]"x\\\\" 12 true{"d":3}null '
        local whole = {}
        for size = 1, #text do
            local decoder, got = json.decoder(), {}
            for at = 1, #text, size do
                decoder:feed(text:sub(at, at + size - 1))
                while true do
                    local value, reason = decoder:next()
                    if value == nil then assert(reason == nil, reason) break end
                    got[#got + 1] = value
                end
            end
            decoder:finish()
            assert(decoder:next() == nil)
            local found = json.encode(got)
            whole = #whole > 0 and whole or found
            assert(#got == 7 and got[1].a == '}"]' and got[1].b[2].c == 2, size)
            assert(found == whole, size)
        end"##,
    );
}

#[test]
fn a_stream_reports_errors() {
    holds(
        r##"
        local decoder = json.decoder {limit = 100}
        decoder:feed('{"a": x} 12')
        local value, reason = decoder:next()
        assert(value == nil and reason:find("a value is expected at byte 7"), reason)
        assert(select("#", decoder:next()) == 0)
        decoder:finish()
        assert(decoder:next() == 12 and decoder:next() == nil)
        assert(not pcall(decoder.feed, decoder, "1"))

        decoder = json.decoder()
        decoder:feed('[1, 2')
        decoder:finish()
        value, reason = decoder:next()
        assert(value == nil and reason == "the text ends within a value", reason)

        decoder = json.decoder {limit = 100}
        decoder:feed('"' .. string.rep("x", 100))
        value, reason = decoder:next()
        assert(value == nil and reason == "a value is longer than 100 bytes", reason)
        assert(select(2, json.decoder():next()) == nil)
        decoder = json.decoder()
        decoder:feed("] 1")
        value, reason = decoder:next()
        assert(value == nil and reason:find("a value is expected"), reason)"##,
    );
}
