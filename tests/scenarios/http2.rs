//! HTTP/2 on listeners, in the clear by prior knowledge, with curl as the client.

use crate::setup::{behind, body};
use crate::upstream::Refusing;
use scenarios::{Connection, Exit, Http2Peer, Process, Tidegate, Upstream, command_exists, frame};
use std::process::Command;
use std::sync::{Arc, Barrier};
use wire::h2::Event;

fn curl(server: &Tidegate, path: &str, more: &[&str]) -> Exit {
    let url = format!("http://{}{path}", server.address("web"));
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "40", "--http2-prior-knowledge"]);
    Process::run(command.args(more).arg(url))
}

/// Reads a request and responds with what it was, over a connection that ends.
fn describe(peer: &mut Connection) {
    let head = peer.read_head().to_lowercase();
    let fields = || head.lines().filter_map(|line| line.split_once(": "));
    let field = |name: &str| fields().find(|field| field.0 == name).map(|field| field.1.to_owned());
    let length = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let received = peer.read_exactly(length).len();
    let line = head.lines().next().unwrap_or_default();
    let described = format!("{line}, {received} bytes, {:?}", field("host").is_some());
    let length = described.len();
    let to_head = line.starts_with("head ");
    let content = if to_head { "" } else { &described };
    peer.send(format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 5\r\nX-Via: {}\r\n\
         Content-Length: {length}\r\n\r\n{content}",
        field("via").unwrap_or_default(),
    ));
}

#[test]
fn requests_are_forwarded_over_http_1_1_and_responses_come_back() {
    if !command_exists("curl") {
        return;
    }
    let upstream = Upstream::start(describe);
    let server = Tidegate::start(&behind(&upstream, ""));
    let exit = curl(&server, "/a?b=c", &[]);
    assert!(exit.stdout.starts_with("HTTP/2 200"), "{exit:?}");
    assert_eq!(body(&exit), "get /a?b=c http/1.1, 0 bytes, true", "{exit:?}");
    // Fields of the upstream's own connection do not belong in HTTP/2 (RFC 9113 8.2.2).
    for absent in ["\r\nconnection:", "\r\nkeep-alive:", "\r\ntransfer-encoding:"] {
        assert!(!exit.stdout.contains(absent), "{exit:?}");
    }
    assert!(exit.stdout.contains("\r\nx-via: 2.0 "), "{exit:?}");
    // A length of zero, and the end of the stream in a frame of its own (RFC 9113 8.1.1).
    let exit = curl(&server, "/empty", &["-X", "POST", "-d", ""]);
    assert_eq!(body(&exit), "post /empty http/1.1, 0 bytes, true", "{exit:?}");
    // More than the windows of a stream and of a connection.
    server.write("upload", vec![b'a'; 3_000_000]);
    let upload = format!("@{}", server.path("upload").display());
    let exit = curl(&server, "/up", &["--data-binary", &upload]);
    assert_eq!(body(&exit), "post /up http/1.1, 3000000 bytes, true", "{exit:?}");
    let exit = curl(&server, "/", &["--head"]);
    assert!(exit.stdout.starts_with("HTTP/2 200"), "{exit:?}");
    assert!(exit.stdout.contains("\r\ncontent-length: 30\r\n"), "{exit:?}");
}

#[test]
fn limits_and_faults_are_responses_on_their_stream() {
    if !command_exists("curl") {
        return;
    }
    let upstream = Upstream::start(describe);
    let server = Tidegate::start(&behind(&upstream, "limits: { body: 1000B }"));
    let exit = curl(&server, "/", &["--data-binary", &"a".repeat(1001)]);
    assert!(exit.stdout.starts_with("HTTP/2 413"), "{exit:?}");
    let exit = curl(&server, "/", &["-H", &format!("a: {}", "a".repeat(40_000))]);
    assert!(exit.stdout.starts_with("HTTP/2 431"), "{exit:?}");
    let down = Refusing::start();
    let address = upstream.address().to_string();
    let config = behind(&upstream, "").replace(&address, &down.address().to_string());
    let exit = curl(&Tidegate::start(&config), "/", &[]);
    assert!(exit.stdout.starts_with("HTTP/2 502"), "{exit:?}");
}

#[test]
fn the_stream_of_a_response_that_is_awaited_survives_a_drain() {
    if !command_exists("curl") {
        return;
    }
    let together = Arc::new(Barrier::new(2));
    let reached = together.clone();
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        // The request is here; then the server drains; then it is responded to.
        reached.wait();
        reached.wait();
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlate");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let exit = std::thread::scope(|scope| {
        let client = scope.spawn(|| curl(&server, "/", &[]));
        together.wait();
        server.signal("TERM");
        server.wait_for_log("draining");
        together.wait();
        client.join().expect("curl")
    });
    assert_eq!(body(&exit), "late", "{exit:?}");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn an_upload_that_crosses_the_last_goaway_leaves_the_requests_in_flight_alone() {
    let together = Arc::new(Barrier::new(2));
    let reached = together.clone();
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        reached.wait();
        peer.read_exactly(20_000);
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut connection = server.connect("web");
    let mut client = Http2Peer::client(&mut connection);
    let post =
        [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/"), LENGTH];
    let upload = client.open_unchecked(&post, false);
    client.send(upload, vec![0; 19_998], false);
    together.wait();
    server.signal("TERM");
    // The drain is announced, and the second GOAWAY follows the acknowledgement of its PING.
    for _ in 0..2 {
        while !matches!(client.event().expect("a GOAWAY"), Event::GoAway { .. }) {}
    }
    // A client that has sent this before it knew.
    let mut late = frame(1, 4, upload.id + 2, b"\x83\x86\x84\x01\x01a");
    late.extend(frame(0, 1, upload.id + 2, b"late"));
    client.connection.send(late);
    client.send(upload, vec![0; 2], true);
    assert_eq!(client.content(upload).0, b"done");
    assert_eq!(server.wait().code, Some(0));
}

const LENGTH: (&str, &str) = ("content-length", "20000");
