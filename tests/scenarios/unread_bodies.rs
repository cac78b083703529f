//! Responses without reading the request's body: the response says what becomes of the
//! connection, and no byte of the body becomes a request.

use scenarios::{Tidegate, Upstream};

/// What would be answered 200 if it were taken for a request.
const HIDDEN: &str = "GET /respond HTTP/1.1\r\nhost: a\r\n\r\n";

/// A route for each that answers early, with the status of its response to a POST.
const EARLY: [(&str, u16); 7] = [
    ("/respond", 200),
    ("/redirect", 308),
    ("/files/page.txt", 405),
    ("/files/none", 405),
    ("/key", 401),
    ("/small", 413),
    ("/unknown", 404),
];

fn server() -> (Upstream, Tidegate) {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let address = upstream.address();
    let server = Tidegate::start(&format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ u: {{ servers: ["{address}"] }} }}
routes:
  - {{ match: {{ path: /respond }}, handler: {{ respond: {{ body: ok }} }} }}
  - {{ match: {{ path: /redirect }}, handler: {{ redirect: {{ to: /respond }} }} }}
  - {{ match: {{ path: "/files/{{*rest}}" }}, handler: {{ files: {{ root: . }} }} }}
  - match: {{ path: /key }}
    filters:
      - key_auth: {{ keys: [{{ consumer: a, key: secretsecretsecret }}], from: [bearer] }}
    handler: {{ upstream: u }}
  - {{ match: {{ path: /small }}, limits: {{ body: 10B }}, handler: {{ upstream: u }} }}
"#
    ));
    (upstream, server)
}

fn post(path: &str, framing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n")
}

/// Sends it with a hidden request, and expects one response that says that the connection ends.
fn ends(server: &Tidegate, path: &str, status: u16, framing: &str, body: &str) {
    let mut client = server.connect("web");
    client.send(post(path, framing) + body);
    let response = client.read_response();
    let said = (response.status, response.header("connection"));
    assert_eq!(said, (status, Some("close")), "{path} {framing}");
    // Nothing follows, whatever the client continues to send.
    client.try_send(HIDDEN);
    assert_eq!(client.read_until_gone(), b"", "{path} {framing}");
}

#[test]
fn a_body_that_is_too_long_to_be_read_away_ends_the_connection() {
    let (upstream, server) = server();
    for (path, status) in EARLY {
        ends(&server, path, status, "content-length: 10000000", HIDDEN);
        ends(&server, path, status, "content-length: 10000000\r\nexpect: 100-continue", "");
    }
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn a_body_whose_end_is_not_known_ends_the_connection() {
    let (upstream, server) = server();
    // The length of a body in chunks exceeds the limit of /small only when it is read.
    for (path, status) in EARLY.into_iter().filter(|(path, _)| *path != "/small") {
        ends(&server, path, status, "transfer-encoding: chunked", "5\r\nhel");
        ends(&server, path, status, "transfer-encoding: chunked", &format!("zz\r\n{HIDDEN}"));
    }
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn behind_a_body_that_has_arrived_the_next_request_is_handled() {
    let (upstream, server) = server();
    let length = HIDDEN.len();
    let bodies = [
        (format!("content-length: {length}"), HIDDEN.to_owned()),
        ("transfer-encoding: chunked".to_owned(), format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n")),
    ];
    let mut requests = 0.0;
    for (path, status) in EARLY.into_iter().filter(|(path, _)| *path != "/small") {
        for (framing, body) in &bodies {
            let mut client = server.connect("web");
            let next = "GET /redirect HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            client.send(post(path, framing) + body + next);
            let response = client.read_response();
            assert_eq!((response.status, response.header("connection")), (status, None), "{path}");
            assert_eq!(client.read_response().status, 308, "{path} {framing}");
            client.expect_closed();
            requests += 2.0;
        }
    }
    server.wait_for_metric("tidegate_responses_total", &[], requests);
    assert_eq!(upstream.accepted(), 0);
}
