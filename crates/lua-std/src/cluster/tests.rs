//! Calls between peers: both ends in one VM, and peers that send raw bytes.

use crate::testing::output;

/// `serve(options)` serves strings: the handler is `handlers[command](data, peer)`, and lost
/// connections are reported by `say`. It returns a listener, and a function that changes a setting.
/// `connect(fn)` is a peer whose other end runs `fn(conn)`.
const HEAD: &str = r#"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local tcp, trace = require "silly.net.tcp", require "silly.trace"
    local cluster = require "silly.net.cluster"
    local handlers = {}
    local function serve(options)
        options = options or {}
        options.marshal = options.marshal or function(_, command, data) return command, data end
        options.unmarshal = options.unmarshal or function(_, _, data) return data end
        options.call = function(peer, command, data) return handlers[command](data, peer) end
        options.close = function(_, why) say("closed: " .. why) end
        cluster.serve(options)
        local function change(name, value)
            options[name] = value
            cluster.serve(options)
        end
        return assert(cluster.listen("127.0.0.1:0")), change
    end
    local function connect(fn)
        local listener = assert(tcp.listen("127.0.0.1:0", fn))
        return cluster.connect(listener.addr), listener
    end
    local function hex(data)
        return (data:gsub(".", function(b) return ("%02x"):format(b:byte()) end))
    end
    local function await(condition) while not condition() do time.sleep(1) end end
"#;

fn program(text: &str) -> Vec<String> {
    output(&format!("{HEAD}{text}\nsilly.exit()"))
}

