//! Clients of the Debug Adapter Protocol, over TCP.

use super::scripts::program;

const PROGRAM: &str = r#"local limit = ...
local function add(a, b)
  local sum = a + b
  return sum
end
-- a comment

local total, label = 0, { name = "x\n", 1, 2, 3 }
for n = 1, limit do
  total = add(total, n)
end
return total, label
"#;

/// `connect()` is a client; `run(n)` begins the program in a task, `result:pop()` is its end.
const BEGIN: &str = r#"
    local json, tcp = require "silly.encoding.json", require "silly.net.tcp"
    local debugger, channel = require "silly.debugger", require "silly.sync.channel"
    local listener = assert(debugger.listen { addr = "127.0.0.1:0" })
    local result = channel.new()
    local function run(...)
        local fn, arguments = assert(loadfile(path)), table.pack(...)
        task.fork(function() result:push((fn(table.unpack(arguments, 1, arguments.n)))) end)
    end
    local Client = {}
    Client.__index = Client
    local function open(addr)
        return setmetatable({ conn = assert(tcp.connect(addr)), seq = 0, events = {} }, Client)
    end
    function Client:receive()
        local length = self.conn:read("\r\n"):match "^Content%-Length: (%d+)\r\n$"
        assert(self.conn:read "\r\n" == "\r\n")
        return (json.decode(self.conn:read(math.tointeger(length))))
    end
    function Client:send(command, arguments)
        self.seq = self.seq + 1
        local text = json.encode {
            seq = self.seq, type = "request", command = command, arguments = arguments,
        }
        self.conn:write(("Content-Length: %d\r\n\r\n%s"):format(#text, text))
    end
    --- The body of a response, or its message.
    function Client:request(command, arguments)
        self:send(command, arguments)
        while true do
            local message = self:receive()
            if message.type == "response" then
                assert(message.request_seq == self.seq and message.command == command)
                return message.success and (message.body or true) or message.message
            end
            table.insert(self.events, message)
        end
    end
    function Client:event(name)
        local message = table.remove(self.events, 1) or self:receive()
        assert(message.event == name, message.event)
        return message.body
    end
    local function connect()
        local client = open(listener.addr)
        assert(client:request("initialize", {}).supportsConfigurationDoneRequest)
        client:event "initialized"
        client:request "attach"
        return client
    end
    --- Sets the breakpoints of the file; returns which are verified, where, and why not.
    local function set(client, list)
        local source = { path = path }
        local body = client:request("setBreakpoints", { source = source, breakpoints = list })
        local texts = {}
        for at, one in ipairs(body.breakpoints) do
            texts[at] = one.verified and tostring(one.line) or (one.message:gsub("^.*: ", ""))
        end
        return table.concat(texts, " | ")
    end
    --- The topmost frame of the paused task.
    local function top(client)
        local stopped = client:event "stopped"
        local stack = client:request("stackTrace", { threadId = stopped.threadId })
        return stack.stackFrames[1], stopped, stack
    end
    local function evaluate(client, frame, text)
        local body = client:request("evaluate", { expression = text, frameId = frame and frame.id })
        return body.result or body
    end
"#;

fn session(text: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("prog.lua");
    std::fs::write(&path, PROGRAM).unwrap();
    program(&format!("local path = {path:?}\n{BEGIN}\n{text}\n"))
}

#[test]
fn a_client_stops_at_a_line_and_steps() {
    let lines = session(
        r#"
        local client = connect()
        say(set(client, { { line = 4 }, { line = 6 }, { line = 40 } }))
        set(client, { { line = 4 } })
        say(client:request "configurationDone")
        run(2)
        local frame, stopped, stack = top(client)
        say(stopped.reason, #stopped.hitBreakpointIds, stopped.allThreadsStopped)
        say(frame.name, frame.line, frame.source.name, frame.source.path == path)
        local frames = stack.stackFrames
        say(frames[2].name, frames[2].line, stack.totalFrames == #frames)
        -- Other tasks continue.
        time.sleep(1)
        local threads = client:request "threads".threads
        local found
        for _, one in ipairs(threads) do
            if one.id == stopped.threadId then found = one.name:gsub("%s.*/", " ") end
        end
        say(found)
        say(client:request("stackTrace", { threadId = stopped.threadId + 1000 }))
        client:request("next", { threadId = stopped.threadId })
        say(top(client).line)
        client:request("stepIn", { threadId = stopped.threadId })
        frame, stopped = top(client)
        say(frame.line, stopped.reason)
        set(client, {})
        client:request("stepIn", { threadId = stopped.threadId })
        say(top(client).line)
        client:request("stepOut", { threadId = stopped.threadId })
        say(top(client).line)
        client:request("continue", { threadId = stopped.threadId })
        say(result:pop(), client:request("next", {}))
        "#,
    );
    assert_eq!(lines[0], "4 | 8 | the file has no code there");
    assert_eq!(lines[1], "true");
    assert_eq!(lines[2], "breakpoint 1 false");
    assert_eq!(lines[3], "add 4 prog.lua true");
    assert_eq!(lines[4], "fn 10 true");
    assert_eq!(lines[5], "PAUSED prog.lua:4");
    assert_eq!(lines[6], "the task is not paused");
    // After the breakpoint: the loop, its line, into the function; out of it, and to the end.
    assert_eq!(lines[7..], ["9", "10 step", "3", "9", "3 no task is paused"]);
}

#[test]
fn conditions_hit_counts_and_log_points() {
    let lines = session(
        r#"
        local client = connect()
        client:request "configurationDone"
        say(set(client, {
            { line = 10, condition = "n ==" },
            { line = 10, hitCondition = "twice" },
            { line = 10, logMessage = "{n" .. " +}" },
        }))
        set(client, { { line = 10, condition = "n == 3 and limit == 4" } })
        run(4)
        local frame = top(client)
        say(evaluate(client, frame, "n"), evaluate(client, frame, "total"))
        set(client, { { line = 10, logMessage = "n is {n}, name {label.name}{nothing.x}" } })
        client:request("continue", {})
        say(result:pop(), (client:event "output".output:gsub("\n", "|")))
        set(client, { { line = 10, hitCondition = "% 2" } })
        run(5)
        frame = top(client)
        say(evaluate(client, frame, "n"))
        client:request("continue", {})
        say(evaluate(client, (top(client)), "n"))
        -- A condition that fails pauses and says why.
        set(client, { { line = 10, condition = "n.x.y" } })
        client:request("continue", {})
        say((client:event "output".output:match "failed: .*index a number value"))
        say(top(client).line)
        set(client, { { line = 10, hitCondition = ">= 100", condition = " " } })
        client:request("continue", {})
        say(result:pop())
        "#,
    );
    assert!(lines[0].starts_with("unexpected symbol near <eof> | a hit condition is"), "{lines:?}");
    assert_eq!(lines[1], "3 3");
    assert!(lines[2].starts_with("10 n is 4, name x|"), "{lines:?}");
    assert_eq!(lines[3..5], ["2", "4"]);
    assert_eq!(lines[5], "failed: expression:1: attempt to index a number value");
    assert_eq!(lines[6..], ["10", "15"]);
}

#[test]
fn variables_are_paged_and_expressions_evaluated() {
    let lines = session(
        r#"
        local client = connect()
        client:request "configurationDone"
        set(client, { { line = 12 } })
        run(3)
        local frame = top(client)
        local scopes = client:request("scopes", { frameId = frame.id }).scopes
        local function list(reference, filter, start, count)
            local texts = {}
            local body = client:request("variables", {
                variablesReference = reference, filter = filter, start = start, count = count,
            })
            for at, one in ipairs(body.variables) do
                texts[at] = one.name .. "=" .. (one.type == "string" and one.value or one.type)
            end
            return table.concat(texts, " "), body.variables
        end
        say(scopes[1].name, scopes[2].name, scopes[3].name, scopes[3].expensive)
        local text, variables = list(scopes[1].variablesReference)
        say(text)
        local label
        for _, one in ipairs(variables) do if one.name == "label" then label = one end end
        say(label.indexedVariables, label.namedVariables)
        local all = list(label.variablesReference)
        say(all, "|", (list(label.variablesReference, "indexed", 1, 1)))
        local named = list(label.variablesReference, "named")
        say(named, "|", (list(label.variablesReference, nil, 2, 2)))
        say((list(scopes[3].variablesReference)):find "print=function" ~= nil)
        -- What an expression sets is set in the program.
        local function value(text) return evaluate(client, frame, text) end
        say(value "total", value "total = 50", value "total")
        say(value "label.name, #label", value "added = total", added)
        say(value "nothing.x", "|", value "1 +", "|", evaluate(client, nil, "1 + 1"))
        say(value [['\xff']])
        say(client:request("variables", { variablesReference = 99999 }))
        client:request("continue", {})
        say(result:pop(), client:request("scopes", { frameId = frame.id }))
        "#,
    );
    assert_eq!(lines[0], "Locals Upvalues Globals true");
    assert_eq!(lines[1], "limit=number add=function total=number label=table ...1=number");
    assert_eq!(lines[2], "3 1");
    assert_eq!(lines[3], r#"[1]=number [2]=number [3]=number name="x\n" | [2]=number"#);
    assert_eq!(lines[4], r#"name="x\n" | [3]=number name="x\n""#);
    assert_eq!(lines[5], "true");
    assert_eq!(lines[6], "6  50");
    assert_eq!(lines[7], r#""x\n", 3  50"#);
    assert!(lines[8].contains("attempt to index a nil value"), "{lines:?}");
    assert!(lines[8].ends_with("| 2"), "{lines:?}");
    assert_eq!(lines[9], r#""\xff""#);
    assert_eq!(lines[10], "the variables are no longer valid");
    assert_eq!(lines[11], "50 the frame is no longer valid");
}

#[test]
fn tasks_pause_when_they_fail_and_on_request() {
    let lines = session(
        r#"
        local client = connect()
        say(client:request("setExceptionBreakpoints", { filters = { "all" } }))
        client:request("setExceptionBreakpoints", { filters = { "uncaught" } })
        client:request "configurationDone"
        local closed
        task.fork(function()
            local guard <close> = setmetatable({}, { __close = function() closed = true end })
            local text = "local order = { id = 7 }\nlocal x = order.none.y"
            local fn = assert(load(text, "@broken.lua"))
            fn()
        end)
        local frame, stopped = top(client)
        say(stopped.reason, stopped.text, frame.line, evaluate(client, frame, "order.id"), closed)
        local about = client:request("exceptionInfo", {})
        local trace = about.details.stackTrace
        say(about.breakMode, about.description == stopped.text, trace:find "broken.lua:2" ~= nil)
        -- What fails while a task is paused ends at once, and so does a caught error.
        task.fork(function() error "other" end)
        pcall(error, "caught")
        time.sleep(1)
        client:request("continue", {})
        time.sleep(1)
        say(closed, #client.events, client:request("exceptionInfo", {}))
        -- A task that waits pauses when it runs again.
        local gate = channel.new()
        local text = "local gate, result = ...\nlocal got = gate:pop()\nresult:push(got * 2)"
        task.fork(assert(load(text, "@gate.lua")), gate, result)
        local id
        for _, one in ipairs(client:request "threads".threads) do
            if one.name == "WAIT gate.lua:2" then id = one.id end
        end
        client:request("pause", { threadId = id })
        gate:push(21)
        frame, stopped = top(client)
        say(stopped.reason, frame.line, client:request("pause", { threadId = id }))
        client:request("continue", {})
        say(result:pop(), client:request("pause", { threadId = 9999 }))
        "#,
    );
    assert!(lines[0].starts_with("there is no exception filter all"), "{lines:?}");
    assert_eq!(
        lines[1],
        "exception broken.lua:2: attempt to index a nil value (field 'none') 2 7 nil"
    );
    assert_eq!(lines[2], "unhandled true true");
    assert_eq!(lines[3], "true 0 no task is paused");
    assert_eq!(lines[4], "pause 3 a task is paused");
    assert_eq!(lines[5], "42 there is no such task");
}

#[test]
fn a_client_that_vanishes_lets_the_program_continue() {
    let lines = session(
        r#"
        local client = connect()
        client:request "configurationDone"
        set(client, { { line = 12 } })
        run(3)
        top(client)
        -- One client at a time.
        local other = open(listener.addr)
        say(other:request("initialize", {}))
        say(other.conn:read(1))
        client.conn:close()
        say(result:pop())
        -- Its breakpoints are gone, and another client may begin.
        run(3)
        say(result:pop())
        local last = connect()
        client = last
        set(last, { { line = 12 } })
        last:request "configurationDone"
        run(4)
        top(last)
        say(last:request("disconnect", {}), result:pop(), last.conn:read(1))
        "#,
    );
    assert_eq!(lines[0], "debugger is already opened by other user");
    assert_eq!(lines[1], "nil End of file (10004)");
    assert_eq!(lines[2..4], ["6", "6"]);
    assert_eq!(lines[4], "true 10 nil End of file (10004)");
}

#[test]
fn malformed_messages_end_their_session() {
    let lines = session(
        r#"
        for _, text in ipairs {
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "Content-Length: 2000000\r\n\r\n",
            "Content-Length: -1\r\n\r\n",
            "Content-Type: x\r\n\r\n",
            ("X-Header: y\r\n"):rep(20) .. "\r\n",
            "X-Header: " .. ("y"):rep(600) .. "\r\n\r\n",
            "Content-Length: 4\r\n\r\nnull",
            "Content-Length: 5\r\n\r\n{\"a\":",
            "Content-Length: 2\r\n\r\n{}",
            "Content-Length: 9\r\n\r\n{\"a\":",
        } do
            local conn = assert(tcp.connect(listener.addr))
            conn:write(text)
            conn:closewrite()
            say(conn:read(1))
        end
        local client = open(listener.addr)
        say(client:request("threads", {}))
        client:request("initialize", {})
        client:event "initialized"
        say(client:request("initialize", {}), "|", client:request("x", {}))
        say(client:request("evaluate", {}))
        say(client:request("setBreakpoints", { source = {} }), "|", client:request("scopes", {}))
        local wanted = {}
        for at = 1, 1001 do wanted[at] = { line = 3 } end
        say(client:request("setBreakpoints", { source = { path = path }, breakpoints = wanted }))
        say(debugger.listen { addr = "0.0.0.0:0" })
        say(pcall(debugger.listen, "127.0.0.1:0"))
        "#,
    );
    for line in &lines[..10] {
        assert_eq!(line, "nil End of file (10004)");
    }
    assert_eq!(lines[10], "the session is not initialized");
    assert_eq!(lines[11], "the session is initialized | there is no request x");
    assert_eq!(lines[12], "there is no expression");
    assert_eq!(
        lines[13],
        "a source without a path has no breakpoints | the frame is no longer valid"
    );
    assert_eq!(lines[14], "there are 1000 breakpoints");
    assert!(lines[15].starts_with("nil a debugger listens on loopback"), "{lines:?}");
    assert!(lines[16].contains("bad argument #1 to 'listen'"), "{lines:?}");
}
