//! A client that goes away takes its request with it: the upstream is let go of at once, and
//! nothing of the exchange is left. What counts as gone is a reset, and an end unless `half_close`
//! is set.

use crate::setup::behind;
use scenarios::{Connection, Tidegate, Upstream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

const GET: &str = "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n";

/// Takes a request, says so, and never answers; says as well when it is let go.
fn silent() -> (Upstream, Receiver<&'static str>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Upstream::start(move |peer| {
        let say = |word| {
            let _ = tell.lock().expect("no panic").send(word);
        };
        peer.read_head();
        say("asked");
        peer.read_until_gone();
        say("let go");
    });
    (upstream, told)
}

fn hears(told: &Receiver<&'static str>, word: &str) {
    assert_eq!(told.recv_timeout(scenarios::PATIENCE), Ok(word));
}

fn nothing_is_left(server: &Tidegate) {
    let reason = [("reason", "client_gone"), ("fault", "client")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
    let metrics = server.metrics();
    for gauge in [
        "tidegate_exchanges_in_flight",
        "tidegate_requests_in_flight",
        "tidegate_upstream_requests_in_flight",
        "tidegate_connections_active",
    ] {
        assert_eq!(metrics.sum(gauge, &[]), 0.0, "{gauge}");
    }
    assert_eq!(
        metrics.sum("tidegate_upstream_connections", &[]),
        0.0,
        "none goes back to the pool"
    );
}

fn vanish(how: impl Fn(Connection)) {
    let (upstream, told) = silent();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(GET);
    hears(&told, "asked");
    how(client);
    hears(&told, "let go");
    nothing_is_left(&server);
    assert_eq!(upstream.accepted(), 1, "and it was not tried again");
}

#[test]
fn a_reset_while_the_upstream_thinks() {
    vanish(Connection::reset);
}

#[test]
fn a_close_while_the_upstream_thinks() {
    vanish(drop);
}

#[test]
fn a_half_close_counts_as_gone() {
    vanish(|mut client| {
        client.finish_sending();
        client.read_until_gone();
    });
}

#[test]
fn pipelined_requests_do_not_hide_the_end() {
    vanish(|mut client| {
        client.send(GET.repeat(10));
        client.reset();
    });
}

#[test]
fn a_half_close_is_waited_for_where_the_listener_says_so() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate");
        }
    });
    let config = behind(&upstream, "");
    let config =
        config.replace("127.0.0.1:0\" } }\nadmin", "127.0.0.1:0\", half_close: true } }\nadmin");
    assert!(config.contains("half_close"), "{config}");
    let server = Tidegate::start(&config);
    let mut client = server.connect("web");
    client.send(GET.repeat(3));
    client.finish_sending();
    for _ in 0..3 {
        assert_eq!(client.read_response().text(), "late");
    }
    client.expect_closed();
    let reason = [("reason", "client_closed")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
}

#[test]
fn a_reset_in_the_middle_of_the_response() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\nbegin");
        // As much as goes: it must stop when the client is gone, not at the end.
        let some = vec![b'x'; 1 << 16];
        let taken = (0..1600).take_while(|_| peer.try_send(&some)).count();
        assert!(taken < 1500, "{taken} pieces were read without a client");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(GET);
    client.read_until("begin");
    client.reset();
    server.wait_for_metric("tidegate_connections_closed_total", &[("fault", "client")], 1.0);
    drop(upstream);
    assert_eq!(server.metrics().sum("tidegate_exchanges_in_flight", &[]), 0.0);
}

#[test]
fn a_close_while_the_upstream_pauses_in_its_response() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nbegin\r\n");
        peer.read_until_gone();
        let _ = tell.lock().expect("no panic").send("let go");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(GET);
    client.read_until("begin");
    drop(client);
    hears(&told, "let go");
    nothing_is_left(&server);
}

#[test]
fn an_end_in_the_middle_of_the_request() {
    let upstream = Upstream::start(|peer| {
        // The end may be known before anything was passed on.
        let request = String::from_utf8(peer.read_until_gone()).expect("text");
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        // No end is made up for a body that was cut off.
        assert!("half".starts_with(body), "{request}");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf");
    client.finish_sending();
    client.read_until_gone();
    drop(client);
    nothing_is_left(&server);
}

#[test]
fn it_is_in_the_log() {
    let (upstream, told) = silent();
    let log = "log: { access: { format: json, path: stderr } }";
    let server = Tidegate::start(&behind(&upstream, log));
    let mut client = server.connect("web");
    client.send(GET);
    hears(&told, "asked");
    drop(client);
    let line = server.wait_for_log("\"path\":\"/slow\"");
    assert!(line.contains("\"status\":499"), "{line}");
}
