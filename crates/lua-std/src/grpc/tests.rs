//! Client and server of one program; `tests/interop/lua_grpc.rs` has those of others.

use crate::testing::output;

const BEGIN: &str = r#"
    local silly, grpc, task = require "silly", require "silly.net.grpc", require "silly.task"
    local code, registrar = require "silly.net.grpc.code", require "silly.net.grpc.registrar"
    local channel, time = require "silly.sync.channel", require "silly.time"
    local http, errno = require "silly.net.http", require "silly.errno"
    local p = require "protoc":new()
    assert(p:load([[
        syntax = "proto3"; package shop;
        message Note { string text = 1; int32 number = 2; }
        service Orders {
            rpc Get (Note) returns (Note);
            rpc Watch (Note) returns (stream Note);
            rpc Total (stream Note) returns (Note);
            rpc Chat (stream Note) returns (stream Note);
        }
    ]], "shop.proto"))
    local proto = p.loaded["shop.proto"]
    -- What a handler noticed, and the numbers of the calls that it has begun.
    local noticed, begun = channel.new(), {}
    local handlers = {
        Get = function(note, call)
            if note.text == "missing" then
                return nil, { code = code.NotFound, message = "no such order: 5 %, zwölf" }
            end
            if note.text == "error" then error "a secret of the handler" end
            if note.text == "nothing" then return nil end
            if note.text == "wrong" then return { number = "not a number" } end
            if note.text == "wait" then
                begun[note.number] = true
                while call:isalive() do time.sleep(1) end
                noticed:push(note.number)
            end
            if note.text == "header" then return { text = call.header["x-a"] .. call.path } end
            return { text = note.text:upper(), number = note.number + 1 }
        end,
        Watch = function(note, call)
            for number = 1, note.number do call:write { number = number } end
            if note.text == "forever" then
                while call:write { text = ("x"):rep(1000) } do end
                noticed:push "the watch has ended"
            end
            local failure = { code = code.Aborted, message = "after all" }
            if note.text == "fail" then return nil, failure end
        end,
        Total = function(call)
            local sum = 0
            while true do
                local note, err = call:read()
                if not note then
                    if err then return nil, { code = call.status, message = err } end
                    return { number = sum }
                end
                sum = sum + note.number
            end
        end,
        Chat = function(call)
            for note in function() return (call:read()) end do
                local stopped = { code = code.OutOfRange, message = "stopped" }
                if note.text == "stop" then return stopped end
                call:write { text = note.text .. "!" }
            end
        end,
    }
    local r = registrar.new()
    r:register(proto, "Orders", handlers)
    local server = assert(grpc.listen { addr = "127.0.0.1:0", registrar = r, max_message = 10000 })
    local conn = assert(grpc.newclient { targets = { server.addr }, max_message = 20000 })
    local orders = assert(grpc.newservice(conn, proto, "Orders"))
"#;

fn program(text: &str) -> Vec<String> {
    output(&format!("{BEGIN}\n{text}\nsilly.exit()"))
}

