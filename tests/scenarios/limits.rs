//! How much one client may ask: each limit has its status, its counter and its reason to close.

use crate::setup::{behind, responding};
use scenarios::{HttpResponse, Tidegate, Upstream, eventually};
use std::time::{Duration, Instant};

const SMALL: &str =
    "limits: { request_line: 256B, headers: 1KiB, header_count: 8, body: 100B, connections: 3 }";

fn hit(server: &Tidegate, limit: &str, reason: &str) {
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", limit)], 1.0);
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_limits_hit_total", &[]), 1.0, "only {limit}");
}

/// Sends a request that is above a limit, and sees the connection end after its response.
fn refused(server: &Tidegate, request: &str) -> HttpResponse {
    let mut client = server.connect("web");
    client.send(request);
    let response = client.read_response();
    assert_eq!(response.header("connection"), Some("close"), "{response:?}");
    client.expect_closed();
    response
}

#[test]
fn a_request_line_that_is_too_long() {
    let server = Tidegate::start(&responding(SMALL));
    let most = "a".repeat(256 - "GET /ping? HTTP/1.1\r\n".len());
    let ok = server.exchange("web", format!("GET /ping?{most} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(ok.status, 200, "as long as it may be");
    let response = refused(&server, &format!("GET /ping?{most}a HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(response.status, 414);
    hit(&server, "request_line", "request_line_too_long");
}

#[test]
fn a_request_line_without_an_end() {
    let server = Tidegate::start(&responding(SMALL));
    assert_eq!(refused(&server, &format!("GET /{}", "a".repeat(300))).status, 414);
    hit(&server, "request_line", "request_line_too_long");
}

#[test]
fn fields_that_are_too_large() {
    let server = Tidegate::start(&responding(SMALL));
    let request = format!("GET /ping HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(1024));
    assert_eq!(refused(&server, &request).status, 431);
    hit(&server, "headers", "headers_too_large");
}

#[test]
fn fields_that_are_too_many() {
    let server = Tidegate::start(&responding(SMALL));
    let fields = |count| "x: y\r\n".repeat(count);
    let ok = format!("GET /ping HTTP/1.1\r\nhost: a\r\n{}\r\n", fields(7));
    assert_eq!(server.exchange("web", ok).status, 200, "as many as there may be");
    let request = format!("GET /ping HTTP/1.1\r\nhost: a\r\n{}\r\n", fields(8));
    assert_eq!(refused(&server, &request).status, 431);
    hit(&server, "header_count", "headers_too_large");
}

#[test]
fn trailers_that_are_too_large() {
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, SMALL));
    let request = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: {}\r\n\r\n",
        "a".repeat(1024)
    );
    assert_eq!(refused(&server, &request).status, 431);
    hit(&server, "trailers", "headers_too_large");
}

#[test]
fn a_body_that_says_it_is_too_large() {
    let upstream = Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let server = Tidegate::start(&behind(&upstream, SMALL));
    let request =
        format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n{}", "a".repeat(101));
    assert_eq!(refused(&server, &request).status, 413);
    assert_eq!(upstream.accepted(), 0);
    hit(&server, "body", "body_too_large");
}

/// Its route is known by then: filters, log and metrics see it.
#[test]
fn a_body_that_says_it_is_too_large_has_a_route() {
    let upstream = Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let log = "log: { access: { format: json, path: stderr } }";
    let headers = "response_headers: { set: { x-route: app }, always: true }";
    let filter = &format!("name: app, filters: [request_id: {{}}, {headers}],");
    let config = behind(&upstream, &format!("{SMALL}\n{log}")).replace("name: app,", filter);
    let server = Tidegate::start(&config);
    let response = refused(&server, "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n");
    assert_eq!(response.status, 413);
    assert_eq!(response.header("x-route"), Some("app"));
    let id = response.header("x-request-id").expect("the filter adds it to faults");
    let line = server.wait_for_log("\"status\":413");
    assert!(line.contains("\"route\":\"app\"") && line.contains(id), "{line}");
    let labels = [("route", "app"), ("class", "4xx")];
    server.wait_for_metric("tidegate_requests_total", &labels, 1.0);
}

#[test]
fn a_body_that_turns_out_to_be_too_large() {
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, SMALL));
    let mut client = server.connect("web");
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    // 100 bytes may come, in pieces; one more may not.
    for _ in 0..10 {
        client.send("a\r\n0123456789\r\n");
    }
    client.send("1\r\n!\r\n");
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (413, Some("close")));
    client.expect_closed();
    drop(client);
    hit(&server, "body", "body_too_large");
}

/// How long the server reads what follows its last response (`LINGER` of crates/http-server).
const LINGER: Duration = Duration::from_secs(2);

#[test]
fn a_client_that_sends_all_before_it_reads_is_told() {
    let server = Tidegate::start(&responding(SMALL));
    let body = vec![b'x'; 16 << 20];
    let head = format!("POST /ping HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    eventually("a client has sent everything in time", || {
        let mut client = server.connect("web");
        client.send(&head);
        let begin = Instant::now();
        if !client.try_send(&body) {
            assert!(begin.elapsed() >= LINGER, "the connection ends before everything is sent");
            return false;
        }
        assert_eq!(client.read_response().status, 413);
        client.expect_closed();
        true
    });
}

#[test]
fn a_route_may_allow_more_or_less() {
    let config = responding(SMALL).replace(
        "handler: { respond: { headers: { x-n: \"{query.n}\" }, body: \"late\"",
        "limits: { body: 5B }\n    handler: { respond: { body: \"late\"",
    );
    let server = Tidegate::start(&config);
    for (path, status) in [("/ping", 200), ("/slow", 413)] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabcdef");
        assert_eq!(server.exchange("web", request).status, status, "{path}");
    }
}

#[test]
fn connections_above_the_limit_get_a_clean_response() {
    let server = Tidegate::start(&responding(SMALL));
    let mut seated: Vec<_> = (0..3).map(|_| server.connect("web")).collect();
    for client in &mut seated {
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
    }
    for _ in 0..5 {
        let mut late = server.connect("web");
        late.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = late.read_response();
        assert_eq!((response.status, response.header("connection")), (503, Some("close")));
        assert!(response.header("retry-after").is_some(), "{response:?}");
        late.expect_closed();
    }
    let limit = [("limit", "connections")];
    server.wait_for_metric("tidegate_limits_hit_total", &limit, 5.0);
    let reason = [("reason", "connection_limit")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 5.0);
    // Existing connections are served, and a released permit is used again.
    let mut leaving = seated.pop().expect("three were seated");
    leaving.send("GET /ping HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(leaving.read_response().status, 200);
    leaving.expect_closed();
    drop(leaving);
    let reason = [("reason", "close_requested")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
    // A moment after the end was counted, as another worker sees it.
    eventually("the permit is used again", || {
        let mut next = server.connect("web");
        next.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        next.read_response().status == 200
    });
    seated[0].send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(seated[0].read_response().status, 200);
}
