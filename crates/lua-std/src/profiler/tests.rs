//! Profiles and time lines of programs, decoded again by our own readers.

use crate::testing::{output, output_within};

fn whole(text: &str) -> String {
    format!(
        r#"
        local task, time = require "silly.task", require "silly.time"
        local profiler = require "silly.profiler"
        {text}
        require "silly".exit()
        "#
    )
}

fn program(text: &str) -> Vec<String> {
    output(&whole(text))
}

/// A task that uses CPU time in `hot`, called by `outer`, until `done`.
const BUSY: &str = r#"
    local done
    local function hot()
        local sum = 0
        for n = 1, 20000 do sum = sum + n % 7 end
        return sum
    end
    local function outer() local sum = hot() return sum end
    task.fork(function()
        while not done do
            outer()
            time.sleep(0)
        end
    end)
    --- A profile with enough samples, one of them in `hot`, however busy the machine is.
    local function recorded()
        local samples, profile, is_hot
        repeat
            profile = assert(profiler.cpu(30, 1000))
            samples = profile:samples()
            is_hot = profile:folded():find "outer %(program:%d+%);hot %(program:%d+%) %d"
        until samples >= 3 and is_hot
        return profile, samples
    end
"#;

#[test]
fn cpu_time_counts_for_the_function_that_uses_it() {
    let lines = program(&format!(
        r#"{BUSY}
        local profile, samples = recorded()
        done = true
        local in_hot, weight = 0, 0
        for stack, ns in profile:folded():gmatch "([^\n]+) (%d+)\n" do
            if stack:find "outer %(program:%d+%);hot %(program:%d+%)$" then in_hot = in_hot + ns end
            weight = weight + ns
        end
        -- A sample is a millisecond of CPU time.
        say(weight >= samples * 1000000, in_hot > 0, in_hot <= weight)
        local svg = profile:flamegraph()
        local has_hot = svg:find("hot (program:", 1, true) ~= nil
        say(svg:match "^<svg " ~= nil, has_hot, svg:match "</svg>\n$" ~= nil)
        "#
    ));
    assert_eq!(lines, ["true true true", "true true true"]);
}

#[test]
fn allocated_bytes_count_for_the_function_that_allocates() {
    let lines = program(
        r#"
        local kept = {}
        local function fill()
            for n = 1, 64 do kept[n] = ("x"):rep(64 * 1024) .. n end
        end
        -- Runs once the recording waits.
        task.fork(function() fill() end)
        local profile = assert(profiler.allocations(30))
        local bytes = profile:folded():match "fill %(program:%d+%) (%d+)\n"
        -- The text, and its copy with the number.
        say(math.tointeger(bytes) >= 64 * 64 * 1024, math.tointeger(bytes) < 16 * 64 * 64 * 1024)
        local before = profile:samples()
        fill()
        say(before > 0, profile:samples() == before)
        -- Nothing is counted after the end.
        profile = assert(profiler.allocations(1))
        say(profile:folded():find "fill" == nil)
        "#,
    );
    assert_eq!(lines, ["true true", "true true", "true"]);
}

#[test]
fn turns_with_a_budget_are_profiled_and_keep_it() {
    let lines = output_within(
        1_000_000,
        &whole(&format!(
            r#"{BUSY}
            local profile = recorded()
            done = true
            say(profile:folded():find("hot (program:", 1, true) ~= nil)
            -- Each round is a sample, which begins the count of instructions again.
            task.fork(function()
                local size = 0
                while true do size = #(("x"):rep(64 * 1024) .. size) end
            end)
            profile = assert(profiler.allocations(30))
            say(profile:samples() > 100)
            "#
        )),
    );
    assert_eq!(lines, ["true", "true"]);
}

