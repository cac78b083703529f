//! Servers that response before they have read the request: the response reaches the client that is
//! still sending, and the rest of the body never becomes a request.

use super::{OK, gateway, servers, wait_until, wait_until_released};
use scenarios::{Connection, Opener, Tidegate, Upstream, gate};

/// More than the buffers of the kernel on the way can hold.
const BODY_BYTES: usize = 32 << 20;

fn head(bytes: usize) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {bytes}\r\n\r\n")
}

/// Sends a body from another thread, as far as it is taken.
fn send_body(client: &Connection) -> std::thread::JoinHandle<bool> {
    let mut sending = client.clone_for_reading();
    std::thread::spawn(move || {
        let block = vec![b'x'; 64 << 10];
        (0..BODY_BYTES / block.len()).all(|_| sending.try_send(&block))
    })
}

/// The next client is served whatever the one before has left behind.
fn assert_serves(server: &Tidegate, upstream: &Upstream) {
    let before = upstream.accepted();
    let response = server.exchange("web", "GET /next HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    assert!(upstream.accepted() > before, "a connection with half a request was used again");
}

/// Answers a POST as soon as its head is there and hangs up or not; answers others with `OK`.
fn refusing_uploads(response: &'static str, hangs_up: bool) -> (Upstream, Opener) {
    let (opener, gate) = gate();
    let upstream = Upstream::start(move |peer| {
        if peer.read_head().starts_with("POST") {
            peer.send(response);
            if !hangs_up {
                // It listens no more.
                gate.wait();
            }
        } else {
            peer.send(OK);
        }
    });
    (upstream, opener)
}

#[test]
fn a_refusal_reaches_the_client_that_is_still_sending() {
    for hangs_up in [false, true] {
        for response in [
            "HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch",
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\nmuch",
        ] {
            let (upstream, _opener) = refusing_uploads(response, hangs_up);
            let server = gateway(&servers(&[&upstream]));
            let mut client = server.connect("web");
            client.send(head(BODY_BYTES));
            let sender = send_body(&client);
            let response = client.read_response();
            assert!(response.status == 413 || response.status == 401, "{response:?}");
            assert_eq!(response.text(), "much");
            // So much is not read only to be thrown away.
            assert_eq!(response.header("connection"), Some("close"));
            client.read_until_gone();
            drop(client);
            sender.join().expect("the sender ends");
            assert_serves(&server, &upstream);
            wait_until_released(&server);
        }
    }
}

#[test]
fn after_a_refusal_a_short_rest_is_read_away() {
    let (upstream, _opener) =
        refusing_uploads("HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\n\r\nmuch", false);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(head(100_000));
    client.send([b'x'; 10]);
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (403, None));
    // The rest looks like a request and is none.
    let mut rest = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n".repeat(3000);
    rest.resize(100_000 - 10, b'x');
    client.send(rest);
    client.send("GET /next HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().text(), "ok");
    drop(client);
    wait_until_released(&server);
    assert_eq!(server.metrics().sum("tidegate_requests_total", &[]), 2.0);
}

#[test]
fn a_response_that_begins_early_continues_while_the_body_is_read() {
    // An echo: what comes is sent back as it comes.
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n"));
            let mut left = BODY_BYTES;
            while left > 0 {
                let block = peer.read_exactly(left.min(16 << 10));
                left -= block.len();
                peer.send(block);
            }
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(head(BODY_BYTES));
        let sender = send_body(&client);
        let response = client.read_response();
        assert_eq!((response.status, response.body.len()), (200, BODY_BYTES));
        assert!(response.body.iter().all(|byte| *byte == b'x'));
        assert!(sender.join().expect("the sender ends"), "everything was taken");
    }
    assert_eq!(upstream.accepted(), 1, "both ended well, so the connection was used again");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn a_whole_early_response_is_not_held_back_by_the_body() {
    let (upstream, _opener) = refusing_uploads(OK, false);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(head(BODY_BYTES));
    // No more of the body than its beginning, without which no server is occupied.
    client.send("x");
    let response = client.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    drop(client);
    wait_until(&server, "a client gone", |metrics| {
        metrics.sum("tidegate_connections_active", &[]) == 0.0
    });
    assert_serves(&server, &upstream);
    wait_until_released(&server);
}
