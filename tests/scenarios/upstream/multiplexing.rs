//! HTTP/2 to servers: what a request and its response become, and how connections are shared.

use super::{gateway, shown, wait_until, wait_until_released};
use scenarios::{Connection, Http2Peer, Tidegate, Upstream, eventually, gate};
use wire::Method;
use wire::h2::{Config, ErrorCode, Event, RequestLine};

pub(super) const GET: &str = "GET /a?b=c HTTP/1.1\r\nhost: shop.example\r\n\r\n";

/// The setting for this upstream with prior knowledge.
pub(super) fn h2c(upstream: &Upstream) -> String {
    format!("servers: ['h2c://{}']", upstream.address())
}

/// Responds to every request with its path.
pub(super) fn respond_with_path(peer: &mut Http2Peer<'_>) {
    while let Some(request) = peer.request() {
        peer.respond(request.stream, request.path);
    }
}

fn connections(server: &Tidegate, state: &str) -> f64 {
    server.metrics().sum("tidegate_upstream_connections", &[("state", state)])
}

fn wait_for_streams(server: &Tidegate, count: f64) {
    wait_until(server, &format!("{count} streams are open"), |metrics| {
        metrics.sum("tidegate_upstream_streams", &[]) == count
    });
}

#[test]
fn a_request_of_http_1_1_becomes_one_of_http_2() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        let request = peer.request().expect("a request");
        assert_eq!((&*request.method, &*request.path), ("POST", "/a?b=c"));
        let mut names: Vec<&str> = request.fields.iter().map(|field| field.0.as_str()).collect();
        names.sort_unstable();
        let expected = [
            "host",
            "te",
            "via",
            "x-end",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
        ];
        assert_eq!(names, expected);
        let expected = [Some("shop.example"), Some("trailers"), Some("1.1 tidegate")];
        assert_eq!(["host", "te", "via"].map(|name| request.field(name)), expected);
        let (content, trailers) = peer.content(request.stream);
        assert_eq!((content, trailers.as_str()), (b"abcd".to_vec(), "x-sum: 10\r\n"));
        peer.head(request.stream, 103, &[("link", "</a.css>")], false);
        peer.head(request.stream, 200, &[("x-kept", "yes"), ("te", "trailers")], false);
        peer.send(request.stream, "first ", false);
        peer.send(request.stream, "second", false);
        peer.trailers(request.stream, &[("grpc-status", "0"), ("content-length", "9")]);
        respond_with_path(peer);
    });
    let server = gateway(&h2c(&upstream));
    let mut client = server.connect("web");
    client.send(
        "POST /a?b=c HTTP/1.1\r\nHost: shop.example\r\nConnection: x-hop, te\r\nX-Hop: 1\r\n\
         TE: trailers, gzip\r\nKeep-Alive: 1\r\nX-End: 1\r\nExpect: 100-continue\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("2\r\nab\r\n2\r\ncd\r\n0\r\nX-Sum: 10\r\n\r\n");
    let hints = client.read_response();
    assert_eq!((hints.status, hints.header("link")), (103, Some("</a.css>")));
    let response = client.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "first second"));
    assert_eq!(response.header("x-kept"), Some("yes"));
    // What describes a connection or frames a message is neither a field of ours nor a trailer.
    assert_eq!(response.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    client.send(GET);
    assert_eq!(client.read_response().text(), "/a?b=c");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn requests_share_a_connection_and_are_served_in_any_order() {
    const REQUESTS: usize = 20;
    let upstream = Upstream::http2(Config::default(), |peer| {
        let requests: Vec<_> = (0..REQUESTS).map(|_| peer.request().expect("a request")).collect();
        for request in requests.into_iter().rev() {
            peer.respond(request.stream, request.path);
        }
        respond_with_path(peer);
    });
    let server = gateway(&h2c(&upstream));
    let mut clients: Vec<Connection> = (0..REQUESTS).map(|_| server.connect("web")).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{at} HTTP/1.1\r\nhost: a\r\n\r\n"));
    }
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_response().text(), format!("/{at}"));
    }
    assert_eq!(upstream.accepted(), 1);
    assert_eq!((connections(&server, "shared"), connections(&server, "idle")), (1.0, 0.0));
    wait_for_streams(&server, 0.0);
    assert_eq!(shown(&server)["servers"][0]["connections"], 1);
    drop(clients);
    wait_until_released(&server);
}

