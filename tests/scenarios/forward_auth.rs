//! `forward_auth` with a server that decides, by URL and as an upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::{HttpResponse, Tidegate, Upstream};

fn config(server: &str, api: &Upstream) -> String {
    let api = api.address();
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  api: {{ servers: ["{api}"] }}
  unused: {{ servers: ["{api}"] }}
routes:
  - match: {{ path: /unused }}
    handler: {{ upstream: unused }}
  - match: {{}}
    filters:
      - forward_auth: {{ {server}, copy: [remote-user], consumer: remote-user }}
      - response_headers: {{ add: {{ x-always: ["1"] }}, always: true }}
      - response_headers: {{ set: {{ x-passed: "1" }} }}
    handler: {{ upstream: api }}
"#
    )
}

/// Says which user it sees.
fn api() -> Upstream {
    Upstream::start(|peer| {
        let head = peer.read_head().to_ascii_lowercase();
        let users: Vec<_> =
            head.lines().filter_map(|line| line.strip_prefix("remote-user: ")).collect();
        let body = users.join("+");
        let length = body.len();
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"));
    })
}

/// Allows requests with a cookie, two on a connection at most, and counts requests.
fn auth(requests: &Arc<AtomicUsize>) -> Upstream {
    let requests = requests.clone();
    Upstream::start(move |peer| {
        for _ in 0..2 {
            if peer.at_end() {
                return;
            }
            let head = peer.read_head();
            requests.fetch_add(1, Ordering::Relaxed);
            let lower = head.to_ascii_lowercase();
            assert!(head.starts_with("GET /verify?app=a HTTP/1.1\r\n"), "{head}");
            assert!(lower.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"), "{head}");
            assert!(lower.contains("\r\nx-forwarded-uri: /shop?x=1\r\n"), "{head}");
            assert!(lower.contains("\r\nx-forwarded-host: shop.test\r\n"), "{head}");
            peer.send(match lower.contains("cookie: session=1") {
                true => "HTTP/1.1 200 OK\r\nremote-user: ann\r\ncontent-length: 0\r\n\r\n",
                false => {
                    "HTTP/1.1 302 Found\r\nlocation: https://login.test/\r\n\
                     set-cookie: attempt=1\r\ncontent-length: 5\r\n\r\nlogin"
                }
            });
        }
    })
}

fn get(server: &Tidegate, fields: &str) -> HttpResponse {
    let head = format!("GET /shop?x=1 HTTP/1.1\r\nhost: shop.test\r\n{fields}\r\n");
    server.exchange("web", head)
}

#[test]
fn the_server_decides_over_a_connection_that_is_reused() {
    for by_url in [true, false] {
        let requests = Arc::default();
        let (auth, api) = (auth(&requests), api());
        let decides = match by_url {
            true => format!("url: \"http://{}/verify?app=a\"", auth.address()),
            false => "to: { upstream: auth }, path: \"/verify?app=a\"".to_owned(),
        };
        let mut text = config(&decides, &api);
        if !by_url {
            let upstream = format!("  auth: {{ servers: [\"{}\"] }}\n", auth.address());
            text = text.replace("upstreams:\n", &format!("upstreams:\n{upstream}"));
        }
        let server = Tidegate::start(&text);
        let allowed = get(&server, "cookie: session=1\r\nremote-user: root\r\nRemote_User: x\r\n");
        assert_eq!((allowed.status, allowed.text().as_str()), (200, "ann"));
        let denied = get(&server, "remote-user: root\r\n");
        assert_eq!((denied.status, denied.text().as_str()), (302, "login"));
        assert_eq!(denied.header("location"), Some("https://login.test/"));
        assert_eq!(denied.header("set-cookie"), Some("attempt=1"));
        for (response, passed) in [(allowed, Some("1")), (denied, None)] {
            assert_eq!(response.header("x-always"), Some("1"));
            assert_eq!(response.header("x-passed"), passed);
        }
        assert_eq!((requests.load(Ordering::Relaxed), auth.accepted()), (2, 1));
        let rejected = [("filter", "forward_auth"), ("reason", "denied")];
        assert_eq!(server.metrics().sum("tidegate_policy_rejections_total", &rejected), 1.0);
    }
}

#[test]
fn a_server_that_fails_rejects_requests_until_a_reload_names_another() {
    let requests = Arc::default();
    let (auth, api) = (auth(&requests), api());
    let by = |address: &str| format!("url: \"http://{address}/verify?app=a\"");
    let server = Tidegate::start(&config(&by("127.0.0.1:1"), &api));
    let failed = get(&server, "cookie: session=1\r\n");
    assert_eq!(failed.status, 503);
    server.wait_for_log("the server of forward_auth has not decided");
    let rejected = [("filter", "forward_auth"), ("reason", "failed")];
    assert_eq!(server.metrics().sum("tidegate_policy_rejections_total", &rejected), 1.0);
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&by(&auth.address().to_string()), &api));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, "cookie: session=1\r\n").text(), "ann");
    // What is invalid leaves the configuration in use.
    server.rewrite_config(&config("to: { upstream: nowhere }", &api));
    server.wait_for_log("there is no upstream");
    assert_eq!(get(&server, "cookie: session=1\r\n").text(), "ann");
}

