//! Two sockets of one program talk to each other, and to bare connections.

use crate::testing::output;

/// `serve(talk[, options])` gives a URL; `talk` gets each socket.
const BEGIN: &str = r#"
    local silly, http = require "silly", require "silly.net.http"
    local tcp, websocket = require "silly.net.tcp", require "silly.net.websocket"
    local function serve(talk, options)
        local listener = assert(http.listen { addr = "127.0.0.1:0", handler = function(stream)
            local socket, why = websocket.upgrade(stream, options)
            if not socket then say(why) return end
            talk(socket)
        end })
        return "ws://" .. listener.addr .. "/chat"
    end
    local function echo(socket)
        while true do
            local data, kind = socket:read()
            if not data or kind == "close" then return end
            if kind == "text" or kind == "binary" then socket:write(data, kind) end
        end
    end
    local KEY = "Host: a\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    local function bare(url, head)
        local conn = assert(tcp.connect(url:match("ws://(.-)/")))
        conn:write("GET / HTTP/1.1\r\n" .. head .. "\r\n")
        return conn, conn:read("\r\n\r\n", 5000)
    end
"#;

fn check(program: &str, expected: &[&str]) {
    let lines = output(&format!("{BEGIN}{program}\nsilly.exit(0)"));
    assert_eq!(lines, expected);
}

#[test]
fn messages_of_any_size_come_back() {
    check(
        r#"
        local url = serve(echo)
        local socket = assert(websocket.connect(url))
        for _, size in ipairs { 0, 1, 125, 126, 65535, 65536, 1 << 20 } do
            local data = ("\xff"):rep(size)
            assert(socket:write(data))
            local back, kind = socket:read()
            say(size, back == data, kind)
        end
        socket:write("grüße", "text")
        say(socket:read())
        say(socket:write(nil, "text"), socket:read())
        say(pcall(socket.write, socket, 1))
        socket:write("there?", "ping")
        say(socket:read())
        say(socket:close())
        say(socket:close())
        say(socket:read())
        say(socket:write("x"))
        local other = websocket.connect(url)
        local conn = other.conn
        say(conn.remoteaddr == url:match("ws://(.-)/"), conn:isalive(), conn == other.conn)
        say(conn:close(), conn:isalive(), (other:read()))
        "#,
        &[
            "0 true binary",
            "1 true binary",
            "125 true binary",
            "126 true binary",
            "65535 true binary",
            "65536 true binary",
            "1048576 true binary",
            "grüße text",
            "true  text",
            "false bad argument #1 to 'write' (string expected, got number)",
            "there? pong",
            "true nil",
            "false Socket is closed (10003)",
            "nil Socket is closed (10003) ",
            "false Socket is closed (10003)",
            "true true true",
            "true false nil",
        ],
    );
}

#[test]
fn pings_get_pongs_and_are_delivered_and_a_close_has_its_code() {
    check(
        r#"
        local over = require "silly.sync.channel".new()
        local url = serve(function(socket)
            say(socket:read())
            say(socket:read())
            say(socket:read())
            over:push(true)
        end)
        local socket = assert(websocket.connect(url))
        socket:write("hello", "ping")
        say(socket:read())
        socket:close(4000, "enough")
        over:pop()
        "#,
        &["hello ping", "hello pong", "enough close 4000", "nil End of file (10004) "],
    );
}

#[test]
fn browser_upgrades_are_accepted_and_invalid_ones_rejected() {
    check(
        r#"
        local url = serve(echo)
        local upgrade = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
        local conn, head = bare(url, KEY .. upgrade .. "Sec-WebSocket-Version: 13\r\n")
        say(head:match("^HTTP/1.1 (%d+)"), head:lower():match("\r\nconnection: (%w+)"))
        say(head:lower():match("sec%-websocket%-accept: (%S+)"))
        local _, old = bare(url, KEY .. upgrade .. "Sec-WebSocket-Version: 8\r\n")
        say(old:match("^HTTP/1.1 (%d+)"), old:lower():match("sec%-websocket%-version: (%d+)"))
        local _, none = bare(url, KEY .. "Sec-WebSocket-Version: 13\r\n")
        say(none:match("^HTTP/1.1 (%d+)"))
        local _, short = bare(url, "Host: a\r\nSec-WebSocket-Key: eA==\r\n" .. upgrade ..
            "Sec-WebSocket-Version: 13\r\n")
        say(short:match("^HTTP/1.1 (%d+)"))
        "#,
        &[
            "101 upgrade",
            "s3pplmbitxaq9kygzzhzrbk+xoo=",
            "the request is of another version of WebSocket than 13",
            "426 13",
            "the request asks for no upgrade",
            "400",
            "the request has no key of 16 bytes",
            "400",
        ],
    );
}

#[test]
fn a_peer_that_breaks_the_protocol_gets_the_reason() {
    check(
        r#"
        local url = serve(function(socket) say(socket:read()) end, { max_message = 10 })
        local upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        local long = "\x82\x8b\0\0\0\0" .. ("x"):rep(11)
        for _, frame in ipairs { "\x81\x01a", long, "\x81\x81\0\0\0\0\xff" } do
            local conn = bare(url, KEY .. upgrade)
            conn:write(frame)
            local first, length, high, low = conn:read(4):byte(1, 4)
            say(first, high << 8 | low)
            conn:read(length - 2)
            say(conn:read(1))
        end
        "#,
        &[
            "nil a mask on an unmasked side, or none on a masked side ",
            "136 1002",
            "nil End of file (10004)",
            "nil the message is larger than allowed ",
            "136 1009",
            "nil End of file (10004)",
            "nil text that is not UTF-8 ",
            "136 1007",
            "nil End of file (10004)",
        ],
    );
}

#[test]
fn what_is_wrong_with_a_call_is_reported() {
    check(
        r#"
        local url = serve(echo)
        local socket = assert(websocket.connect(url))
        say(select(2, pcall(socket.write, socket, "\xff", "text")))
        say(select(2, pcall(socket.write, socket, "x", "nonsense")))
        say(select(2, pcall(socket.close, socket, 1005)))
        say(socket:read(5))
        say(websocket.connect("wss://127.0.0.1:1/", nil, { insecure = true }))
        say(websocket.connect("ws://127.0.0.1:1/"))
        local plain = assert(http.listen { addr = "127.0.0.1:0", handler = function(stream)
            stream:respond(404)
        end })
        say(websocket.connect("ws://" .. plain.addr))
        "#,
        &[
            "bad argument #1 to 'write' (a text is UTF-8)",
            "bad argument #2 to 'write' (text, binary, ping or pong expected)",
            "bad argument #1 to 'close' (1000 to 1014 or 3000 to 4999 expected)",
            "nil Connection timed out (110) ",
            "nil Connection refused (111)",
            "nil Connection refused (111)",
            "nil the server responded with 404 instead of 101",
        ],
    );
}

#[test]
fn a_peer_is_held_back_while_its_messages_are_unread() {
    check(
        r#"
        local time = require "silly.time"
        local go = require "silly.sync.channel".new()
        local url = serve(function(socket) go:pop() echo(socket) end)
        local socket = assert(websocket.connect(url))
        local sent = 0
        require "silly.task".fork(function()
            for _ = 1, 64 do
                assert(socket:write(("x"):rep(1 << 19)))
                sent = sent + 1
            end
        end)
        -- The other coroutine has run until it had to wait, or to its end.
        time.sleep(0)
        say(sent < 64)
        go:push(true)
        local back = 0
        for _ = 1, 64 do back = back + #socket:read() end
        say(back == 64 << 19)
        "#,
        &["true", "true"],
    );
}
