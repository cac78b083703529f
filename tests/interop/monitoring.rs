//! Prometheus: what its tools say of our metrics, and of the alerts and the dashboard of
//! `examples/monitoring`, which name only metrics and labels that exist.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scenarios::{Connection, Tidegate, Upstream, eventually_some, tidegate_binary};
use serde_json::Value;
use tempfile::TempDir;

use crate::tools::{has, run};

/// Labels that Prometheus adds, or that belong to a histogram.
const GIVEN: [&str; 3] = ["instance", "job", "le"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/monitoring")
}

/// The labels of each metric, as the reference of metrics says.
fn metrics() -> HashMap<String, Vec<String>> {
    let output = Command::new(tidegate_binary()).args(["schema", "--markdown=metrics"]).output();
    let text = String::from_utf8(output.expect("tidegate starts").stdout).expect("text");
    let mut metrics = HashMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let [_, name, kind, _, labels, ..] = line.split('|').collect::<Vec<_>>()[..] else {
            continue;
        };
        let word = |text: &str| text.trim().trim_matches('`').to_owned();
        let labels: Vec<String> =
            labels.split(',').map(word).filter(|label| !label.is_empty()).collect();
        let name = word(name);
        if kind.trim() == "histogram" {
            for part in ["bucket", "sum", "count"] {
                metrics.insert(format!("{name}_{part}"), labels.clone());
            }
        }
        metrics.insert(name, labels);
    }
    assert!(metrics.len() > 100, "{text}");
    metrics
}

/// The words of an expression, each with what stands in braces or brackets behind it.
fn words(expression: &str) -> Vec<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find(is_word) {
        rest = &rest[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        let closing = match behind.chars().next() {
            Some('{') => behind.find('}'),
            Some('(') if word == "by" => behind.find(')'),
            _ => None,
        };
        let inside = closing.map_or("", |closing| &behind[1..closing]);
        words.push((word, inside));
        // A word in quotes is not a metric: what is in braces is passed over.
        rest = closing.map_or(behind, |closing| &behind[closing..]);
    }
    words
}

/// Fails if an expression names a metric that does not exist, or a label that none of its metrics
/// has.
fn check_names(expression: &str, metrics: &HashMap<String, Vec<String>>) {
    let words = words(expression);
    let mut known: Vec<&str> = GIVEN.to_vec();
    for (word, matchers) in &words {
        if !word.starts_with("tidegate_") && !word.starts_with("process_") {
            continue;
        }
        let labels = metrics.get(*word).unwrap_or_else(|| panic!("{word} in {expression}"));
        known.extend(labels.iter().map(String::as_str));
        for matcher in matchers.split(',').filter(|matcher| !matcher.trim().is_empty()) {
            let name = matcher.split(['=', '!']).next().unwrap_or_default().trim();
            let has = GIVEN.contains(&name) || labels.iter().any(|label| label == name);
            assert!(has, "{word} has no label {name}: {expression}");
        }
    }
    for (_, labels) in words.iter().filter(|(word, _)| *word == "by") {
        for label in labels.split(',').map(str::trim) {
            assert!(known.contains(&label), "no metric has the label {label}: {expression}");
        }
    }
}

/// The values of `expr` below a value.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("expr").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| expressions(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn the_alerts_fire_when_they_should() {
    if !has("promtool") {
        return;
    }
    run("promtool", &examples(), &["check", "config", "prometheus.yaml"]);
    run("promtool", &examples(), &["test", "rules", "alerts_test.yaml"]);
    let metrics = metrics();
    let text = fs::read_to_string(examples().join("alerts.yaml")).expect("the alerts");
    let tests = fs::read_to_string(examples().join("alerts_test.yaml")).expect("their tests");
    let mut alerts = text.split("- alert: ").skip(1);
    assert!(alerts.clone().count() > 20);
    assert!(alerts.all(|alert| {
        let name = alert.lines().next().unwrap_or_default();
        let (_, expression) = alert.split_once("expr:").expect("an expression");
        let end = ["for:", "labels:"].iter().filter_map(|key| expression.find(key)).min();
        check_names(&expression[..end.expect("labels")], &metrics);
        // Once on a healthy server, and once where it fires.
        tests.matches(&format!("alertname: {name}\n")).count() == 1
            && tests.contains(&format!("alertname: {name},"))
    }));
}

#[test]
fn the_dashboard_names_metrics_that_exist() {
    let text = fs::read(examples().join("grafana.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_slice(&text).expect("JSON");
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 40);
    let metrics = metrics();
    found.iter().for_each(|expression| check_names(expression, &metrics));
    if !has("promtool") {
        return;
    }
    let rule = |(at, expression): (usize, &String)| {
        let expression = expression.replace("$__rate_interval", "1m");
        format!("  - {{ record: 'panel:{at}', expr: '{expression}' }}\n")
    };
    let rules: String = found.iter().enumerate().map(rule).collect();
    let directory = TempDir::new().expect("a temporary directory");
    let rules = format!("groups:\n- name: panels\n  rules:\n{rules}");
    fs::write(directory.path().join("panels.yaml"), rules).expect("a file");
    run("promtool", directory.path(), &["check", "rules", "panels.yaml"]);
}

#[test]
fn wrong_names_are_found() {
    let metrics = metrics();
    let good = "sum by (route, le) (rate(tidegate_request_duration_seconds_bucket{job=\"a\"}[5m]))";
    check_names(good, &metrics);
    for wrong in [
        "tidegate_request_duration_seconds_buckets",
        "tidegate_requests_total{cache=\"a\"}",
        "sum by (cache) (tidegate_requests_total)",
    ] {
        assert!(std::panic::catch_unwind(|| check_names(wrong, &metrics)).is_err(), "{wrong}");
    }
}

#[test]
fn promtool_has_no_complaint_about_our_metrics() {
    if !has("promtool") {
        return;
    }
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n");
            peer.send("content-length: 2\r\n\r\nok");
        }
    });
    let server = Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", metrics: open, token: s3cret-token }}
upstreams: {{ origin: {{ servers: ["{}"] }} }}
caches: {{ pages: {{ memory: 4MiB }} }}
routes:
  - match: {{ path: "/{{*rest}}" }}
    filters: [{{ rate_limit: {{ rate: 2/m }} }}, {{ cache: pages }}]
    handler: {{ upstream: origin }}"#,
        upstream.address()
    ));
    for _ in 0..4 {
        let mut client = Connection::to(server.address("web"));
        client.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        client.read_to_end();
    }
    let names = ["requests_total", "rate_limited_total", "cache_hits_total", "upstream_requests"];
    let scraped = eventually_some("the requests are counted", || {
        let mut client = Connection::to(server.address("admin"));
        client.send("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let text = client.read_response().text();
        names.iter().all(|name| text.contains(&format!("\ntidegate_{name}"))).then_some(text)
    });
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("metrics"), scraped).expect("a file");
    run("sh", directory.path(), &["-c", "promtool check metrics < metrics"]);
}