#[test]
fn a_full_connection_gets_another_next_to_it() {
    let (opener, gate) = gate();
    let config = Config { max_streams: 1, ..Config::default() };
    let upstream = Upstream::http2(config, move |peer| {
        while let Some(request) = peer.request() {
            if request.path == "/wait" {
                gate.wait();
            }
            peer.respond(request.stream, request.path);
        }
    });
    let opener = opener;
    let server = gateway(&h2c(&upstream));
    let ask =
        |path: &str| server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(ask("/known").text(), "/known");
    wait_for_streams(&server, 0.0);
    let mut waiting = server.connect("web");
    waiting.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n");
    wait_for_streams(&server, 1.0);
    assert_eq!(ask("/other").text(), "/other");
    assert_eq!((upstream.accepted(), connections(&server, "shared")), (2, 2.0));
    opener.open();
    assert_eq!(waiting.read_response().text(), "/wait");
}

#[test]
fn a_client_that_leaves_or_does_not_read_holds_up_no_other() {
    const SIZE: usize = 8_000_000;
    let upstream = Upstream::http2(Config::default(), |peer| {
        let first = peer.request().expect("a request");
        peer.head(first.stream, 200, &[], false);
        let mut left = SIZE;
        while let Some(event) = {
            if left > 0 && peer.protocol.is_ready(first.stream) {
                let _ = peer.protocol.send_data(first.stream, vec![b'x'; 100_000].into(), false);
                left -= 100_000;
            }
            peer.event()
        } {
            match event {
                Event::Request { stream, .. } => {
                    // The window of the first stream is full: little has been sent of it.
                    assert!(left > SIZE / 2, "{left}");
                    peer.respond(stream, "quick");
                }
                Event::Reset { stream, code, .. } => {
                    assert_eq!((stream, code), (first.stream, ErrorCode::CANCEL));
                    respond_with_path(peer);
                    return;
                }
                _ => {}
            }
        }
    });
    let server = gateway(&h2c(&upstream));
    let mut slow = server.connect("web");
    slow.set_receive_buffer(4096);
    slow.send(GET);
    slow.read_head();
    for _ in 0..3 {
        assert_eq!(server.exchange("web", GET).text(), "quick");
    }
    slow.reset();
    wait_for_streams(&server, 0.0);
    assert_eq!(server.exchange("web", GET).text(), "/a?b=c");
    assert_eq!(upstream.accepted(), 1);
    wait_until_released(&server);
}

#[test]
fn large_bodies_pass_both_ways_through_the_windows() {
    const SIZE: usize = 5_000_000;
    let upstream = Upstream::http2(Config::default(), |peer| {
        let request = peer.request().expect("a request");
        let (content, _) = peer.content(request.stream);
        assert_eq!(content.len(), SIZE);
        peer.head(request.stream, 200, &[("content-length", &SIZE.to_string())], false);
        peer.send(request.stream, content, true);
        peer.until_end();
    });
    let server = gateway(&h2c(&upstream));
    let mut client = server.connect("web");
    client.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n"));
    let content: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    client.send(&content);
    let response = client.read_response();
    assert_eq!(response.header("content-length"), Some(&*SIZE.to_string()));
    assert!(response.body == content, "the body comes back unchanged");
}

#[test]
fn the_response_may_begin_before_the_request_has_content() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        let request = peer.request().expect("a request");
        peer.head(request.stream, 200, &[], false);
        let (content, _) = peer.content(request.stream);
        peer.send(request.stream, content, true);
        peer.until_end();
    });
    let server = gateway(&h2c(&upstream));
    let mut connection = server.connect("web");
    let mut client = Http2Peer::client(&mut connection);
    let line = RequestLine {
        method: &Method::Post,
        secure: false,
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    let stream = client.protocol.request(line, [], false).expect("a new connection has room");
    let event = client.event().expect("a response");
    assert!(matches!(event, Event::Response { status: 200, .. }), "{event:?}");
    client.send(stream, "late", true);
    assert_eq!(client.content(stream).0, b"late");
}

