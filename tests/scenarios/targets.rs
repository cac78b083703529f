//! The forms of a request target (RFC 9112 3.2): absolute, `*`, and CONNECT, which is refused.

use crate::setup::{behind, responding};
use scenarios::{Http2Peer, Process, Tidegate, Upstream, command_exists};
use std::process::Command;
use wire::h2::Event;

#[test]
fn an_absolute_target_names_host_and_path() {
    let config = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
routes:
  - match: { host: one.example, path: "/{*rest}" }
    handler: { respond: { headers: { x-host: "{host}", x-path: "{path}" }, body: one } }
  - match: { host: two.example, path: "/{*rest}" }
    handler: { respond: { body: two } }
"#;
    let server = Tidegate::start(config);
    let mut client = server.connect("web");
    client.send("GET http://one.example/a/b?c=d HTTP/1.1\r\nhost: one.example\r\n\r\n");
    let response = client.read_response();
    assert_eq!((response.text().as_str(), response.header("x-path")), ("one", Some("/a/b")));
    // RFC 9112 3.2.2: the target wins over the Host field.
    client.send("GET HTTP://one.example/ HTTP/1.1\r\nhost: two.example\r\n\r\n");
    let response = client.read_response();
    assert_eq!((response.text().as_str(), response.header("x-host")), ("one", Some("one.example")));
    client.send("GET http://two.example HTTP/1.1\r\nhost: two.example\r\n\r\n");
    assert_eq!(client.read_response().text(), "two");
}

#[test]
fn an_upstream_gets_the_origin_form_and_the_targets_host() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head();
        assert!(head.starts_with("GET /p?q HTTP/1.1\r\n"), "{head}");
        assert_eq!(head.to_ascii_lowercase().matches("\r\nhost: ").count(), 1, "{head}");
        assert!(head.contains("\r\nHost: b.example:81\r\n"), "{head}");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let response =
        server.exchange("web", "GET http://b.example:81/p?q HTTP/1.1\r\nhost: a.example\r\n\r\n");
    assert_eq!(response.status, 204);
}

/// As nginx and Envoy do: a proxy that ends TLS in front may say so (RFC 9110 7.4), and only a
/// trusted one is believed.
#[test]
fn the_scheme_of_an_absolute_target_is_not_believed() {
    let config = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
routes: [{ match: { path: / }, handler: { respond: { headers: { x-scheme: "{scheme}" } } } }]
"#;
    let server = Tidegate::start(config);
    let response = server.exchange("web", "GET https://a/ HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!((response.status, response.header("x-scheme")), (200, Some("http")));
    if command_exists("nghttp") {
        let url = format!("http://{}/", server.address("web"));
        let mut command = Command::new("nghttp");
        let exit = Process::run(command.args(["-v", "--timeout=40s", "-H:scheme: https", &url]));
        assert!(exit.stdout.contains("x-scheme: http\n"), "{exit:?}");
    }
}

#[test]
fn options_asterisk_is_handled_by_the_server_itself() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n");
    let response = client.read_response();
    assert_eq!(response.status, 204);
    assert!(response.header("allow").is_some_and(|allow| allow.contains("GET")), "{response:?}");
    assert_eq!(upstream.accepted(), 0);
    client.send("OPTIONS / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
    assert_eq!(upstream.accepted(), 1);
}

/// RFC 9112 3.2.4: the last on the way to the server asks it about itself.
#[test]
fn options_of_an_absolute_target_without_a_path_is_forwarded_as_an_asterisk() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let line = head.lines().next().unwrap_or_default().to_owned();
            assert!(head.contains("\r\nHost: b.example\r\n"), "{head}");
            peer.send(format!("HTTP/1.1 200 OK\r\nx-line: {line}\r\ncontent-length: 0\r\n\r\n"));
        }
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    for (asked, sent) in [
        ("OPTIONS http://b.example", "OPTIONS * HTTP/1.1"),
        ("OPTIONS http://b.example/", "OPTIONS / HTTP/1.1"),
        ("OPTIONS http://b.example?q", "OPTIONS /?q HTTP/1.1"),
        ("GET http://b.example", "GET / HTTP/1.1"),
    ] {
        client.send(format!("{asked} HTTP/1.1\r\nhost: b.example\r\n\r\n"));
        let response = client.read_response();
        assert_eq!((response.status, response.header("x-line")), (200, Some(sent)), "{asked}");
    }
}

#[test]
fn connect_is_refused_and_nothing_behind_it_is_a_request() {
    let server = Tidegate::start(&responding(""));
    for (target, status) in [("b.example:443", 501), ("/ping", 400)] {
        let mut client = server.connect("web");
        client.send(format!(
            "CONNECT {target} HTTP/1.1\r\nhost: b.example:443\r\n\r\n\
             GET /ping HTTP/1.1\r\nhost: a\r\n\r\n"
        ));
        let response = client.read_response();
        assert_eq!((response.status, response.header("connection")), (status, Some("close")));
        client.expect_closed();
    }
}

