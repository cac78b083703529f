//! HTTP/2 to servers that refuse, go away, lie and flood; and tunnels.

use super::flooding::{MEMORY_BYTES_MAX, memory};
use super::multiplexing::{GET, h2c, respond_with_path};
use super::{assert_fault, gateway, sent_to, wait_until_released};
use scenarios::{Connection, Http2Peer, Tidegate, Upstream, frame};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wire::h2::{Config, ErrorCode, Event, StreamKey};

const POST: &str = "POST /a?b=c HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";

#[test]
fn what_the_server_has_not_processed_is_sent_again() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        let request = peer.request().expect("a request");
        if peer.connection.number() == 0 {
            // Refused: sent again on the same connection.
            peer.protocol.reset(request.stream, ErrorCode::REFUSED_STREAM);
            let request = peer.request().expect("the same request");
            assert_eq!(peer.content(request.stream).0, b"hi");
            peer.respond(request.stream, "first");
            let request = peer.request().expect("a request");
            assert_eq!(request.method, "POST");
            // Above the last stream of GOAWAY, which the protocol cannot say by itself.
            peer.flush();
            peer.connection.send(frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
            return;
        }
        assert_eq!(peer.content(request.stream).0, b"hi");
        peer.respond(request.stream, "second");
        peer.until_end();
    });
    let server = gateway(&h2c(&upstream));
    assert_eq!(server.exchange("web", POST).text(), "first");
    assert_eq!(server.exchange("web", POST).text(), "second");
    assert_eq!(upstream.accepted(), 2);
    assert_eq!(sent_to(&server, &upstream, "error"), 0.0);
    wait_until_released(&server);
}

#[test]
fn only_an_idempotent_request_is_sent_again_after_an_end_without_goaway() {
    let posts = AtomicUsize::new(0);
    let upstream = Upstream::http2(Config::default(), move |peer| {
        while let Some(request) = peer.request() {
            if request.path == "/warm" {
                peer.respond(request.stream, "warm");
            } else if request.method == "POST" {
                assert_eq!(posts.fetch_add(1, SeqCst), 0, "POST was sent again");
                return;
            } else if peer.connection.number() < 2 {
                return;
            } else {
                peer.respond(request.stream, "again");
            }
        }
    });
    let server = gateway(&h2c(&upstream));
    let warm = "GET /warm HTTP/1.1\r\nhost: a\r\n\r\n";
    assert_eq!(server.exchange("web", warm).text(), "warm");
    assert_fault(&server.exchange("web", POST), 502, "connection_terminated");
    assert_eq!(server.exchange("web", warm).text(), "warm");
    assert_eq!(server.exchange("web", GET).text(), "again");
    assert_eq!(upstream.accepted(), 3);
}

#[test]
fn a_server_that_always_refuses_is_given_up() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            peer.protocol.reset(request.stream, ErrorCode::REFUSED_STREAM);
        }
    });
    let server = gateway(&h2c(&upstream));
    assert_fault(&server.exchange("web", GET), 502, "connection_terminated");
    wait_until_released(&server);
}

#[test]
fn a_malformed_response_is_a_502_and_ends_its_stream_alone() {
    type Lie = (&'static str, u16, &'static [(&'static str, &'static str)], &'static str);
    const LIES: &[Lie] = &[
        ("/length", 200, &[("content-length", "1")], "two"),
        ("/status", 101, &[], ""),
        ("/no-content", 204, &[("content-length", "5")], ""),
        ("/value", 200, &[("x-a", "a\r\nb: c")], ""),
        ("/te", 200, &[("te", "gzip")], ""),
    ];
    let upstream = Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            match LIES.iter().find(|lie| lie.0 == request.path) {
                Some((_, status, fields, body)) => {
                    peer.head(request.stream, *status, fields, body.is_empty());
                    if !body.is_empty() {
                        peer.send(request.stream, *body, true);
                    }
                }
                None => peer.respond(request.stream, request.path),
            }
        }
    });
    let server = gateway(&format!("{}, ejection: {{ failures: 0 }}", h2c(&upstream)));
    for (path, ..) in LIES {
        let mut client = server.connect("web");
        client.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        if *path == "/length" {
            // Its head was already passed on, or not.
            client.read_until_gone();
            continue;
        }
        let response = client.read_response();
        assert_eq!(response.status, 502, "{path}");
        assert_eq!(server.exchange("web", GET).text(), "/a?b=c", "{path}");
    }
    assert_eq!(upstream.accepted(), 1);
    wait_until_released(&server);
}

