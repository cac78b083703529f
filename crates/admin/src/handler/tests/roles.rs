//! What each role may do.

use super::*;
use crate::limits::SUMMARY_MARKS;
use config::AdminRole::{All, Purge, Read, Write};
use telemetry::MarkKind;

fn status(bench: &Bench, token: &str, line: &str, body: &'static str) -> u16 {
    let bearer = format!("Bearer {token}");
    bench.send(request(line, &[("authorization", &bearer)], body)).status
}

#[test]
fn each_role_does_its_part_and_no_more() {
    let tokens = [(Read, "r-token"), (Purge, "p-token"), (Write, "w-token"), (All, "a-token")];
    let drain = r#"{"server": "10.0.0.1:80", "drain": true}"#;
    // In the order of the tokens.
    let expected: [(&str, &'static str, [u16; 4]); 14] = [
        ("GET /v1/routes", "", [200, 403, 200, 200]),
        ("GET /v1/nodes", "", [200, 403, 200, 200]),
        ("GET /v1/caches", "", [200, 200, 200, 200]),
        ("POST /v1/caches/pages/purge", r#"{"all": true}"#, [403, 200, 200, 200]),
        ("POST /v1/caches/pages/preview", r#"{"all": true}"#, [200, 200, 200, 200]),
        ("GET /v1/lua", "", [200, 403, 200, 200]),
        ("POST /v1/lua/restart", "", [403, 403, 404, 404]),
        ("GET /v1/upstreams/none/history", "", [404, 403, 404, 404]),
        ("POST /v1/upstreams/catalog/servers", drain, [403, 403, 200, 200]),
        ("POST /v1/reload", "", [403, 403, 202, 202]),
        ("POST /v1/config/rollback", r#"{"version": "v0"}"#, [403, 403, 403, 200]),
        ("GET /v1/session", "", [200, 200, 200, 200]),
        ("DELETE /v1/routes", "", [405, 405, 405, 405]),
        ("GET /v1/nonsense", "", [404, 404, 404, 404]),
    ];
    let bench = Bench::of(access(&tokens));
    for (line, body, expected) in expected {
        let got = tokens.map(|(_, token)| status(&bench, token, line, body));
        assert_eq!(got, expected, "{line}");
    }
    assert_eq!(status(&bench, "x-token", "GET /v1/routes", ""), 401);
    let purged = bench.server.purged.borrow().len();
    assert_eq!(purged, 3, "a refused request purges nothing");
}

#[test]
fn a_refusal_names_the_role() {
    let bench = Bench::of(access(&[(Read, "r-token")]));
    let refused = bench.send(request("POST /v1/drain", &[("authorization", "Bearer r-token")], ""));
    let problem = refused.json();
    assert!(problem["detail"].as_str().unwrap().contains("\"read\""), "{problem}");
    assert!(problem["advice"].as_str().unwrap().contains("admin.tokens"), "{problem}");
    assert_eq!(bench.server.state.get(), ServerState::Serving);
}

#[test]
fn metrics_with_a_token_are_for_roles_that_read() {
    let access = Access { metrics_open: false, ..access(&[(Read, "r-token"), (Purge, "p-token")]) };
    let bench = Bench::of(access);
    assert_eq!(status(&bench, "r-token", "GET /metrics", ""), 200);
    assert_eq!(status(&bench, "p-token", "GET /metrics", ""), 403);
}

#[test]
fn secrets_are_for_the_role_all() {
    let access = Access { config_secrets: true, ..access(&[(Write, "w-token"), (All, "a-token")]) };
    let bench = Bench::of(access);
    assert_eq!(status(&bench, "w-token", "GET /v1/config?secrets", ""), 403);
    assert_eq!(status(&bench, "a-token", "GET /v1/config?secrets", ""), 200);
}

#[test]
fn a_configuration_is_checked_without_being_used() {
    let bench = Bench::new();
    let yaml = [("content-type", "application/yaml")];
    let right = bench.send_request("POST /v1/config/check", &yaml, "workers: 2\n");
    assert_eq!((right.status, &right.json()["changes"][0]), (200, &"route \"a\" added".into()));
    let wrong = bench.send_request("POST /v1/config/check", &yaml, "wrong: 1\n");
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["line"]), (422, &1.into()));
    assert_eq!((bench.server.version.get(), &**bench.server.text.borrow()), (1, "workers: auto\n"));
}

#[test]
fn a_summary_has_the_numbers_of_all_routes() {
    let bench = Bench::new();
    bench.server.telemetry.worker(0).count_response(200);
    bench.server.telemetry.route(0, "shop").finished(200, 1_500);
    bench.server.telemetry.route(0, "cart").finished(200, 1_500);
    let counter =
        |family, labels: &[&str]| bench.server.telemetry.worker_counter(0, family, labels);
    counter(&families::CACHE_MISSES, &["pages", "stale"]).add(2);
    counter(&families::CACHE_MISSES, &["other", "stale"]).add(3);
    let summary = bench.send_request("GET /v1/summary", &[], "").json();
    assert_eq!((&summary["state"], &summary["responses"]["2xx"]), (&"serving".into(), &1.into()));
    let counts = summary["durations"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().filter_map(Json::as_u64).sum::<u64>(), 2);
    assert_eq!(summary["numbers"]["cache_misses"], 5);
    assert!(summary["numbers"]["rss_bytes"].as_i64().unwrap() > 0, "{summary}");
    let out = serde_json::json!([{
        "upstream": "catalog",
        "address": "10.0.0.2:80",
        "state": "ejected",
        "last_error": "connection refused",
    }]);
    assert_eq!(summary["servers"], serde_json::json!({ "all": 2, "healthy": 1, "out": out }));
}

#[test]
fn a_summary_has_the_latest_marks() {
    let bench = Bench::new();
    let marks = bench.server.telemetry.marks();
    for n in 0..SUMMARY_MARKS {
        marks.add(MarkKind::Bad, &format!("server {n} is ejected"));
    }
    marks.add(MarkKind::Good, "a server is back");
    marks.add(MarkKind::Good, "a server is back");
    let summary = bench.send_request("GET /v1/summary", &[], "").json();
    let shown = summary["marks"].as_array().unwrap();
    let (first, latest) = (&shown[0], &shown[SUMMARY_MARKS - 1]);
    assert_eq!((shown.len(), &first["text"]), (SUMMARY_MARKS, &"server 1 is ejected".into()));
    assert_eq!((&first["kind"], &latest["kind"]), (&"bad".into(), &"good".into()));
    assert_eq!((&latest["text"], &latest["times"]), (&"a server is back".into(), &2.into()));
}