#[test]
fn consumers_without_an_entry_are_rejected_until_a_reload_accepts_them() {
    let api = api();
    let auth = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let names: String = match head.lines().find_map(|line| line.strip_prefix("cookie: ")) {
                Some(names) => names.split(',').map(|name| format!("x-name: {name}\r\n")).collect(),
                None => String::new(),
            };
            peer.send(format!("HTTP/1.1 204 No Content\r\n{names}\r\n"));
        }
    });
    let by = format!("url: \"http://{}/\"", auth.address());
    let strict = config(&by, &api)
        .replace("consumer: remote-user", "consumer: x-name, consumers_only: true")
        + "consumers: [{ name: ann }]\n";
    let server = Tidegate::start(&strict);
    let status = |cookie: &str| get(&server, cookie).status;
    assert_eq!(status("cookie: ann\r\n"), 200);
    assert_eq!((status("cookie: lee\r\n"), status("")), (403, 403));
    assert_eq!(status("cookie: ann,lee\r\n"), 503);
    server.wait_for_log("several headers x-name");
    let rejections = |reason| {
        let labels = [("filter", "forward_auth"), ("reason", reason)];
        server.metrics().sum("tidegate_policy_rejections_total", &labels)
    };
    assert_eq!((rejections("unknown_consumer"), rejections("failed")), (2.0, 1.0));
    // Reloads: another consumer, then any.
    let mut reloads = server.metrics().sum("tidegate_config_reloads_total", &[]);
    let mut reload = |config: &str| {
        server.rewrite_config(config);
        reloads += 1.0;
        server.wait_for_metric("tidegate_config_reloads_total", &[], reloads);
    };
    reload(&strict.replace("name: ann", "name: lee"));
    assert_eq!((status("cookie: ann\r\n"), status("cookie: lee\r\n")), (403, 200));
    reload(&strict.replace("consumers_only: true", "consumers_only: false"));
    assert_eq!((status("cookie: lee\r\n"), status("")), (200, 200));
    assert_eq!(rejections("unknown_consumer"), 3.0);
}

#[test]
fn clients_with_a_key_are_allowed_without_the_server_and_others_get_its_response() {
    let requests = Arc::default();
    let (auth, api) = (auth(&requests), api());
    let decides = format!("url: \"http://{}/verify?app=a\"", auth.address());
    let with = |key: &str| {
        config(&decides, &api)
            .replace("- forward", "- auth: { any: [{ key_auth: {} }, { forward")
            .replace("consumer: remote-user }", "consumer: remote-user } }] }")
            + &format!("consumers: [{{ name: batch, keys: [{{ key: {key} }}] }}]\n")
    };
    let server = Tidegate::start(&with("key-of-batch"));
    let (key, wrong) = ("x-api-key: key-of-batch\r\n", "x-api-key: another-key\r\n");
    let (session, forged) = ("cookie: session=1\r\n", "remote-user: root\r\n");
    let by_key = get(&server, &format!("{key}{forged}{session}"));
    assert_eq!((by_key.status, by_key.text().as_str()), (200, ""));
    assert_eq!(requests.load(Ordering::Relaxed), 0);
    for other in ["", wrong] {
        let by_server = get(&server, &format!("{other}{forged}{session}"));
        assert_eq!((by_server.status, by_server.text().as_str()), (200, "ann"), "{other}");
        let denied = get(&server, &format!("{other}{forged}"));
        assert_eq!((denied.status, denied.text().as_str()), (302, "login"), "{other}");
        assert_eq!(denied.header("location"), Some("https://login.test/"));
        assert_eq!(denied.header("www-authenticate"), None);
        assert_eq!((denied.header("x-always"), denied.header("x-passed")), (Some("1"), None));
    }
    // After a reload with another key.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&with("another-key"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, wrong).status, 200);
    assert_eq!(get(&server, key).status, 302);
    let metrics = server.metrics();
    let denied = [("filter", "forward_auth"), ("reason", "denied")];
    assert_eq!(metrics.sum("tidegate_policy_rejections_total", &denied), 3.0);
    let invalid = [("filter", "key_auth"), ("reason", "invalid")];
    assert_eq!(metrics.sum("tidegate_auth_refusals_total", &invalid), 2.0);
    assert_eq!(requests.load(Ordering::Relaxed), 5);
}
