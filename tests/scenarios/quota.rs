//! `quota` and limits of consumers through a whole server with two workers: use, rejection, state
//! across reloads and a killed process, the admin API and metrics.

use scenarios::{HttpResponse, Tidegate};

fn config(directory: &std::path::Path, limit: u32, alice: u32) -> String {
    let directory = directory.display();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token, metrics: open }}
consumers:
  - name: alice
    keys: [{{ key: key-of-alice }}]
    limits: {{ rate: 1/h, burst: 40, quotas: {{ calls: {alice} }} }}
  - {{ name: bob, keys: [{{ key: key-of-bob }}] }}
routes:
  - match: {{ path: /quota }}
    filters:
      - key_auth: {{}}
      - quota:
          name: calls
          limit: {limit}
          period: 30d
          key: consumer
          consumer_limits: true
          directory: "{directory}"
    handler: {{ respond: {{ body: ok }} }}
  - match: {{ path: /rate }}
    filters:
      - key_auth: {{}}
      - rate_limit: {{ rate: 1/h, burst: 3, key: consumer, consumer_limits: true }}
    handler: {{ respond: {{ body: ok }} }}
  - {{ match: {{ path: /version }}, handler: {{ respond: {{ body: "{limit} {alice}" }} }} }}
"#
    )
}

fn get(server: &Tidegate, path: &str, consumer: &str) -> HttpResponse {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-api-key: key-of-{consumer}\r\n\r\n");
    server.exchange("web", request)
}

fn allowed(server: &Tidegate, path: &str, consumer: &str, requests: usize) -> usize {
    (0..requests).filter(|_| get(server, path, consumer).status == 200).count()
}

fn admin(server: &Tidegate, line: &str) -> HttpResponse {
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer s3cret-token\r\n\
         content-length: 0\r\n\r\n"
    );
    server.exchange("admin", head)
}

fn reload(server: &Tidegate, config: &str, version: &str) {
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(config);
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(server, "/version", "bob").text(), version);
}

#[test]
fn a_quota_survives_reloads_and_a_killed_process() {
    let directory = tempfile::tempdir().unwrap();
    let config = |limit, alice| config(&directory.path().join("quotas"), limit, alice);
    let server = Tidegate::start(&config(10, 20));
    assert_eq!(allowed(&server, "/quota", "bob", 4), 4);
    let response = get(&server, "/quota", "alice");
    assert_eq!(response.header("ratelimit-policy"), Some("\"calls\";q=20;w=2592000"));
    reload(&server, &config(8, 20), "8 20");
    assert_eq!(allowed(&server, "/quota", "bob", 2), 2);
    server.signal("KILL");
    server.wait();
    let server = Tidegate::start(&config(9, 3));
    assert_eq!(allowed(&server, "/quota", "bob", 10), 3, "six of nine were used before");
    assert_eq!(allowed(&server, "/quota", "alice", 10), 2, "one of three was used before");
    let rejected = get(&server, "/quota", "bob");
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!(rejected.status == 429 && wait > 29 * 86400, "{rejected:?}");
    assert!(rejected.header("ratelimit").unwrap().starts_with("\"calls\";r=0;t=2"));
    let metrics = server.metrics();
    let labels = [("filter", "quota"), ("reason", "calls")];
    assert_eq!(metrics.sum("tidegate_policy_rejections_total", &labels), 16.0);
    assert_eq!(metrics.sum("tidegate_quota_stored", &[("quota", "calls")]), 1.0);
    assert_eq!(metrics.sum("tidegate_keyed_state_entries", &[("state", "calls")]), 2.0);
}

#[test]
fn the_admin_api_reads_and_resets_the_quota_of_one_key() {
    let directory = tempfile::tempdir().unwrap();
    let server = Tidegate::start(&config(directory.path(), 2, 2));
    assert_eq!(allowed(&server, "/quota", "bob", 3), 2);
    let list = admin(&server, "GET /v1/quotas").text();
    assert!(list.contains("\"calls\"") && list.contains("\"30d\""), "{list}");
    let bob = admin(&server, "GET /v1/quotas/calls?key=bob").text();
    assert!(bob.contains("\"used\": 2") && bob.contains("\"period_ends\""), "{bob}");
    assert_eq!(admin(&server, "GET /v1/quotas/other?key=bob").status, 404);
    assert_eq!(admin(&server, "GET /v1/quotas/calls").status, 400);
    assert_eq!(admin(&server, "DELETE /v1/quotas/calls?key=bob").status, 204);
    assert_eq!(allowed(&server, "/quota", "bob", 3), 2);
}

#[test]
fn a_rate_limit_takes_the_limits_of_the_consumer() {
    let directory = tempfile::tempdir().unwrap();
    let with = |alice| config(directory.path(), 9, alice);
    let server = Tidegate::start(&with(1));
    assert_eq!(allowed(&server, "/rate", "bob", 10), 3);
    assert_eq!(allowed(&server, "/rate", "alice", 30), 30);
    reload(&server, &with(2), "9 2");
    assert_eq!(allowed(&server, "/rate", "alice", 20), 10);
    let rejected = get(&server, "/rate", "alice");
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!(rejected.status == 429 && (3000..=3600).contains(&wait), "{rejected:?}");
    assert_eq!(server.metrics().sum("tidegate_rate_limited_total", &[("filter", "default")]), 18.0);
}
