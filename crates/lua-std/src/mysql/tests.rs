//! Servers whose packets the test chooses; a real one is in `tests/interop/mysql.rs`.

use crate::testing::timed_output;

/// A server: `serve(plugin, talk)` greets each connection with the random bytes `RANDOM`, reads
/// the login and calls `talk(say, hear, login)`, whose functions send and receive packets.
const SERVER: &str = r##"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local tcp, mysql = require "silly.net.tcp", require "silly.store.mysql"
    local errno = require "silly.errno"
    local hash, pkey = require "silly.crypto.hash".hash, require "silly.crypto.pkey"
    local RANDOM = "abcdefghijklmnopqrst"
    local OK = "\0\0\0\2\0\0\0"
    local greeted, seen = 0, nil
    local function serve(plugin, talk, flags)
        return assert(tcp.listen("127.0.0.1:0", function(conn)
            greeted = greeted + 1
            local sequence = 0
            local function send(packet)
                conn:write(string.pack("<I3B", #packet, sequence) .. packet)
                sequence = sequence + 1
            end
            local function receive()
                local header = conn:read(4)
                if not header then return nil end
                local length, number = string.unpack("<I3B", header)
                sequence = number + 1
                return length == 0 and "" or conn:read(length)
            end
            flags = flags or 0xFFFFF7FF
            send("\10" .. "8.4\0" .. string.pack("<I4", 7) .. RANDOM:sub(1, 8) .. "\0"
                .. string.pack("<I2BI2I2B", flags & 0xFFFF, 45, 2, flags >> 16, 21)
                .. ("\0"):rep(10) .. RANDOM:sub(9) .. "\0" .. plugin .. "\0")
            local login = receive()
            if login then talk(send, receive, login, conn) end
            conn:close()
        end)).addr
    end
    local function open(addr, more)
        local options = { addr = addr, user = "u", password = "pass", timeout = 60000 }
        for name, value in pairs(more or {}) do options[name] = value end
        return mysql.open(options)
    end
    local function xor(a, b)
        return (a:gsub("()(.)", function(at, byte)
            return string.char(byte:byte() ~ b:byte((at - 1) % #b + 1))
        end))
    end
    local function sha2(password, random)
        local once = hash("sha256", password)
        return xor(once, hash("sha256", hash("sha256", once) .. random))
    end
    local function failed(...)
        local result, err = ...
        say(result, err.type, err.errno, err.sqlstate, err.message, err.lost)
    end
"##;

fn with_server(program: &str) -> Vec<String> {
    timed_output(&format!("{SERVER}{program}\nsilly.exit()"))
}

#[test]
fn passwords_are_proven_by_each_plugin() {
    let private = include_str!("../crypto/fixtures/rsa.pem");
    let public = include_str!("../crypto/fixtures/rsa.public.pem");
    let program = r##"
        local SHA2 = "caching_sha2_password"
        local function ping(addr, more) return (assert(open(addr, more):ping())).type end
        -- The server has the hash in memory.
        say(ping(serve(SHA2, function(send, receive, login)
            say(login:find(sha2("pass", RANDOM), 1, true) ~= nil, login:find("pass\0", 1, true))
            send("\1\3")
            send(OK)
            receive()
            send(OK)
        end)))
        -- It has not: it sends its key.
        local addr = serve(SHA2, function(send, receive)
            send("\1\4")
            say(receive() == "\2")
            send("\1" .. PUBLIC)
            local text = pkey.new(PRIVATE):decrypt(receive(), pkey.RSA_PKCS1_OAEP, "sha1")
            say(xor(text, RANDOM) == "pass\0")
            send(OK)
            receive()
            send(OK)
        end)
        say(ping(addr))
        -- Another plugin, with other random bytes.
        addr = serve("unknown", function(send, receive, login)
            say(login:find("mysql_native_password\0", 1, true) ~= nil)
            send("\xFE" .. SHA2 .. "\0" .. RANDOM:reverse() .. "\0")
            say(receive() == sha2("pass", RANDOM:reverse()))
            send("\1\3")
            send(OK)
            receive()
            send(OK)
        end)
        say(ping(addr))
        -- Without a password there is nothing to prove.
        addr = serve(SHA2, function(send, receive, login)
            say(login:find("u\0\0", 1, true) ~= nil)
            send(OK)
            receive()
            send(OK)
        end)
        say(ping(addr, { password = "" }))
        -- A server may not ask for the password in the clear.
        addr = serve(SHA2, function(send, receive)
            send("\xFEmysql_clear_password\0\0")
            seen = receive()
        end)
        say((select(2, open(addr):ping())).message)
        say(seen)
        -- A server that never accepts is left.
        addr = serve(SHA2, function(send, receive)
            repeat send("\1\4") until not receive()
        end)
        failed(open(addr):ping())
        -- A key that is none.
        addr = serve(SHA2, function(send, receive)
            send("\1\4")
            receive()
            send("\1nonsense")
            receive()
        end)
        local _, err = open(addr):ping()
        say(err.message:match("^mysql: the server's key: "))
    "##;
    let keys = format!("local PRIVATE, PUBLIC = [[{private}]], [[{public}]]\n");
    let expected = [
        "true nil",
        "OK",
        "true",
        "true",
        "OK",
        "true",
        "true",
        "OK",
        "true",
        "OK",
        "mysql: the server requires \"mysql_clear_password\", which is not supported",
        "nil",
        "nil ERR nil nil mysql: the login does not end nil",
        "mysql: the server's key: ",
    ];
    assert_eq!(with_server(&format!("{keys}{program}")), expected);
}

#[test]
fn a_connection_in_doubt_is_closed() {
    let program = r##"
        local function broken(more, talk)
            local addr = serve("mysql_native_password", function(send, receive, login, conn)
                send(OK)
                receive()
                talk(send, receive, conn)
            end)
            local pool = open(addr, more)
            failed(pool:query("select 1"))
            return pool
        end
        local PREPARED = "\0" .. string.pack("<I4I2I2xI2", 1, 1, 0, 0)
        local COLUMN = "\3def\0\0\0\1a\0\12" .. string.pack("<I2I4BI2BI2", 45, 1, 0xFD, 0, 0, 0)
        -- Half a packet, bytes of another protocol, nothing at all.
        local half = broken({}, function(_, _, conn) conn:write("\10\0\0\1abc") end)
        local again = greeted
        failed(half:query("select 1"))
        say(greeted - again, half:stat().open)
        broken({}, function(send) send("\3") end)
        broken({ timeout = 20 }, function(_, receive) receive() end)
        -- A packet and a result that are too large; an error in the middle of a result.
        local function rows(count, length)
            return function(send, receive)
                send(PREPARED)
                send(COLUMN)
                receive()
                send("\1")
                send(COLUMN)
                for _ = 1, count do send(string.pack("<BBs1", 0, 0, ("x"):rep(length))) end
                send("\xFF" .. string.pack("<I2", 1317) .. "#70100Query was killed")
                receive()
                send(OK)
            end
        end
        broken({ max_packet_size = 100 }, rows(1, 99))
        broken({ max_result_size = 100 }, rows(3, 50))
        local killed = broken({}, rows(3, 50))
        say(killed:ping().type, killed:stat().opened)
        -- A server without TLS is not used in the clear, and one that is full says so.
        local plain = serve("mysql_native_password", function() seen = true end)
        failed(open(plain, { tls = true }):ping())
        say(seen)
        local full = assert(tcp.listen("127.0.0.1:0", function(conn)
            conn:write("\10\0\0\0\xFF" .. string.pack("<I2", 1040) .. "No room")
        end))
        failed(open(full.addr):ping())
        failed(open("127.0.0.1:1"):ping())
        -- A coroutine that ends while it waits.
        local waits
        local pool = open(serve("mysql_native_password", function(send, receive)
            send(OK)
            receive()
            waits = true
            receive()
        end))
        local co = task.fork(function() pool:query("select 1") end)
        while not waits do time.sleep(1) end
        cancel(co)
        while pool:stat().open > 0 do time.sleep(1) end
        say(pool:stat().idle, pool:stat().closed)
    "##;
    let expected = [
        "nil ERR nil nil mysql: End of file (10004) true",
        "nil ERR nil nil mysql: End of file (10004) true",
        "1 0",
        "nil ERR nil nil mysql: malformed packet true",
        "nil ERR nil nil mysql: no response in time true",
        "nil ERR nil nil mysql: a packet is larger than max_packet_size true",
        "nil ERR nil nil mysql: a result is larger than max_result_size true",
        "nil ERR 1317 70100 Query was killed nil",
        "OK 1",
        "nil ERR nil nil mysql: the server has no TLS nil",
        "nil",
        "nil ERR 1040 nil No room nil",
        "nil ERR nil nil connect to 127.0.0.1:1 failed: Connection refused (111) nil",
        "0 1",
    ];
    assert_eq!(with_server(program), expected);
}

#[test]
fn options_are_checked() {
    let program = r##"
        for _, options in ipairs { { timeout = "1" }, { charset = "klingon" }, { tls = 1 },
            { max_open_conns = -1 }, { max_idle_time = 0.5 } } do
            say((select(2, pcall(mysql.open, options))))
        end
        say((select(2, pcall(mysql.open))))
        local pool = open("127.0.0.1:1")
        pool:close()
        failed(pool:query("select 1"))
    "##;
    let output = with_server(program);
    for (line, part) in output.iter().zip([
        "timeout: integer expected",
        "charset: \"klingon\" is unknown",
        "tls: true or a table expected",
        "max_open_conns: integer expected",
        "max_idle_time: integer expected",
        "table expected, got nil",
        "nil ERR nil nil Socket is closed (10003) nil",
    ]) {
        assert!(line.contains(part), "{line} / {part}");
    }
    assert_eq!(output.len(), 7);
}