/// Over HTTP/2 also an extended CONNECT for a protocol that is not supported.
#[test]
fn connect_is_counted_and_logged_like_any_rejected_request() {
    // One worker, so that the lines of the log come in the order of the requests.
    let config = responding("log: { access: { format: json, path: stderr } }");
    let server = Tidegate::start(&config.replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    client.send("CONNECT b.example:443 HTTP/1.1\r\nhost: b.example:443\r\nuser-agent: one\r\n\r\n");
    assert_eq!(client.read_response().status, 501);
    client.expect_closed();
    let labels = [("reason", "close_by_answer")];
    server.wait_for_metric("tidegate_connections_closed_total", &labels, 1.0);
    let mut connection = server.connect("web");
    let mut client = Http2Peer::client(&mut connection);
    let (method, authority) = ((":method", "CONNECT"), (":authority", "b.example:443"));
    let extended: [(&str, &str); 3] =
        [(":scheme", "http"), (":path", "/ping"), (":protocol", "connect-udp")];
    for fields in [vec![method, authority], [vec![method, authority], extended.to_vec()].concat()] {
        client.open_unchecked(&fields, true);
        loop {
            match client.event() {
                Some(Event::Response { status, .. }) => {
                    break assert_eq!(status, 501, "{fields:?}");
                }
                Some(_) => {}
                None => panic!("no response to {fields:?}"),
            }
        }
    }
    let lines = scenarios::eventually_some("three lines of the access log", || {
        let mut lines = server.log();
        lines.retain(|line| line.contains("\"method\":\"CONNECT\""));
        (lines.len() == 3).then_some(lines)
    });
    for (line, protocol) in lines.iter().zip(["HTTP/1.1", "HTTP/2", "HTTP/2"]) {
        let request = format!(
            "\"method\":\"CONNECT\",\"host\":\"b.example:443\",\"path\":\"b.example:443\",\
             \"protocol\":\"{protocol}"
        );
        assert!(line.contains(&request), "{line}");
        assert!(line.contains("\"status\":501,\"bytes\":"), "{line}");
        assert!(line.contains("\"fault\":\"connect_refused\""), "{line}");
    }
    server.wait_for_metric("tidegate_responses_total", &[("class", "5xx")], 3.0);
    scenarios::eventually("no request is in flight", || {
        server.metrics().sum("tidegate_requests_in_flight", &[]) == 0.0
    });
    let responses = server.metrics().sum("tidegate_responses_total", &[("class", "5xx")]);
    assert_eq!(responses, 3.0);
}

/// One listener for each reading of an encoded slash, before a protected directory.
const SLASHES: &str = r#"
workers: 1
listeners:
  keep: { bind: "127.0.0.1:0", encoded_slashes: keep }
  decode: { bind: "127.0.0.1:0", encoded_slashes: decode }
  refuse: { bind: "127.0.0.1:0" }
log: { access: { format: json, path: stderr } }
upstreams: { app: { servers: ["UPSTREAM"] } }
routes:
  - match: { path: "/private/{*r}" }
    handler: { respond: { status: 403, headers: { x-path: "{path}" }, body: private } }
  - match: /find
    filters: [{ rewrite: { template: "/u/{query.q}" } }]
    handler: { upstream: app }
  - match: { path: "/{*r}" }
    handler: { upstream: app }
"#;

#[test]
fn an_encoded_slash_is_a_name_a_slash_or_refused() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            peer.send(format!("HTTP/1.1 204 No Content\r\nx-target: {target}\r\n\r\n"));
        }
    });
    let server = Tidegate::start(&SLASHES.replace("UPSTREAM", &upstream.address().to_string()));
    let ask = |listener: &str, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = server.exchange(listener, request);
        let seen = response.header("x-target").or(response.header("x-path")).unwrap_or_default();
        (response.status, seen.to_owned())
    };
    let raw = "/private%2Fx?y=%2F";
    assert_eq!(ask("keep", raw), (204, raw.to_owned()));
    assert_eq!(ask("decode", raw), (403, "/private/x".to_owned()));
    assert_eq!(ask("refuse", raw), (400, String::new()));
    server.wait_for_log("set encoded_slashes: keep or decode");
    // As if it had been written so, for upstreams as well; once, and in any case.
    assert_eq!(ask("decode", "/a%2f..%2Fprivate%2f/b"), (403, "/private/b".to_owned()));
    assert_eq!(ask("decode", "/a%2Fb%252Fc?d=%2F"), (204, "/a/b%252Fc?d=%2F".to_owned()));
    // The log names what the client wrote.
    server.wait_for_log("/a%2Fb%252Fc");
    for listener in ["keep", "decode", "refuse"] {
        assert_eq!(ask(listener, "/a%252Fb"), (204, "/a%252Fb".to_owned()));
        assert_eq!(ask(listener, "/find?q=a.b"), (204, "/u/a.b?q=a.b".to_owned()));
    }
    // A variable of a rewrite obeys the listener as well.
    for brought in ["/find?q=../private", "/find?q=..%2fprivate"] {
        let (_, query) = brought.split_once('?').expect("a query");
        assert_eq!(ask("keep", brought), (204, format!("/u/..%2Fprivate?{query}")));
        assert_eq!(ask("decode", brought), (400, String::new()));
        assert_eq!(ask("refuse", brought), (400, String::new()));
    }
}
