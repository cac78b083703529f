//! Back-pressure: a slow side slows the other one down, and what is between them stays small
//! and whole.

use super::{gateway, servers, wait_until, wait_until_released};
use scenarios::gate;
use scenarios::{Connection, Tidegate, Upstream, current_thread, eventually_some};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// More than twice what the buffers of the kernel on the way can hold.
const BODY_BYTES: usize = 50 << 20;
/// Buffers of the gateway and of what is counted to it; far less than a body.
const MEMORY_BYTES_MAX: f64 = 20e6;

/// Bytes that tell where they belong: what is lost, doubled or swapped shows.
fn body() -> &'static [u8] {
    static BODY: OnceLock<Vec<u8>> = OnceLock::new();
    BODY.get_or_init(|| {
        // A period that is not a multiple of any buffer's size.
        let period: Vec<u8> = (0..65_521_u32).map(|at| (at / 7 + at) as u8).collect();
        let mut body = period.repeat(BODY_BYTES / period.len() + 1);
        body.truncate(BODY_BYTES);
        body
    })
}

/// A thread that sends the body, and how much of it the kernel has taken.
#[derive(Default)]
struct Sender {
    thread: OnceLock<PathBuf>,
    sent: AtomicUsize,
}

/// Sends the body in pieces and counts them.
fn send_body_in_pieces(connection: &mut Connection, chunked: bool, sender: &Sender) {
    let size = 64 << 10;
    sender.thread.set(current_thread()).expect("one thread sends");
    while sender.sent.load(Ordering::SeqCst) < BODY_BYTES {
        let from = sender.sent.load(Ordering::SeqCst);
        if chunked {
            connection.send(format!("{size:x}\r\n"));
        }
        connection.send(&body()[from..from + size]);
        if chunked {
            connection.send("\r\n");
        }
        sender.sent.fetch_add(size, Ordering::SeqCst);
    }
    if chunked {
        connection.send("0\r\n\r\n");
    }
}

/// Waits until neither the sender nor the server can do more, and returns how much was sent.
fn standstill(server: &Tidegate, sender: &Sender) -> usize {
    let thread = eventually_some("the body is being sent", || sender.thread.get());
    server.wait_until_idle(&[thread]);
    sender.sent.load(Ordering::SeqCst)
}

fn memory(server: &Tidegate) -> f64 {
    server.metrics().sum("process_resident_memory_bytes", &[])
}

#[test]
fn a_slow_client_slows_a_fast_server() {
    for chunked in [false, true] {
        let sender = Arc::<Sender>::default();
        let sends = Arc::clone(&sender);
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            if chunked {
                peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            } else {
                peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n"));
            }
            send_body_in_pieces(peer, chunked, &sends);
        });
        let server = gateway(&servers(&[&upstream]));
        let before = memory(&server);
        let mut client = server.connect("web");
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let pending = standstill(&server, &sender);
        assert!(pending < BODY_BYTES / 2, "{pending} bytes went somewhere");
        assert!(memory(&server) - before < MEMORY_BYTES_MAX);

        let response = client.read_response();
        assert!(response.body == body(), "{} bytes", response.body.len());
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn a_slow_server_slows_a_fast_client() {
    for chunked in [false, true] {
        let (opener, gate) = gate();
        let upstream = Upstream::start(move |peer| {
            gate.wait();
            let head = peer.read_head();
            let length = format!("content-length: {BODY_BYTES}\r\n");
            assert_eq!(head.to_ascii_lowercase().contains(&length), !chunked, "{head}");
            let read = if chunked { peer.read_chunks() } else { peer.read_exactly(BODY_BYTES) };
            assert!(read == body(), "{} bytes", read.len());
            peer.send(super::OK);
        });
        let server = gateway(&servers(&[&upstream]));
        let before = memory(&server);
        let mut client = server.connect("web");
        let mut sending = client.clone_for_reading();
        let sender = Arc::<Sender>::default();
        let sends = Arc::clone(&sender);
        let sending_thread = std::thread::spawn(move || {
            let framing = if chunked {
                "transfer-encoding: chunked".to_owned()
            } else {
                format!("content-length: {BODY_BYTES}")
            };
            sending.send(format!("PUT / HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n"));
            send_body_in_pieces(&mut sending, chunked, &sends);
        });
        let pending = standstill(&server, &sender);
        assert!(pending < BODY_BYTES / 2, "{pending} bytes went somewhere");
        assert!(memory(&server) - before < MEMORY_BYTES_MAX);

        opener.open();
        assert_eq!(client.read_response().text(), "ok");
        sending_thread.join().expect("everything was sent");
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn many_slow_clients_cost_little_each() {
    const CLIENTS: usize = 20;
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n"));
        let block = vec![b'x'; 1 << 20];
        // Until the client leaves.
        while peer.try_send(&block) {}
    });
    let server = gateway(&servers(&[&upstream]));
    let before = memory(&server);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect("web");
            client.shrink_receive_buffer();
            client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            client.read_head();
            client
        })
        .collect();
    wait_until(&server, "all in flight", |metrics| {
        metrics.sum("tidegate_exchanges_in_flight", &[]) == CLIENTS as f64
    });
    server.wait_until_idle(&[]);
    let each = (memory(&server) - before) / CLIENTS as f64;
    assert!(each < 1e6, "{each} bytes for each client");
    drop(clients);
    wait_until_released(&server);
}
