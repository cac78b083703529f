//! Upstream servers that stall: each wait has a time-out, a status or a clean end, and a counter.

use super::{GET, ask, assert_fault, closed, gateway, servers, settle_without_connections};
use scenarios::gate;
use scenarios::{Connection, Tidegate, Upstream};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// Reads a request, sends `words` and then nothing more until the gateway closes.
fn stalling(words: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        peer.read_head();
        peer.send(words);
        peer.expect_closed();
    })
}

/// A gateway with one short time-out: no other can fire first on a busy machine.
fn behind(upstream: &Upstream, timeout: &str) -> Tidegate {
    gateway(&format!("{}, timeouts: {{ {timeout}: 500ms }}", servers(&[upstream])))
}

#[test]
fn a_server_without_a_response_is_504() {
    for part in ["", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let upstream = stalling(part);
        let server = behind(&upstream, "response");
        let mut client = server.connect("web");
        client.send(GET);
        let response = client.read_response();
        assert_fault(&response, 504, "http_response_timeout");
        assert_eq!(response.header("connection"), None, "the client is not to blame");
        server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_upstream")], 1.0);
        drop(client);
        settle_without_connections(&server);
    }
}

#[test]
fn a_head_in_drops_is_504_too() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        for byte in "HTTP/1.1 200 OK\r\n".bytes().cycle() {
            // Shorter than any time-out, again and again.
            std::thread::sleep(std::time::Duration::from_millis(20));
            if !peer.try_send([byte]) {
                return;
            }
        }
    });
    let server = behind(&upstream, "response");
    let mut client = server.connect("web");
    client.send(GET);
    assert_fault(&client.read_response(), 504, "http_response_timeout");
    drop(client);
    settle_without_connections(&server);
}

#[test]
fn a_body_that_stalls_ends_the_response_unfinished() {
    for head in ["content-length: 10", "transfer-encoding: chunked"] {
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n2\r\nab\r\n"));
            peer.expect_closed();
        });
        let server = behind(&upstream, "read");
        let mut client = server.connect("web");
        client.send(GET);
        assert!(client.read_head().starts_with("HTTP/1.1 200"));
        assert_eq!(client.read_until_gone(), b"2\r\nab\r\n");
        drop(client);
        closed(&server, "upstream_aborted");
        server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_upstream")], 1.0);
        settle_without_connections(&server);
    }
}

#[test]
fn a_server_that_does_not_read_is_504() {
    let (opener, gate) = gate();
    let upstream = Upstream::start(move |peer| {
        peer.shrink_receive_buffer();
        gate.wait();
    });
    let server = behind(&upstream, "write");
    let mut client = server.connect("web");
    let length = 64 << 20;
    client.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"));
    let body = vec![b'x'; length];
    let mut sending = client.clone_for_reading();
    let sender = std::thread::spawn(move || sending.try_send(body));
    assert_fault(&client.read_response(), 504, "connection_write_timeout");
    client.read_until_gone();
    drop(client);
    sender.join().expect("the sender ends");
    opener.open();
    settle_without_connections(&server);
}

#[test]
fn a_connection_that_is_not_taken_is_504() {
    // A listener whose queue is full: the kernel lets further connections wait.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&anywhere.into()).expect("a free port");
    socket.listen(0).expect("a listening socket");
    let address = socket.local_addr().expect("an address").as_socket().expect("IPv4");
    let _full = Connection::to(address);

    let server = gateway(&format!(r#"servers: ["{address}"], timeouts: {{ connect: 500ms }}"#));
    assert_fault(&ask(&server), 504, "connection_timeout");
    let timeout = [("upstream", "u"), ("result", "timeout")];
    assert_eq!(server.metrics().sum("tidegate_upstream_connects_total", &timeout), 1.0);
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_upstream")], 1.0);
    settle_without_connections(&server);
}
