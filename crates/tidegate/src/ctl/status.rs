//! The output of `ctl status`: tables, from the JSON of the admin API.

use serde_json::Value;

use crate::output::columns;

/// Formats the responses of `/v1/status`, `/v1/workers`, `/v1/upstreams` and `/v1/apps`.
pub(crate) fn overview(status: &Value, workers: &Value, upstreams: &Value, apps: &Value) -> String {
    let mut out = format!(
        "tidegate {} is {} as process {} for {}\n",
        text(status, "build").trim_start_matches("tidegate "),
        text(status, "state"),
        text(status, "pid"),
        span(status["uptime_s"].as_u64().unwrap_or(0)),
    );
    out.push_str(&format!("configuration {}{}\n", text(status, "config_version"), reload(status)));
    section(&mut out, listeners(status));
    section(&mut out, worker_rows(workers));
    section(&mut out, server_rows(upstreams));
    section(&mut out, app_rows(apps));
    for problem in list(status, "troubles").filter_map(Value::as_str) {
        out.push_str(&format!("\n{problem}\n"));
    }
    out
}

/// Formats a table with headings; nothing without rows.
fn section<const N: usize>(out: &mut String, rows: Vec<[String; N]>) {
    if rows.len() > 1 {
        out.push('\n');
        out.push_str(&columns(&rows, 0));
    }
}

pub(super) fn heads<const N: usize>(heads: [&str; N]) -> Vec<[String; N]> {
    vec![heads.map(str::to_owned)]
}

fn reload(status: &Value) -> String {
    let last = &status["last_reload"];
    match (last["ok"].as_bool(), last["errors"].as_array()) {
        (Some(true), _) => format!(", reloaded at {}", text(last, "at")),
        (Some(false), Some(errors)) => {
            let lines = errors.iter().filter_map(Value::as_str);
            let list: String = lines.map(|error| format!("\n  {error}")).collect();
            format!("; the reload at {} was rejected:{list}", text(last, "at"))
        }
        _ => String::new(),
    }
}

fn listeners(status: &Value) -> Vec<[String; 2]> {
    let mut rows = heads(["LISTENER", "ADDRESS"]);
    rows.extend(list(status, "listeners").map(|row| [text(row, "name"), text(row, "address")]));
    rows
}

fn worker_rows(workers: &Value) -> Vec<[String; 9]> {
    let mut rows =
        heads(["WORKER", "CONNECTIONS", "IDLE", "IN FLIGHT", "2xx", "3xx", "4xx", "5xx", "CORE"]);
    rows.extend(list(workers, "workers").map(|row| {
        let responses = &row["responses"];
        [
            text(row, "index"),
            text(&row["connections"], "active"),
            text(&row["connections"], "idle"),
            text(row, "in_flight"),
            text(responses, "2xx"),
            text(responses, "3xx"),
            text(responses, "4xx"),
            text(responses, "5xx"),
            text(row, "cpu"),
        ]
    }));
    rows
}

/// Formats the response of `/v1/upstreams` as a table, of one upstream or of all.
pub(crate) fn upstreams_table(upstreams: &Value) -> String {
    match server_rows(upstreams) {
        rows if rows.len() > 1 => columns(&rows, 0),
        _ => "the configuration has no upstreams\n".to_owned(),
    }
}

/// Formats the response of `/v1/routes` as a table.
pub(crate) fn routes_table(routes: &Value) -> String {
    let mut rows = heads([
        "ROUTE",
        "MATCH",
        "FILTERS",
        "HANDLER",
        "IN FLIGHT",
        "2xx",
        "3xx",
        "4xx",
        "5xx",
        "P50",
        "P99",
    ]);
    rows.extend(list(routes, "routes").map(|route| {
        let filters: Vec<&str> = list(route, "filters").filter_map(Value::as_str).collect();
        let count = |class| route["requests"][class].as_u64().unwrap_or(0).to_string();
        let latency = &route["latency_below_us"];
        [
            text(route, "name"),
            text(route, "match"),
            if filters.is_empty() { "-".to_owned() } else { filters.join(", ") },
            text(route, "handler"),
            text(route, "in_flight"),
            count("2xx"),
            count("3xx"),
            count("4xx"),
            count("5xx"),
            micros(&latency["p50"]),
            micros(&latency["p99"]),
        ]
    }));
    columns(&rows, 0)
}

