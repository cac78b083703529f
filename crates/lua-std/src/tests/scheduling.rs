//! The scheduling contract, row by row.

use std::rc::Rc;

use crate::context::{VmContext, open_vm};
use crate::testing::{output, run, timed_output};
use lua_vm::VmOptions;

#[test]
fn the_main_script_is_a_coroutine_and_may_wait() {
    let program = r#"
        local time, silly = require "silly.time", require "silly"
        local before = time.monotonic()
        time.sleep(5)
        say(time.monotonic() - before >= 5)
        silly.exit(0)
    "#;
    assert_eq!(output(program), ["true"]);
}

#[test]
fn fork_queues_and_what_is_ready_runs_first_in_first_out() {
    let program = r#"
        local task, silly = require "silly.task", require "silly"
        task.fork(function(x) say("a", x) task.fork(function() say("c") silly.exit() end) end, 1)
        task.fork(function(x) say("b", x) end, 2)
        say("main", task.readycount())
    "#;
    assert_eq!(output(program), ["main 2", "a 1", "b 2", "c"]);
}

#[test]
fn wait_and_wakeup_carry_one_value_and_misuse_is_a_bug() {
    let program = r#"
        local task, silly = require "silly.task", require "silly"
        local main = task.running()
        task.fork(function()
            say(task.status(main))
            task.wakeup(main, "value")
            say(task.status(main))
            local ok, why = pcall(task.wakeup, main, 2)
            say(ok, why:find("BUG") ~= nil)
        end)
        say(task.wait())
        say(task.status(main), task.status(coroutine.create(print)))
        say(select(2, coroutine.resume(coroutine.create(task.wait))):find("BUG") ~= nil)
        silly.exit()
    "#;
    let expected = ["WAIT", "READY", "false true", "value", "RUN nil", "true"];
    assert_eq!(output(program), expected);
}

#[test]
fn an_event_is_handled_completely_before_the_next() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        time.after(1, function()
            task.fork(function() say("woken by the first") end)
            say("first")
        end)
        time.after(1, function() say("second") silly.exit() end)
        -- Both are due by now.
        local until_ms = time.monotonic() + 5
        while time.monotonic() < until_ms do end
    "#;
    assert_eq!(output(program), ["first", "woken by the first", "second"]);
}

#[test]
fn a_timer_that_is_due_can_still_be_cancelled_by_the_event_before_it() {
    let program = r#"
        local time, silly = require "silly.time", require "silly"
        local second
        time.after(1, function() time.cancel(second) say("cancelled") end)
        second = time.after(1, function() say("never") end)
        time.after(2, function() silly.exit() end)
        local until_ms = time.monotonic() + 5
        while time.monotonic() < until_ms do end
    "#;
    assert_eq!(output(program), ["cancelled"]);
}

#[test]
fn an_uncaught_error_ends_its_coroutine_only() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        task.fork(function()
            local guard <close> = setmetatable({}, { __close = function() say("closed") end })
            error("boom")
        end)
        task.fork(function() error({}) end)
        time.sleep(1)
        say("alive")
        silly.exit()
    "#;
    assert_eq!(output(program), ["closed", "alive"]);
}

#[test]
fn nothing_runs_after_exit_and_it_cannot_be_caught() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        task.fork(function() say("queued") end)
        time.after(0, function() say("timer") end)
        local co = coroutine.wrap(function()
            xpcall(function()
                pcall(table.sort, { 3, 2, 1 }, function() silly.exit(7) end)
                say("after pcall")
            end, function() say("handler") end)
            say("after xpcall")
        end)
        co()
        say("after the coroutine")
    "#;
    assert_eq!(run(program), (7, vec![]));
    assert_eq!(run("local silly = require 'silly' silly.exit(3) say('after')"), (3, vec![]));
}

