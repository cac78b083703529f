//! Workers, their errors, their order and their limits.

use crate::testing::{output, run_example};

const HEAD: &str = r##"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local hive = require "silly.hive"
"##;

/// Runs a program, which ends with its main coroutine; returns what it said.
fn said(program: &str) -> Vec<String> {
    let (code, output) = run_example(&format!("{HEAD}{program}"));
    assert_eq!(code, 0, "{output:?}");
    output
}

#[test]
fn a_worker_has_a_vm_of_its_own_and_values_are_copies() {
    let program = r##"
        shared = 1
        local worker = hive.spawn([[
            local config, kept = ..., 0
            shared = (shared or 0) + config.n
            return function(t, ...)
                kept = kept + 1
                t.seen = true
                return kept, shared, t, select("#", ...), ...
            end
        ]], { n = 10 })
        local given = { 1, { deep = "a\0b" }, f = print }
        local kept, theirs, copy, count, none, truth, float =
            hive.invoke(worker, given, nil, true, 0.5)
        say(kept, theirs, shared, given.seen, copy.seen, copy[2].deep == "a\0b", copy.f)
        say(count, none, truth, float)
        say((hive.invoke(worker, {})))
        say(hive.invoke(hive.spawn "return function(...) return select('#', ...), print end"))
    "##;
    assert_eq!(said(program), ["1 10 1 nil true true nil", "3 nil true 0.5", "2", "0 nil"]);
}

#[test]
fn errors_are_raised_where_the_worker_is_called() {
    let program = r##"
        local worker = hive.spawn [[
            return function(x)
                if x == "table" then error { code = 7 } end
                error("not " .. x)
            end
        ]]
        say(pcall(hive.invoke, worker, "this"))
        local _, err = pcall(hive.invoke, worker, "table")
        say(err.code)
        say(pcall(hive.spawn, "return ="))
        say(pcall(hive.spawn, "error('in the code')"))
        say(pcall(hive.spawn, "return 7"))
        say((select(2, pcall(hive.invoke, "no worker"))):match("userdata expected") ~= nil)
        -- A worker is of use after its error.
        say(pcall(hive.invoke, worker, "that"))
        -- The modules of a worker are those that do not wait.
        say(hive.invoke(hive.spawn [[
            for _, name in ipairs { "adt.buffer", "adt.list", "adt.queue", "compress.br",
                "compress.gzip", "compress.lz4", "compress.snappy", "compress.zstd",
                "crypto.cipher", "crypto.hash", "crypto.hmac", "crypto.pkey", "crypto.utils",
                "encoding.base64", "encoding.hex", "encoding.json", "errno", "perf", "re",
                "security.jwt" } do
                require("silly." .. name)
            end
            return function()
                return (pcall(require, "silly.net.tcp")), (pcall(require, "silly.hive"))
            end
        ]]))
        for _, limit in ipairs { { 2, 1 }, { -1, 2 }, { 0, 0 }, { 1, 1 << 40 } } do
            say((pcall(hive.limit, limit[1], limit[2])))
        end
    "##;
    let expected = [
        "false hive:3: not this",
        "7",
        "false hive:1: unexpected symbol near '='",
        "false hive:1: in the code",
        "false chunk code must return a function",
        "true",
        "false hive:3: not that",
        "false false",
        "false",
        "false",
        "false",
        "false",
    ];
    assert_eq!(said(program), expected);
}

/// The workers wait in `read` of a pipe that the test writes to, so nothing depends on time.
#[test]
fn calls_of_a_worker_run_in_order_while_the_program_continues() {
    let program = r##"
        hive.limit(1, 2)
        local directory = os.tmpname()
        os.remove(directory)
        assert(os.execute(("mkdir %s && mkfifo %s/a %s/b"):format(directory, directory, directory)))
        local READ = [[
            local path = ...
            return function(n)
                local file <close> = io.open(path)
                return n, file:read "a"
            end
        ]]
        local function write(name, text)
            local file <close> = io.open(directory .. "/" .. name, "w")
            file:write(text)
        end
        local a, b = hive.spawn(READ, directory .. "/a"), hive.spawn(READ, directory .. "/b")
        local group = require "silly.sync.waitgroup".new()
        local ended = 0
        for n = 1, 2 do
            group:fork(function()
                say("a", hive.invoke(a, n))
                ended = n
            end)
        end
        group:fork(function() say("b", hive.invoke(b, 3)) end)
        while hive.threads() < 2 do time.sleep(1) end
        say("the program continues", hive.threads())
        -- The second call of a waits for the first, although b is ready.
        write("b", "three")
        write("a", "one")
        while ended < 1 do time.sleep(1) end
        write("a", "two")
        group:wait()
        os.execute("rm -r " .. directory)
        while hive.threads() > 1 do hive.prune() time.sleep(1) end
        say(hive.threads())
        -- A coroutine that ends does not end the call, and the worker is of use afterwards.
        local double = hive.spawn "return function(n) return 2 * n end"
        local co = task.fork(function() hive.invoke(double, 1) end)
        time.sleep(0)
        cancel(co)
        say(hive.invoke(double, 21))
    "##;
    let mut said = said(program);
    assert_eq!(said.remove(0), "the program continues 2");
    let of_a: Vec<_> = said.iter().filter(|line| line.starts_with('a')).collect();
    assert_eq!(of_a, ["a 1 one", "a 2 two"]);
    assert!(said.contains(&"b 3 three".to_owned()), "{said:?}");
    assert_eq!(said[3..], ["1", "42"]);
}

#[test]
fn workers_are_limited_and_a_server_has_none() {
    let program = r##"
        local workers, made = {}, 0
        local ok, err
        repeat
            ok, err = pcall(hive.spawn, "return print")
            workers[#workers + 1] = ok and err or nil
        until not ok
        say(#workers, err)
        workers = nil
        say(pcall(hive.spawn, "return print") )
    "##;
    let said = said(program);
    assert_eq!(said[0], "1024 hive: there are 1024 workers");
    assert!(said[1].starts_with("true"), "{said:?}");
    let server = output(
        r##"say(pcall(require "silly.hive".spawn, "return print")) require "silly".exit()"##,
    );
    assert!(server[0].contains("hive is for programs"), "{server:?}");
}
