//! Responses that the server generates carry the header changes that say `always: true`, and no
//! others.

use scenarios::Tidegate;

const CONFIG: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
upstreams: { gone: { servers: ["127.0.0.1:1"] } }
defaults:
  filters:
    - response_headers: { set: { x-default: "{method}" }, always: true }
    - response_headers: { set: { x-passed: "1" } }
routes:
  - match: { path: /fine, methods: [GET] }
    handler: { respond: { body: fine } }
  - match: { path: /moved }
    filters:
      - response_headers: { set: { x-route: "{route}" }, always: true }
    handler: { redirect: { to: /fine, status: 302 } }
  - name: locked
    match: { path: /locked }
    filters:
      - key_auth: { keys: [{ consumer: alice, key: sesame-sesame-sesame }] }
      - response_headers: { remove: [vary], set: { x-route: "{route}" }, always: true }
    handler: { respond: { body: in } }
  - name: few
    match: { path: /few }
    filters:
      - rate_limit: { rate: 1/h, burst: 1 }
      - response_headers: { add: { x-route: ["{route}"] }, always: true }
    handler: { respond: { body: in } }
  - name: gone
    match: { path: /gone }
    filters:
      - response_headers: { add: { x-route: ["{route}"] }, always: true }
    handler: { upstream: gone }
  - name: broken
    match: { path: /broken }
    filters:
      - circuit_breaker: { min_requests: 1, fallback: { respond: { status: 503 } } }
      - response_headers: { add: { x-route: ["{route}"] }, always: true }
    handler: { upstream: gone }
  - name: split
    match: { path: /split }
    filters:
      - split: { variants: [{ name: one, weight: 1, handler: { respond: { status: 410 } } }] }
      - response_headers: { add: { x-route: ["{route}"] }, always: true }
    handler: { upstream: gone }
"#;

fn get(server: &Tidegate, path: &str) -> scenarios::HttpResponse {
    server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
}

#[test]
fn changes_that_say_always_reach_what_the_server_generates() {
    let server = Tidegate::start(CONFIG);
    assert_eq!(get(&server, "/few").status, 200);
    // (path, status, x-route): each field once, whatever generated the response.
    let table = [
        ("/none", 404, None),
        ("/fine", 200, None),
        ("/moved", 302, Some("/moved")),
        ("/locked", 401, Some("locked")),
        ("/few", 429, Some("few")),
        ("/gone", 502, Some("gone")),
        // Responses of middlewares in front.
        ("/broken", 502, Some("broken")),
        ("/broken", 503, Some("broken")),
        ("/split", 410, Some("split")),
    ];
    for (path, status, route) in table {
        let response = get(&server, path);
        assert_eq!(response.status, status, "{path} {response:?}");
        assert_eq!(response.header("x-default"), Some("GET"), "{path} {response:?}");
        assert_eq!(response.header("x-route"), route, "{path} {response:?}");
        // A filter before the middleware sees an ordinary response.
        let passed = [200, 302, 410, 503].contains(&status);
        assert_eq!(response.header("x-passed").is_some(), passed, "{path} {response:?}");
    }
    assert_eq!(get(&server, "/locked").header("vary"), None);
}

#[test]
fn what_is_not_a_request_or_has_no_route_is_changed_by_the_defaults() {
    let server = Tidegate::start(&CONFIG.replace("{method}", "yes{query.none}"));
    for (request, status) in [
        ("POST /fine HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 405),
        ("OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", 204),
        ("GET /fine HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        ("GET /fine HTTP/1.1\r\nhost: a\r\nexpect: a-pony\r\n\r\n", 417),
    ] {
        let response = server.exchange("web", request);
        assert_eq!(response.status, status, "{response:?}");
        assert_eq!(response.header("x-default"), Some("yes"), "{response:?}");
        assert_eq!(response.header("x-passed"), None, "{response:?}");
    }
}
