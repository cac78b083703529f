//! The live log: requests from socket to response, as clients of the admin API see them.

use serde_json::Value as Json;
use std::collections::VecDeque;

use crate::setup::{behind, responding};
use scenarios::{Authority, Connection, Launch, Process, Tidegate, Upstream, eventually};
use std::process::Command;

/// A client that watches. Its first line says that it does.
struct Watcher {
    connection: Connection,
    /// Received and not handed out yet.
    lines: VecDeque<String>,
}

impl Watcher {
    fn new(server: &Tidegate, query: &str) -> Watcher {
        let mut connection = server.connect("admin");
        connection.send(format!(
            "GET /v1/log{query} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\n\r\n"
        ));
        let head = connection.read_head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let mut watcher = Watcher { connection, lines: VecDeque::new() };
        assert_eq!(watcher.chunk(), "", "the first line is empty");
        watcher
    }

    /// The lines of requests that were logged at about the same time.
    fn chunk(&mut self) -> String {
        let size = self.connection.read_until("\r\n");
        let size = String::from_utf8(size).expect("a size");
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        let chunk = self.connection.read_exactly(size);
        self.connection.expect("\r\n");
        String::from_utf8(chunk).expect("text").trim_end().to_owned()
    }

    fn request(&mut self) -> Json {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return serde_json::from_str(&line).expect("JSON");
            }
            let chunk = self.chunk();
            self.lines.extend(chunk.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        }
    }
}

fn with_token(config: &str) -> String {
    let admin = r#"admin: { bind: "127.0.0.1:0" }"#;
    assert!(config.contains(admin));
    config.replace(admin, r#"admin: { bind: "127.0.0.1:0", token: word }"#)
}

fn get(server: &Tidegate, target: &str) -> u16 {
    server.exchange("web", format!("GET {target} HTTP/1.1\r\nhost: shop.example\r\n\r\n")).status
}

fn names(request: &Json) -> Vec<&str> {
    let steps = request["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["name"].as_str().expect("a name")).collect()
}

fn step<'r>(request: &'r Json, name: &str) -> &'r Json {
    let mut steps = request["steps"].as_array().expect("steps").iter();
    steps.find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name}: {request}"))
}

#[test]
fn a_request_is_shown_from_the_socket_to_its_response() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let config = with_token(&behind(&upstream, "caches: { pages: { memory: 16MiB } }"))
        .replace("handler: {", "filters: [{ request_id: {} }, { cache: pages }], handler: {");
    let server = Tidegate::start(&config);
    let mut watcher = Watcher::new(&server, "");
    assert_eq!(get(&server, "/a?token=s3cret&b=c"), 200);
    let request = watcher.request();
    let attributes = &request["attributes"];
    assert_eq!(attributes["http.request.method"], "GET");
    assert_eq!(attributes["url.path"], "/a");
    assert_eq!(attributes["http.response.status_code"], 200);
    assert_eq!(attributes["http.response.body.size"], 5);
    assert_eq!(attributes["tidegate.route"], "app");
    assert!(!request.to_string().contains("s3cret"), "secrets are masked: {request}");
    assert!(request["match"].as_str().is_some_and(|rule| rule.contains("/{*rest}")), "{request}");
    let names = names(&request);
    let expected = ["accept", "request_id", "cache", "upstream", "upstream attempt"];
    let seen: Vec<&str> = expected.into_iter().filter(|name| names.contains(name)).collect();
    assert_eq!(seen, expected, "{names:?}");
    let step = |name: &str| step(&request, name);
    assert!(step("accept")["at_us"].as_i64().is_some_and(|at| at <= 0), "{request}");
    let response = step("response");
    let reason = &response["attributes"]["http.response.header.cache-status"];
    assert!(reason.as_str().is_some_and(|reason| reason.contains("fwd=uri-miss")), "{response}");
    assert_eq!(names[..2], ["accept", "request head"], "{names:?}");
    assert_eq!(step("response body")["attributes"]["http.response.body.size"], 5);
    let depths = ["cache", "upstream", "upstream attempt"].map(|name| step(name)["depth"].clone());
    assert_eq!(depths, [0.into(), 1.into(), Json::from(2)]);
}

