//! The clock of a test, and what its checks say.

use crate::testing::output;

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
