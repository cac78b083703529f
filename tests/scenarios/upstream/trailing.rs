//! Trailers (RFC 9110 6.5): passed on both ways, without what may not stand there.

use super::multiplexing::h2c;
use super::{gateway, servers, wait_until_released};
use scenarios::{Connection, Http2Peer, Tidegate, Upstream};
use wire::h2::{Config, Event};

/// Forbidden in trailers: removed on the way.
const FORBIDDEN: (&str, &str) = ("authorization", "evil");

/// A server of HTTP/1.1 that checks the request and responds with trailers of its own.
fn server_of_http1() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            let content = String::from_utf8(peer.read_until("\r\n\r\n")).expect("text");
            assert!(head.contains("\r\ntrailer: x-sum\r\n"), "{head}");
            assert!(
                content.to_ascii_lowercase().ends_with("\r\n0\r\nx-sum: 1\r\n\r\n"),
                "{content}"
            );
            peer.send(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\n\r\n\
                 4\r\nbody\r\n0\r\nx-end: 2\r\n\r\n",
            );
        }
    })
}

/// The same of HTTP/2.
fn server_of_http2() -> Upstream {
    Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            let (content, trailers) = peer.content(request.stream);
            assert_eq!(request.field("trailer"), Some("x-sum"));
            assert_eq!((&*content, &*trailers), (&b"body"[..], "x-sum: 1\r\n"));
            peer.head(request.stream, 200, &[("trailer", "x-end")], false);
            peer.send(request.stream, "body", false);
            peer.trailers(request.stream, &[("x-end", "2")]);
        }
    })
}

/// The field `trailer`, the content and the trailers that a client of HTTP/1.1 gets.
fn exchange_over_http1(server: &Tidegate) -> (String, String, Vec<(String, String)>) {
    let (name, value) = FORBIDDEN;
    let response = server.exchange(
        "web",
        format!(
            "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\
             trailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\nx-sum: 1\r\n{name}: {value}\r\n\r\n"
        ),
    );
    let field = response.header("trailer").unwrap_or_default().to_owned();
    (field, response.text(), response.trailers)
}

/// The same over HTTP/2.
fn exchange_over_http2(connection: &mut Connection) -> (String, String, Vec<(String, String)>) {
    let mut client = Http2Peer::client(connection);
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
    ];
    let stream = client.open_unchecked(&head, false);
    client.protocol.send_data(stream, "body".into(), false).expect("the stream is open");
    client.trailers(stream, &[("x-sum", "1"), FORBIDDEN]);
    match client.event() {
        Some(Event::Response { status: 200, ends: false, .. }) => {}
        other => panic!("no response: {other:?}"),
    }
    let fields = String::from_utf8_lossy(&client.protocol.fields().text).into_owned();
    let field = fields.lines().find_map(|line| line.strip_prefix("trailer: "));
    let (content, trailers) = client.content(stream);
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.into(), value.into()));
    let trailers = trailers.lines().filter_map(split).collect();
    let content = String::from_utf8(content).expect("text");
    (field.unwrap_or_default().to_owned(), content, trailers)
}

#[test]
fn they_pass_between_all_versions_and_are_announced() {
    for (is_http2, upstream) in [(false, server_of_http1()), (true, server_of_http2())] {
        let server = gateway(&if is_http2 { h2c(&upstream) } else { servers(&[&upstream]) });
        let expected =
            || ("x-end".to_owned(), "body".to_owned(), vec![("x-end".to_owned(), "2".to_owned())]);
        assert_eq!(exchange_over_http1(&server), expected(), "from HTTP/1.1; {is_http2}");
        let mut connection = server.connect("web");
        assert_eq!(exchange_over_http2(&mut connection), expected(), "from HTTP/2; {is_http2}");
        drop(connection);
        wait_until_released(&server);
    }
}

#[test]
fn those_of_a_response_reach_the_client() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum, x-time\r\n\r\n\
         4\r\nbody\r\n0\r\nx-sum: 1\r\nX-Time: 2\r\ncontent-length: 9\r\n\r\n",
    );
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.text(), "body");
        let find = |name: &str| {
            let mut found = response.trailers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.as_str())
        };
        assert_eq!((find("x-sum"), find("x-time")), (Some("1"), Some("2")), "{response:?}");
        // RFC 9110 6.5.1: what frames a message is not a trailer.
        assert_eq!(find("content-length"), None);
    }
    assert_eq!(upstream.accepted(), 1);

    // A client that cannot see trailers gets the body all the same.
    let old = server.exchange("web", "GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.text().as_str(), old.trailers.len()), ("body", 0));
    drop(client);
    wait_until_released(&server);
}

#[test]
fn those_of_a_request_reach_the_server() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
            let body = String::from_utf8(peer.read_until("0\r\n")).expect("text");
            assert!(body.contains("body"), "{body}");
            let mut trailers = String::new();
            while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
                trailers.push_str(&String::from_utf8(peer.read_until("\r\n")).expect("text"));
            }
            let trailers = trailers.to_ascii_lowercase();
            assert!(trailers.contains("x-sum: 1\r\n"), "{trailers}");
            assert!(!trailers.contains("host"), "{trailers}");
            peer.send(super::OK);
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\nX-Sum: 1\r\nhost: evil\r\n\r\n",
        );
        assert_eq!(client.read_response().text(), "ok");
    }
    drop(client);
    wait_until_released(&server);
}

/// Some servers treat trailers like headers.
#[test]
fn what_filters_replace_does_not_come_back_as_a_trailer() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            let body = String::from_utf8(peer.read_until("\r\n\r\n")).expect("text");
            let body = body.to_ascii_lowercase();
            assert!(body.contains("x-sum: 1\r\n") && body.contains("x-seen: 2\r\n"), "{body}");
            assert!(!body.contains("root"), "{body}");
            peer.send(super::OK);
        }
    });
    let auth = Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let filters = format!(
        "[{{ forward_auth: {{ url: \"http://{}/\", copy: [remote-user] }} }}, \
         {{ request_headers: {{ \
         set: {{ x-user: \"{{consumer}}\" }}, remove: [x-internal], add: {{ x-seen: a }} }} }}]",
        auth.address()
    );
    let config = super::config(&servers(&[&upstream]), 1).replace(
        "handler: { upstream: u }",
        &format!("filters: {filters}, handler: {{ upstream: u }}"),
    );
    let server = Tidegate::start(&config);
    let response = server.exchange(
        "web",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\
         X-User: root\r\nX_User: root\r\nremote-user: root\r\nx-internal: root\r\n\
         x-seen: 2\r\nx-sum: 1\r\n\r\n",
    );
    assert_eq!(response.text(), "ok");
}