#[test]
fn the_body_of_a_request_is_a_step() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.expect("abc");
            peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let ping = "- { name: ping, match: { path: /ping }, handler: { respond: { body: pong } } }";
    let config = with_token(&behind(&upstream, ""))
        .replace("routes: [", &format!("routes:\n  {ping}\n  - "))
        .replace("{ upstream: app } }]", "{ upstream: app } }");
    let server = Tidegate::start(&config);
    let mut watcher = Watcher::new(&server, "");
    for (path, version, unread) in [
        ("upload", "--http1.1", Json::Null),
        ("upload", "--http2-prior-knowledge", Json::Null),
        ("ping", "--http1.1", "true".into()),
        ("ping", "--http2-prior-knowledge", "true".into()),
    ] {
        let url = format!("http://{}/{path}", server.address("web"));
        let arguments = ["-sSf", "--max-time", "20", "--data", "abc", version, &url];
        let exit = Process::run(Command::new("curl").args(arguments));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        let request = watcher.request();
        let body = step(&request, "request body");
        assert_eq!(body["failed"], false, "{request}");
        assert_eq!(body["attributes"]["tidegate.unread"], unread, "{request}");
        let size = if unread.is_null() { 3 } else { 0 };
        assert_eq!(body["attributes"]["http.request.body.size"], size, "{request}");
        let is_empty = !names(&request).contains(&"response body");
        assert_eq!(is_empty, path == "upload", "{request}");
    }
}

#[test]
fn a_client_sees_what_it_asks_for() {
    let server = Tidegate::start(&with_token(&responding("")));
    let mut slow = Watcher::new(&server, "?slow=40ms");
    let mut failed = Watcher::new(&server, "?status=4xx");
    let mut routed = Watcher::new(&server, "?route=ping&where=query.n%20==%20%222%22&count=1");
    for target in ["/ping?n=1", "/slow", "/none", "/ping?n=2"] {
        get(&server, target);
    }
    // On a busy machine others may be slow as well.
    loop {
        let request = slow.request();
        assert!(request["duration_us"].as_u64().is_some_and(|us| us >= 40_000), "{request}");
        if request["attributes"]["tidegate.route"] == "slow" {
            break;
        }
    }
    let request = failed.request();
    assert_eq!(request["attributes"]["http.response.status_code"], 404);
    assert!(request["attributes"]["tidegate.route"].is_null(), "{request}");
    assert_eq!(routed.request()["attributes"]["url.query"], "n=2");
    assert_eq!(routed.chunk(), "", "the last chunk: one request was wanted");
}

