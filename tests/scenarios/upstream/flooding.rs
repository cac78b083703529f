//! Servers that never stop: heads, fields, chunk extensions, trailers without an end. Each is cut
//! off at its bound, and the memory of the gateway stays what it was.

use super::{GET, assert_fault, closed, gateway, servers, settle_without_connections};
use scenarios::{Connection, Tidegate, Upstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a server would send if it were let.
const FLOOD_BYTES: usize = 1 << 30;
/// What the buffers between the two, and a bound of 64 KiB, can swallow of that.
const SWALLOWED_BYTES_MAX: usize = 32 << 20;
/// How much the memory of the gateway may move for any reason.
pub(super) const MEMORY_BYTES_MAX: f64 = 16e6;

/// Sends `opening`, then `more` again and again, up to a gigabyte; counts what was taken.
fn flooding(opening: &'static str, more: Vec<u8>) -> (Upstream, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let upstream = Upstream::start(move |peer: &mut Connection| {
        peer.read_head();
        peer.send(opening);
        while counted.load(Ordering::Relaxed) < FLOOD_BYTES && peer.try_send(&more) {
            counted.fetch_add(more.len(), Ordering::Relaxed);
        }
    });
    (upstream, taken)
}

pub(super) fn memory(server: &Tidegate) -> f64 {
    server.metrics().sum("process_resident_memory_bytes", &[])
}

fn assert_bounded(server: &Tidegate, before: f64, taken: &AtomicUsize) {
    settle_without_connections(server);
    assert!(taken.load(Ordering::Relaxed) < SWALLOWED_BYTES_MAX, "{taken:?} bytes were taken");
    let grown = memory(server) - before;
    assert!(grown < MEMORY_BYTES_MAX, "grew by {grown} bytes");
}

#[test]
fn heads_without_an_end_are_502() {
    let fields = b"x-filler: abcdefghijklmnopqrstuvwxyz\r\n".repeat(1000);
    let line = vec![b'a'; 64 << 10];
    for (opening, more, error) in [
        ("HTTP/1.1 200 OK\r\n", fields, "http_response_header_section_size"),
        ("HTTP/1.1 200 OK\r\nx: ", line.clone(), "http_response_header_section_size"),
        ("HTTP/1.1 200 OK\r\n", line.clone(), "http_response_header_section_size"),
        ("HTTP/1.1 200 ", line.clone(), "http_protocol_error"),
        ("", line, "http_protocol_error"),
    ] {
        let (upstream, taken) = flooding(opening, more);
        let server = gateway(&servers(&[&upstream]));
        let before = memory(&server);
        let mut client = server.connect("web");
        client.send(GET);
        let response = client.read_response();
        assert_fault(&response, 502, error);
        if error == "http_response_header_section_size" {
            let limit = [("limit", "upstream_headers")];
            server.wait_for_metric("tidegate_limits_hit_total", &limit, 1.0);
        }
        drop(client);
        assert_bounded(&server, before, &taken);
    }
}

#[test]
fn what_surrounds_chunks_is_bounded_too() {
    for (opening, more) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;", "ext=abcdefgh;"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "0"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", "x-sum: 1\r\n"),
    ] {
        let (upstream, taken) = flooding(opening, more.as_bytes().repeat(1000));
        let server = gateway(&servers(&[&upstream]));
        let before = memory(&server);
        let mut client = server.connect("web");
        client.send(GET);
        assert!(client.read_head().starts_with("HTTP/1.1 200 OK\r\n"));
        let body = client.read_until_gone();
        assert!(!body.ends_with(b"0\r\n\r\n"), "{:?}", String::from_utf8_lossy(&body));
        drop(client);
        closed(&server, "upstream_aborted");
        assert_bounded(&server, before, &taken);
    }
}

#[test]
fn a_head_at_its_bound_is_passed_on() {
    // 64 KiB by default: one field that nearly fills it, and 150 small ones.
    let value = "v".repeat(48 << 10);
    let many: String = (0..150).map(|at| format!("x-{at}: {at}\r\n")).collect();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: {value}\r\n{many}\r\nok");
    let upstream = Upstream::responding(head);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send(GET);
        let response = client.read_response();
        assert_eq!(response.header("x"), Some(value.as_str()));
        assert_eq!(response.header("x-149"), Some("149"));
    }
}
