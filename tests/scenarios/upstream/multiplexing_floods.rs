//! HTTP/2 to servers that cost the gateway work or memory: each is bounded, and counted.

use super::flooding::{MEMORY_BYTES_MAX, memory};
use super::multiplexing::{GET, h2c};
use super::{assert_fault, gateway, wait_until_released};
use scenarios::{Http2Peer, Tidegate, Upstream, eventually, frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wire::h2::{Config, Event};

const FLOOD: [(&str, &str); 1] = [("limit", "upstream_flood")];
/// Streams that a server makes this side reset before its connection ends, without the refund of
/// ten a second.
const PROVOKED: usize = 100;

/// The frames of a server on a stream, by its number, which make the gateway reset it.
type Provocation = fn(u32) -> Vec<u8>;

/// MadeYouReset (CVE-2025-8671) by a server.
#[test]
fn a_server_that_provokes_resets_again_and_again_loses_its_connection() {
    let provocations: [(&str, Provocation); 4] = [
        ("a window update of zero", |id| frame(8, 0, id, &[0; 4])),
        ("a window above its maximum", |id| frame(8, 0, id, &[0x7f, 0xff, 0xff, 0xff])),
        // END_STREAM and END_HEADERS, without `:status`.
        ("a head without a status", |id| frame(1, 5, id, b"\0\x01x\x01y")),
        ("content without a head", |id| frame(0, 0, id, b"data")),
    ];
    for (what, provocation) in provocations {
        let handled = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&handled);
        let upstream = Upstream::http2(Config::default(), move |peer| {
            while let Some(request) = peer.request() {
                if peer.connection.number() > 0 {
                    peer.respond(request.stream, "ok");
                    continue;
                }
                counter.fetch_add(1, SeqCst);
                peer.flush();
                peer.connection.try_send(provocation(request.stream.id));
            }
        });
        let config =
            format!("{}, retries: {{ attempts: 1 }}, ejection: {{ failures: 0 }}", h2c(&upstream));
        let server = gateway(&config);
        let before = memory(&server);
        let mut client = server.connect("web");
        // The refund of a minute is the patience with a slow machine.
        let is_served = (0..PROVOKED + 600).any(|_| {
            client.send(GET);
            client.read_response().status == 200
        });
        assert!(is_served, "{what}: the next connection serves");
        let handled = handled.load(SeqCst);
        assert!((PROVOKED + 1..=PROVOKED + 600).contains(&handled), "{what}: {handled}");
        assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &FLOOD), 1.0, "{what}");
        assert_eq!(upstream.accepted(), 2, "{what}");
        drop(client);
        wait_until_released(&server);
        assert!(memory(&server) - before < MEMORY_BYTES_MAX, "{what}");
    }
}

/// Takes requests, responds to those without content, and reads no content.
fn reads_no_content(peer: &mut Http2Peer<'_>) {
    while let Some(event) = peer.event() {
        if let Event::Request { stream, ends: true, .. } = event {
            peer.respond(stream, "ok");
        }
    }
}

#[test]
fn windows_that_a_server_never_opens_end_in_a_time_out_with_bounded_memory() {
    const CLIENTS: usize = 8;
    let body = vec![b'x'; 4 << 20];
    let least = 65_535;
    let streams = Config { stream_window: least, connection_window: 64 << 20, ..Config::default() };
    let connection =
        Config { stream_window: 16 << 20, connection_window: least, ..Config::default() };
    for (what, config, is_zero) in [
        ("the windows of streams", streams.clone(), false),
        ("the window of the connection", connection, false),
        ("no window at all", streams, true),
    ] {
        let upstream = Upstream::http2(config, move |peer| {
            if is_zero {
                peer.flush();
                // SETTINGS_INITIAL_WINDOW_SIZE.
                peer.connection.send(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
            }
            reads_no_content(peer);
        });
        let server = gateway(&format!("{}, timeouts: {{ write: 2s }}", h2c(&upstream)));
        assert_eq!(server.exchange("web", GET).text(), "ok");
        let before = memory(&server);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect("web")).collect();
        std::thread::scope(|scope| {
            for client in &mut clients {
                let mut sending = client.clone_for_reading();
                let body = &body;
                scope.spawn(move || {
                    let length = body.len();
                    sending.send(format!(
                        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
                    ));
                    // The gateway responds before it has read everything.
                    sending.try_send(body);
                });
            }
            waiting(&server, CLIENTS);
            assert_eq!(server.exchange("web", GET).text(), "ok", "{what}: others are served");
            assert!(memory(&server) - before < MEMORY_BYTES_MAX, "{what}");
            for client in &mut clients {
                assert_fault(&client.read_response(), 504, "connection_write_timeout");
            }
            clients.clear();
        });
        assert_eq!(server.exchange("web", GET).text(), "ok", "{what}: the connection is usable");
        assert_eq!(upstream.accepted(), 1, "{what}");
        wait_until_released(&server);
        assert!(memory(&server) - before < MEMORY_BYTES_MAX, "{what}");
    }
}

/// Waits until so many requests are in flight, or were: a busy machine may reach the time-out of
/// one before another begins.
fn waiting(server: &Tidegate, requests: usize) {
    eventually(&format!("{requests} requests have begun"), || {
        let metrics = server.metrics();
        let ended = metrics.sum("tidegate_limits_hit_total", &[("limit", "slow_upstream")]);
        metrics.sum("tidegate_upstream_streams", &[]) + ended >= requests as f64
    });
}
