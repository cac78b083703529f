//! What the log says when something fails: what, where and why, without what the client meant for
//! the server alone.

use super::{Refusing, config, gateway, servers};
use scenarios::{Launch, Upstream};
use std::time::Instant;

const SECRET: &str = "GET /shop?token=s3cret HTTP/1.1\r\nhost: a\r\nx-key: s3cret\r\n\r\n";

#[test]
fn a_server_that_fails_is_named_with_the_reason() {
    let down = Refusing::start();
    let address = down.address().to_string();
    let server = gateway(&format!(r#"servers: ["{address}"]"#));
    assert_eq!(server.exchange("web", SECRET).status, 502);
    let line = server.wait_for_log("an upstream failed");
    for part in ["WARN", "route=all", "path=/shop", "status=502", "fault=connection_refused"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(line.contains(&format!("server={address}")), "{line}");
    assert!(line.contains("cannot connect") && !line.contains("s3cret"), "{line}");
}

#[test]
fn a_response_that_breaks_off_is_in_both_logs() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    });
    let config = config(&servers(&[&upstream]), 1);
    let access = "log: { access: { format: json, path: stderr, sample: 1.0 } }";
    let server = Launch::new(&format!("{config}{access}\n")).start();
    let mut client = server.connect("web");
    client.send(SECRET);
    client.read_until_gone();
    let line = server.wait_for_log("a response was aborted");
    for part in ["WARN", "path=/shop", "fault=http_response_incomplete", "within the body"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(line.contains(&upstream.address().to_string()) && !line.contains("s3cret"), "{line}");
    let line = server.wait_for_log(r#""status":200"#);
    assert!(line.contains(r#""fault":"http_response_incomplete""#), "{line}");
}

#[test]
fn bytes_that_are_not_a_request_are_reported_with_the_reason() {
    let upstream = Upstream::responding(super::OK);
    let server = gateway(&servers(&[&upstream]));
    let smuggling = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\
                     transfer-encoding: chunked\r\n\r\n";
    assert_eq!(server.exchange("web", smuggling).status, 400);
    let line = server.wait_for_log("malformed request");
    assert!(line.contains("INFO") && line.contains("client=127.0.0.1"), "{line}");
    assert!(line.contains("status=400") && line.contains("why="), "{line}");
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn a_flood_of_failures_is_not_a_flood_of_lines() {
    let down = Refusing::start();
    let server =
        gateway(&format!(r#"servers: ["{}"], ejection: {{ failures: 0 }}"#, down.address()));
    let begin = Instant::now();
    let mut client = server.connect("web");
    for _ in 0..200 {
        client.send(super::GET);
        assert_eq!(client.read_response().status, 502);
    }
    server.wait_for_log("an upstream failed");
    let failed = |line: &&String| line.contains("an upstream failed");
    let lines = server.log().iter().filter(failed).count() as u64;
    // Ten a second at most.
    let seconds = begin.elapsed().as_secs() + 2;
    assert!(lines <= 10 * seconds, "{lines} lines in {seconds} s");
}
