//! The metrics of programs, in the text format.

use crate::testing::output;

fn with_metrics(program: &str) -> Vec<String> {
    let head = "local silly, prometheus = require 'silly', require 'silly.metrics.prometheus'";
    output(&format!("{head}\n{program}\nsilly.exit()"))
}

#[test]
fn counted_values_are_gathered() {
    let program = r#"
        local requests = prometheus.counter("requests_total", "Requests.", { "method", "path" })
        requests:labels("GET", "/a\"b\\c\nd"):inc()
        requests:labels("GET", "/"):add(2.5)
        requests:labels("GET", "/"):inc()
        local open = prometheus.gauge("open", "Open.")
        open:set(5) open:inc() open:dec() open:add(2) open:sub(4)
        prometheus.register(function() open:add(100) end)
        local took = prometheus.histogram("took", nil, { "client" }, { 1, 2 })
        for _, n in ipairs{ 0.5, 1, 1.5, 9 } do took:labels("me"):observe(n) end
        say((prometheus.gather():match("^(.-)# HELP silly_")))
        say(open:get())
    "#;
    let expected = r#"# HELP open Open.
# TYPE open gauge
open 103
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{method="GET",path="/"} 3.5
requests_total{method="GET",path="/a\"b\\c\nd"} 1
# HELP took 
# TYPE took histogram
took_bucket{client="me",le="1"} 2
took_bucket{client="me",le="2"} 3
took_bucket{client="me",le="+Inf"} 4
took_sum{client="me"} 12
took_count{client="me"} 4
"#;
    assert_eq!(with_metrics(program), [expected, "103.0"]);
}

#[test]
fn registries_collect_metrics_and_collectors() {
    let program = r#"
        local counter, gauge = require "silly.metrics.counter", require "silly.metrics.gauge"
        local histogram, labels = require "silly.metrics.histogram", require "silly.metrics.labels"
        local registry = require "silly.metrics.registry".new()
        local jobs = counter("jobs_total", "Jobs \\ in\nall.", { "queue", "state" })
        jobs:labels("a", 'q"\\\n'):inc()
        jobs:labels("a", 'q"\\\n'):add(2.5)
        local level = gauge("level", "Level.")
        level:set(5) level:inc() level:dec() level:add(2) level:sub(4)
        local took = histogram("took", nil, nil, { 2, 1 })
        for _, n in ipairs{ 0.5, 1, 1.5, 9 } do took:observe(n) end
        local plain = { name = "Plain" }
        function plain:collect(list)
            list[#list + 1] = { name = "plain", help = "Plain.", kind = "gauge", value = 1 / 0 }
        end
        local shared = prometheus.histogram("shared", "Shared.", { "k" }, { 1 })
        shared:labels("v"):observe(0.5)
        local all = { jobs, level, took, plain, shared, jobs }
        for _, one in ipairs(all) do registry:register(one) end
        say(prometheus.gather(registry))
        registry:unregister(took)
        registry:unregister(took)
        say(#registry:collect(), registry:collect()[2].value)
        say(labels.key({}, { "a" }, { 1 }))
        say(pcall(counter, "no name"))
        say(pcall(jobs.labels, jobs, "a"))
        say(pcall(level.labels, level, "a"))
        say(pcall(jobs.add, jobs:labels(1, 2), -1))
        say(pcall(registry.register, registry, {}))
        for n = 1, 5000 do jobs:labels("n", n):inc() end
        say(jobs:labels("n", 5000).value)
    "#;
    let expected = r#"# HELP jobs_total Jobs \\ in\nall.
# TYPE jobs_total counter
jobs_total{queue="a",state="q\"\\\n"} 3.5
# HELP level Level.
# TYPE level gauge
level 3
# HELP took 
# TYPE took histogram
took_bucket{le="1"} 2
took_bucket{le="2"} 3
took_bucket{le="+Inf"} 4
took_sum 12
took_count 4
# HELP plain Plain.
# TYPE plain gauge
plain +Inf
# HELP shared Shared.
# TYPE shared histogram
shared_bucket{k="v",le="1"} 1
shared_bucket{k="v",le="+Inf"} 1
shared_sum{k="v"} 0.5
shared_count{k="v"} 1
"#;
    let output = with_metrics(program);
    assert_eq!(output[..3], [expected, "4 3", "a=\"1\""]);
    for (output, expected) in output[3..8].iter().zip([
        "'no name' is not the name of a metric",
        "no value for the label 'state'",
        "'level' has no labels",
        "a counter never falls",
        "an object with collect, or a function, expected",
    ]) {
        assert!(output.starts_with("false") && output.contains(expected), "{output}");
    }
    // The label sets beyond the limit.
    assert_eq!(output[8], "906");
}

#[test]
fn the_default_registry_has_collectors_of_the_process() {
    let program = r#"
        local tcp, time = require "silly.net.tcp", require "silly.time"
        local listener = tcp.listen("127.0.0.1:0", function(conn) conn:read(1) end)
        local conn = tcp.connect(listener.addr)
        time.after(100000, print)
        time.sleep(1)
        local text = prometheus.gather()
        local function value(name) return tonumber(text:match("\n" .. name .. " (%S+)\n")) end
        say(value "silly_tcp_connections", value "silly_timer_pending")
        say(value "silly_tasks_runnable", value "silly_timer_scheduled_total" >= 2)
        say(value "process_resident_memory_bytes" > 1000000)
        say(value "process_cpu_seconds_user" >= 0, value "process_open_fds" > 2)
        local jobs = require "silly.metrics.gauge"("jobs", "Jobs.")
        local collector = { collect = function(_, list) jobs:set(7) list[#list + 1] = jobs end }
        prometheus.registry():register(collector)
        say(prometheus.gather():match("\njobs (%d)\n"))
        prometheus.registry():unregister(collector)
        say(prometheus.gather():find("jobs"))
        say(#require "silly.metrics.collector.jemalloc".new().name)
    "#;
    assert_eq!(with_metrics(program), ["2 1", "0 true", "true", "true true", "7", "nil", "8"]);
}

#[test]
fn errors_of_shared_metrics() {
    let program = r#"
        prometheus.counter("a")
        say(pcall(prometheus.gauge, "a"))
        say(pcall(prometheus.counter, "tidegate_a"))
        local labelled = prometheus.counter("b", "", { "x" })
        say(pcall(labelled.inc, labelled))
        say(pcall(labelled.labels, labelled))
        say(pcall(labelled.add, labelled:labels(1), -1))
        local again = prometheus.counter("b", "", { "x" })
        say(again:labels("1"):get(), labelled:labels(1) == labelled:labels(1))
    "#;
    let output = with_metrics(program);
    for (output, expected) in output[..5].iter().zip([
        "'a' is already declared differently",
        "'tidegate_a' has a prefix reserved for the server's metrics",
        "'b' has labels: use labels(…)",
        "'b' has 1 labels, got 0",
        "a counter never falls",
    ]) {
        assert!(output.starts_with("false") && output.contains(expected), "{output}");
    }
    assert_eq!(output[5], "0.0 true");
}

#[test]
fn label_sets_are_bounded() {
    let program = r#"
        local metric = prometheus.counter("c", "", { "x" })
        for n = 1, 5000 do metric:labels(n):inc() end
        local text = prometheus.gather()
        say(text:match('c{x="other"} (%d+)'), select(2, text:gsub("\nc{", "")))
    "#;
    assert_eq!(with_metrics(program), ["904 4097"]);
}
