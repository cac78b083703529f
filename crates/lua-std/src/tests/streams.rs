//! Connections as programs see them, both ends in one VM.

use crate::testing::{output, timed_output};

/// A program with a server on a free port: `serve(fn)` gives an address to connect to.
fn program(text: &str) -> Vec<String> {
    output(&with_server(text))
}

fn with_server(text: &str) -> String {
    let prelude = r#"
        local tcp, task, time = require "silly.net.tcp", require "silly.task", require "silly.time"
        local errno, silly = require "silly.errno", require "silly"
        local function serve(fn)
            local listener = assert(tcp.listen("127.0.0.1:0", fn))
            return listener.addr, listener
        end
    "#;
    format!("{prelude}{text}")
}

#[test]
fn the_published_benchmark_program_responds_to_both_forms_of_ping() {
    let text = r#"
        local addr = serve(function(fd, addr)
            while true do
                local l = tcp.readline(fd, "\r\n")
                if not l then break end
                if l == "PING\r\n" then tcp.write(fd, "+PONG\r\n") end
            end
        end)
        local fd = tcp.connect(addr)
        tcp.write(fd, "PING\r\n*1\r\n$4\r\nPING\r\n")
        say((tcp.read(fd, 14):gsub("\r\n", " ")))
        say(tcp.close(fd))
        say(tcp.close(fd))
        silly.exit()
    "#;
    assert_eq!(program(text), ["+PONG +PONG ", "true", "false Socket is closed (10003)"]);
}