#[test]
fn the_limits_of_response_heads_hold() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            let large = "x".repeat(4000);
            let many: Vec<(&str, &str)> = (0..40).map(|_| ("x-many", "1")).collect();
            let fields = if request.path == "/large" { vec![("x-large", &*large)] } else { many };
            peer.head(request.stream, 200, &fields, true);
        }
    });
    let server = gateway(&format!("{}, headers: 2KiB, header_count: 20", h2c(&upstream)));
    for path in ["/large", "/many"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = server.exchange("web", request);
        assert_fault(&response, 502, "http_response_header_section_size");
    }
    assert_eq!(upstream.accepted(), 1);
}

/// A server that sends `first` once it has a request, and then `again` until the connection ends.
fn flooding(first: Vec<u8>, again: &[u8]) -> Upstream {
    let many = again.repeat(100);
    Upstream::http2(Config::default(), move |peer| {
        if peer.request().is_none() {
            return;
        }
        peer.flush();
        let mut is_open = peer.connection.try_send(&first);
        while is_open && !many.is_empty() {
            is_open = peer.connection.try_send(&many);
        }
        peer.until_end();
    })
}

#[test]
fn floods_of_a_server_end_its_connection() {
    // A literal field `:status: 103`, and the end of the section.
    let interim = frame(1, 4, 1, b"\x08\x03103");
    // One entry of 4000 bytes in the table of HPACK, and thousands of references to it.
    let entry = [&b"\x88\x40\x01a\x7f\xa1\x1e"[..], &[b'v'; 4000]].concat();
    let bomb = frame(1, 4, 1, &[&entry[..], &[0xbe; 10_000]].concat());
    let unfinished = |more: Vec<u8>| [frame(1, 0, 1, b"\x88"), more.repeat(100)].concat();
    let head = frame(1, 4, 1, b"\x88");
    let once = |bytes: &[u8]| flooding(bytes.to_vec(), b"");
    let again = |bytes: &[u8]| flooding(Vec::new(), bytes);
    // Those that run into a limit of HTTP/2 are counted.
    for (what, upstream, expected, hits) in [
        ("PING", again(&frame(6, 0, 0, &[0; 8])), 502, 1.0),
        ("SETTINGS", again(&frame(4, 0, 0, b"")), 502, 1.0),
        ("PRIORITY", again(&frame(2, 0, 1, &[0, 0, 0, 0, 16])), 502, 1.0),
        ("WINDOW_UPDATE", again(&frame(8, 0, 0, &[0, 0, 0, 1])), 502, 1.0),
        ("GOAWAY", again(&frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])), 502, 1.0),
        ("RST_STREAM", again(&frame(3, 0, 1, &[0, 0, 0, 8])), 502, 1.0),
        ("empty DATA", flooding(head, &frame(0, 0, 1, b"")), 200, 1.0),
        ("CONTINUATION", once(&unfinished(frame(9, 0, 1, b""))), 502, 1.0),
        ("fields without an end", once(&unfinished(frame(9, 0, 1, &[0x88; 16_384]))), 502, 1.0),
        ("HPACK", once(&bomb), 502, 1.0),
        ("unknown", again(&frame(0x77, 0, 0, b"")), 502, 1.0),
        ("PUSH_PROMISE", again(&frame(5, 4, 1, &[0, 0, 0, 2, 0x82])), 502, 0.0),
        ("interim", again(&interim), 502, 1.0),
        ("DATA without a head", again(&frame(0, 0, 1, &[0; 1000])), 502, 1.0),
        ("not HTTP/2", again(b"HTTP/1.1 400 Bad Request\r\n\r\n"), 502, 0.0),
    ] {
        let server = gateway(&format!("{}, retries: {{ attempts: 1 }}", h2c(&upstream)));
        let before = memory(&server);
        let mut client = server.connect("web");
        client.send(GET);
        let status = loop {
            let head = client.read_head();
            let status: u16 = head[9..12].parse().expect("a status");
            if status >= 200 {
                break status;
            }
        };
        assert_eq!(status, expected, "{what}");
        let limit = [("limit", "upstream_flood")];
        server.wait_for_metric("tidegate_limits_hit_total", &limit, hits);
        drop(client);
        wait_until_released(&server);
        assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &limit), hits, "{what}");
        assert!(memory(&server) - before < MEMORY_BYTES_MAX, "{what}: {before}");
    }
}