#[test]
fn peers_call_each_other() {
    let text = r#"
        local listener = serve { accept = function(peer, addr) say(peer.remoteaddr == addr) end }
        local order = {}
        handlers[1] = function(data, peer)
            return data:upper() .. cluster.call(peer, 2, "back")
        end
        handlers[2] = function(data) return data:reverse() end
        handlers[3] = function(data) order[#order + 1] = data return "" end
        handlers[4] = function() return tostring(trace.propagate()) end
        local peer = cluster.connect(listener.addr)
        say(peer == cluster.connect(listener.addr), cluster.call(peer, 1, "there"))
        for number = 1, 3 do say(cluster.send(peer, 3, tostring(number))) end
        say(cluster.call(peer, 3, "4") == "", table.concat(order))
        trace.attach(0x0001000200030004)
        say(("%x"):format(cluster.call(peer, 4, "")))
        local all = {}
        local waitgroup = require "silly.sync.waitgroup".new()
        for number = 1, 100 do
            waitgroup:fork(function()
                all[number] = cluster.call(peer, 2, ("x%d"):format(number))
            end)
        end
        waitgroup:wait()
        say(#all, all[37])
        local large = ("large"):rep(1000000)
        say(cluster.call(peer, 2, large) == large:reverse())
        -- The responses to `send` have come too.
        await(function() return cluster.stat().running == 0 end)
        local stat = cluster.stat()
        say(stat.connections, stat.waiting, stat.timeouts)
        -- A call that is cancelled is forgotten.
        local released
        handlers[5] = function()
            await(function() return released end)
            return "late"
        end
        local caller = task.fork(function() cluster.call(peer, 5, "") end)
        await(function() return cluster.stat().waiting == 1 end)
        cancel(caller)
        await(function() return cluster.stat().waiting == 0 end)
        released = true
        await(function() return cluster.stat().running == 0 end)
        say(cluster.call(peer, 2, "on"))
        released = false
        -- Closed here: waiting calls fail at once; the next one connects again.
        task.fork(function() say(cluster.call(peer, 5, "")) end)
        await(function() return cluster.stat().waiting == 1 end)
        cluster.close(peer)
        released = true
        say(cluster.call(peer, 2, "again"))
        await(function() return cluster.stat().connections == 2 end)
        say(cluster.close(listener))
    "#;
    let expected = [
        "true",
        "true THEREkcab",
        "true",
        "true",
        "true",
        "true 1234",
        "1000200030000",
        "100 73x",
        "true",
        "2 0 0",
        "no",
        "nil Socket is closed (10003)",
        "closed: End of file (10004)",
        "true",
        "niaga",
        "true",
    ];
    let (mut output, mut expected) = (program(text), expected.map(str::to_owned).to_vec());
    // The end of the old connection and the begin of the next are seen in either order.
    output[11..15].sort();
    expected[11..15].sort();
    assert_eq!(output, expected);
}

#[test]
fn packets_have_the_format_of_silly() {
    let text = r#"
        local listener = serve()
        trace.setnode(0x0a0b)
        trace.attach(0x0102030405060708)
        local peer = connect(function(conn)
            local request = conn:read(4 + 16 + 3)
            say(hex(request))
            conn:write("\6\0\0\0" .. request:sub(5, 7) .. "\x80" .. "ok")
            conn:read(1)
        end)
        say(cluster.call(peer, 0x11223344, "abc"))
        handlers[7] = function(data) return ("<%s>%x"):format(data, trace.propagate()) end
        local conn = tcp.connect(listener.addr)
        local request = "\x12\0\0\0\x05\0\0\x00\7\0\0\0\8\7\6\5\4\3\2\1hi"
        -- Whatever pieces it arrives in, and two packets in one piece.
        for at = 1, #request do
            conn:write(request:sub(at, at))
            conn:flush()
            time.sleep(0)
        end
        say(hex(conn:read(8)), conn:read(4 + 15))
        conn:write(request .. request)
        conn:read(2 * (8 + 4 + 15))
        say(conn:unreadbytes())
    "#;
    let expected = [
        "1300000001000000443322110b0a060504030201616263",
        "ok",
        "1700000005000080 <hi>102030405060a0b",
        "0",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn damaged_and_slow_packets_end_their_connection() {
    let text = r#"
        local listener, change = serve { hardlimit = 100, softlimit = 50, packettimeout = 20 }
        handlers[1] = function(data) return data end
        handlers[2] = function() error("broken") end
        handlers[3] = function() return ("x"):rep(97) end
        for _, bytes in ipairs {
            "\x65\0\0\0",
            "\3\0\0\0",
            "\5\0\0\0\1\0\0\0x",
            "\xff\xff\xff\xff\0",
            "\x14\0\0\0\1\0\0\0",
        } do
            local conn = tcp.connect(listener.addr)
            conn:write(bytes)
            say(conn:read(1))
        end
        -- Half a packet, and the end.
        change("packettimeout", 60000)
        local conn = tcp.connect(listener.addr)
        conn:write("\x14\0\0\0\1\0\0\0")
        await(function() return cluster.stat().connections == 1 end)
        conn:close()
        await(function() return cluster.stat().connections == 0 end)
        local peer = cluster.connect(listener.addr)
        say(cluster.call(peer, 1, ("x"):rep(84)))
        say(cluster.call(peer, 1, ("x"):rep(85)))
        say(cluster.send(peer, 1, ("x"):rep(85)))
        local stat = cluster.stat()
        say(stat.oversized, stat.malformed, stat.connections)
    "#;
    let eof = "nil End of file (10004)";
    let expected = [
        "closed: packet size exceeds hardlimit",
        eof,
        "closed: packet size too small",
        eof,
        "closed: packet size too small",
        eof,
        "closed: packet size exceeds hardlimit",
        eof,
        "closed: Connection timed out (110)",
        eof,
        "closed: End of file (10004)",
        &"x".repeat(84),
        "nil packet size exceeds hardlimit",
        "nil packet size exceeds hardlimit",
        "4 2 2",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn calls_fail_when_there_is_no_response() {
    let text = r#"
        local listener, change = serve {
            timeout = 60000,
            hardlimit = 100,
            softlimit = 100,
            marshal = function(kind, command, data)
                if data == "unfit" then return nil, kind .. " is unfit" end
                return command, data
            end,
            unmarshal = function(kind, _, data)
                if data == "odd" then return nil, kind .. " is odd" end
                return data
            end,
        }
        handlers[1] = function(data) return data end
        handlers[2] = function() error("broken") end
        handlers[3] = function() return ("x"):rep(97) end
        handlers[4] = function() return "unfit" end
        handlers[5] = function() return "odd" end
        local released
        handlers[6] = function()
            await(function() return released end)
            return "late"
        end
        local peer = cluster.connect(listener.addr)
        say(cluster.call(peer, 1, "unfit"))
        for command = 1, 6 do
            change("timeout", command == 5 and 60000 or 30)
            say(cluster.call(peer, command, command == 1 and "odd" or ""))
        end
        released = true
        change("timeout", 60000)
        await(function() return cluster.stat().running == 0 end)
        say(cluster.call(peer, 1, "still"), cluster.stat().timeouts)
        -- A lost connection ends its calls, and the next call opens another.
        local number = 0
        local other = connect(function(conn)
            number = number + 1
            if number == 1 then
                conn:read(20)
                return conn:close()
            end
            local request = conn:read(20)
            conn:write("\6\0\0\0" .. request:sub(5, 7) .. "\x80" .. "ok")
        end)
        say(cluster.call(other, 1, ""))
        say(cluster.call(other, 1, ""), number)
        -- An address without a listener.
        local closed = assert(tcp.listen("127.0.0.1:0", function(conn) conn:close() end))
        local missing = cluster.connect(closed.addr)
        closed:close()
        await(function() return not missing.link end)
        say(cluster.call(missing, 1, ""))
        -- A peer that connected to here cannot be called once it is gone.
        local from
        handlers[7] = function(_, caller) from = caller return "" end
        cluster.call(peer, 7, "")
        cluster.close(peer)
        await(function() return not from.link end)
        say(cluster.send(from, 1, ""))
    "#;
    let expected = [
        "nil request is unfit",
        "nil timeout",
        "nil timeout",
        "nil timeout",
        "nil timeout",
        "nil response is odd",
        "nil timeout",
        "still 5",
        "closed: End of file (10004)",
        "nil End of file (10004)",
        "ok 2",
    ];
    let output = program(text);
    assert_eq!(output[..expected.len()], expected, "{output:?}");
    let rest: Vec<&str> = output[expected.len()..]
        .iter()
        .map(String::as_str)
        .filter(|l| !l.starts_with("closed"))
        .collect();
    assert_eq!(rest, ["nil Connection refused (111)", "nil peer closed"]);
}

#[test]
fn a_peer_is_read_no_faster_than_its_requests_finish() {
    let text = r#"
        local listener = serve { concurrency = 2 }
        local most, released = 0, false
        handlers[1] = function(data)
            most = math.max(most, cluster.stat().running)
            await(function() return released end)
            return data
        end
        local peer = cluster.connect(listener.addr)
        local answers = {}
        for number = 1, 10 do
            task.fork(function()
                local answer = cluster.call(peer, 1, tostring(number))
                answers[#answers + 1] = answer
            end)
        end
        await(function() return cluster.stat().paused > 0 end)
        say(cluster.stat().running, #answers)
        released = true
        await(function() return #answers == 10 end)
        table.sort(answers, function(a, b) return tonumber(a) < tonumber(b) end)
        say(most, table.concat(answers, " "))
        -- A connection that is lost while its reader waits.
        released = false
        for number = 1, 5 do cluster.send(peer, 1, "") end
        local paused = cluster.stat().paused
        await(function() return cluster.stat().paused > paused end)
        cluster.close(peer)
        released = true
        await(function() return cluster.stat().running == 0 and cluster.stat().connections == 0 end)
    "#;
    let output = program(text);
    assert_eq!(output[..2], ["2 0", "2 1 2 3 4 5 6 7 8 9 10"]);
}

#[test]
fn invalid_settings_and_arguments_are_named() {
    let text = r#"
        local function fails(...) say((select(2, pcall(...)):gsub("^program:%d+: ", ""))) end
        fails(cluster.connect, "a:1")
        fails(cluster.serve, { marshal = print, unmarshal = print })
        local fine = { marshal = print, unmarshal = print, call = print, accept = 1 }
        fails(cluster.serve, fine)
        fine.accept, fine.timeout = nil, 0
        fails(cluster.serve, fine)
        fine.timeout, fine.softlimit, fine.hardlimit = 1, 10, 9
        fails(cluster.serve, fine)
        serve()
        fails(cluster.call, 1, 1, "")
        fails(cluster.connect, 1)
        say(cluster.listen("256.0.0.1:1"))
    "#;
    let output = program(text);
    let expected = [
        "'connect' before 'serve'",
        "bad argument #1 to 'serve' (call: function expected)",
        "bad argument #1 to 'serve' (accept: function expected)",
        "bad argument #1 to 'serve' (timeout: an integer from 1 to 2^32-1 expected)",
        "bad argument #1 to 'serve' (softlimit is larger than hardlimit)",
        "bad argument #1 to 'call' (table expected, got number)",
        "bad argument #1 to 'connect' (string expected, got number)",
    ];
    assert_eq!(output[..7], expected);
    assert!(output[7].starts_with("nil "), "{output:?}");
}
