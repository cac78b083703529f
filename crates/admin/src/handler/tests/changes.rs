//! Changes until the next reload: servers of upstreams, and the level of the log.

use super::*;
use serde_json::json;
use upstream::ServerChange;

const SERVERS: &str = "POST /v1/upstreams/catalog/servers";

#[test]
fn a_server_is_changed_until_the_next_reload() {
    let bench = Bench::new();
    let body = r#"{"server": "10.0.0.1:80", "drain": true, "weight": 7}"#;
    let changed = bench.send_request(SERVERS, &[], body);
    assert_eq!((changed.status, &changed.json()["until"]), (200, &json!("the next reload")));
    let change = ServerChange { drain: Some(true), weight: Some(7) };
    assert_eq!(*bench.server.changed.borrow(), [("10.0.0.1:80".to_owned(), change)]);
}

#[test]
fn a_wrong_change_is_named_and_changes_nothing() {
    let bench = Bench::new();
    for (line, body, status, part) in [
        (SERVERS, r#"{"server": "10.0.0.3:80", "drain": true}"#, 404, "did you mean \\\"10.0.0."),
        ("POST /v1/upstreams/katalog/servers", r#"{"server": "a", "drain": true}"#, 404, "catalog"),
        (SERVERS, r#"{"server": "10.0.0.1:80"}"#, 400, "neither"),
        (SERVERS, r#"{"drain": true}"#, 400, "no text \\\"server\\\""),
        (
            SERVERS,
            r#"{"server": "10.0.0.1:80", "drian": true}"#,
            400,
            "did you mean \\\"drain\\\"?",
        ),
        (SERVERS, r#"{"server": "10.0.0.1:80", "drain": 1}"#, 400, "true or false, not 1"),
        (SERVERS, r#"{"server": "10.0.0.1:80", "weight": 0}"#, 400, "1 to 1000, not 0"),
        (SERVERS, r#"{"server": "10.0.0.1:80", "weight": 1001}"#, 400, "not 1001"),
        (SERVERS, "[]", 400, "must be a JSON object"),
        (SERVERS, "{", 400, "not JSON"),
    ] {
        let response = bench.send_request(line, &[], body);
        assert_eq!(response.status, status, "{body}: {}", response.body);
        assert!(response.body.contains(part), "{body}: {}", response.body);
    }
    assert!(bench.server.changed.borrow().is_empty());
}

#[test]
fn the_level_of_the_log_changes() {
    let bench = Bench::new();
    let level = || bench.send_request("GET /v1/log-level", &[], "").json()["level"].clone();
    assert_eq!(level(), "info");
    let changed = bench.send_request("PUT /v1/log-level", &[], r#"{"level": "debug"}"#);
    assert_eq!((changed.status, level()), (200, json!("debug")));
    let wrong = bench.send_request("PUT /v1/log-level", &[], r#"{"level": "debgu"}"#);
    assert!(wrong.status == 400 && wrong.body.contains("did you mean"), "{}", wrong.body);
    let missing = bench.send_request("PUT /v1/log-level", &[], "{}");
    assert!(missing.status == 400 && missing.body.contains("no text"), "{}", missing.body);
    assert_eq!(level(), "debug");
    bench.send_request("PUT /v1/log-level", &[], r#"{"level": "info"}"#);
    assert_eq!(level(), "info");
}