#[test]
fn wrong_questions_are_rejected_with_what_was_typed() {
    let server = Tidegate::start(&with_token(&responding("")));
    for (query, part) in [
        ("route=pong", "did you mean \\\"ping\\\"?"),
        ("status=teapot", "teapot"),
        ("slow=1", "no unit"),
        ("where=haeder.a", "header.a"),
        ("rout=ping", "did you mean \\\"route\\\"?"),
    ] {
        let request = format!(
            "GET /v1/log?{query} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\n\r\n"
        );
        let response = server.exchange("admin", request);
        assert!([400, 404].contains(&response.status), "{query}: {}", response.status);
        assert!(response.text().contains(part), "{query}: {}", response.text());
    }
    let without = server.exchange("admin", "GET /v1/log HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(without.status, 401, "the live log needs the token");
}

#[test]
fn a_request_over_tls_has_its_handshake() {
    let issued = Authority::new().issue(&["a.test"]);
    let tls = "{ bind: \"127.0.0.1:0\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }";
    let config = with_token(&responding(""))
        .replace("web: { bind: \"127.0.0.1:0\" }", &format!("web: {tls}"));
    let server = Launch::new(&config).file("a.pem", issued.chain).file("a.key", issued.key).start();
    let mut watcher = Watcher::new(&server, "");
    let url = format!("https://{}/ping", server.address("web"));
    let exit = Process::run(Command::new("curl").args(["-sSk", "--max-time", "20", &url]));
    assert_eq!(exit.stdout, "pong", "{exit:?}");
    let request = watcher.request();
    let names = names(&request);
    assert_eq!(names[..3], ["accept", "tls handshake", "request head"], "{names:?}");
    let handshake = &request["steps"][1];
    assert!(handshake["took_us"].as_u64().is_some_and(|took_us| took_us > 0), "{handshake}");
    assert_eq!(handshake["attributes"]["tls.protocol.version"], "TLSv1.3");
}

#[test]
fn a_client_that_has_gone_watches_no_longer() {
    let server = Tidegate::start(&with_token(&responding("")));
    let watch = || {
        let mut connection = server.connect("admin");
        connection.send("GET /v1/log HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\n\r\n");
        let head = connection.read_head();
        (connection, head.starts_with("HTTP/1.1 200 "))
    };
    let watching: Vec<_> = (0..8).map(|_| watch()).collect();
    assert!(watching.iter().all(|(_, accepted)| *accepted));
    assert!(!watch().1, "one too many");
    drop(watching);
    eventually("a client may watch again", || watch().1);
}

#[test]
fn a_client_whose_token_may_not_read_any_more_is_told_nothing_more() {
    let with_tokens = |tokens: &str| {
        with_token(&responding("")).replace("token: word", &format!("tokens: [{tokens}]"))
    };
    let other = "{ name: other, role: all, token: other-word }";
    let token = |role: &str| format!("{{ name: one, role: {role}, token: word }}, {other}");
    let server = Tidegate::start(&with_tokens(&token("read")));
    let is_allowed = || {
        let request = "GET /v1/routes HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\n\r\n";
        server.exchange("admin", request).status == 200
    };
    for tokens in [other.to_owned(), token("purge")] {
        let mut watcher = Watcher::new(&server, "");
        server.rewrite_config(&with_tokens(&token("write")));
        assert_eq!(get(&server, "/ping"), 200);
        assert_eq!(watcher.request()["attributes"]["url.path"], "/ping", "it still may");
        server.rewrite_config(&with_tokens(&tokens));
        watcher.connection.read_until("0\r\n\r\n");
        server.rewrite_config(&with_tokens(&token("read")));
        eventually("the token may read again", is_allowed);
    }
}

#[test]
fn a_client_that_does_not_read_delays_no_request() {
    let server = Tidegate::start(&with_token(&responding("")));
    let mut stalled = Watcher::new(&server, "");
    let mut client = server.connect("web");
    for _ in 0..20 {
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n".repeat(200));
        for _ in 0..200 {
            assert_eq!(client.read_response().status, 200);
        }
    }
    let shown = |lines: &str| lines.lines().filter(|line| line.contains("duration_us")).count();
    let dropped = |lines: &str| {
        let counts = lines.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        counts.filter_map(|line| line["dropped"].as_u64()).sum::<u64>() as usize
    };
    let (mut all, mut seen) = (0, String::new());
    while all < 4000 {
        seen = stalled.chunk();
        all += shown(&seen) + dropped(&seen);
    }
    assert_eq!(all, 4000, "every request is shown or counted: {seen}");
}

#[test]
fn requests_are_not_traced_for_the_live_log() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head().to_lowercase();
        let length = head.len();
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}"));
    });
    let log = "log: { access: { format: json, path: access.log } }";
    let server = Tidegate::start(&with_token(&behind(&upstream, log)));
    let mut watcher = Watcher::new(&server, "");
    let response = server.exchange("web", "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(!response.text().contains("traceparent"), "{}", response.text());
    assert_eq!(watcher.request()["attributes"]["http.response.status_code"], 200);
    eventually("the access log is written", || {
        std::fs::read_to_string(server.path("access.log")).is_ok_and(|log| log.ends_with('\n'))
    });
    let line = std::fs::read_to_string(server.path("access.log")).expect("a log");
    assert!(!line.contains("trace_id"), "{line}");
}
