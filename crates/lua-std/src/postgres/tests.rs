//! Servers that say what the test wants; a real one is in `tests/interop/postgres.rs`.

use crate::testing::{output, timed_output};

/// A server: `serve(talk)` reads the first message of each connection and calls
/// `talk(send, receive, first, conn)`; `send(kind, content)` and `receive()` are of messages.
const SERVER: &str = r##"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local tcp, postgres = require "silly.net.tcp", require "silly.store.postgres"
    local OK = "\0\0\0\0"
    local connected, seen = 0, nil
    local function serve(talk)
        return assert(tcp.listen("127.0.0.1:0", function(conn)
            connected = connected + 1
            local function send(kind, content)
                content = content or ""
                return conn:write(kind .. string.pack(">I4", #content + 4) .. content)
            end
            local function receive()
                local header = conn:read(5)
                if not header then return nil end
                local kind, length = string.unpack(">c1I4", header)
                return kind, length > 4 and conn:read(length - 4) or ""
            end
            local header = conn:read(4)
            local first = header and conn:read(string.unpack(">I4", header) - 4)
            if first then talk(send, receive, first, conn) end
            conn:close()
        end)).addr
    end
    -- One that lets everyone in.
    local function trusting(talk)
        return serve(function(send, receive, first, conn)
            send("R", OK)
            send("S", "server_version\00015\0")
            send("K", string.pack(">I4I4", 7, 8))
            send("Z", "I")
            talk(send, receive, first, conn)
        end)
    end
    -- Reads the messages of one request, to its end.
    local function request(receive)
        local kinds, content = "", nil
        repeat
            local kind, text = receive()
            if not kind then return nil end
            kinds = kinds .. kind
            if kind == "P" or kind == "Q" or kind == "B" then content = text end
        until kind == "S" or kind == "Q" or kind == "X"
        return kinds, content
    end
    local function column(name, kind)
        return name .. "\0" .. string.pack(">I4I2I4I2I4I2", 0, 0, kind, 8, 0xFFFFFFFF, 0)
    end
    local function prepared(send, kinds, ...)
        send("1")
        local types = string.pack((">" .. ("I4"):rep(#kinds)), table.unpack(kinds))
        send("t", string.pack(">I2", #kinds) .. types)
        local columns = table.pack(...)
        if columns.n == 0 then send("n") else
            send("T", string.pack(">I2", columns.n) .. table.concat(columns))
        end
        send("Z", "I")
    end
    local function open(addr, more)
        local options = { addr = addr, user = "ann", password = "pencil", timeout = 60000 }
        for name, value in pairs(more or {}) do options[name] = value end
        return postgres.open(options)
    end
    local function failed(...)
        local result, err = ...
        say(result, err.type, err.sqlstate, err.message, err.lost)
    end
"##;

fn with_server(program: &str) -> Vec<String> {
    output(&format!("{SERVER}{program}\nsilly.exit()"))
}

#[test]
fn the_password_is_proven_and_the_server_too() {
    let program = r##"
        local SASL = string.pack(">I4z", 10, "SCRAM-SHA-256-PLUS") .. "SCRAM-SHA-256\0\0"
        local function message(first)
            local nonce = first:match "n,,n=,r=(.+)$"
            return "r=" .. nonce .. "server,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        end
        local function scram(final, early)
            return serve(function(send, receive)
                send("R", SASL)
                local _, first = receive()
                say(first:match "^[%w-]+\0", first:find("pencil", 1, true))
                if early then send("R", OK) send("Z", "I") return end
                send("R", "\0\0\0\11" .. message(first))
                local kind, last = receive()
                if not kind then return end
                say(kind, last:match "^c=biws,r=.+server,p=[%w+/]+=$" ~= nil)
                send("R", "\0\0\0\12" .. final)
                send("R", OK)
                send("Z", "I")
                receive()
            end)
        end
        -- One that knows nothing of the password, and one that skips the proof.
        failed(open(scram "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="):ping())
        failed(open(scram(nil, true)):ping())
        -- A server may not choose how long the client computes, or repeat another nonce.
        for _, challenge in ipairs { "r=%s,s=AAAA,i=99999999", "r=x,s=AAAA,i=4096" } do
            failed(open(serve(function(send, receive)
                send("R", SASL)
                local _, first = receive()
                send("R", "\0\0\0\11" .. challenge:format((first:match "r=(.+)$") .. "s"))
                receive()
            end)):ping())
        end
        failed(open(serve(function(send)
            send("R", string.pack(">I4z", 10, "OAUTHBEARER") .. "\0")
        end)):ping())
        -- The password is never sent in the clear, and md5 is salted.
        failed(open(serve(function(send, receive)
            send("R", "\0\0\0\3")
            seen = receive()
        end)):ping())
        say(seen)
        local md5 = serve(function(send, receive)
            send("R", "\0\0\0\5salt")
            local _, proof = receive()
            local hash, hex = require "silly.crypto.hash".hash, require "silly.encoding.hex".encode
            say(proof == "md5" .. hex(hash("md5", hex(hash("md5", "pencilann")) .. "salt")) .. "\0")
            send("E", "SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0")
        end)
        failed(open(md5):ping())
        failed(open(serve(function(send) send("R", "\0\0\0\7") end)):ping())
    "##;
    let said = with_server(program);
    let expected = [
        "SCRAM-SHA-256\0 nil",
        "p true",
        "nil ERR nil postgres: the server does not know the password's hash nil",
        "SCRAM-SHA-256\0 nil",
        "nil ERR nil postgres: the server ended SCRAM early nil",
        "nil ERR nil postgres: the server asks for too many iterations of SCRAM nil",
        "nil ERR nil postgres: the server's SCRAM message is malformed nil",
        "nil ERR nil postgres: the server requires another mechanism than SCRAM-SHA-256 nil",
        "nil ERR nil postgres: the server requires the password in the clear, which needs tls nil",
        "nil",
        "true",
        "nil ERR 28P01 password authentication failed nil",
        "nil ERR nil postgres: the server requires other, which is not supported nil",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_connection_in_doubt_is_closed() {
    let program = r##"
        local function broken(more, talk)
            local pool = open(trusting(function(send, receive, _, conn)
                request(receive)
                talk(send, receive, conn)
            end), more)
            failed(pool:query("select 1"))
            return pool
        end
        -- Half a message, bytes of another protocol, a message of no response.
        local half = broken({}, function(_, _, conn) conn:write("T\0\0\0\1") conn:write("x") end)
        half = broken({}, function(_, _, conn) conn:write("T\0\0\0\100abc") end)
        local before = connected
        failed(half:query("select 1"))
        say(connected - before, half:stat().open)
        broken({}, function(send) send("D", "\0\0") end)
        broken({}, function(send) send("?", "") end)
        broken({}, function(send) send("G", "\0\0\0") end)
        -- Messages and results that are too large.
        local function rows(count, length)
            return function(send, receive)
                prepared(send, {}, column("a", 25))
                request(receive)
                send("2")
                for _ = 1, count do
                    send("D", string.pack(">I2s4", 1, ("x"):rep(length)))
                end
                send("C", "SELECT 1\0")
                send("Z", "I")
                receive()
            end
        end
        broken({ max_packet_size = 100 }, rows(1, 99))
        broken({ max_result_size = 100 }, rows(3, 50))
        -- An error in the middle of a result, after which the connection is of use.
        local pool = open(trusting(function(send, receive)
            request(receive)
            prepared(send, {}, column("a", 25))
            request(receive)
            send("2")
            send("D", string.pack(">I2s4", 1, "x"))
            send("E", "SERROR\0VERROR\0C57014\0Mcanceled\0\0")
            send("Z", "I")
            request(receive)
            send("I")
            send("Z", "I")
            receive()
        end))
        failed(pool:query("select 1"))
        say(pool:ping().type, pool:stat().opened)
        -- The server ends the connection, and says why.
        broken({}, function(send) send("E", "SFATAL\0VFATAL\0C57P01\0Mterminating\0\0") end)
        -- A server without TLS is not used in the clear; nor is one that sends bytes before TLS.
        for _, bytes in ipairs { "N", "SR\0\0\0\8\0\0\0\0", "E" } do
            local plain = serve(function(_, _, _, conn)
                conn:write(bytes)
                conn:read(1)
            end)
            failed(open(plain, { tls = true }):ping())
        end
        failed(open("127.0.0.1:1"):ping())
    "##;
    let fault = "nil ERR nil postgres:";
    let expected = [
        &format!("{fault} malformed message true"),
        &format!("{fault} End of file (10004) true"),
        &format!("{fault} End of file (10004) true"),
        "1 0",
        &format!("{fault} a message that does not belong to the response true"),
        &format!("{fault} malformed message true"),
        &format!("{fault} copy is not supported true"),
        &format!("{fault} a message is larger than max_packet_size true"),
        &format!("{fault} a result is larger than max_result_size true"),
        "nil ERR 57014 canceled nil",
        "OK 1",
        "nil ERR 57P01 terminating true",
        &format!("{fault} the server has no TLS nil"),
        &format!("{fault} the server sent bytes before TLS nil"),
        &format!("{fault} the server has no TLS nil"),
        "nil ERR nil connect to 127.0.0.1:1 failed: Connection refused (111) nil",
    ];
    assert_eq!(with_server(program), expected);
}

#[test]
fn a_statement_that_is_not_awaited_is_cancelled() {
    let program = r##"
        local cancelled, waits = 0, false
        local addr
        addr = assert(tcp.listen("127.0.0.1:0", function(conn)
            local first = conn:read(string.unpack(">I4", conn:read(4)) - 4)
            if first:sub(1, 4) == "\4\210\22\46" then
                assert(first:sub(5) == "\0\0\0\7\0\0\0\8")
                cancelled = cancelled + 1
                conn:close()
                return
            end
            conn:write("R\0\0\0\8\0\0\0\0K\0\0\0\12\0\0\0\7\0\0\0\8Z\0\0\0\5I")
            while conn:readall() do waits = true end
        end)).addr
        -- It takes too long.
        local pool = open(addr, { timeout = 20 })
        failed(pool:query("select pg_sleep(100)"))
        while cancelled < 1 do time.sleep(1) end
        say(pool:stat().open)
        -- Its coroutine has ended.
        waits, pool = false, open(addr)
        local co = task.fork(function() pool:query("select pg_sleep(100)") end)
        while not waits do time.sleep(1) end
        cancel(co)
        while cancelled < 2 do time.sleep(1) end
        say(pool:stat().open, pool:stat().closed)
    "##;
    let expected = ["nil ERR nil postgres: no response in time true", "0", "0 1"];
    assert_eq!(timed_output(&format!("{SERVER}{program}\nsilly.exit()")), expected);
}

#[test]
fn a_transaction_that_a_text_opens_ends_with_its_connection() {
    let program = r##"
        local pool = open(trusting(function(send, receive)
            request(receive)
            prepared(send, {})
            request(receive)
            send("2")
            send("C", "BEGIN\0")
            send("Z", "T")
            local kinds, text = request(receive)
            say(kinds, (text:gsub("%z", "")))
            send("C", "ROLLBACK\0")
            send("Z", "I")
            receive()
        end))
        say(pool:query("begin").command)
        say(pool:stat().idle)
    "##;
    assert_eq!(with_server(program), ["Q ROLLBACK", "BEGIN", "1"]);
}

#[test]
fn options_and_parameters_are_checked() {
    let program = r##"
        for _, options in ipairs { { timeout = "1" }, { tls = 1, user = "a" },
            { max_open_conns = -1 }, { max_idle_time = 0.5 }, {}, { user = "a\0b" } } do
            say((select(2, pcall(postgres.open, options))))
        end
        local pool = open("127.0.0.1:1")
        say((select(2, pcall(pool.listen, pool))))
        pool:close()
        failed(pool:query("select 1"))
        -- What becomes of each parameter.
        local addr = trusting(function(send, receive)
            request(receive)
            prepared(send, { 25, 17, 114, 1007, 1009, 701, 16, 25, 1001 })
            local _, bind = request(receive)
            say((bind:gsub("[%c\xff]+", " ")))
            send("2")
            send("C", "INSERT 0 1\0")
            send("Z", "I")
            receive()
        end)
        pool = open(addr)
        local ok, err = pool:query("insert", "te'xt", "by\1tes", { a = 1 }, { 1, nil, 3, n = 3 },
            { 'q"\\', { "x" } }, 1e300, true, nil, { "\1" })
        say(ok.type, ok.command, ok.affected_rows)
        say((select(2, pcall(pool.query, pool, "insert", 1))))
    "##;
    let said = with_server(program);
    for (line, part) in said.iter().zip([
        "timeout: integer expected",
        "tls: true or a table expected",
        "max_open_conns: integer expected",
        "max_idle_time: integer expected",
        "user: a name expected",
        "user: a zero byte",
        "a channel expected",
        "nil ERR nil Socket is closed (10003) nil",
        r#"te'xt by tes {"a":1} {1,NULL,3} {"q\"\\",{"x"}} 1e300 true {"\\x01"} "#,
        "OK INSERT 1",
    ]) {
        assert!(line.contains(part), "{line} / {part}");
    }
    assert_eq!(said.len(), 11, "{said:?}");
}