/// Formats microseconds with about three digits.
pub(super) fn micros(value: &Value) -> String {
    match value.as_u64() {
        None => "-".to_owned(),
        Some(us @ 0..1_000) => format!("{us}us"),
        Some(us @ 1_000..1_000_000) => format!("{:.1}ms", us as f64 / 1e3),
        Some(us) => format!("{:.2}s", us as f64 / 1e6),
    }
}

pub(super) const SERVER_HEADS: [&str; 8] =
    ["UPSTREAM", "SERVER", "STATE", "WEIGHT", "IN FLIGHT", "CONNECTIONS", "LATENCY", "LAST ERROR"];

/// The servers of all upstreams.
pub(super) fn servers(upstreams: &Value) -> Vec<[String; 8]> {
    let mut rows = Vec::new();
    for upstream in list(upstreams, "upstreams") {
        let panic = upstream["panic"] == true;
        for server in list(upstream, "servers") {
            let backup = if server["backup"] == true { " (backup)" } else { "" };
            let all = if panic { " (all are used)" } else { "" };
            let changed = if server["changed"] == true { " (until the next reload)" } else { "" };
            rows.push([
                text(upstream, "name"),
                text(server, "address"),
                format!("{}{backup}{all}{changed}", text(server, "state")),
                text(server, "weight"),
                text(server, "in_flight"),
                text(server, "connections"),
                micros(&server["latency_us"]),
                text(server, "last_error"),
            ]);
        }
    }
    rows
}

fn server_rows(upstreams: &Value) -> Vec<[String; 8]> {
    [heads(SERVER_HEADS), servers(upstreams)].concat()
}

/// The processes of all applications, with headings.
pub(super) fn app_rows(apps: &Value) -> Vec<[String; 8]> {
    let mut rows =
        heads(["APP", "WORKER", "STATE", "PROCESS", "REQUESTS", "IN FLIGHT", "MEMORY", "RESTARTS"]);
    for app in list(apps, "apps") {
        let preloader = &app["preloader"];
        if preloader.is_object() {
            rows.push([
                text(app, "name"),
                "preloader".to_owned(),
                text(preloader, "state"),
                text(preloader, "process"),
                "-".to_owned(),
                "-".to_owned(),
                mebibytes(preloader),
                "-".to_owned(),
            ]);
        }
        for worker in list(app, "workers") {
            let restarts = worker["restarts"].as_object();
            let restarts: u64 =
                restarts.into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
            rows.push([
                text(app, "name"),
                text(worker, "index"),
                text(worker, "state"),
                text(worker, "process"),
                text(worker, "requests"),
                text(worker, "in_flight"),
                mebibytes(worker),
                restarts.to_string(),
            ]);
        }
    }
    rows
}

/// The memory of a process.
fn mebibytes(process: &Value) -> String {
    format!("{} MiB", process["rss_bytes"].as_u64().unwrap_or(0) >> 20)
}

pub(super) fn list<'v>(value: &'v Value, member: &str) -> impl Iterator<Item = &'v Value> {
    value[member].as_array().into_iter().flatten()
}

