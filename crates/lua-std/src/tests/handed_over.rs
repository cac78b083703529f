//! What a coroutine was handed when it is closed before it runs (locks, values, messages), and what
//! it leaves that is closed while it waits.

use crate::testing::timed_output;

/// Runs a program that closes coroutines with `late(begin, hand)`: `begin` runs until it waits,
/// then `hand` wakes it, and it is closed before it runs.
fn handed_over(program: &str) -> Vec<String> {
    let head = r#"
        local silly, task, time = require "silly", require "silly.task", require "silly.time"
        local function late(begin, hand)
            local thread = task.fork(function() begin() say("never") end)
            time.sleep(0)
            hand()
            assert(task.status(thread) == "READY")
            say(coroutine.close(thread))
        end
    "#;
    timed_output(&format!("{head}{program}\nsilly.exit()"))
}

#[test]
fn a_lock_goes_to_the_next_task() {
    let program = r#"
        local mutex = require "silly.sync.mutex".new()
        local held = mutex:lock("k")
        late(function() mutex:lock("k") end, function()
            task.fork(function() local lock <close> = mutex:lock("k") say("next") end)
            time.sleep(0)
            held:unlock()
        end)
        time.sleep(0)
        local lock <close> = mutex:lock("k")
        say("free")
    "#;
    assert_eq!(handed_over(program), ["true", "next", "free"]);
}

#[test]
fn a_value_stays_the_first_one_or_goes_to_the_next_task() {
    let program = r#"
        local channel = require "silly.sync.channel".new()
        late(function() channel:pop() end, function() channel:push(1) channel:push(2) end)
        say(channel:size(), channel:pop(), channel:pop())
        late(function() channel:pop(1000) end, function()
            channel:push(3)
            task.fork(function() say(channel:pop()) end)
        end)
        time.sleep(0)
        say(channel:size())
    "#;
    assert_eq!(handed_over(program), ["true", "2 1 2", "true", "3", "0"]);
    let waiting = r#"
        local channel = require "silly.sync.channel".new()
        local first = task.fork(function() channel:pop() end)
        time.sleep(0)
        -- These run before the first, which is woken after them.
        task.fork(function() say(channel:pop()) end)
        task.fork(function() say(coroutine.close(first)) end)
        channel:push("handed")
        time.sleep(0)
    "#;
    assert_eq!(handed_over(waiting), ["true", "handed"]);
}

#[test]
fn space_in_a_channel_is_for_the_next_task() {
    let program = r#"
        local channel = require "silly.sync.channel".new(1)
        channel:push(1)
        late(function() channel:push("lost") end, function()
            task.fork(function() say(channel:push(2)) end)
            time.sleep(0)
            say(channel:pop())
        end)
        time.sleep(0)
        say(channel:pop(100))
    "#;
    assert_eq!(handed_over(program), ["1", "true", "true", "2"]);
}

#[test]
fn a_message_stays_the_first_one_or_goes_to_the_next_task() {
    let program = r#"
        local worker = require "silly.worker"
        local function deliver() worker.deliver("c", "one", 1) worker.deliver("c", "two", 1) end
        late(function() worker.receive("c") end, deliver)
        say((worker.receive("c")), (worker.receive("c")))
        late(function() worker.receive("c") end, function()
            task.fork(function() say((worker.receive("c"))) end)
            time.sleep(0)
            worker.deliver("c", "three", 1)
        end)
        time.sleep(0)
        say(worker.receive("c", 10))
    "#;
    assert_eq!(handed_over(program), ["true", "one two", "true", "three", "nil timeout"]);
}

#[test]
fn the_lock_of_a_failed_task_is_free_and_any_key_is_one() {
    let program = r#"
        local mutex = require "silly.sync.mutex".new()
        task.fork(function() mutex:lock("k") error("failed") end)
        time.sleep(0)
        -- The next task, which would have had the thread of the failed one.
        task.fork(function() local lock = mutex:lock("k") time.sleep(10) lock:unlock() end)
        time.sleep(0)
        local began = time.monotonic()
        mutex:lock("k"):unlock()
        say(time.monotonic() - began >= 10)
        for _, key in ipairs{ "lock", "new", "locks", "__index", 1, false } do
            local held = mutex:lock(key)
            held:unlock()
            say(key)
        end
    "#;
    let expected = ["true", "lock", "new", "locks", "__index", "1", "false"];
    assert_eq!(handed_over(program), expected);
}

#[test]
fn a_task_that_is_closed_while_it_waits_leaves_nothing() {
    let program = r#"
        local tcp = require "silly.net.tcp"
        local function tasks()
            local count = 0
            for _ in pairs(task.inspect()) do count = count + 1 end
            return count
        end
        local served
        local function serve(conn) served = conn task.wait() end
        local listener = assert(tcp.listen("127.0.0.1:0", serve))
        local client = assert(tcp.connect(listener.addr))
        time.sleep(1)
        local before = tasks()
        local closed = {}
        local function close(wait)
            local thread = task.fork(function()
                local guard <close> = setmetatable({}, { __close = function()
                    table.insert(closed, task.status(task.running()))
                end })
                wait()
                say("never")
            end)
            time.sleep(0)
            say(task.status(thread), coroutine.close(thread), task.status(thread))
            say((pcall(task.wakeup, thread)))
        end
        close(function() time.sleep(1000000) end)
        close(function() client:read(1) end)
        say(tasks() == before, #closed)
        served:write("x")
        say(client:read(1))
        local thread = task.fork(function()
            local guard <close> = setmetatable({}, { __close = function() error("closing", 0) end })
            task.wait()
        end)
        time.sleep(0)
        say(coroutine.close(thread))
        say(tasks() == before, pcall(coroutine.close, 1))
        local own = coroutine.wrap(function() coroutine.close() end)
        say(select('#', own()), coroutine.close(coroutine.create(print)))
    "#;
    let woken = "false";
    let expected = [
        "WAIT true nil",
        woken,
        "WAIT true nil",
        woken,
        "true 2",
        "x",
        "false closing",
        "true false bad argument #1 to 'coroutine.close' (thread expected, got number)",
        "0 true",
    ];
    assert_eq!(handed_over(program), expected);
}