#[test]
fn errors_of_modules_are_strings() {
    let program = r#"
        local time, errno, silly = require "silly.time", require "silly.errno", require "silly"
        say(pcall(time.sleep, {}))
        say(pcall(time.sleep, 2 ^ 33))
        say(type(select(2, pcall(require, "nothing.of.the.kind"))))
        say(select(2, silly.pcall(error, "oops")):match("oops\nstack traceback") ~= nil)
        say(errno.EOF, errno.NONSENSE)
        silly.exit()
    "#;
    let expected = [
        "false bad argument #1 to 'silly.time.sleep' (number expected, got table)",
        "false bad argument #1 to 'silly.time.sleep' (longer than 2^32-1 milliseconds)",
        "string",
        "true",
        "End of file (10004) Unknown error 'NONSENSE'",
    ];
    assert_eq!(output(program), expected);
}

#[test]
fn time_outs_throttles_and_debounces() {
    let program = r#"
        local time, silly = require "silly.time", require "silly"
        say(time.timeout(1000, function(a, b) time.sleep(1) return a, b end, 1, nil))
        say(time.timeout(5, function() time.sleep(50) end))
        say(pcall(time.timeout, 5, error, "raised"))
        local task = require "silly.task"
        local waiter = task.running()
        say(time.timeout(1000, function()
            task.wakeup(waiter, "another")
            time.sleep(1)
            return "own"
        end))
        say(pcall(coroutine.wrap(function() time.timeout(5, print) end)))
        local throttled = time.throttle(10, function(x) say("throttled", x) end)
        throttled(1) throttled(2) throttled(3)
        local debounced = time.debounce(5, function(x) say("debounced", x) end)
        debounced(1) debounced(2)
        time.sleep(30)
        silly.exit()
    "#;
    let expected = [
        "1 nil",
        "nil Connection timed out (110)",
        "false raised",
        "own",
        "false program:13: time.timeout: only a task may wait",
        "throttled 1",
        "debounced 2",
        "throttled 3",
    ];
    assert_eq!(timed_output(program), expected);
}

#[test]
fn hooks_are_called_for_every_task_and_their_errors_are_logged() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        local begun, ended = 0, 0
        say(task.hook(function() begun = begun + 1 end, function() ended = ended + 1 end)
            == coroutine.resume)
        task.fork(function() end)
        task.fork(function() error("on purpose") end)
        task.fork(function() coroutine.yield() end)
        time.after(1, function() end)
        time.sleep(5)
        say(begun, ended)
        task.hook(function() error("a hook") end, function() task.wait() end)
        task.fork(function() say("runs all the same") end)
        time.sleep(1)
        task.hook()
        task.fork(function() end)
        time.sleep(1)
        say(begun, ended)
        say(pcall(task.hook, 1))
        silly.exit()
    "#;
    let expected = [
        "true",
        "4 3",
        "runs all the same",
        "4 3",
        "false bad argument #1 to 'hook' (function expected, got number)",
    ];
    assert_eq!(output(program), expected);
}

#[test]
fn a_hundred_thousand_coroutines_sleep_and_wake() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        local awake = 0
        for i = 1, 100000 do
            task.fork(function() time.sleep(i % 50) awake = awake + 1 end)
        end
        while awake < 100000 do time.sleep(10) end
        say(awake)
        silly.exit()
    "#;
    assert_eq!(output(program), ["100000"]);
}

#[test]
fn a_wait_for_a_future_parks_the_coroutine_and_gives_values_or_raises() {
    net::worker::block_on_local(async {
        let vm = open_vm(VmOptions::default(), VmContext::default()).unwrap();
        let later = lua_vm::async_function::create(vm.lua(), |_, fail: bool| {
            Ok(async move {
                tokio::task::yield_now().await;
                if fail { Err(mlua::Error::runtime("no luck")) } else { Ok((1, "two")) }
            })
        });
        vm.lua().globals().set("later", later.unwrap()).unwrap();
        let program = r#"
            local task, silly = require "silly.task", require "silly"
            local other = false
            task.fork(function() other = true end)
            local a, b = later(false)
            assert(a == 1 and b == "two" and other)
            local ok, why = pcall(later, true)
            assert(not ok and why:find("no luck"))
            assert(not pcall(coroutine.wrap(function() later(false) end)))
            silly.exit(42)
        "#;
        let main = vm.lua().load(program).into_function().unwrap();
        vm.turn(|turn| turn.start(&main, (), None)).unwrap().unwrap();
        let code =
            net::timer::within(std::time::Duration::from_secs(10), lua_vm::drive(vm.clone()));
        assert_eq!(code.await, Some(42));
        assert_eq!(Rc::strong_count(&vm), 1);
    });
}