fn upgrade(server: &Tidegate) -> Connection {
    let mut client = server.connect("web");
    client.send(
        "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    client
}

#[test]
fn a_websocket_is_an_extended_connect_where_the_server_announces_it() {
    let config = Config { extended_connect: true, ..Config::default() };
    let upstream = Upstream::http2(config, |peer| {
        let request = peer.request().expect("a request");
        assert_eq!((&*request.method, request.protocol.as_deref()), ("CONNECT", Some("websocket")));
        assert_eq!((&*request.path, request.field("sec-websocket-version")), ("/chat", Some("13")));
        for absent in ["connection", "upgrade", "sec-websocket-key"] {
            assert_eq!(request.field(absent), None);
        }
        peer.head(request.stream, 200, &[], false);
        echo(peer, request.stream);
        respond_with_path(peer);
    });
    let server = gateway(&h2c(&upstream));
    let mut client = upgrade(&server);
    let response = client.read_response();
    assert_eq!((response.status, response.header("upgrade")), (101, Some("websocket")));
    // The example of RFC 6455 1.3.
    let accept = Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(response.header("sec-websocket-accept"), accept);
    let long = "x".repeat(300_000);
    for bytes in [b"\x81\x02hi", long.as_bytes()] {
        client.send(bytes);
        assert_eq!(client.read_exactly(bytes.len()), bytes);
    }
    for direction in ["received", "sent"] {
        let labels = [("direction", direction), ("type", "text")];
        server.wait_for_metric("tidegate_websocket_messages_total", &labels, 1.0);
    }
    assert_eq!(server.metrics().sum("tidegate_upstream_streams", &[]), 1.0);
    client.finish_sending();
    assert_eq!(client.read_to_end(), b"goodbye");
    assert_eq!(server.exchange("web", GET).text(), "/a?b=c");
    assert_eq!(upstream.accepted(), 1);
    wait_until_released(&server);
}

/// Sends everything back until the tunnel's end, and then one word more.
fn echo(peer: &mut Http2Peer<'_>, stream: StreamKey) {
    let mut events = VecDeque::new();
    loop {
        let event = events.pop_front().or_else(|| peer.event()).expect("the tunnel has an end");
        let Event::Data { data, ends, .. } = event else { continue };
        peer.protocol.release(stream, data.len());
        if ends {
            break;
        }
        peer.protocol.send_data(stream, data, false).expect("the stream is open");
        events.extend(peer.until_ready(stream).expect("the gateway stays"));
    }
    peer.send(stream, "goodbye", true);
}

#[test]
fn a_websocket_without_a_server_that_has_it_is_a_502() {
    let upstream = Upstream::http2(Config::default(), respond_with_path);
    let server = gateway(&h2c(&upstream));
    for _ in 0..6 {
        let mut client = upgrade(&server);
        assert_eq!(client.read_response().status, 502);
    }
    // It is not a failure of the server: nothing is ejected.
    assert_eq!(server.exchange("web", GET).text(), "/a?b=c");
    // Any other upgrade is an offer that may be ignored (RFC 9110 7.8).
    let other = "GET /other HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
    assert_eq!(server.exchange("web", other).text(), "/other");
    wait_until_released(&server);
}
