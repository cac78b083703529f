//! The debugger's messages: any bytes are requests with one response each, or end the session; what
//! is sent is messages too.

use crate::{FuzzTarget, owned};
use lua_std::{VmContext, open_vm};
use lua_vm::{Vm, VmOptions};
use mlua::Function;
use std::rc::Rc;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check,
    seeds: || owned(SEEDS),
    dictionary: &[
        "Content-Length: ",
        "\r\n\r\n",
        "\"seq\":1",
        "\"type\":\"request\"",
        "\"command\":",
        "\"arguments\":{",
        "\"initialize\"",
        "\"setBreakpoints\"",
        "\"condition\":\"",
        "\"hitCondition\":\">= ",
        "\"logMessage\":\"{",
        "\"stackTrace\"",
        "\"variables\"",
        "\"scopes\"",
        "\"threads\"",
        "null",
        "[]",
        "1e300",
    ],
    cases: 2500,
};

const SEEDS: &[&[u8]] = &[
    b"Content-Length: 46\r\n\r\n{\"seq\":1,\"type\":\"request\",\"command\":\"threads\"}",
    b"Content-Length: 87\r\n\r\n{\"seq\":1,\"type\":\"request\",\"command\":\"stackTrace\",\
      \"arguments\":{\"threadId\":1,\"levels\":1}}",
    b"Content-Length: 71\r\n\r\n{\"seq\":1,\"type\":\"request\",\"command\":\"scopes\",\
      \"arguments\":{\"frameId\":1}}",
    b"content-length:2\n\n{}",
    b"GET / HTTP/1.1\r\n\r\n",
    b"Content-Type: x\r\nContent-Length: 1048577\r\n\r\n",
];

const PROGRAM: &str = r#"
local values, breakpoints, adapter = ...
local json = require "silly.encoding.json"
require "silly.logger".error = function() end
require "silly".exit = function() end
values = values()
breakpoints = breakpoints(values)
-- Neither the files of this machine nor the code of a request.
breakpoints.lines_of = function() return { "a", "", "-- b", "c" } end
values.evaluate = function(text) return true, text end
local paused = coroutine.create(function(...)
    local list = { 1, 2, ... }
    coroutine.yield(list)
end)
coroutine.resume(paused, {}, "x")
local count = 0
adapter = adapter({
    with_session = function(show, serve)
        local open = { paused = paused, failure = "why", thread = coroutine.running() }
        show(open, "step")
        serve(open)
        return true
    end,
    insert = function() count = count + 1 return count end,
    remove = function() end,
    continue = function(open) open.paused = nil end,
    pause_next = function() end,
    pause_failures = function() end,
    path_of = function(source) return source end,
    absolute = function(path) return path end,
}, values, breakpoints)

-- Begun by a request, so that most inputs get further.
local BEGIN = '{"seq":1,"type":"request","command":"initialize"}'
local frame = ("Content-Length: %d\r\n\r\n%s"):format(#BEGIN, BEGIN)

return function(data)
    local input, sent = frame .. data, {}
    local conn = {}
    function conn:read(what)
        local to = what
        if type(what) == "string" then to = select(2, input:find(what, 1, true)) end
        if not to or to > #input then return nil, "end" end
        local found = input:sub(1, to)
        input = input:sub(to + 1)
        return found
    end
    function conn:write(parts) sent[#sent + 1] = table.concat(parts) end
    function conn:unsentbytes() return 0 end
    adapter.serve(conn, function() end)
    local last = 0
    for _, text in ipairs(sent) do
        local length, body = text:match "^Content%-Length: (%d+)\r\n\r\n(.*)$"
        assert(#body == tonumber(length), "length")
        local message = assert(json.decode(body))
        assert(message.seq == last + 1 and (message.type == "event" or message.command), body)
        assert(utf8.len(body), "not UTF-8")
        last = message.seq
    end
end
"#;

struct Program {
    /// Keeps the state alive that the function lives in.
    vm: Rc<Vm>,
    check: Function,
}

thread_local! {
    static PROGRAMS: Program = {
        let vm = open_vm(VmOptions::default(), VmContext::default()).expect("a VM");
        let load = |text: &str| vm.lua().load(text).eval::<Function>().expect("a function");
        let values = load(include_str!("../../../lua/debug_values.lua"));
        let breakpoints = load(include_str!("../../../lua/debug_breakpoints.lua"));
        let adapter = load(include_str!("../../../lua/debug_adapter.lua"));
        let program = vm.lua().load(PROGRAM).into_function().expect("the program compiles");
        let check = program.call((values, breakpoints, adapter)).expect("the adapter opens");
        Program { vm, check }
    };
}

fn check(data: &[u8]) {
    PROGRAMS.with(|program| {
        let text = program.vm.lua().create_string(data).expect("memory");
        let checked: mlua::Result<()> = program.check.call(text);
        checked.unwrap_or_else(|error| panic!("{error}: {data:02x?}"));
    });
}