#[test]
fn a_reload_and_a_drain_leave_open_streams_alone() {
    let (opener, gate) = gate();
    let upstream = Upstream::http2(Config::default(), move |peer| {
        let request = peer.request().expect("a request");
        peer.head(request.stream, 200, &[], false);
        peer.send(request.stream, "half ", false);
        gate.wait();
        peer.send(request.stream, "whole", true);
        respond_with_path(peer);
    });
    let opener = opener;
    let server = gateway(&h2c(&upstream));
    let mut client = server.connect("web");
    client.send(GET);
    let head = client.read_head();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let other = Upstream::http2(Config::default(), respond_with_path);
    server.rewrite_config(&super::config(&h2c(&other), 1));
    server.wait_for_metric("tidegate_config_reloads_total", &[], 1.0);
    assert_eq!(server.exchange("web", GET).text(), "/a?b=c");
    server.signal("TERM");
    server.wait_for_log("draining");
    opener.open();
    let rest = String::from_utf8(client.read_to_end()).expect("text");
    assert!(rest.contains("half ") && rest.contains("whole"), "{rest}");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_connection_that_is_not_used_is_closed() {
    let upstream = Upstream::http2(Config::default(), respond_with_path);
    let server = gateway(&format!("{}, timeouts: {{ idle: 100ms }}", h2c(&upstream)));
    for round in 1..3 {
        assert_eq!(server.exchange("web", GET).text(), "/a?b=c");
        assert_eq!(upstream.accepted(), round);
        wait_until(&server, "the connection is closed", |metrics| {
            metrics.sum("tidegate_upstream_connections", &[("state", "shared")]) == 0.0
        });
    }
    let server = gateway(&format!("{}, keepalive: {{ max_requests: 2 }}", h2c(&upstream)));
    for _ in 0..4 {
        assert_eq!(server.exchange("web", GET).status, 200);
    }
    assert_eq!(upstream.accepted(), 4, "two connections of two requests each");
}

#[test]
fn health_checks_and_the_proxy_header_go_over_http_2() {
    let upstream = Upstream::start(|connection| {
        // A check may be cut short by the end of the server.
        if connection.at_end() {
            return;
        }
        let line = connection.read_until("\r\n");
        let mut peer = Http2Peer::new(connection, Config::default());
        while let Some(request) = peer.request() {
            let is_check = request.field("user-agent") == Some("tidegate-health");
            assert_eq!(is_check, line == b"PROXY UNKNOWN\r\n");
            assert_eq!(request.path == "/healthz", is_check);
            peer.respond(request.stream, "ok");
        }
    });
    let server = gateway(&format!(
        "{}, health: {{ path: /healthz, interval: 100ms, timeout: 1m }}, send_proxy_protocol: v1",
        h2c(&upstream)
    ));
    server.wait_for_metric("tidegate_upstream_health_checks_total", &[("result", "ok")], 2.0);
    let before = upstream.accepted();
    for _ in 0..2 {
        assert_eq!(server.exchange("web", GET).text(), "ok");
    }
    assert!(upstream.accepted() >= before + 2, "a connection names one client");
    let failed = [("result", "failed")];
    assert_eq!(server.metrics().sum("tidegate_upstream_health_checks_total", &failed), 0.0);
}

#[test]
fn a_slow_response_is_a_504_on_its_stream_alone() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            if request.path != "/never" {
                peer.respond(request.stream, request.path);
            }
        }
    });
    let server = gateway(&format!(
        "{}, timeouts: {{ response: 300ms }}, retries: {{ attempts: 1 }}",
        h2c(&upstream)
    ));
    // A busy machine may take longer than that for a response.
    let serves = || eventually("a response", || server.exchange("web", GET).status == 200);
    serves();
    let mut never = server.connect("web");
    never.send("GET /never HTTP/1.1\r\nhost: a\r\n\r\n");
    serves();
    assert_eq!(never.read_response().status, 504);
    serves();
    assert_eq!(upstream.accepted(), 1);
}