#[test]
fn objects_read_lines_counts_and_the_end() {
    let text = r#"
        local addr
        local listener = tcp.listen { addr = "127.0.0.1:0", accept = function(conn)
            conn.name = "kept"
            say(conn.name, conn:isalive())
            local line = conn:read("\n")
            conn:write({ "got ", line, 12, "\n" })
            say(conn:read(3), conn:read(0) == "", conn:unreadbytes())
            say(conn:read("ee"), conn:read(2))
            say(conn:read(1), conn:read(1) == nil, conn:isalive())
            conn:write("still writable\n")
            conn:close()
        end }
        local conn = tcp.connect(listener.addr, { timeout = 100000 })
        conn:write("hello\nabcdeeeff")
        conn:closewrite()
        say(conn:write("x"))
        say((conn:readall():gsub("\n", ";")))
        say(conn:read(1))
        say(conn.remoteaddr == listener.addr)
        say(listener:close(), listener:close())
        say(tcp.connect(listener.addr))
        silly.exit()
    "#;
    let expected = [
        "kept true",
        "false Socket is closing (10002)",
        "abc true 6",
        "dee ef",
        "f true false",
        "got hello;12;still writable;",
        "nil End of file (10004)",
        "true",
        "true false Socket is closed (10003)",
        "nil Connection refused (111)",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn a_time_out_takes_no_bytes_and_a_close_wakes_the_reader() {
    let text = r#"
        local server
        local addr = serve(function(conn) server = conn conn:write("abc") time.sleep(1000) end)
        local conn = tcp.connect(addr)
        say(conn:read(4, 5))
        say(select(2, conn:read("\n", 5)) == errno.TIMEDOUT)
        say(conn:read(3, 5))
        conn:deadline(5)
        say(conn:read(1))
        conn:deadline(nil)
        task.fork(function() conn:close() end)
        say(conn:read(1))
        say(conn:read(1), conn:write("x"))
        silly.exit()
    "#;
    let expected = [
        "nil Connection timed out (110)",
        "true",
        "abc",
        "nil Connection timed out (110)",
        "nil Socket is closed (10003)",
        "nil false Socket is closed (10003)",
    ];
    assert_eq!(timed_output(&with_server(text)), expected);
}

#[test]
fn only_one_task_reads_and_only_a_task_waits() {
    let text = r#"
        local addr = serve(function(conn) conn:read(1) end)
        local conn = tcp.connect(addr)
        task.fork(function() conn:read(1) end)
        task.fork(function()
            say(pcall(conn.read, conn, 1))
            silly.exit()
        end)
        say(pcall(coroutine.wrap(function() conn:read(1) end)))
        say(pcall(tcp.read, {}, 1))
        say(pcall(tcp.read, conn, ""))
        say(pcall(tcp.read, conn, -1))
        say(pcall(tcp.write, conn, { "a", {} }))
        say(pcall(tcp.connect, "no port"))
    "#;
    let expected = [
        "false program:16: only a task may wait for a connection",
        "false bad argument #1 to 'silly.net.tcp.read' (a connection expected)",
        "false bad argument #2 to 'silly.net.tcp.read' (an empty delimiter)",
        "false bad argument #2 to 'silly.net.tcp.read' (a negative count)",
        "false bad argument #2 to 'silly.net.tcp.write' (a value in the table is not a string)",
        "false bad argument #1 to 'connect' (an address with a port, or unix:path, expected)",
        "false another task reads from this connection",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn a_flooding_peer_is_held_back_by_the_limit() {
    let text = r#"
        local server
        local addr = serve(function(conn) conn:limit(100000) server = conn task.wait() end)
        local conn = tcp.connect(addr)
        for i = 1, 1200 do assert(conn:write(("x"):rep(10000))) end
        while not server or server:unreadbytes() < 100000 do time.sleep(1) end
        time.sleep(20)
        local unread, unsent = server:unreadbytes(), conn:unsentbytes()
        say(unread >= 100000 and unread < 200000, unsent > 0)
        -- A counted read may be longer than the limit.
        say(#server:read(500000))
        server:linelimit(600000)
        say(server:read("\n"))
        server:limit(nil)
        local total = 500000
        while total < 12000000 do total = total + #server:readall() end
        say(total, conn:flush(), conn:unsentbytes())
        silly.exit()
    "#;
    let expected = ["true true", "500000", "nil Message too long (90)", "12000000 true 0"];
    assert_eq!(program(text), expected);
}

#[test]
fn large_writes_and_long_lines_are_within_the_default_limits() {
    let text = r#"
        local addr = serve(function(conn)
            conn:limit(1000)
            local line = conn:read("\n")
            say(#line)
            conn:write(("y"):rep(20 << 20))
            conn:close()
        end)
        local conn = tcp.connect(addr)
        conn:write(("x"):rep(2 << 20) .. "\n")
        say(#conn:read(20 << 20))
        silly.exit()
    "#;
    assert_eq!(program(text), ["2097153", "20971520"]);
}

#[test]
fn a_peer_that_does_not_read_ends_its_connection_at_the_output_limit() {
    let text = r#"
        local addr = serve(function(conn) task.wait() end)
        local conn = tcp.connect(addr)
        conn:outputlimit(1000000)
        local why, ok
        for i = 1, 10000 do
            ok, why = conn:write(("x"):rep(100000))
            if not ok then break end
            time.sleep(0)
        end
        say(ok, why)
        say(conn:write("x"))
        silly.exit()
    "#;
    let expected =
        ["false No buffer space available (105)", "false No buffer space available (105)"];
    assert_eq!(program(text), expected);
}

#[test]
fn parsers_see_all_that_is_unread_and_may_put_back() {
    let text = r#"
        local addr = serve(function(conn)
            for piece in ("5:hello3:foo"):gmatch(".") do conn:write(piece) time.sleep(0) end
            conn:close()
        end)
        local conn = tcp.connect(addr)
        local function netstring(data)
            local head, length = data:match("^((%d+):)")
            if head and #data >= #head + length then
                return #head + length, data:sub(#head + 1, #head + length)
            end
        end
        say(conn:parse(netstring), conn:parse(netstring))
        say(conn:parse(netstring))
        conn:unread("again\n")
        say(conn:peek(3), conn:read("\n") == "again\n")
        silly.exit()
    "#;
    assert_eq!(program(text), ["hello foo", "nil End of file (10004)", "aga true"]);
}

#[test]
fn unix_sockets_and_host_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let text = format!(
        r#"
        local path = "unix:{}"
        assert(tcp.listen(path, function(conn, addr) conn:write(addr .. "\n") conn:close() end))
        say(tcp.connect(path):read("\n"))
        local addr = serve(function(conn) conn:write("by name\n") end)
        say(tcp.connect("localhost:" .. addr:match(":(%d+)$")):read("\n"))
        say(tcp.connect("no-such-host.invalid:80", {{ timeout = 2000 }}) == nil)
        say(tcp.listen("127.0.0.1:" .. addr:match(":(%d+)$"), print))
        silly.exit()
    "#,
        path.display()
    );
    let expected = ["unix:\n", "by name\n", "true", "nil Address already in use (98)"];
    assert_eq!(program(&text), expected);
}

#[test]
fn what_a_turn_writes_leaves_together_and_a_collected_connection_closes() {
    let text = r#"
        local addr = serve(function(conn) conn:write("a") conn:write("b") task.fork(function()
            conn:write("c") end) end)
        local conn = tcp.connect(addr)
        say(conn:readall())
        time.sleep(1)
        collectgarbage() collectgarbage()
        say(conn:read(1, 100000))
        silly.exit()
    "#;
    assert_eq!(program(text), ["abc", "nil End of file (10004)"]);
}

#[test]
fn a_reader_that_was_woken_or_closed_leaves_the_bytes_to_the_next() {
    let text = r#"
        local addr = serve(function(conn)
            conn:read(1)
            conn:write("first\n")
            conn:read(1)
            conn:write("second\n")
        end)
        local conn = tcp.connect(addr)
        local reader = task.fork(function() say("woken by", conn:read("\n", 100000)) end)
        time.sleep(0)
        task.wakeup(reader, "another")
        time.sleep(0)
        conn:write("x")
        say(conn:read("\n"))
        reader = task.fork(function() conn:read("\n") end)
        time.sleep(0)
        cancel(reader)
        conn:write("x")
        while conn:unreadbytes() == 0 do time.sleep(1) end
        say(conn:read("\n"))
        silly.exit()
    "#;
    assert_eq!(program(text), ["woken by another", "first\n", "second\n"]);
}

#[test]
fn all_waiting_tasks_get_the_error_of_a_broken_connection() {
    let text = r#"
        local addr = serve(function(conn) conn:limit(1) time.sleep(100000) end)
        local conn = tcp.connect(addr)
        conn:outputlimit(20 << 20)
        conn:write(("x"):rep(19 << 20))
        for _ = 1, 2 do task.fork(function() say("flush", conn:flush()) end) end
        task.fork(function() say("read", conn:read(1)) end)
        time.sleep(1)
        say(conn:write(("x"):rep(19 << 20)))
        time.sleep(1)
        silly.exit()
    "#;
    let reason = "nil No buffer space available (105)";
    let mut output = program(text);
    assert_eq!(output.remove(0), reason.replacen("nil", "false", 1));
    output.sort();
    assert_eq!(
        output,
        [format!("flush {reason}"), format!("flush {reason}"), format!("read {reason}")]
    );
}

#[test]
fn a_thousand_connections_in_one_vm() {
    let text = r#"
        local addr = serve(function(conn)
            while true do
                local line = conn:read("\n")
                if not line then return end
                conn:write(line)
            end
        end)
        local conns, done = {}, 0
        for i = 1, 400 do conns[i] = assert(tcp.connect(addr)) end
        for i, conn in ipairs(conns) do
            task.fork(function()
                for round = 1, 10 do
                    conn:write(i .. " " .. round .. "\n")
                    assert(conn:read("\n") == i .. " " .. round .. "\n")
                end
                done = done + 1
                if done == #conns then say("done") silly.exit() end
            end)
        end
    "#;
    assert_eq!(program(text), ["done"]);
}
