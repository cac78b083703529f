//! The rules of JSON, from a script's side.

use super::parse::Parser;
use super::parse_error::ParseError;
use mlua::{FromLuaMulti, Lua};

fn lua() -> Lua {
    let lua = Lua::new();
    lua.globals().set("json", super::open(&lua).unwrap()).unwrap();
    lua
}

fn run<T: FromLuaMulti>(code: &str) -> T {
    lua().load(code).eval().unwrap_or_else(|error| panic!("{code}: {error}"))
}

fn holds(code: &str) {
    run::<()>(code);
}

#[track_caller]
fn encodes(value: &str, text: &str) {
    assert_eq!(run::<String>(&format!("return assert(json.encode({value}))")), text, "{value}");
}

#[track_caller]
fn refuses(value: &str, reason: &str) {
    let code = format!("local v, reason = json.encode({value}) assert(v == nil) return reason");
    assert_eq!(run::<String>(&code), reason, "{value}");
}

fn parse_error(text: &str) -> Option<ParseError> {
    Parser::default().parse(text.as_bytes(), 100).err()
}

#[test]
fn tables_become_arrays_or_objects() {
    encodes("{}", "[]");
    encodes("{1, 'a', true, {}}", r#"[1,"a",true,[]]"#);
    encodes("{a = {b = {1}}}", r#"{"a":{"b":[1]}}"#);
    encodes("{1, 2, nil, 4}", "[1,2]");
    encodes("{1, name = 'lost'}", "[1]");
    encodes("json.object()", "{}");
    encodes("json.object {'a'}[1] and json.object {}", "{}");
    refuses("json.object {'a'}", "a key of an object is a number, not a string");
    refuses("{[2] = 1}", "a key of an object is a number, not a string");
    refuses("{[true] = 1}", "a key of an object is a boolean, not a string");
}

#[test]
fn scalars() {
    encodes("nil", "null");
    encodes("json.null", "null");
    encodes("{json.null, false}", "[null,false]");
    encodes(
        "'a\"b\\\\c\\n\\r\\t\\b\\f\\0\\31/\\127ü'",
        "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0000\\u001f/\u{7f}ü\"",
    );
    refuses("print", "a function cannot be encoded as JSON");
    refuses("{{x = coroutine.create(print)}}", "a thread cannot be encoded as JSON");
    refuses("0/0", "a number that is not finite cannot be encoded as JSON");
    refuses("{-math.huge}", "a number that is not finite cannot be encoded as JSON");
}

#[test]
fn numbers_keep_their_kind_and_value() {
    encodes(
        "{1, -1, 0, math.maxinteger, math.mininteger}",
        "[1,-1,0,9223372036854775807,-9223372036854775808]",
    );
    encodes(
        "{1.0, -2.0, 1e15, 2^53, -2^63}",
        "[1,-2,1000000000000000,9007199254740992,-9223372036854775808]",
    );
    encodes(
        "{0.1, 1/3, 1e300, 5e-324, -0.0, 2^63}",
        "[0.1,0.3333333333333333,1e+300,5e-324,-0.0,9.223372036854776e+18]",
    );
    holds(
        r##"
        local list = json.decode [[ [1, 1.0, 1e2, -0, 9223372036854775807, 9223372036854775808,
            -9223372036854775808, 0.1, 123456789012345678901234567890, 1E-2, 2.5e+3] ]]
        local kinds = {"integer", "float", "float", "float", "integer", "float", "integer",
            "float", "float", "float", "float"}
        for i, kind in ipairs(kinds) do assert(math.type(list[i]) == kind, i) end
        assert(list[4] == 0 and 1 / list[4] < 0)
        assert(list[5] == math.maxinteger and list[6] == 2^63 and list[7] == math.mininteger)
        assert(list[8] == 0.1 and list[9] == 123456789012345678901234567890 and list[11] == 2500)
        math.randomseed(1)
        for _ = 1, 5000 do
            local x = string.unpack("d", string.pack("I8", math.random(0)))
            if x == x and x - x == 0 then
                assert(json.decode(json.encode(x)) == x, string.format("%a", x))
                local text = string.format("%.17g", x)
                assert(json.decode(text) == tonumber(text), text)
            end
        end"##,
    );
    for text in ["1e400", "-1e400", &"9".repeat(400)] {
        assert_eq!(parse_error(text).unwrap().what, "the number is out of range");
    }
}

#[test]
fn decoding_gives_lua_values() {
    holds(
        r##"
        local v = assert(json.decode(' {"a": [1, null, true, false, ""], "b": {}, "c": "x"} '))
        assert(#v.a == 5 and v.a[2] == json.null and v.a[3] == true and v.a[4] == false)
        assert(v.a[5] == "" and next(v.b) == nil and v.c == "x" and v.d == nil)
        assert(json.decode('{"k": 1, "k": 2}').k == 2)
        assert(json.decode('"\\u0041\\u00fc\\u20ac\\ud83d\\ude00\\/\\\\\\"\\b\\f\\n\\r\\t"')
            == "Aü€😀/\\\"\b\f\n\r\t")
        assert(json.decode("null") == json.null and json.decode("[]")[1] == nil)
        assert(json.decode('"\xff\xfe"') == "\xff\xfe")
        -- keys of every length, more of them than are kept, more than once
        for _ = 1, 2 do
            for n = 0, 600 do
                local key = string.rep("k", n % 50) .. n
                local t = json.decode('{"' .. key .. '": ' .. n .. '}')
                assert(t[key] == n and next(t) == key)
            end
        end"##,
    );
}

#[test]
fn null_cannot_be_changed() {
    holds(
        r##"
        assert(tostring(json.null) == "null" and getmetatable(json.null) == false)
        assert(not pcall(function() json.null.x = 1 end))
        assert(not pcall(setmetatable, json.null, {}))
        assert(next(json.null) == nil and json.null)"##,
    );
}

#[test]
fn malformed_text_is_rejected_with_its_position() {
    let cases = [
        ("", 0, "the text ends where a value should be"),
        ("  ", 2, "the text ends where a value should be"),
        ("[1 2]", 3, "',' or ']' is expected"),
        ("[1,]", 3, "a value is expected"),
        ("[1", 2, "the text ends within an array"),
        ("{", 1, "a key in quotes is expected"),
        ("{\"a\":1", 6, "the text ends within an object"),
        ("{\"a\" 1}", 5, "':' is expected"),
        ("{\"a\":1,}", 7, "a key in quotes is expected"),
        ("{\"a\":1]", 6, "',' or '}' is expected"),
        ("[}", 1, "a value is expected"),
        ("1 1", 2, "unexpected text after the value"),
        ("[]]", 2, "unexpected text after the value"),
        ("01", 0, "a number must not begin with 0"),
        ("-", 1, "a digit is missing"),
        ("-a", 1, "a digit is missing"),
        ("1.", 2, "a digit is missing after the point"),
        ("1.e1", 2, "a digit is missing after the point"),
        ("1e+", 3, "a digit is missing in the exponent"),
        (".5", 0, "a value is expected"),
        ("+1", 0, "a value is expected"),
        ("nul", 0, "a value is expected"),
        ("NaN", 0, "a value is expected"),
        ("\"abc", 4, "the text ends within a string"),
        ("\"a\\", 2, "an unknown escape"),
        ("\"\\x41\"", 1, "an unknown escape"),
        ("\"\\u12g4\"", 1, "\\u without four digits"),
        ("\"\\ud800\"", 1, "half of a surrogate pair"),
        ("\"\\ud800\\u0041\"", 1, "half of a surrogate pair"),
        ("\"\\udc00\"", 1, "half of a surrogate pair"),
        ("\"tab\there, and more\"", 4, "a control character in a string"),
        ("\"esc\\n\u{1}\"", 6, "a control character in a string"),
        ("/* no */ 1", 0, "a value is expected"),
        ("[1\u{0}]", 2, "',' or ']' is expected"),
        ("\u{feff}1", 0, "a value is expected"),
    ];
    for (text, at, what) in cases {
        assert_eq!(parse_error(text), Some(ParseError { at, what }), "{text:?}");
    }
    holds(
        r##"
        local value, reason = json.decode('{\n  "a": 1,\n  "b": x\n}')
        assert(value == nil)
        assert(reason == "a value is expected at byte 20 (line 3, column 8)", reason)"##,
    );
}

#[test]
fn depth_is_bounded() {
    holds(
        r##"
        local function nested(n) return string.rep("[", n) .. string.rep("]", n) end
        assert(json.decode(nested(1000)))
        local value, reason = json.decode(nested(1001))
        assert(value == nil and reason:find("nested too deeply at byte 1001", 1, true), reason)
        assert(json.decode(string.rep('{"a":[', 100000)) == nil)
        local t = {}
        for _ = 1, 127 do t = {t} end
        assert(json.encode(t))
        value, reason = json.encode({t})
        assert(value == nil and reason == "tables are nested more than 128 deep", reason)
        t = {} t[1] = t
        assert(json.encode(t) == nil)"##,
    );
}

#[test]
fn output_is_bounded() {
    holds(
        r##"
        local s = string.rep("x", 2 ^ 20)
        local t = {}
        for i = 1, 300 do t[i] = s end
        local value, reason = json.encode(t)
        assert(value == nil and reason == "the text would be longer than 256 MiB", reason)"##,
    );
}

#[test]
fn wrong_arguments_are_named() {
    let lua = lua();
    let error = |code: &str| crate::errors::text(&lua.load(code).exec().unwrap_err());
    assert!(error("json.decode()").contains("bad argument #1 to 'decode' (string expected"));
    assert!(error("json.decode({})").contains("bad argument #1 to 'decode' (string expected"));
    assert!(error("json.encode()").contains("bad argument #1 to 'encode' (value expected)"));
    assert!(error("json.encode_lines(1)").contains("bad argument #1 to 'encode_lines' (table"));
}

#[test]
fn lines() {
    holds(
        r##"
        local list = assert(json.decode_lines('{"a":1}\r\n\n  [2]\n"three"'))
        assert(#list == 3 and list[1].a == 1 and list[2][1] == 2 and list[3] == "three")
        assert(#json.decode_lines("") == 0)
        local value, reason = json.decode_lines("1\n\n[2\n3")
        assert(value == nil)
        assert(reason == "line 3: the text ends within an array at byte 3 (line 1, column 3)")
        assert(json.encode_lines({{a = 1}, {2}, "three"}) == '{"a":1}\n[2]\n"three"\n')
        assert(json.encode_lines({}) == "")
        value, reason = json.encode_lines({1, print})
        assert(value == nil and reason == "line 2: a function cannot be encoded as JSON")"##,
    );
}

/// A finalizer that runs in the middle of a call must not meet that call's buffers.
#[test]
fn a_finalizer_may_use_the_codec_during_a_call() {
    holds(
        r##"
        local function document(word)
            local parts = {}
            for i = 1, 2000 do
                parts[i] = '{"name": "' .. word .. '\\t' .. i .. '", "list": [' .. i .. ']}'
            end
            return "[" .. table.concat(parts, ",") .. "]"
        end
        local text, other = document("outer"), document("inner")
        local runs, inside = 0, false
        local meta = {__gc = function()
            if not inside then return end
            runs = runs + 1
            assert(json.decode(other)[2000].name == "inner\t2000")
            assert(json.encode({inner = {1}}) == '{"inner":[1]}')
        end}
        collectgarbage("param", "pause", 1)
        for _ = 1, 5 do
            for _ = 1, 5 do setmetatable({}, meta) end
            inside = true
            local list = assert(json.decode(text))
            inside = false
            for i = 1, 2000 do
                assert(list[i].name == "outer\t" .. i and list[i].list[1] == i)
            end
        end
        assert(runs > 0)"##,
    );
}

/// Out of memory leaves by longjmp in the middle of building; the next call works.
#[test]
fn memory_errors_leave_nothing_broken() {
    let lua = lua();
    let text = format!("[{}]", vec![r#"{"key": [1, 2, "three"]}"#; 20_000].join(","));
    lua.globals().set("text", text).unwrap();
    for limit_kib in (600..3400).step_by(211) {
        lua.set_memory_limit(lua.used_memory() + limit_kib * 1024).unwrap();
        let failed = lua.load("local v = json.decode(text) return json.encode(v)").exec();
        lua.set_memory_limit(0).unwrap();
        assert!(failed.is_err(), "{limit_kib} KiB were enough");
        lua.gc_collect().unwrap();
        lua.load("assert(#json.decode(text) == 20000 and json.encode({1}) == '[1]')")
            .exec()
            .unwrap();
        lua.gc_collect().unwrap();
    }
}
