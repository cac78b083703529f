//! `encoding.json` of Lua: it takes what another parser takes, reports the position of the error in
//! what it does not, and what it took is the same when it is written and read again, at once or in
//! pieces.

use crate::{FuzzTarget, owned};
use lua_std::{VmContext, open_vm};
use lua_vm::{Vm, VmOptions};
use mlua::{Function, LuaString};
use std::rc::Rc;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: json,
    seeds: || {
        let mut seeds = owned(TEXTS);
        seeds.push(b"\"\xff\xfe\"".to_vec());
        seeds.push("[".repeat(2000).into_bytes());
        seeds.push(format!("{}1{}", "[".repeat(500), "]".repeat(500)).into_bytes());
        seeds
    },
    dictionary: &[
        "{", "}", "[", "]", "\"", ",", ":", "\\", "\\u", "0", "1.5", "e", "E+", "-", " ", "null",
        "true", "ü",
    ],
    cases: 2500,
};

const TEXTS: &[&str] = &[
    "",
    "null",
    "false",
    " [1, -0, 1.5e3, 1E-7, 12345678901234567890, -9223372036854775808, 0.1, 1e400] ",
    r#"{"a":[{},[],"x\n\u00fc\ud83d\ude00\/"],"b":{"c":null,"d":[true,false]},"a":2}"#,
    "\"a long string that takes more than one word to scan, with \\\"quotes\\\" and ü\"",
    "[[[[[[[[[[[[{\"deep\":[[[[]]]]}]]]]]]]]]]]]",
    "{\"one\":1,\n\t\"two\" : 2 ,\r\n \"three\":[ 3 , 3.0 , 30e-1 ]}\n",
    "1 2 3 [4] {\"5\":5}",
    "[1,]",
    "{\"a\":}",
    "\"\\ud800\"",
    "01",
    "-",
    "[1e]",
    "tru",
    "\"\u{1}\"",
];

/// Returns whether the text was taken; raises when an invariant is broken.
const CHECK: &str = r#"
local json = require "tide.encoding.json"

local function same(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b or a ~= a and b ~= b end
    for key, value in next, a do if not same(value, rawget(b, key)) then return false end end
    for key in next, b do if rawget(a, key) == nil then return false end end
    return true
end

return function(text, size)
    local value, reason = json.decode(text)
    if value == nil then
        assert(type(reason) == "string" and reason:find(" at byte %d+ %(line %d+, column %d+%)$"))
    end

    local stream, pieces = json.decoder(), 0
    for at = 1, #text, size do stream:feed(text:sub(at, at + size - 1)) end
    stream:finish()
    local first, wrong = stream:next()
    if value == nil then
        -- The stream may find a value and something wrong behind it, or nothing at all.
        repeat
            pieces = pieces + 1
            assert(pieces <= #text + 1)
            first, wrong = stream:next()
        until first == nil and wrong == nil or pieces > 50
        return false
    end
    assert(wrong == nil and same(first, value))
    local none, nothing = stream:next()
    assert(none == nil and nothing == nil)

    local out, unfit = json.encode(value)
    if out == nil then
        assert(unfit:find("128 deep"))
        return true
    end
    local again, unread = json.decode(out)
    assert(unread == nil and same(again, value))
    assert(#assert(json.encode(again)) == #out)
    return true
end
"#;

struct Checker {
    /// Keeps the state alive that the function lives in.
    vm: Rc<Vm>,
    check: Function,
}

thread_local! {
    static CHECKER: Checker = {
        let vm = open_vm(VmOptions::default(), VmContext::default()).expect("a VM");
        let check = vm.lua().load(CHECK).eval().expect("the check compiles");
        Checker { vm, check }
    };
}

/// Nesting that the other parser takes too.
const DEPTH_COMPARED: usize = 100;

/// Any bytes are a text, and their first says in which pieces it arrives.
fn json(data: &[u8]) {
    let size = usize::from(*data.first().unwrap_or(&0)) % 17 + 1;
    let taken = CHECKER.with(|checker| {
        let text: LuaString = checker.vm.lua().create_string(data).expect("memory");
        checker.check.call::<bool>((text, size)).unwrap_or_else(|error| panic!("{error}"))
    });
    let opened = data.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    // We take any bytes in strings; the other takes UTF-8.
    if opened <= DEPTH_COMPARED && std::str::from_utf8(data).is_ok() {
        let other = serde_json::from_slice::<serde_json::Value>(data);
        assert_eq!(taken, other.is_ok(), "{:?}: {other:?}", String::from_utf8_lossy(data));
    }
}