#[test]
fn calls_of_one_message() {
    let lines = program(
        r#"
        local note = assert(orders:Get { text = "one", number = 1 })
        say(note.text, note.number)
        say(orders:Get { text = "missing" })
        say(orders:Get { text = "error" })
        say(orders:Get { text = "nothing" })
        say(orders:Get { text = "wrong" })
        say(orders:Get({ text = "header" }, nil, { ["x-a"] = "metadata of " }).text)
        say(#orders:Get({ text = ("x"):rep(9900) }).text)
        say(orders:Get { text = ("x"):rep(10000) })
        -- All calls share one connection.
        local done = channel.new()
        for number = 1, 50 do
            task.fork(function() done:push(orders:Get { number = number }.number) end)
        end
        local sum = 0
        for _ = 1, 50 do sum = sum + done:pop() end
        say(sum, server:stat().accepted)
        say(pcall(orders.Get, orders, { number = "x" }))
        "#,
    );
    assert_eq!(
        &lines[..9],
        [
            "ONE 2",
            "nil code = NotFound desc = no such order: 5 %, zwölf 5",
            "nil code = Internal desc = the handler failed 13",
            "nil code = Internal desc = the handler returned no message 13",
            "nil code = Internal desc = the handler's message cannot be encoded 13",
            "metadata of/shop.Orders/Get",
            "9900",
            "nil code = ResourceExhausted desc = grpc: received message larger than max (10003 vs. \
             10000) 8",
            "1325 1",
        ]
    );
    assert!(lines[9].contains("number expected for field 'number', got string"), "{}", lines[9]);
}

#[test]
fn streams_in_each_direction() {
    let lines = program(
        r#"
        local function numbers(call)
            local found = {}
            for note in function() return (call:read()) end do found[#found + 1] = note.number end
            return table.concat(found, " "), call.status, call.message
        end
        say(numbers(assert(orders:Watch { number = 3 })))
        say(numbers(assert(orders:Watch { number = 1, text = "fail" })))
        local total = assert(orders:Total())
        for number = 1, 4 do total:write { number = number } end
        total:closewrite()
        say(total:read().number, total.status, total:read())
        local chat = assert(orders:Chat())
        for _, text in ipairs { "a", "b" } do
            chat:write { text = text }
            say(chat:read().text)
        end
        -- A time-out takes nothing.
        say(chat:read(1) == nil, chat.status)
        chat:write { text = "c" }
        say(chat:read(5000).text)
        chat:write { text = "stop" }
        say(chat:read())
        say(chat.status, chat.message)
        chat = assert(orders:Chat())
        chat:closewrite()
        say(chat:read(), chat.status)
        "#,
    );
    assert_eq!(
        lines,
        [
            "1 2 3 0 OK",
            "1 10 after all",
            "10 0 nil",
            "a!",
            "b!",
            "true nil",
            "c!",
            "nil stopped",
            "11 stopped",
            "nil 0",
        ]
    );
}

#[test]
fn deadlines_and_cancelled_calls_end_on_both_sides() {
    let lines = program(
        r#"
        -- Calls with longer and longer deadlines, until the handler runs before it is over; returns
        -- the result once the handler has noticed.
        local number = 0
        local function expire(get)
            local ms, result = 20, nil
            repeat
                number = number + 1
                result = table.pack(get(number, ms))
                ms = ms * 2
            until begun[number]
            repeat until noticed:pop() == number
            return table.unpack(result, 1, result.n)
        end
        say(expire(function(id, ms) return orders:Get({ text = "wait", number = id }, ms) end))
        local watch <close> = assert(orders:Watch { text = "forever" })
        say(#watch:read().text)
        watch:close()
        say(noticed:pop())
        local chat, why, status = orders:Chat(nil, 20)
        if chat then
            _, why = chat:read()
            status = chat.status
        end
        say(why:lower():match "deadline exceeded", status)
        -- The deadline of another client is the server's too.
        local url = "http://" .. server.addr .. "/shop.Orders/Get"
        local client = http.newclient { alpnprotos = { "h2" } }
        say(expire(function(id, ms)
            local header = { ["content-type"] = "application/grpc", ["grpc-timeout"] = ms .. "m" }
            local stream = client:request("POST", url, header)
            stream:write("\0\0\0\0\8\10\4wait\16" .. string.char(id))
            stream:readall()
            return (stream.trailer or stream.header)["grpc-status"]
        end))
        conn:close()
        say(orders:Get { text = "x" })
        "#,
    );
    assert_eq!(
        lines,
        [
            "nil grpc: deadline exceeded 4",
            "1000",
            "the watch has ended",
            "deadline exceeded 4",
            "4",
            "nil closed 14",
        ]
    );
}

#[test]
fn peers_that_do_not_follow_the_protocol() {
    let lines = program(
        r#"
        local base = "http://" .. server.addr
        local grpc_type = { ["content-type"] = "application/grpc" }
        say(http.post(base .. "/shop.Orders/Get", grpc_type, "").status)
        local client = http.newclient { alpnprotos = { "h2" } }
        local function post(path, header, body)
            local response = assert(client:post(base .. path, header, body))
            local trailer = response.trailer or {}
            return response.status, trailer["grpc-status"] or response.header["grpc-status"],
                trailer["grpc-message"] or response.header["grpc-message"]
        end
        say(post("/shop.Orders/Get", { ["content-type"] = "text/plain" }, ""))
        say(post("/shop.Orders/None", grpc_type, ""))
        say(post("/shop.Orders/Get", grpc_type, ""))
        say(post("/shop.Orders/Get", grpc_type, "\0\0\0"))
        say(post("/shop.Orders/Get", grpc_type, "\0\0\0\0\9abc"))
        say(post("/shop.Orders/Get", grpc_type, "\0\0\0\0\2\10\9"))
        say(post("/shop.Orders/Get", grpc_type, "\1\0\0\0\2ab"))
        -- Servers that are none.
        local answers = {
            ["/shop.Orders/Get"] = function(stream) stream:respond(503) end,
            ["/shop.Orders/Total"] = function(stream)
                stream:respond(200)
                stream:closewrite "html"
            end,
        }
        local listener = assert(http.listen { addr = "127.0.0.1:0", handler = function(stream)
            answers[stream.path](stream)
        end })
        local other = grpc.newservice(grpc.newclient { target = listener.addr }, proto, "Orders")
        say(other:Get {})
        local total = other:Total()
        total:closewrite()
        say(total:read())
        local unreachable = grpc.newclient { targets = { "127.0.0.1:1" } }
        local absent = grpc.newservice(unreachable, proto, "Orders")
        say(absent:Get {})
        "#,
    );
    assert_eq!(
        lines,
        [
            "505",
            "415 nil nil",
            "200 12 grpc: method not found",
            "200 13 no message in the request",
            "200 13 grpc: incomplete message",
            "200 13 grpc: incomplete message",
            "200 13 grpc: malformed message: unfinished bytes at offset 2",
            "200 12 grpc: the compression of the message is not supported",
            "nil code = Unavailable desc = HTTP status 503 14",
            "nil grpc: incomplete message",
            "nil Connection refused (111) 14",
        ]
    );
}

#[test]
fn arguments_are_checked() {
    let lines = program(
        r#"
        say(grpc.newclient { targets = {} })
        say(grpc.newclient { targets = { "nowhere" } })
        say(grpc.newclient { targets = { "unix:///run/a" } })
        say(grpc.newclient { targets = { "dns:///localhost:1", "[::1]:5" } } ~= nil)
        say(grpc.newservice(conn, proto, "None"))
        local function fails(...)
            local ok, err = pcall(...)
            say(ok, (err:gsub("^.-:%d+: ", "")))
        end
        fails(r.register, r, proto, "None", {})
        fails(r.register, r, proto, "Orders", { Get = print })
        handlers.Extra = print
        fails(r.register, r, proto, handlers)
        fails(grpc.listen, { addr = "127.0.0.1:0" })
        say(code.NotFound, code.NOT_FOUND, code.Canceled, code.CANCELLED)
        "#,
    );
    assert_eq!(
        lines,
        [
            "nil empty targets",
            "nil invalid target: nowhere",
            "nil unsupported scheme: unix (dns or passthrough expected)",
            "true",
            "nil service not found",
            "false service not found: None; the file has Orders",
            "false method Watch of service Orders has no function",
            "false service Orders has no method Extra",
            "false bad argument #1 to 'listen' (registrar is not a registrar)",
            "5 5 1 1",
        ]
    );
}
