//! Sessions of the debugger over channels.

use super::scripts::program;

const BEGIN: &str = r#"
    local debugger, channel = require "silly.debugger", require "silly.sync.channel"
    local input, output = channel.new(), channel.new()
    local function read() return input:pop() end
    local function write(text) output:push(text) end
    task.fork(function() output:push("ended: " .. debugger.start(read, write)) end)
    --- What a command writes, without the address of the thread.
    local function send(command)
        if command then input:push(command) end
        return (output:pop():gsub("thread: 0x%x+", "T"):gsub("\n", "|"))
    end
    local function chunk(text, name) return assert(load(text, "@/srv/" .. name)) end
    local sum = chunk([[
        local limit = ...
        local function add(a, b)
            local sum = a + b
            return sum
        end
        local total, label = 0, { name = "x\n", 1 }
        for n = 1, limit do
            total = add(total, n)
        end
        return total, label
    ]], "sum.lua")
    local result = channel.new()
    say(send())
"#;

fn session(text: &str) -> Vec<String> {
    program(&format!("{BEGIN}\n{text}\n"))
}

#[test]
fn tasks_pause_at_breakpoints_and_step() {
    let lines = session(
        r#"
        say(send "b sum.lua 3\n")
        task.fork(function() result:push((sum(3))) end)
        say(send())
        say(send "p b", send "p total", send "p sum", send "p print" ~= "", send "p none")
        say((send "bt":match "^stack traceback:|%s*/srv/sum.lua:3: in ") ~= nil)
        -- Others run while it is paused.
        time.sleep(1)
        say(send "n")
        say(send "p sum")
        say(send "n")
        say(send "")
        say(send "b 8", send "d 1", send "p label")
        say(send "c")
        say(send())
        say(send "s", send "s")
        say(send "d", send "c", result:pop())
        say(send "c", send "x", send "b", send "b a.lua x", send "d 7")
        "#,
    );
    let paused = |line: u32| format!("|debugger T /srv/sum.lua:{line}> ");
    let at = |line: u32| format!("debugger T /srv/sum.lua:{line}> ");
    assert_eq!(lines[0], "debugger> ");
    assert_eq!(lines[1], "Breakpoint $1 at file:sum.lua, line:3|debugger> ");
    assert_eq!(lines[2], paused(3));
    let [here, free] =
        [at(3), "no task is paused: one has to reach a breakpoint first|".to_owned()];
    let missing = |name: &str| format!("Variable {name} nonexist|{here}");
    let [total, sum, none] = ["total", "sum", "none"].map(missing);
    assert_eq!(lines[3], format!("Param $2 b = 1|{here} {total} {sum} true {none}"));
    assert_eq!(lines[4], "true");
    assert_eq!(lines[5], paused(4));
    assert_eq!(lines[6], format!("Param $3 sum = 1|{}", at(4)));
    assert_eq!(lines[7], paused(7));
    assert_eq!(lines[8], paused(8));
    let label = r"Param $4 label = {[1] = 1, ['name'] = 'x\x0a'}";
    let [breakpoint, deleted] =
        ["Breakpoint $2 at file:/srv/sum.lua, line:8|", "Delete breakpoint $1|"];
    assert_eq!(lines[9], format!("{breakpoint}{0} {deleted}{0} {label}|{0}", at(8)));
    assert_eq!(lines[10], "debugger> ");
    assert_eq!(lines[11], paused(8));
    assert_eq!(lines[12], format!("{} {}", paused(3), paused(4)));
    assert_eq!(lines[13], format!("Delete breakpoint $ALL|{} debugger>  6", at(4)));
    assert_eq!(
        lines[14],
        format!(
            "{free}debugger>  Undefined command: x|debugger>  Invalid file name|debugger>  Invalid \
             line number|debugger>  Invalid breakpoint id|debugger> "
        )
    );
}

#[test]
fn a_session_ends_with_its_reader_and_is_the_only_one() {
    let lines = session(
        r#"
        say(debugger.start(read, write))
        send "b sum.lua 8"
        task.fork(function() result:push((sum(3))) end)
        say(send())
        input:close()
        say(send(), result:pop())
        -- Nothing pauses without a session, and another one may begin.
        say((sum(3)))
        input = channel.new()
        task.fork(function() output:push("ended: " .. debugger.start(read, write)) end)
        say(send(), send "q", send())
        say(pcall(debugger.start, read))
        "#,
    );
    assert_eq!(lines[1], "debugger is already opened by other user");
    assert_eq!(lines[2], "|debugger T /srv/sum.lua:8> ");
    assert_eq!(&lines[3..6], ["ended:  6", "6", "debugger>  Bye, Bye!| ended: "]);
    assert!(lines[6].contains("bad argument #2 to 'start' (function expected, got nil)"));
}

#[test]
fn what_cannot_pause_continues() {
    let lines = session(
        r#"
        send "b sort.lua 2"
        local compare = chunk("return function(a, b)\nreturn a < b\nend", "sort.lua")()
        local list = { 3, 1, 2 }
        table.sort(list, compare)
        say(table.concat(list, " "))
        say(coroutine.wrap(compare)(1, 2))
        -- An error in a paused task is its own.
        local broken = chunk("local a = 1\nlocal b = 2\nerror 'broken'", "broken.lua")
        send "b broken.lua 2"
        task.fork(function() result:push((select(2, pcall(broken)))) end)
        say(send())
        say(send "c", result:pop())
        "#,
    );
    assert_eq!(&lines[1..3], ["1 2 3", "true"]);
    assert_eq!(lines[3], "|debugger T /srv/broken.lua:2> ");
    assert_eq!(lines[4], "debugger>  /srv/broken.lua:3: broken");
}

#[test]
fn a_console_debugs() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        local console, tcp = require "silly.console", require "silly.net.tcp"
        local addr = "unix:{}/console"
        assert(console {{ addr = addr }})
        local conn = tcp.connect(addr)
        conn:read("> ")
        local function send(line)
            conn:write(line .. "\n")
            return (conn:read("> "):match("^[^\n]*"))
        end
        say(send "help")
        say(send "debug", send "b double.lua 2")
        local double = load("local n = ...\nreturn n * 2", "@double.lua")
        local done = require "silly.sync.channel".new()
        task.fork(function() done:push(double(4)) end)
        conn:read("> ")
        say(send "p n")
        say(send "q", done:pop(), send "ping")
        "#,
        directory.path().display()
    );
    let output = program(&text);
    assert_eq!(output[0], "DEBUG GC HELP INFO INJECT PING PROFILE SOCKET TASK TIMELINE");
    assert_eq!(
        output[1..],
        [
            "debugger>  Breakpoint $1 at file:double.lua, line:2",
            "Param $1 n = 4",
            "Bye, Bye! 8 PONG",
        ]
    );
}
