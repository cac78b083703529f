//! A configured response: its head, its body, its connection, and what HEAD and a closing client
//! change.

use scenarios::Tidegate;

const CONFIG: &str = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes:
  - name: ping
    match: { path: "/ping" }
    handler: { respond: { status: 200, headers: { content-type: text/plain }, body: "pong" } }
"#;

#[test]
fn one_connection_gets_response_after_response() {
    let server = Tidegate::start(CONFIG);
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = client.read_response();
        assert_eq!((response.status, response.version.as_str()), (200, "HTTP/1.1"));
        assert_eq!(response.header("content-type"), Some("text/plain"));
        assert_eq!(response.header("content-length"), Some("4"));
        assert!(response.header("date").is_some_and(|date| date.ends_with(" GMT")), "{response:?}");
        assert_eq!(response.body, b"pong");
    }
}

/// An early response to a request whose body is not read says so if it ends the connection, and
/// otherwise the connection persists.
#[test]
fn a_response_that_leaves_a_body_unread_says_whether_the_connection_ends() {
    let server = Tidegate::start(CONFIG);
    let chunked = "POST /ping HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let none = chunked.replace("/ping", "/none");
    let length = |length: usize| {
        format!("POST /ping HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
    };
    for (status, request, closes) in [
        (200, format!("{chunked}4\r\nbody\r\n0\r\n\r\n"), false),
        (200, format!("{chunked}4\r\nbody\r\n"), true),
        (200, chunked.to_owned(), true),
        (404, format!("{none}4\r\nbody\r\n"), true),
        (404, format!("{none}4\r\nbody\r\n0\r\n\r\n"), false),
        (200, format!("{}body", length(4)), false),
        (200, length(1 << 20), true),
    ] {
        let mut client = server.connect("web");
        client.send(&request);
        let response = client.read_response();
        let said = closes.then_some("close");
        assert_eq!((response.status, response.header("connection")), (status, said), "{request:?}");
        if closes {
            client.finish_sending();
            client.expect_closed();
        } else {
            client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(client.read_response().text(), "pong", "{request:?}");
        }
    }
}

#[test]
fn pipelined_requests_are_handled_in_order() {
    let server = Tidegate::start(CONFIG);
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\nGET /none HTTP/1.1\r\nhost: a\r\n\r\nHEAD");
    assert_eq!(client.read_response().status, 200);
    assert_eq!(client.read_response().status, 404);
    client.send(" /ping HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let last = client.read_response_to_head();
    assert_eq!((last.status, last.header("content-length")), (200, Some("4")));
    assert_eq!(last.header("connection"), Some("close"));
    client.expect_closed();
}

#[test]
fn a_request_in_single_bytes_is_the_same_request() {
    let server = Tidegate::start(CONFIG);
    let mut client = server.connect("web");
    client.send_byte_by_byte("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().text(), "pong");
}
