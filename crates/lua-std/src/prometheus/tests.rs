//! The numbers of programs, as text.

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
        say(prometheus.gather())
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
fn own_registries_and_errors() {
    let program = r#"
        local registry = prometheus.registry()
        registry:counter("a"):inc()
        registry:histogram("h", "", { 1 })
        local text = registry.text()
        say(#text > 50, prometheus.gather(registry) == text, #prometheus.gather())
        say(pcall(registry.gauge, registry, "a"))
        say(pcall(prometheus.counter, "tidegate_a"))
        local labelled = prometheus.counter("b", "", { "x" })
        say(pcall(labelled.inc, labelled))
        say(pcall(labelled.labels, labelled))
        say(pcall(labelled.add, labelled:labels(1), -1))
        local again = prometheus.counter("b", "", { "x" })
        say(again:labels("1"):get(), labelled:labels(1) == labelled:labels(1))
    "#;
    let output = with_metrics(program);
    assert_eq!(output[0], "true true 0");
    for (output, expected) in output[1..6].iter().zip([
        "'a' is already declared differently",
        "'tidegate_a' has a prefix reserved for the server's metrics",
        "'b' has labels; which ones?",
        "'b' has 1 labels, got 0",
        "a counter never falls",
    ]) {
        assert!(output.starts_with("false") && output.contains(expected), "{output}");
    }
    assert_eq!(output[6], "0.0 true");
}

#[test]
fn label_sets_are_bounded() {
    let program = r#"
        local metric = prometheus.counter("c", "", { "x" })
        for n = 1, 5000 do metric:labels(n):inc() end
        local text = prometheus.gather()
        say(text:match('c{x="other"} (%d+)'), select(2, text:gsub("\n", "")))
    "#;
    assert_eq!(with_metrics(program), ["904 4099"]);
}