#[test]
fn pprof_has_the_stacks() {
    let lines = program(&format!(
        r#"{BUSY}
        local profile, samples = recorded()
        done = true
        local protoc, pb = require "protoc", require "pb"
        assert(protoc:load [[
            syntax = "proto3";
            message ValueType {{ int64 type = 1; int64 unit = 2; }}
            message Sample {{ repeated uint64 location_id = 1; repeated int64 value = 2; }}
            message Line {{ uint64 function_id = 1; int64 line = 2; }}
            message Location {{ uint64 id = 1; repeated Line line = 4; }}
            message Function {{
                uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4;
                int64 start_line = 5;
            }}
            message Profile {{
                repeated ValueType sample_type = 1; repeated Sample sample = 2;
                repeated Location location = 4; repeated Function function = 5;
                repeated string string_table = 6; int64 time_nanos = 9;
                int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12;
            }}
        ]])
        local data = assert(require "silly.compress.gzip".decompress(profile:pprof()))
        local decoded = assert(pb.decode("Profile", data))
        local function text(index) return decoded.string_table[index + 1] end
        local count, cpu = table.unpack(decoded.sample_type)
        say(text(0) == "", text(count.type), text(cpu.type), text(cpu.unit))
        say(decoded.period, decoded.time_nanos > 0, decoded.duration_nanos >= 30000000)
        local functions, locations, counted, found = {{}}, {{}}, 0, false
        for _, one in ipairs(decoded["function"]) do functions[one.id] = one end
        for _, one in ipairs(decoded.location) do locations[one.id] = one end
        for _, sample in ipairs(decoded.sample) do
            counted = counted + sample.value[1]
            local line = locations[sample.location_id[1]].line[1]
            local leaf = functions[line.function_id]
            found = found or text(leaf.name) == "hot" and line.line > leaf.start_line
        end
        say(counted == samples, found)
        "#
    ));
    assert_eq!(lines, ["true samples cpu nanoseconds", "1000000 true true", "true true"]);
}

#[test]
fn one_profile_at_a_time_and_none_of_what_ended() {
    let directory = tempfile::tempdir().unwrap();
    let lines = program(&format!(
        r#"
        local first = task.fork(function() say(profiler.cpu(10000)) end)
        time.sleep(1)
        say(profiler.allocations(1))
        -- Its task is closed: the recording has ended.
        cancel(first)
        local profile = assert(profiler.allocations(1))
        say(profiler.write(profile, "{0}/a.png"))
        for _, name in ipairs {{ "a.pb.gz", "a.svg", "a.folded" }} do
            assert(profiler.write(profile, "{0}/" .. name))
        end
        say(profiler.write(profile, "{0}/none/a.svg"))
        say(pcall(profiler.cpu, 0))
        say(pcall(profiler.cpu, 10, 5000))
        "#,
        directory.path().display()
    ));
    assert_eq!(lines[0], "nil another profile is being recorded");
    assert!(lines[1].starts_with("nil the name of a profile ends in .pb.gz, .svg or .folded: "));
    assert!(lines[2].contains("No such file or directory"), "{lines:?}");
    assert!(lines[3].contains("bad argument #1 to 'cpu' (a number from 1 to 600000 expected)"));
    assert!(lines[4].contains("bad argument #2 to 'cpu' (a number from 1 to 1000 expected)"));
    let graph = std::fs::read_to_string(directory.path().join("a.svg")).unwrap();
    assert!(graph.starts_with("<svg "));
    assert_eq!(std::fs::read(directory.path().join("a.pb.gz")).unwrap()[..2], [0x1f, 0x8b]);
}

#[test]
fn a_time_line_has_what_each_coroutine_ran() {
    let lines = program(
        r#"
        local json, channel = require "silly.encoding.json", require "silly.sync.channel"
        local text = "local gate, back = ...\nfor n = 1, 3 do\ngate:pop()\nback:push(n)\nend"
        local gate, back = channel.new(), channel.new()
        task.fork(assert(load(text, "@gate.lua")), gate, back)
        local other = task.fork(function() profiler.timeline(10000) end)
        time.sleep(1)
        say(profiler.timeline(1))
        cancel(other)
        task.fork(function()
            for n = 1, 3 do
                gate:push(n)
                assert(back:pop() == n)
            end
        end)
        local decoded = assert(json.decode(assert(profiler.timeline(20))))
        local resumed, last, is_ordered = 0, 0, true
        for _, event in ipairs(decoded.traceEvents) do
            if event.ph == "X" then
                is_ordered = is_ordered and event.ts >= last and event.dur >= 0
                last = event.ts + event.dur - 0.002
            end
            if event.name == "gate.lua:3" then resumed = resumed + 1 end
        end
        say(resumed, is_ordered, decoded.traceEvents[#decoded.traceEvents].args.left_out)
        "#,
    );
    assert_eq!(lines, ["nil another time line is being recorded", "3 true 0"]);
}