#[test]
fn a_script_that_closes_or_resumes_threads_of_tasks_breaks_only_itself() {
    let program = r#"
        local task, time, silly = require "silly.task", require "silly.time", require "silly"
        local ready = task.fork(function(a) say("never", a) end, 1)
        coroutine.close(ready)
        local stolen = task.fork(function(a) say("stolen", a) task.wait() say("end") end, 2)
        say(coroutine.resume(stolen, 7))
        local waiting = task.fork(function() task.wait() say("never") end)
        time.sleep(1)
        coroutine.close(waiting)
        say(pcall(task.wakeup, waiting))
        local dead = task.fork(function() end)
        time.sleep(1)
        say(coroutine.resume(dead))
        local nested
        nested = task.fork(function() task.wait() task.wakeup(nested) end)
        time.sleep(1)
        say(coroutine.resume(nested))
        for i = 1, 100 do task.fork(function(n) say(n) end, i) end
        time.sleep(1)
        say("alive")
        silly.exit()
    "#;
    let output = output(program);
    assert_eq!(output.last().map(String::as_str), Some("alive"), "{output:?}");
    assert!((1..=100).all(|n| output.contains(&n.to_string())), "{output:?}");
    assert!(!output.iter().any(|line| line.starts_with("never")), "{output:?}");
}

#[test]
fn finalizers_run_last_and_may_call_anything() {
    let program = r#"
        local silly, task, time = require "silly", require "silly.task", require "silly.time"
        local tcp, http = require "silly.net.tcp", require "silly.net.http"
        local dns = require "silly.net.dns"
        local process, channel = require "tide.process", require "silly.sync.channel"
        local listener = tcp.listen("127.0.0.1:0", print)
        local conn = tcp.connect(listener.addr)
        kept = setmetatable({}, { __gc = function()
            for _, call in ipairs {
                function() time.sleep(1) end, function() time.after(1, print) end,
                function() task.fork(print) end, function() task.wait() end,
                function() conn:write("x") conn:close() end, function() listener:close() end,
                function() tcp.connect("127.0.0.1:1") end,
                function() tcp.listen("127.0.0.1:0", print) end,
                function() http.get("http://127.0.0.1:1/") end, function() dns.lookup("a") end,
                function() process.memory() end, function() channel.new():pop() end,
                function() require "silly.net.udp".bind("127.0.0.1:0"):recvfrom() end,
                function() require "tide.fs".read("/dev/null") end, function() silly.exit() end,
                function() require "silly.re".compile("a"):match("a") end,
                function() require "silly.signal"("SIGHUP", print) end,
            } do pcall(call) end
        end })
        silly.exit()
    "#;
    assert_eq!(output(program), [""; 0]);
}

#[test]
fn large_strings_are_collected_before_they_pile_up() {
    let program = r#"
        local process, silly = require "tide.process", require "silly"
        -- The collector has much to look at that is small.
        local small, most = {}, 0
        for i = 1, 100000 do small[i] = { i } end
        local _, held = process.memory()
        for _ = 1, 400 do
            local text = ("x"):rep(1 << 20)
            local _, used = process.memory()
            most = math.max(most, used)
        end
        say(most - held < 150 << 20 or (most - held) >> 20)
        silly.exit()
    "#;
    assert_eq!(output(program), ["true"]);
}
