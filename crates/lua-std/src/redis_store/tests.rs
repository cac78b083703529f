//! The Redis client of programs, against servers whose replies the test chooses.

use crate::testing::timed_output;

/// A server that answers as its script says: `serve(conn, words)` for each command.
const SERVER: &str = r##"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local tcp, redis = require "silly.net.tcp", require "silly.store.redis"
    local opened = 0
    local function server(serve)
        local listener = assert(tcp.listen{ addr = "127.0.0.1:0", accept = function(conn)
            opened = opened + 1
            while true do
                local count = conn:read("\r\n")
                if not count then return conn:close() end
                local words = {}
                for at = 1, tonumber(count:sub(2)) do
                    local length = tonumber(conn:read("\r\n"):sub(2))
                    words[at] = conn:read(length)
                    conn:read(2)
                end
                serve(conn, words)
            end
        end })
        return listener.addr
    end
    local function echo(conn, words)
        local last = words[#words]
        conn:write("$" .. #last .. "\r\n" .. last .. "\r\n")
    end
"##;

fn with_server(program: &str) -> Vec<String> {
    timed_output(&format!("{SERVER}{program}\nsilly.exit()"))
}

#[test]
fn what_replies_become() {
    let program = r##"
        local replies = { "+OK", "-ERR no", ":7", "$-1", "*3\r\n:1\r\n$-1\r\n-ERR in" }
        table.move({ "%1\r\n+a\r\n,0.5", "#f", "*0" }, 1, 3, #replies + 1, replies)
        local function serve(conn) conn:write(table.remove(replies, 1) .. "\r\n") end
        local db = redis.new{ addr = server(serve) }
        say(db:set("k", "v"))
        say(db:hset("k", 1, 2.5))
        say(db:incr("k"))
        say(db:get("k"))
        local ok, list = db:mget("a", "b", "c")
        say(ok, list[1], list[2], list[3].err, list.n)
        local ok, map = db:hgetall("k")
        say(ok, map.a)
        say(db:call("SISMEMBER", "s", "x"))
        say(#select(2, db:keys("*")))
        say(pcall(db.get, db, "k", {}))
        say(pcall(db.select, db, 1))
        say(pcall(redis.new, { addr = "a", timeout = "x" }))
    "##;
    let output = with_server(program);
    assert_eq!(
        output[..8],
        [
            "true OK",
            "false ERR no",
            "true 7",
            "true nil",
            "true 1 nil ERR in 3",
            "true 0.5",
            "true false",
            "0",
        ]
    );
    assert!(
        output[8]
            .contains("bad argument #2 to 'get' (string, number or boolean expected, got table)")
    );
    assert!(output[9].contains("the database is chosen by new{db = }"), "{output:?}");
    assert!(
        output[10].contains("bad argument #1 to 'new' (timeout: integer expected)"),
        "{output:?}"
    );
}

#[test]
fn many_coroutines_share_a_connection_in_order() {
    let program = r##"
        local db = redis.new{ addr = server(echo) }
        local group = require "silly.sync.waitgroup".new()
        local wrong = 0
        for at = 1, 500 do
            group:fork(function()
                local ok, value = db:get("key" .. at)
                if not ok or value ~= "key" .. at then wrong = wrong + 1 end
            end)
        end
        group:wait()
        local all = db:pipeline{ { "get", "a" }, { "get", "b" } }
        say(wrong, opened, all[1], all[2], all[3], all[4], all.n)
        local results = {}
        say(db:pipeline({ { "get", "a" }, { "get", "b" } }, results))
        say(table.concat(results, " ", 2, 2), results[3], results[4], #db:pipeline{})
    "##;
    assert_eq!(with_server(program), ["0 1 true a true b 4", "true 4", "a true b 0"]);
}

#[test]
fn arguments_are_a_list_or_a_table() {
    let program = r##"
        local function join(conn, words)
            echo(conn, { #words .. ":" .. table.concat(words, " ") })
        end
        local db = redis.new{ addr = server(join) }
        say(db:mset("a", 1, "b", true))
        say(db:mset{ "a", 1, "b", false })
        say(db:call("mset", { "a", 2.5 }))
        say(db:ping())
        say(db:keys{})
        say(pcall(db.set, db, "a", nil))
        say(pcall(db.set, db, nil, "a"))
        say(pcall(db.mset, db, { "a", {} }))
    "##;
    let expected = [
        "true 5:mset a 1 b true",
        "true 5:mset a 1 b false",
        "true 3:mset a 2.5",
        "true 1:ping",
        "true 1:keys",
        "false bad argument #2 to 'set' (string, number or boolean expected, got nil)",
        "false bad argument #1 to 'set' (string, number or boolean expected, got nil)",
        "false bad argument #2 to 'mset' (string, number or boolean expected, got table)",
    ];
    let output: Vec<String> =
        with_server(program).iter().map(|line| line.replace("program:", "")).collect();
    assert_eq!(output, expected);
}

#[test]
fn a_greeting_comes_first_and_its_refusal_is_reported() {
    let program = r##"
        local seen = {}
        local function serve(conn, words)
            table.insert(seen, table.concat(words, " "))
            conn:write(words[#words] == "wrong" and "-WRONGPASS no\r\n" or "+OK\r\n")
        end
        local addr = server(serve)
        redis.new{ addr = addr, auth = "pw", db = 2 }:get("a")
        redis.new{ addr = addr, auth = "pw", user = "me", protocol = 3 }:get("b")
        say(redis.new{ addr = addr, auth = "wrong" }:get("c"))
        say(table.concat(seen, ", "))
        say(redis.new{ addr = "127.0.0.1:1" }:get("d"))
    "##;
    let expected = [
        "false WRONGPASS no lost",
        "AUTH pw, SELECT 2, get a, HELLO 3 AUTH me pw, get b, AUTH wrong",
        "false Connection refused (111) lost",
    ];
    assert_eq!(with_server(program), expected);
}

#[test]
fn late_replies_are_dropped_and_dead_connections_left() {
    let program = r##"
        local held
        local function serve(conn, words)
            if words[2] == "slow" then
                held = conn
                return conn:write(">1\r\n+wait\r\n")
            end
            if words[2] == "dead" then return end
            if words[2] == "bye" then return conn:close() end
            if held then
                conn:write("$4\r\nlate\r\n")
                held = nil
            end
            echo(conn, words)
        end
        local db = redis.new{ addr = server(serve), timeout = 200 }
        say("slow", db:get("slow"))
        say(opened, db:get("c"))
        say("dead", db:get("dead"))
        say(opened, db:get("d"))
        say(opened)
        say("bye", db:get("bye"))
        say(db:get("e"))
        db:close()
        say(db:get("f"))
    "##;
    let expected = [
        "slow false Connection timed out (110) lost",
        "1 true c",
        "dead false Connection timed out (110) lost",
        "1 true d",
        "2",
        "bye false End of file (10004) lost",
        "true e",
        "false Socket is closed (10003) lost",
    ];
    assert_eq!(with_server(program), expected);
}

#[test]
fn subscriptions_are_read_and_resumed() {
    let program = r##"
        local subscriber
        local function serve(conn, words)
            for at = 2, #words do
                conn:write("*3\r\n$9\r\nsubscribe\r\n$1\r\n" .. words[at] .. "\r\n:1\r\n")
            end
            conn:write(">3\r\n+message\r\n+a\r\n+" .. opened .. "\r\n")
            subscriber = conn
        end
        local db = redis.new{ addr = server(serve) }
        local sub = assert(db:subscribe("a"))
        local got = sub:read(1000)
        say(got.kind, got.channel, got.payload)
        say(sub:read(10))
        subscriber:write("*4\r\n+pmessage\r\n+a*\r\n+ab\r\n+text\r\n")
        got = sub:read()
        say(got.kind, got.pattern, got.channel, got.payload)
        subscriber:close()
        say(sub:read())
        say(sub:read().payload)
        sub:close()
        say(sub:read())
    "##;
    let expected = [
        "message a 1",
        "nil Connection timed out (110)",
        "pmessage a* ab text",
        "nil End of file (10004)",
        "2",
        "nil Socket is closed (10003)",
    ];
    assert_eq!(with_server(program), expected);
}

#[test]
fn a_server_that_speaks_something_else_is_left() {
    let program = r##"
        local db = redis.new{ addr = server(function(conn) conn:write("HTTP/1.1 400 Bad\r\n") end) }
        say(db:get("a"))
        local db = redis.new{ addr = server(function(conn) conn:write("$99\r\n") end), limit = 50 }
        say(db:get("a"))
    "##;
    assert_eq!(
        with_server(program),
        ["false a reply of an unknown type lost", "false a reply is too long lost"]
    );
}
