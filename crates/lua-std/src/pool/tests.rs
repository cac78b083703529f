//! Pools: the order of waiters, reuse, and closing.

use crate::testing::timed_output;

/// `make(options)` is a pool of numbered objects, whose opening and closing is reported by `say`.
const HEAD: &str = r#"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local pool = require "tide.pool"
    local made = 0
    local function make(options)
        options.open = options.open or function(key)
            made = made + 1
            return { number = made, key = key }
        end
        options.close = function(thing) say("close " .. thing.number) end
        return pool.new(options)
    end
"#;

fn with_pool(program: &str) -> Vec<String> {
    timed_output(&format!("{HEAD}{program}\nsilly.exit()"))
}

#[test]
fn returned_resources_are_reused_and_failed_ones_dropped() {
    let program = r#"
        local p = make{}
        say(p:with("a", function(thing, word) return thing.number, word end, "first"))
        say(p:with("a", function(thing) return thing.number end))
        say(p:with("b", function(thing) return thing.number, thing.key end))
        say(pcall(p.with, p, "a", function() error("broken", 0) end))
        say(p:with("a", function(thing) return thing.number end))
        do local held <close> = p:lease("b") say(held.resource.number) end
        say(pcall(function() local held <close> = p:lease("b") error("again", 0) end))
        local stat = p:stat()
        say(stat.open, stat.idle, stat.keys, stat.opened, stat.closed)
        say(pcall(p.give, p, {}))
        p:close()
        say(p:take("a"))
    "#;
    let output = with_pool(program);
    let expected = [
        "1 first",
        "1",
        "2 b",
        "close 1",
        "false broken",
        "3",
        "2",
        "close 2",
        "false again",
        "1 1 1 3 2",
    ];
    assert_eq!(output[..10], expected);
    assert!(output[10].contains("bad argument #1 to 'give' (not lent by this pool)"), "{output:?}");
    assert_eq!(output[11..], ["close 3", "nil Socket is closed (10003)"]);
}

#[test]
fn waiters_are_served_in_order_or_time_out() {
    let program = r#"
        local p = make{ max = 2, wait = 20 }
        local first, second = p:take(), p:take()
        say(p:take())
        for name = 1, 3 do
            task.fork(function()
                local thing = p:take(nil, 1000)
                say(name, thing.number)
                if name == 1 then p:drop(thing) else p:give(thing) end
            end)
        end
        time.sleep(1)
        say(p:stat().waiting)
        p:give(second)
        time.sleep(1)
        p:give(first)
        local waiting = task.fork(function() say(p:take(nil, 1000)) end)
        time.sleep(1)
        local stat = p:stat()
        say(stat.open, stat.idle, stat.refused)
    "#;
    let output = with_pool(program);
    let expected = ["nil Connection timed out (110)", "3", "1 2", "close 2", "2 3", "3 3"];
    assert_eq!(output[..6], expected, "{output:?}");
    assert!(output.last().unwrap().ends_with("1"), "{output:?}");
}

#[test]
fn what_a_closed_coroutine_was_handed_goes_to_the_next_one() {
    let program = r#"
        local p = make{ max = 1 }
        for _, back in ipairs{ "give", "drop" } do
            local thing = p:take()
            local handed = task.fork(function() say("late", p:take(nil, 1000)) end)
            local group = require "silly.sync.waitgroup".new()
            group:fork(function()
                local thing, why = p:take(nil, 1000)
                say(back, thing and thing.number or why)
                if thing then p:give(thing) end
            end)
            time.sleep(1)
            p[back](p, thing)
            say(coroutine.close(handed))
            group:wait()
            say(p:stat().open, p:stat().idle)
        end
    "#;
    let expected = ["true", "give 1", "1 1", "close 1", "true", "drop 2", "1 1"];
    assert_eq!(with_pool(program), expected);
}

#[test]
fn opening_in_vain_lets_the_next_one_try() {
    let program = r#"
        local attempts = 0
        local p = make{ max = 1, open = function()
            attempts = attempts + 1
            time.sleep(5)
            if attempts == 1 then return nil, "refused" end
            if attempts == 2 then error("worse", 0) end
            return { number = attempts }
        end }
        local group = require "silly.sync.waitgroup".new()
        local function number() return p:take().number end
        for _ = 1, 3 do group:fork(function() say(pcall(number)) end) end
        group:wait()
        say(p:stat().open)
    "#;
    let output = with_pool(program);
    assert!(output[0].starts_with("false"), "{output:?}");
    assert_eq!(output[1..], ["false worse", "true 3", "1"]);
}

#[test]
fn the_old_the_idle_and_the_sick_are_closed() {
    let program = r#"
        local p = make{ idle = 20 }
        p:give(p:take("a"))
        while p:stat().open > 0 do time.sleep(5) end
        say("idle", p:stat().keys)
        p = make{ lifetime = 20 }
        local thing = p:take()
        time.sleep(30)
        p:give(thing)
        say("old", p:stat().open)
        p = make{ check = function(thing) return not thing.sick end }
        thing = p:take()
        thing.sick = true
        p:give(thing)
        say(p:take().number)
        p = make{ keys = 1 }
        thing = p:take("a")
        say(p:take("b"))
        p:give(thing)
        say(p:take("b").key)
        say(pcall(pool.new, {}))
    "#;
    let output = with_pool(program);
    let expected = [
        "close 1",
        "idle 0",
        "close 2",
        "old 0",
        "close 3",
        "4",
        "nil pool: too many keys",
        "close 5",
        "b",
    ];
    assert_eq!(output[..9], expected);
    assert!(output[9].contains("bad argument #1 to 'new' (open is missing)"), "{output:?}");
}
