//! The clock of a test, and what its checks say.

use crate::testing::{output, run_example};

/// The words of a test that has a network in memory and a stopped clock.
fn in_memory(program: &str) -> Vec<String> {
    let (code, output) = run_example(&format!(
        r#"
        local test, tcp = require "tide.test", require "silly.net.tcp"
        local time, task, errno = require "silly.time", require "silly.task", require "silly.errno"
        local network = test.network()
        test.stop_clock()
        {program}
        "#
    ));
    assert_eq!(code, 0, "{output:?}");
    output
}

#[test]
fn a_stopped_clock_moves_only_as_far_as_the_test_says() {
    let program = r##"
        local test, time, task = require "tide.test", require "silly.time", require "silly.task"
        say(pcall(test.advance, 1))
        test.stop_clock(1000000)
        local begun, log = time.monotonic(), {}
        say(time.now())
        for _, span in ipairs { 300, 100, 200 } do
            task.fork(function()
                time.sleep(span)
                table.insert(log, span .. "@" .. time.monotonic() - begun)
                time.sleep(50)
                table.insert(log, "after " .. span)
            end)
        end
        test.advance(99)
        say(#log, time.monotonic() - begun)
        test.advance(1)
        say(table.concat(log, ", "))
        test.advance(3600000)
        say(table.concat(log, ", "))
        say(time.now() - 1000000)
        -- What arrives by a socket does so before time passes.
        local tcp, errno = require "silly.net.tcp", require "silly.errno"
        local listener = tcp.listen("127.0.0.1:0", function(conn)
            time.sleep(10)
            conn:write(conn:read(5, 1000) or "nothing")
        end)
        local conn = tcp.connect(listener.addr)
        conn:write("hello")
        local got
        task.fork(function() got = conn:read(5, 20) or "timeout" end)
        test.advance(9)
        say(got)
        test.advance(1)
        say(got)
        task.fork(function() got = conn:read(1, 20) == nil and "timeout" end)
        test.advance(19)
        say(got)
        test.advance(1)
        say(got)
        require "silly".exit()
    "##;
    let expected = [
        "false =program:3: the clock runs: call test.stop_clock() first",
        "1000000",
        "0 99",
        "100@100",
        "100@100, after 100, 200@200, after 200, 300@300, after 300",
        "3600100",
        "nil",
        "hello",
        "hello",
        "timeout",
    ];
    let said = output(program);
    assert!(said[0].contains("the clock runs: call test.stop_clock() first"), "{said:?}");
    assert_eq!(said[1..], expected[1..]);
}

#[test]
fn values_are_compared_by_contents() {
    let program = r##"
        local test = require "tide.test"
        local function differs(...)
            local ok, err = pcall(test.equal, ...)
            say(not ok and err:gsub("^[^:]*:%d+: ", ""):gsub("\n", " / "))
        end
        local cyclic, other = { 1 }, { 1 }
        cyclic.self, other.self = cyclic, other
        test.equal(cyclic, other)
        test.equal({ a = { 1, 2, { b = 0 / 0 } } }, { a = { 1, 2, { b = 0 / 0 } } })
        test.equal(1, 1.0)
        differs(1, "1")
        differs({ 1, 2 }, { 1, 2, 3 })
        differs({ 1, 2, 3 }, { 1, 2 })
        differs({ ["a b"] = true }, {}, "message")
        differs(("x"):rep(1000), nil)
        say((test.raises("^n.*t$", error, "not", 0)))
        say(pcall(test.raises, "a", error, "b", 0))
        say(pcall(test.raises, 1, error))
        local _, skipped = pcall(test.skip, "why")
        say(skipped.skipped)
        require "silly".exit()
    "##;
    let said = output(program);
    let long = format!("got \"{}…\", expected nil", "x".repeat(200));
    let expected = [
        "got 1, expected \"1\"",
        "got { 1, 2 }, expected { 1, 2, 3 } / they differ at [3]: nil, expected 3",
        "got { 1, 2, 3 }, expected { 1, 2 } / they differ at [3]: 3, expected nil",
        "message: got { [\"a b\"] = true }, expected {  } / they differ at a b: true, expected nil",
        &long,
        "not",
    ];
    assert_eq!(said[..6], expected);
    assert!(said[6].contains("matches \"a\" was expected, got \"b\""), "{said:?}");
    assert!(said[7].contains("bad argument #1 to 'raises'"), "{said:?}");
    assert_eq!(said[8], "why");
}

#[test]
fn programs_listen_and_connect_in_memory() {
    let said = in_memory(
        r#"
        -- An address of no machine, and a port that a user may not have.
        local listener = assert(tcp.listen("192.0.2.1:80", function(conn, from)
            say("from", from)
            conn:write("echo " .. conn:readline())
            say(conn:readline())
            conn:close()
        end))
        network:host("shop.internal", "192.0.2.1")
        local conn = assert(tcp.connect "shop.internal:80")
        say(listener.addr, conn.remoteaddr)
        conn:write("hello\n")
        say(conn:readline())
        conn:closewrite()
        say(conn:readline())
        say(tcp.connect "192.0.2.1:81")
        say(tcp.connect "other.internal:80")
        say(select(2, tcp.listen("192.0.2.1:80", print)) == errno.ADDRINUSE)
        listener:close()
        say(select(2, tcp.connect "192.0.2.1:80") == errno.CONNREFUSED)
        assert(test.network() == network)
        "#,
    );
    let expected = [
        "192.0.2.1:80 192.0.2.1:80",
        "from 127.0.0.1:49152",
        "echo hello\n",
        "nil End of file (10004)",
        "nil End of file (10004)",
        "nil Connection refused (111)",
        "nil Address resolution failed (10000)",
        "true",
        "true",
    ];
    let mut sorted = said.clone();
    sorted[..2].sort();
    assert_eq!(sorted[2..], expected[2..], "{said:?}");
    assert!(sorted[0] == expected[0] && sorted[1] == expected[1], "{said:?}");
}

#[test]
fn every_protocol_runs_in_memory() {
    let said = in_memory(
        r#"
        local http = require "silly.net.http"
        local listener = assert(http.listen {
            addr = "0.0.0.0:8080",
            handler = function(stream)
                stream:respond(200)
                stream:closewrite("you asked for " .. stream.path)
            end,
        })
        network:host("api.internal", "10.0.0.7")
        local response = assert(http.get "http://api.internal:8080/prices")
        say(response.status, response.body)
        -- A server of another protocol: Redis.
        assert(tcp.listen("10.0.0.8:6379", function(conn)
            for _ = 1, 3 do conn:readline() end
            conn:write("+PONG\r\n")
        end))
        say(require "silly.store.redis".new { addr = "10.0.0.8:6379" }:ping())
        listener:close()
        "#,
    );
    assert_eq!(said, ["200 you asked for /prices", "true PONG"]);
}

#[test]
fn a_relay_delays_by_the_clock_of_the_test_and_splits_reads() {
    let said = in_memory(
        r#"
        local times = {}
        assert(tcp.listen("10.0.0.1:7", function(conn)
            while true do
                local data, why = conn:readall()
                if not data then return conn:close() end
                table.insert(times, data .. "@" .. time.monotonic())
                conn:write(data:upper())
            end
        end))
        local relay = assert(network:relay("10.0.0.2:7", "10.0.0.1:7"))
        local conn = assert(tcp.connect "10.0.0.2:7")
        local begun = time.monotonic()
        local function heard() return table.concat(times, " "):gsub("@(%d+)", function(at)
            return "@" .. math.tointeger(at) - begun
        end) end
        relay.delay = 100
        conn:write "first"
        test.advance(50)
        conn:write "second"
        test.advance(49)
        say((heard()))
        test.advance(1)
        say((heard()))
        test.advance(50)
        say((heard()))
        -- The first response was sent at 100, the second one at 150.
        test.advance(49)
        say(conn:unreadbytes())
        test.advance(1)
        say(conn:unreadbytes())
        test.advance(50)
        say(conn:read(11))
        relay.delay, relay.piece, times = 0, 2, {}
        conn:write "abcde"
        test.advance(0)
        say((heard():gsub("@%d+", "")))
        relay:pause()
        conn:write "f"
        test.advance(1000)
        say(#times)
        relay:resume()
        test.advance(0)
        say(#times, relay:connections())
        "#,
    );
    let expected =
        ["", "first@100", "first@100 second@150", "0", "5", "FIRSTSECOND", "ab cd e", "3", "4 1"];
    assert_eq!(said, expected);
}

#[test]
fn a_relay_closes_half_closes_and_resets() {
    let mut said = in_memory(
        r#"
        local function echo(conn)
            while true do
                local data, why = conn:readall()
                if not data then
                    say("server", why)
                    return conn:close()
                end
                conn:write(data)
            end
        end
        assert(tcp.listen("10.0.0.1:7", echo))
        local relay = assert(network:relay("10.0.0.2:7", "10.0.0.1:7"))
        local function connected()
            local conn = assert(tcp.connect "10.0.0.2:7")
            conn:write "x"
            assert(conn:read(1) == "x")
            return conn
        end
        local conn = connected()
        relay:reset()
        say("client", select(2, conn:read(1)))
        test.advance(0)
        conn = connected()
        relay:disconnect()
        say("client", select(2, conn:read(1)))
        test.advance(0)
        conn = connected()
        relay:half_close "client"
        say("client", select(2, conn:read(1)))
        say("open", relay:connections())
        conn:write "heard\n"
        conn:closewrite()
        test.advance(0)
        say("open", relay:connections())
        say(pcall(relay.half_close, relay, "both"))
        connected()
        relay:close()
        test.advance(0)
        say(tcp.connect "10.0.0.2:7")
        -- There is no server behind this one.
        assert(network:relay("10.0.0.3:7", "10.0.0.4:7"))
        conn = assert(tcp.connect "10.0.0.3:7")
        say("client", select(2, conn:read(1)))
        "#,
    );
    let reset = "Connection reset by peer (104)";
    let end = "End of file (10004)";
    let mut expected = [
        format!("client {reset}"),
        format!("server {reset}"),
        format!("client {end}"),
        format!("server {end}"),
        format!("client {end}"),
        "open 1".to_owned(),
        format!("server {end}"),
        "open 0".to_owned(),
        "false bad argument #1 to 'half_close' (client or server expected)".to_owned(),
        format!("server {end}"),
        "nil Connection refused (111)".to_owned(),
        format!("client {reset}"),
    ];
    // Which of both sides runs first is not promised.
    said.sort();
    expected.sort();
    assert_eq!(said, expected);
}

#[test]
fn a_server_has_no_network_in_memory() {
    let said = output(
        r#"
        say(pcall(require "tide.test".network))
        require "silly".exit()
        "#,
    );
    assert!(said[0].contains("false") && said[0].contains("it is for tests"), "{said:?}");
}
