//! The modules that are written in Lua.

use crate::testing::{output, output_within, timed_output};
use lua_vm::limits::TURN_INSTRUCTIONS;

pub(super) fn program(text: &str) -> Vec<String> {
    let prelude = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
    "#;
    output(&format!("{prelude}{text} silly.exit()"))
}

#[test]
fn every_module_has_both_names() {
    let text = r#"
        for name in pairs(package.preload) do
            local short = name:match("^silly%.?(.*)")
            if short then
                local other = short == "" and "tide" or "tide." .. short
                assert(require(name) == require(other), name)
            end
        end
        assert(require "core.task" == task)
    "#;
    assert!(program(text).is_empty());
}

#[test]
fn a_channel_has_many_producers_and_one_consumer() {
    let text = r#"
        local channel = require "silly.sync.channel".new()
        say(channel:push(nil))
        task.fork(function() channel:push(1) channel:push(2) channel:close("over") end)
        say(channel:pop(), channel:pop(), channel:pop())
        say(channel:push(3))
        local timed = require "silly.sync.channel".new()
        say(timed:pop(5))
        task.fork(function() timed:pop() end)
        time.sleep(1)
        say(timed:pop())
        local bounded = require "silly.sync.channel".new(1)
        task.fork(function() for i = 1, 3 do bounded:push(i) say("pushed", i) end end)
        time.sleep(1)
        for i = 1, 3 do say(bounded:pop()) time.sleep(1) end
    "#;
    let expected = [
        "false cannot push nil or false",
        "1 2 nil over",
        "false over",
        "nil Connection timed out (110)",
        "nil Channel is mpsc",
        "pushed 1",
        "1",
        "pushed 2",
        "2",
        "pushed 3",
        "3",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn a_mutex_is_reentrant_and_fair() {
    let text = r#"
        local mutex = require "silly.sync.mutex".new()
        local held = mutex:lock("k")
        mutex:lock("k"):unlock()
        local group = require "silly.sync.waitgroup".new()
        for i = 1, 2 do
            group:fork(function() local lock <close> = mutex:lock("k") say(i) time.sleep(1) end)
        end
        time.sleep(2)
        say("holding")
        held:unlock()
        held:unlock()
        group:wait()
        say(next(mutex.locks))
    "#;
    assert_eq!(program(text), ["holding", "1", "2", "nil"]);
}

#[test]
fn groups_wait_and_flights_share() {
    let text = r#"
        local group = require "silly.sync.waitgroup".new()
        local done = 0
        for i = 1, 3 do group:fork(function() time.sleep(i) done = done + 1 end) end
        group:fork(function() error("counts as done") end)
        group:wait()
        say(done)
        local calls = 0
        local flight = require "silly.sync.singleflight".new(function(key)
            calls = calls + 1
            time.sleep(2)
            if key == "bad" then error("no", 0) end
            return key, calls
        end)
        for i = 1, 3 do group:fork(function() say(flight:call("a")) end) end
        group:fork(function() say(pcall(flight.call, flight, "bad")) end)
        say(pcall(flight.call, flight, "bad"))
        group:wait()
    "#;
    let expected = ["3", "a 2", "a 2", "a 2", "false no", "false no"];
    let mut output = program(text);
    output[1..].sort();
    let mut sorted = expected.map(str::to_owned).to_vec();
    sorted[1..].sort();
    assert_eq!(output, sorted);
}

/// Bytes that reading lines out of a buffer looks at or copies, for so many lines.
fn bytes_touched(lines: usize, filled: &str) -> u64 {
    let text = format!(
        r#"
        local touched = 0
        local find, sub, concat = string.find, string.sub, table.concat
        string.find = function(text, what, from, plain)
            local start, stop = find(text, what, from, plain)
            touched = touched + (stop or #text) - (from or 1) + 1
            return start, stop
        end
        string.sub = function(text, from, to)
            local part = sub(text, from, to)
            touched = touched + #part
            return part
        end
        table.concat = function(...)
            local text = concat(...)
            touched = touched + #text
            return text
        end
        local buffer = require "silly.adt.buffer".new()
        local lines = {lines}
        {filled}
        local count = 0
        while buffer:read("\r\n") do count = count + 1 end
        assert(count == lines, count)
        say(touched)
        "#
    );
    program(&text)[0].parse().unwrap()
}

#[test]
fn reading_a_buffer_by_delimiter_is_linear() {
    for filled in [
        // All in one piece.
        r#"buffer:append((("x"):rep(20) .. "\r\n"):rep(lines))"#,
        // In pieces that hold no whole line, each followed by a look; the end comes last.
        r#"for i = 1, lines do buffer:append(("x"):rep(30)) assert(not buffer:read("\r\n")) end
           for i = 1, lines do buffer:append("\r") buffer:append("\n") end"#,
    ] {
        let (few, many) = (bytes_touched(200, filled), bytes_touched(800, filled));
        assert!(many < few * 6, "four times the lines took {few} and {many} bytes: {filled}");
    }
}

#[test]
fn a_buffer_finds_delimiters_across_pieces() {
    let text = r#"
        local new = require "silly.adt.buffer".new
        local buffer = new()
        local pieces = { "ab", "-", "-", "-c", "d--", "-", "--" }
        for _, piece in ipairs(pieces) do buffer:append(piece) end
        say(buffer:read("---"), buffer:read("---"))
        say(buffer:read("---"), buffer:size())
        buffer:append("-x--")
        say(buffer:read("---"))
        say(buffer:read(2), buffer:read("---"))
        buffer:append("-")
        say(buffer:read("---"), buffer:read("-"), buffer:dump(), buffer:readall())
        -- Against a plain search, over every way to cut a text.
        local whole = "a\r\nb\r\r\n\nc\r\n\r\nd"
        for step = 1, #whole do
            for skip = 0, 3 do
                local cut, text = new(), whole:sub(skip + 1)
                local got, from = {}, 1
                for at = 1, #whole, step do
                    cut:append(whole:sub(at, at + step - 1))
                    if at == 1 and skip > 0 and cut:read(skip) == nil then goto next end
                    repeat
                        local line = cut:read("\r\n")
                        got[#got + 1] = line
                    until not line
                end
                local _, lines = text:gsub("\r\n", "")
                assert(#got == lines, step .. " " .. skip)
                assert(table.concat(got) .. cut:readall() == text, step .. " " .. skip)
                ::next::
            end
        end
        say("same")
    "#;
    let expected = ["ab--- cd--- 2", "nil 2", "--- 3", "x- nil 1", "nil - - -", "same"];
    assert_eq!(program(text), expected);
}

#[test]
fn containers() {
    let text = r#"
        local queue = require "silly.adt.queue".new()
        say(queue:push("a"), queue:push("b"), queue:pop(), queue:size(), queue:pop(), queue:pop())
        local list = require "silly.adt.list".new()
        list:pushback(2) list:pushback(3) list:pushfront(1) list:pushback(4)
        say(list:remove(3), list:remove(3))
        for value in list:values() do say(value) if value == 2 then list:remove(2) end end
        say(list:size())
        list:pushfront(2)
        say(queue:push(nil), queue:push("c"), queue:pop(), queue:pop(), queue:size())
        say(list:popfront(), list:popback(), list:front(), list:back(),
            pcall(list.pushback, list, 1))
        local buffer = require "silly.adt.buffer".new()
        buffer:append("ab") buffer:append("c\nde")
        say(buffer:read(1), buffer:read("\n") == "bc\n", buffer:read(5))
        say(buffer:dump(), buffer:readall(), buffer:size(), buffer:readall() == "")
    "#;
    let expected = [
        "1 2 a 1 b nil",
        "3 nil removed",
        "1",
        "2",
        "4",
        "2",
        "1 2 nil c 0",
        "2 4 1 1 false bad argument #1 to 'pushback' (already in the list)",
        "a true nil 2",
        "de de 0 true",
    ];
    let output: Vec<String> = program(text)
        .iter()
        .map(|line| match line.split_once("program:") {
            Some((before, after)) => format!("{before}{}", after.split_once(": ").unwrap().1),
            None => line.clone(),
        })
        .collect();
    assert_eq!(output, expected);
}

#[test]
fn patched_code_keeps_the_state_of_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counter.lua");
    std::fs::write(
        &file,
        "local n = 0 local M = {} function M.count() n = n + 1 return n end return M",
    )
    .unwrap();
    let text = format!(
        r#"
        package.path = "{}/?.lua;" .. package.path
        local patch, counter = require "silly.patch", require "counter"
        counter.count() counter.count()
        local out = assert(io.open("{}", "w"))
        out:write("local n = 0 local extra = 1 local M = {{}} ",
            "function M.count() n = n + 10 return n, extra end return M")
        out:close()
        local same, absent = patch.reload("counter")
        say(same == counter, table.concat(absent, ","))
        say(counter.count())
        say(patch.reload("no.such.module"))
        "#,
        folder.path().display(),
        file.display()
    );
    let expected =
        ["true count.extra", "12 1", "nil module 'no.such.module' is not loaded as a table"];
    assert_eq!(program(&text), expected);
}

#[test]
fn settings_come_from_files_and_the_first_writer_wins() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.lua");
    std::fs::write(&other, "port = 2\nname = 'other'\n").unwrap();
    let file = folder.path().join("conf.lua");
    let text = format!(
        "include('{}')\nport = 1\ndb = {{ host = 'h', ports = {{ 5 }} }}\n\
                        home = ENV('HOME') and 'set'\n",
        other.display()
    );
    std::fs::write(&file, text).unwrap();
    let text = format!(
        r#"
        local env = require "silly.env"
        env.set("name", "mine")
        say(env.load("{}"))
        say(env.get("port"), env.get("db.host"), env.get("db.ports.1"), env.get("name"))
        say(type(env.load("/no/such/file")))
        "#,
        file.display()
    );
    assert_eq!(program(&text), ["nil", "1 h 5 mine", "string"]);
}

/// Runs coroutines that are closed while they wait, like handlers whose client has disconnected,
/// and returns what remains of them.
fn after_closing(program: &str) -> Vec<String> {
    let head = r#"
        local silly, task, time = require "silly", require "silly.task", require "silly.time"
        -- Begins a coroutine, lets it wait, and closes it.
        local function closed(fn)
            local thread = task.fork(fn)
            time.sleep(0)
            cancel(thread)
            return thread
        end
    "#;
    timed_output(&format!("{head}{program}\nsilly.exit()"))
}

#[test]
fn a_thread_that_was_closed_stands_for_no_other_coroutine() {
    let program = r#"
        local thread = closed(function() time.sleep(100000) end)
        -- Another one that waits, in a thread of its own.
        task.fork(function() time.sleep(20) say("slept") end)
        time.sleep(0)
        say(task.status(thread), (pcall(task.wakeup, thread)))
        time.sleep(30)
    "#;
    assert_eq!(after_closing(program), ["nil false", "slept"]);
}

#[test]
fn locks_and_channels_survive_closed_waiters() {
    let program = r#"
        local mutex = require "silly.sync.mutex".new()
        local held = mutex:lock("k")
        closed(function() local lock <close> = mutex:lock("k") end)
        task.fork(function() local lock <close> = mutex:lock("k") say("locked") end)
        time.sleep(0)
        held:unlock()
        time.sleep(0)
        closed(function() mutex:lock("k") time.sleep(100000) end)
        do local lock <close> = mutex:lock("k") say("taken over") end

        local channel = require "silly.sync.channel".new(1)
        closed(function() channel:pop() end)
        closed(function() channel:pop(100000) end)
        say(channel:push("one"))
        closed(function() channel:push("lost") end)
        task.fork(function() say(channel:push("two")) end)
        time.sleep(0)
        say(channel:pop())
        time.sleep(0)
        say(channel:pop(), channel:pop(1))
    "#;
    let expected =
        ["locked", "taken over", "true", "one", "true", "two nil Connection timed out (110)"];
    assert_eq!(after_closing(program), expected);
}

#[test]
fn waiting_tasks_survive_the_tasks_they_wait_for() {
    let program = r#"
        local flights = 0
        local flight = require "silly.sync.singleflight".new(function(key)
            flights = flights + 1
            time.sleep(flights == 1 and 100000 or 1)
            return key .. flights
        end)
        local leader = task.fork(function() flight:call("k") end)
        time.sleep(0)
        for _ = 1, 2 do task.fork(function() say(flight:call("k")) end) end
        time.sleep(0)
        cancel(leader)
        time.sleep(20)
        say(flight:call("k"))

        local group = require "silly.sync.waitgroup".new()
        local member = group:fork(function() time.sleep(100000) end)
        closed(function() group:wait() end)
        task.fork(function() time.sleep(0) cancel(member) end)
        group:wait()
        say("all gone")
    "#;
    assert_eq!(after_closing(program), ["k2", "k2", "k3", "all gone"]);
}

#[test]
fn a_pool_gets_back_what_was_being_used_opened_or_waited_for() {
    let program = r#"
        local opened, slow = 0, false
        local pool = require "silly.pool".new {
            max = 1,
            open = function()
                if slow then time.sleep(100000) end
                opened = opened + 1
                return { opened }
            end,
            check = function() if slow then time.sleep(100000) end return true end,
        }
        closed(function() pool:with(nil, function() time.sleep(100000) end) end)
        say(pool:stat().open, pool:stat().idle)
        slow = true
        closed(function() pool:take() end)
        slow = false
        say(pool:stat().open)
        local held = pool:take()
        closed(function() pool:take(nil, 100000) end)
        say(pool:stat().waiting)
        pool:give(held)
        slow = true
        closed(function() pool:take() end)
        slow = false
        say(pool:stat().open, pool:take(nil, 10)[1])
    "#;
    assert_eq!(after_closing(program), ["0 0", "0", "0", "0 3"]);
}

#[test]
fn a_turn_is_counted_if_its_budget_is_small() {
    let program = r#"
        local silly = require "silly"
        for _ = 1, 10000 do end
        local function hook() return (debug.gethook()) end
        say(hook(), coroutine.wrap(hook)(), select(2, coroutine.resume(coroutine.create(hook))))
        say(pcall(coroutine.wrap, 1))
        silly.exit()
    "#;
    let counted = "external hook external hook external hook";
    let failed = "false bad argument #1 to 'coroutine.wrap' (function expected, got number)";
    assert_eq!(output_within(TURN_INSTRUCTIONS - 1, program), [counted, failed]);
    // The watchdog has a long turn counted; there is none without Linux's signals.
    let usual = if cfg!(target_os = "linux") { "nil external hook external hook" } else { counted };
    assert_eq!(output_within(TURN_INSTRUCTIONS, program), [usual, failed]);
}

#[test]
fn extreme_numbers_are_accepted() {
    let program = r#"
        local silly, time, task = require "silly", require "silly.time", require "silly.task"
        local shared, udp = require "tide.shared", require "silly.net.udp"
        local dns = require "silly.net.dns"
        local tcp, http, fs = require "silly.net.tcp", require "silly.net.http", require "tide.fs"
        local websocket = require "silly.net.websocket"
        local most = math.maxinteger
        shared.set("for long", 1, 1e300)
        say(shared.get("for long"), shared.add("count", most))
        say(shared.add("count", 1) == math.mininteger)
        local listener = assert(http.listen { addr = "127.0.0.1:0",
            head_timeout = most, idle_timeout = most,
            max_body = most, max_connections = most, backlog = most,
            handler = function(stream) stream:respond(200) stream:closewrite("x") end })
        local client = http.newclient {
            max_idle_per_host = most, idle_timeout = most, read_timeout = most,
        }
        say(client:get("http://" .. listener.addr).body)
        local stream = client:request("GET", "http://" .. listener.addr)
        say(stream:waitresponse(most), stream:read(1, most))
        say(tcp.connect(listener.addr, { timeout = 1e300 }) ~= nil)
        say(dns.lookup("127.0.0.1", dns.A, most))
        local socket = udp.bind("127.0.0.1:0")
        socket:sendto("x", socket.addr)
        say((socket:recvfrom(most)))
        say((time.timeout(2^32 - 1, function() return "in time" end)))
        for _, wrong in ipairs { -1, 0.5, most, 0/0, 1/0, "1e400" } do
            pcall(time.sleep, wrong == most and most or -1)
            pcall(time.after, wrong, function() end)
            pcall(http.newclient, { read_timeout = wrong })
            pcall(fs.read, "/dev/null", wrong)
            pcall(string.rep, "x", -1)
        end
        silly.exit()
    "#;
    let expected =
        ["1 9223372036854775807", "true", "x", "true x nil", "true", "127.0.0.1", "x", "in time"];
    assert_eq!(output(program), expected);
}
