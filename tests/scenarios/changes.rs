//! The filters that change requests and responses without a decision: `rewrite`, `request_id`,
//! `request_headers`, `response_headers` and `compress`, before and after a reload, and with
//! settings in error.

use scenarios::{HttpResponse, Launch, Tidegate, Upstream};

/// Responds with the head of the request, and much more of the same letter.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let body = peer.read_head() + &"x".repeat(5000);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nserver: app\r\ncontent-type: text/plain\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

fn config(upstream: &Upstream, version: u32) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["{}"] }} }}
routes:
  - name: api
    match: {{ path: "/api/{{*rest}}" }}
    filters:
      - compress: {{ codings: [gzip], min_size: 1KiB }}
      - request_id: {{ header: x-trace, trust: ["127.0.0.1"] }}
      - rewrite: {{ strip_prefix: /api, add_prefix: /v{version} }}
      - request_headers: {{ set: {{ x-id: "{{request_id}}" }}, remove: [x-debug] }}
      - response_headers: {{ set: {{ x-version: "{version}" }}, remove: [server] }}
    handler: {{ upstream: app }}
"#,
        upstream.address()
    )
}

fn get(server: &Tidegate, fields: &str) -> HttpResponse {
    let fields = format!("host: a\r\nx-debug: 1\r\nx-trace: t-1\r\n{fields}");
    server.exchange("web", format!("GET /api/orders?page=2 HTTP/1.1\r\n{fields}\r\n"))
}

#[test]
fn requests_and_responses_are_changed_before_and_after_a_reload() {
    let upstream = echo();
    let server = Tidegate::start(&config(&upstream, 1));
    for version in [1, 2] {
        if version == 2 {
            let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
            server.rewrite_config(&config(&upstream, version));
            server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
        }
        let response = get(&server, "");
        let head = response.text().to_lowercase();
        assert!(head.starts_with(&format!("get /v{version}/orders?page=2 http/1.1\r\n")), "{head}");
        assert!(head.contains("\r\nx-id: t-1\r\n") && !head.contains("x-debug"), "{head}");
        assert_eq!(response.header("x-version"), Some(version.to_string().as_str()));
        assert_eq!(response.header("x-trace"), Some("t-1"));
        assert_eq!(response.header("content-encoding"), None);
        assert!(response.header("server").is_none_or(|name| name != "app"), "{response:?}");
        let compressed = get(&server, "accept-encoding: gzip\r\n");
        assert_eq!(compressed.header("content-encoding"), Some("gzip"));
        assert!(compressed.body.len() < 1000, "{}", compressed.body.len());
    }
}

#[test]
fn settings_in_error_are_named() {
    let upstream = echo();
    for (from, to, error) in [
        ("codings: [gzip]", "codings: [gzp]", "did you mean"),
        ("min_size: 1KiB", "min_size: big", "big"),
        ("header: x-trace", "header: content-length", "has another meaning already"),
        ("strip_prefix: /api", "strip_prefix: api", "is not a prefix"),
        ("add_prefix", "ad_prefix", "did you mean \"add_prefix\"?"),
        ("remove: [x-debug]", "remove: [content-length]", "content-length"),
        ("remove: [server]", "remove: [\"a b\"]", "is not a valid header name"),
    ] {
        let launch = Launch::new(&config(&upstream, 1).replacen(from, to, 1));
        let exit = launch.run(&["check", "tidegate.yaml"]);
        assert!(exit.code != Some(0) && exit.stderr.contains(error), "{error}: {exit:?}");
    }
}
