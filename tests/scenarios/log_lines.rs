//! Lines of the logs: those of single routes, and what a syslog server gets.
#![allow(clippy::disallowed_types, reason = "the server side of a test opens its own sockets")]

use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use scenarios::{Http2Peer, Tidegate, Upstream, eventually, eventually_some};
use serde_json::Value;
use wire::Method;
use wire::h2::RequestLine;

fn config(upstream: &Upstream, log: &str) -> String {
    format!(
        // Several workers have no common order of lines.
        r#"workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["{}"] }} }}
routes:
- name: fields
  match: {{ path: /fields }}
  handler: {{ upstream: app }}
  log: {{ fields: {{ user: "{{header.x-user}}", none: "{{header.x-none}}" }} }}
- name: format
  match: {{ path: /format }}
  handler: {{ upstream: app }}
  log: {{ format: "{{method}} {{status}} {{request_bytes}} {{upstream}} {{trace_id}}" }}
- {{ name: rare, match: {{ path: /rare }}, handler: {{ respond: {{}} }}, log: {{ sample: 0 }} }}
- {{ name: last, match: {{ path: /last }}, handler: {{ respond: {{}} }} }}
log: {{ access: {{ path: access.log }}{log} }}
"#,
        upstream.address()
    )
}

fn post(server: &Tidegate, path: &str, body: &str) {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nx-user: \"7\"\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    assert_eq!(server.exchange("web", request).status, 200);
}

/// The lines up to that of the route `last`.
fn lines(server: &Tidegate) -> Vec<String> {
    post(server, "/last", "");
    eventually_some("the last line", || {
        let text = fs::read_to_string(server.path("access.log")).ok()?;
        let is_whole = text.contains("\"route\":\"last\"") && text.ends_with('\n');
        is_whole.then(|| text.lines().map(str::to_owned).collect())
    })
}

#[test]
fn a_route_has_its_own_members_format_and_share() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.expect("12345");
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let server = Tidegate::start(&config(&upstream, ""));
    for path in ["/fields", "/format", "/rare"] {
        post(&server, path, "12345");
    }
    let lines = lines(&server);
    let [fields, format, _last] = &lines[..] else { panic!("{lines:?}") };
    let fields: Value = serde_json::from_str(fields).expect("JSON");
    assert_eq!(fields["user"], "\"7\"");
    assert_eq!((&fields["none"], &fields["request_bytes"]), (&Value::Null, &Value::from(5)));
    assert!(fields["upstream_us"].is_u64(), "{fields}");
    assert_eq!(*format, format!("POST 200 5 {} -", upstream.address()));
}

#[test]
fn the_bytes_of_a_request_are_not_those_of_the_stream_before() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            if peer.read_head().starts_with("POST ") {
                assert_eq!(peer.read_chunks(), b"12345");
            }
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let server = Tidegate::start(&config(&upstream, ""));
    let mut connection = server.connect("web");
    let mut client = Http2Peer::client(&mut connection);
    for (method, body) in [(&Method::Post, "12345"), (&Method::Get, "")] {
        let (authority, path) = (&b"a"[..], &b"/format"[..]);
        let line = RequestLine { method, secure: false, authority, path, protocol: None };
        let stream = client.protocol.request(line, [], body.is_empty()).expect("there is room");
        if !body.is_empty() {
            client.send(stream, body, true);
        }
        assert_eq!(client.content(stream).0, b"ok");
    }
    let lines = lines(&server);
    let starts = |line: usize, text: &str| assert!(lines[line].starts_with(text), "{lines:?}");
    starts(0, "POST 200 5 ");
    starts(1, "GET 200 0 ");
}

#[test]
fn the_response_to_a_malformed_request_has_its_length() {
    for (log, wanted) in [
        ("format: \"{status} {bytes}\"", "400 "),
        ("format: combined", "\"-\" 400 "),
        ("format: json", "\"status\":400,\"bytes\":"),
    ] {
        let config = config(&Upstream::responding(""), "");
        let log = format!("access.log, {log} }}");
        let server = Tidegate::start(&config.replace("access.log }", &log));
        let response = server.exchange("web", "not HTTP\r\n\r\n");
        let wanted = format!("{wanted}{}", response.body.len());
        assert!(response.status == 400 && !response.body.is_empty(), "{response:?}");
        eventually(&wanted, || {
            let text = fs::read_to_string(server.path("access.log")).unwrap_or_default();
            text.lines().any(|line| line.contains(&wanted))
        });
    }
}

#[test]
fn a_syslog_server_gets_both_logs_as_datagrams() {
    let syslog = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    syslog.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid time");
    let port = syslog.local_addr().expect("it is bound").port();
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let log = format!(", syslog: {{ address: \"127.0.0.1:{port}\", facility: local3 }}");
    let log = log.strip_prefix(", ").expect("a member");
    let text = config(&upstream, "").replace("access.log }", &format!("access.log }}, {log}"));
    let server = Tidegate::start(&text);
    post(&server, "/fields", "");
    // The lines of the two logs have no common order.
    let mut messages: Vec<String> = Vec::new();
    let mut message_with = |wanted: &str| loop {
        if let Some(message) = messages.iter().find(|message| message.contains(wanted)) {
            return message.clone();
        }
        let mut bytes = [0; 9000];
        let length = syslog.recv(&mut bytes).expect("a message");
        messages.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    };
    // 19 is local3: 19 * 8 + 6.
    let event = message_with(" serving version=");
    assert!(event.starts_with("<158>1 ") && event.contains(" events - "), "{event}");
    let access = message_with("\"route\":\"fields\"");
    assert!(access.starts_with("<158>1 ") && access.contains(" access - {\"time\""), "{access}");
    // They are written where they were as well.
    assert_eq!(lines(&server).len(), 2);
}

#[test]
fn a_syslog_server_that_is_away_costs_lines_only() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let syslog =
        format!("access.log }}, syslog: {{ address: \"127.0.0.1:{port}\", transport: tcp }}");
    let server = Tidegate::start(&config(&upstream, "").replace("access.log }", &syslog));
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut first = [0; 7];
    stream.read_exact(&mut first).expect("a message");
    let text = String::from_utf8_lossy(&first).into_owned();
    assert!(text.contains(" <1"), "a length, then the priority: {text}");
    drop((stream, listener));
    eventually_some("a failed write", || {
        post(&server, "/fields", "");
        let failed = server.metrics().sum("tidegate_log_write_errors_total", &[("log", "syslog")]);
        (failed >= 1.0).then_some(())
    });
    assert!(lines(&server).len() > 1);
}

#[test]
fn the_log_of_a_route_needs_an_access_log_and_names_of_its_own() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    for (from, to, error) in [
        ("log: { access: { path: access.log } }", "", "there is no access log"),
        ("user: ", "status: ", "\"status\" is a member of each line already"),
    ] {
        let text = config(&upstream, "").replace(from, to);
        let exit = scenarios::Launch::new(&text).run(&["check", "tidegate.yaml"]);
        assert!(exit.code == Some(2) && exit.stderr.contains(error), "{exit:?}");
    }
}