/// Formats a member, or `-` if it is missing, as it may be in another version of the server.
pub(super) fn text(value: &Value, member: &str) -> String {
    match &value[member] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match seconds {
        86_400.. => format!("{days}d {hours}h"),
        3_600.. => format!("{hours}h {minutes}m"),
        60.. => format!("{minutes}m {}s", seconds % 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{overview, routes_table, span, upstreams_table};

    #[test]
    fn a_server_at_a_glance() {
        let status = json!({
            "state": "serving", "build": "0.1.0", "pid": 7, "uptime_s": 61, "config_version": "ab",
            "listeners": [{ "name": "web", "address": "127.0.0.1:8080" }],
            "last_reload": { "ok": false, "at": "now", "errors": ["a.yaml:1:2: odd"] },
        });
        let workers = json!({ "workers": [{
            "index": 0, "cpu": null, "in_flight": 1, "connections": { "active": 3, "idle": 2 },
            "responses": { "2xx": 5, "3xx": 0, "4xx": 1, "5xx": 0 },
        }] });
        let upstreams = json!({ "upstreams": [{ "name": "app", "panic": false, "servers": [
            { "address": "127.0.0.1:1", "state": "unhealthy", "backup": true, "weight": 1,
              "in_flight": 0, "connections": 0, "last_error": "refused" },
        ] }] });
        let preloader = json!({ "state": "ready", "process": 8, "rss_bytes": 1 << 26 });
        let apps = json!({ "apps": [{ "name": "shop", "preloader": preloader, "workers": [
            { "index": 0, "state": "ready", "process": 9, "requests": 4, "in_flight": 1,
              "rss_bytes": 52428800, "restarts": { "exit": 2, "reload": 1 } },
        ] }] });
        let page = overview(&status, &workers, &upstreams, &apps);
        let rows = [
            "shop  preloader  ready  8        -         -          64 MiB  -\n",
            "shop  0          ready  9        4         1          50 MiB  3\n",
        ];
        assert!(rows.iter().all(|row| page.contains(row)), "{page}");
        assert!(page.starts_with("tidegate 0.1.0 is serving as process 7 for 1m 1s\n"), "{page}");
        assert!(page.contains("was rejected:\n  a.yaml:1:2: odd\n"), "{page}");
        assert!(page.contains("web       127.0.0.1:8080\n"), "{page}");
        assert!(page.contains("\n0       3            2     1          5    0    1    0    -\n"));
        assert!(page.contains("unhealthy (backup)") && page.contains("refused\n"), "{page}");
    }

    #[test]
    fn routes_and_upstreams_at_a_glance() {
        let routes = json!({ "routes": [{
            "name": "shop", "match": "path /a", "filters": ["cors", "cache"],
            "handler": "upstream app", "in_flight": 2, "requests": { "2xx": 7, "5xx": 1 },
            "latency_below_us": { "p50": 900, "p99": 12_300 },
        }, { "name": "rest", "match": "anything", "filters": [], "handler": "respond 200" }] });
        let page = routes_table(&routes);
        let row =
            "shop   path /a   cors, cache  upstream app  2          7    0    0    1    900us";
        assert!(page.contains(&format!("{row}  12.3ms\n")), "{page}");
        assert!(
            page.contains("rest   anything  -            respond 200   -          0 "),
            "{page}"
        );
        let upstreams = json!({ "upstreams": [{ "name": "app", "servers": [
            { "address": "127.0.0.1:1", "state": "draining", "changed": true, "weight": 1,
              "in_flight": 0, "connections": 0, "latency_us": 1_250_000 },
        ] }] });
        let page = upstreams_table(&upstreams);
        assert!(
            page.contains("draining (until the next reload)") && page.contains("1.25s"),
            "{page}"
        );
        assert_eq!(upstreams_table(&json!({})), "the configuration has no upstreams\n");
    }

    #[test]
    fn what_another_version_does_not_say_is_left_open() {
        let page = overview(&json!({}), &json!({}), &json!({}), &json!({}));
        assert_eq!(page, "tidegate - is - as process - for 0s\nconfiguration -\n");
    }

    #[test]
    fn spans() {
        let shown = [5, 65, 3_700, 90_000].map(span);
        assert_eq!(shown, ["5s", "1m 5s", "1h 1m", "1d 1h"]);
    }
}
