//! Rejections by filters are counted: without a key, with a wrong one, above the rate.

use scenarios::Tidegate;

const CONFIG: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { path: "/keyed" }
    filters: [{ key_auth: { keys: [{ consumer: me, key: a-key-of-good-length }] } }]
    handler: { respond: { headers: { x-consumer: "{consumer}" } } }
  - match: { path: "/often" }
    filters: [{ rate_limit: { rate: 1/h, burst: 2, name: often } }]
    handler: { respond: {} }
"#;

#[test]
fn requests_without_a_key_and_with_a_wrong_one() {
    let server = Tidegate::start(CONFIG);
    let ask = |key: &str| {
        let request = format!("GET /keyed HTTP/1.1\r\nhost: a\r\n{key}\r\n");
        server.exchange("web", request)
    };
    let right = ask("x-api-key: a-key-of-good-length\r\n");
    assert_eq!((right.status, right.header("x-consumer")), (200, Some("me")));
    for key in ["", "", "x-api-key: another-key\r\n"] {
        let refused = ask(key);
        assert_eq!(refused.status, 401);
        assert!(refused.header("www-authenticate").is_some(), "{refused:?}");
    }
    let metrics = server.metrics();
    let refusals = |reason| {
        let labels = [("filter", "key_auth"), ("reason", reason)];
        metrics.sum("tidegate_auth_refusals_total", &labels)
    };
    assert_eq!((refusals("missing"), refusals("invalid")), (2.0, 1.0));
}

#[test]
fn requests_that_come_too_often() {
    let server = Tidegate::start(CONFIG);
    let statuses: Vec<u16> = (0..5)
        .map(|_| server.exchange("web", "GET /often HTTP/1.1\r\nhost: a\r\n\r\n"))
        .map(|response| {
            assert_eq!(response.header("retry-after").is_some(), response.status == 429);
            response.status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429, 429]);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_rate_limited_total", &[("filter", "often")]), 3.0);
    assert_eq!(metrics.sum("tidegate_limits_hit_total", &[("limit", "rate")]), 3.0);
}
