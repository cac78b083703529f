//! gRPC semantics of the gateway, in raw bytes: gRPC over HTTP/1.1 has the same headers and
//! trailers as over HTTP/2.

mod filters;

use crate::setup::behind;
use scenarios::{Connection, HttpResponse, Tidegate, Upstream, eventually_some};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message of three bytes.
const MESSAGE: &str = "\0\0\0\0\x03abc";

fn call(client: &mut Connection, path: &str, more: &str) -> HttpResponse {
    client.send(format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc+proto\r\n\
         te: trailers\r\n{more}content-length: {}\r\n\r\n{MESSAGE}",
        MESSAGE.len()
    ));
    client.read_response()
}

/// Sends a response of one message and these trailers.
fn respond(peer: &mut Connection, trailers: &str) {
    peer.send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc+proto\r\n\
         transfer-encoding: chunked\r\n\r\n8\r\n{MESSAGE}\r\n0\r\n{trailers}\r\n"
    ));
}

fn status(response: &HttpResponse) -> (u16, Option<&str>, Option<&str>) {
    (response.status, response.header("content-type"), response.header("grpc-status"))
}

const GRPC: Option<&str> = Some("application/grpc+proto");

#[test]
fn failures_of_the_gateway_have_a_grpc_status() {
    let server = Tidegate::start(
        r#"
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
upstreams: { gone: { servers: ["127.0.0.1:1"] } }
routes:
  - name: keys
    match: { path: "/keys.Service/Get" }
    filters:
      - key_auth: { keys: [{ consumer: ann, key: secretsecretsecret }] }
    handler: { upstream: gone }
  - name: limited
    match: { path: "/limited.Service/Get" }
    filters: [{ rate_limit: { rate: 1/h, burst: 1 } }]
    handler: { upstream: gone }
  - name: small
    match: { path: "/small.Service/Get" }
    limits: { body: 4B }
    handler: { upstream: gone }
"#,
    );
    for (path, expected) in [
        ("/keys.Service/Get", "16"),
        ("/limited.Service/Get", "14"),
        ("/limited.Service/Get", "14"),
        ("/small.Service/Get", "8"),
        ("/none.Service/Get", "12"),
    ] {
        let response = call(&mut server.connect("web"), path, "");
        assert_eq!(status(&response), (200, GRPC, Some(expected)), "{path}: {response:?}");
        assert_eq!(response.body, b"", "{path}");
    }
    let response = call(&mut server.connect("web"), "/limited.Service/Get", "grpc-timeout: 1x\r\n");
    assert_eq!(status(&response), (200, GRPC, Some("13")));
    // Any other request gets what it got before.
    let response =
        server.exchange("web", "POST /none HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    assert_eq!((response.status, response.header("grpc-status")), (404, None));
    for (route, code, count) in [
        ("keys", "unauthenticated", 1.0),
        ("limited", "unavailable", 2.0),
        ("small", "resource_exhausted", 1.0),
    ] {
        let labels = [("route", route), ("grpc_status", code)];
        server.wait_for_metric("tidegate_grpc_requests_total", &labels, count);
    }
}

#[test]
fn the_status_of_a_trailer_is_logged_and_counted() {
    let upstream = Upstream::start(|peer| {
        each(peer, |peer, head| {
            let trailers = match head.contains("/a.B/Fail ") {
                true => "grpc-status: 5\r\ngrpc-message: no%20order\r\n",
                false => "grpc-status: 0\r\n",
            };
            assert!(head.contains("TE: trailers"), "{head}");
            respond(peer, trailers);
        });
    });
    let server = Tidegate::start(&behind(&upstream, "log: { access: { path: a.log } }"));
    for path in ["/a.B/Get", "/a.B/Fail"] {
        let response = call(&mut server.connect("web"), path, "");
        assert_eq!((response.status, response.text().as_str()), (200, MESSAGE));
    }
    for code in ["ok", "not_found"] {
        let labels = [("route", "app"), ("grpc_status", code)];
        server.wait_for_metric("tidegate_grpc_requests_total", &labels, 1.0);
    }
    let log = eventually_some("two lines in the access log", || {
        let log = std::fs::read_to_string(server.path("a.log")).unwrap_or_default();
        (log.lines().count() == 2).then_some(log)
    });
    assert!(log.contains(r#""status":200,"grpc_status":"ok""#), "{log}");
    assert!(log.contains(r#""status":200,"grpc_status":"not_found""#), "{log}");
}

#[test]
fn a_deadline_ends_a_call_before_and_within_its_response() {
    let upstream = Upstream::start(|peer| {
        // The deadline may have passed before the request is sent.
        if peer.at_end() {
            return;
        }
        let head = peer.read_head();
        let timeout = head.lines().find_map(|line| line.strip_prefix("grpc-timeout: "));
        let left = timeout.and_then(|text| text.strip_suffix('u')?.parse::<u64>().ok());
        // It is the time that is left, in the finest unit.
        assert!(left.is_some_and(|left| left <= 1_000_000), "{head}");
        if head.contains("/a.B/Stream ") {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/grpc+proto\r\n\
                 transfer-encoding: chunked\r\n\r\n8\r\n{MESSAGE}\r\n"
            ));
        }
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let response = call(&mut server.connect("web"), "/a.B/Get", "grpc-timeout: 1000m\r\n");
    assert_eq!(status(&response), (200, GRPC, Some("4")));
    assert_eq!(response.header("grpc-message"), Some("Deadline Exceeded"));
    // A busy machine may take longer than the deadline to pass the message on.
    let received = eventually_some("a message is received before the deadline", || {
        let mut client = server.connect("web");
        client.send(
            "POST /a.B/Stream HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\n\
             grpc-timeout: 1S\r\ncontent-length: 0\r\n\r\n",
        );
        let received = client.read_until("grpc-message");
        let received = String::from_utf8_lossy(&received).into_owned();
        received.contains(MESSAGE).then_some(received)
    });
    assert!(received.contains("grpc-status: 4"), "{received}");
    let labels = [("route", "app"), ("grpc_status", "deadline_exceeded")];
    server.wait_for_metric("tidegate_grpc_requests_total", &labels, 2.0);
}

/// The deadline holds before the server is reached: in a filter, while a server has no room, and
/// for calls that filters make of other requests. A route bounds what clients ask for.
#[test]
fn a_deadline_holds_everywhere_and_has_a_bound() {
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let address = upstream.address();
    let shop = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/grpc/shop.pb");
    let server = Tidegate::start(&format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  silent:
    servers: [{{ address: "{address}", max_connections: 1 }}]
    timeouts: {{ response: 1h, queue: 5m }}
routes:
  - name: filter
    match: {{ path: "/filter.Service/Get" }}
    filters: [{{ fault: {{ delay: {{ time: 1m, share: 100% }} }} }}]
    handler: {{ upstream: silent }}
  - name: bounded
    match: {{ path: "/bounded.Service/Get" }}
    timeouts: {{ grpc: 300ms }}
    handler: {{ upstream: silent }}
  - name: json
    match: {{ path: "/v1/{{*rest}}" }}
    timeouts: {{ grpc: 300ms }}
    filters: [{{ grpc_json: {{ descriptors: "{shop}" }} }}]
    handler: {{ upstream: silent }}
  - name: open
    match: {{ path: "/open.Service/Get" }}
    handler: {{ upstream: silent }}
"#
    ));
    for (path, timeout) in [
        ("/filter.Service/Get", "grpc-timeout: 300m\r\n"),
        ("/bounded.Service/Get", ""),
        ("/bounded.Service/Get", "grpc-timeout: 1H\r\n"),
        ("/bounded.Service/Get", "grpc-timeout: 200m\r\n"),
    ] {
        let response = call(&mut server.connect("web"), path, timeout);
        assert_eq!(status(&response), (200, GRPC, Some("4")), "{path} {timeout}");
    }
    let response = server.exchange("web", "GET /v1/orders/7 HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(response.status, 504, "{response:?}");
    // The only connection is taken.
    let mut first = server.connect("web");
    first.send(
        "POST /open.Service/Get HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\n\
                content-length: 0\r\n\r\n",
    );
    server.wait_for_metric("tidegate_upstream_connections", &[("state", "active")], 1.0);
    let response = call(&mut server.connect("web"), "/open.Service/Get", "grpc-timeout: 300m\r\n");
    assert_eq!(status(&response), (200, GRPC, Some("4")));
    for (route, count) in [("filter", 1.0), ("bounded", 3.0), ("json", 1.0), ("open", 1.0)] {
        let labels = [("route", route), ("grpc_status", "deadline_exceeded")];
        server.wait_for_metric("tidegate_grpc_requests_total", &labels, count);
    }
}

#[test]
fn a_response_that_breaks_off_ends_with_a_status() {
    let upstream = Upstream::start_owned(|mut peer| {
        peer.read_head();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/grpc+proto\r\n\
             transfer-encoding: chunked\r\n\r\n8\r\n{MESSAGE}\r\n"
        ));
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(
        "POST /a.B/Stream HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\n\
         content-length: 0\r\n\r\n",
    );
    let received = client.read_until("grpc-message");
    let received = String::from_utf8_lossy(&received);
    assert!(received.contains(MESSAGE) && received.contains("grpc-status: 14"), "{received}");
    server.wait_for_log("a response was aborted");
}

/// Two servers that run `script`, behind a gateway with these settings of their upstream.
fn before_two(
    script: impl Fn(&mut Connection) + Clone + Send + Sync + 'static,
    settings: &str,
) -> (Tidegate, [Upstream; 2]) {
    let servers = [Upstream::start(script.clone()), Upstream::start(script)];
    let config = format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  app: {{ servers: ["{}", "{}"], {settings} }}
routes: [{{ name: app, match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: app }} }}]
"#,
        servers[0].address(),
        servers[1].address()
    );
    (Tidegate::start(&config), servers)
}

/// Serves one request after the other.
fn each(peer: &mut Connection, serve: impl Fn(&mut Connection, &str)) {
    while !peer.at_end() {
        let head = peer.read_head();
        peer.expect(MESSAGE);
        serve(peer, &head);
    }
}

fn respond_with_status_only(peer: &mut Connection, code: u8) {
    peer.send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc+proto\r\n\
         grpc-status: {code}\r\ncontent-length: 0\r\n\r\n"
    ));
}

#[test]
fn a_listed_status_is_retried_if_it_is_all_that_was_sent() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let serve = move |peer: &mut Connection, head: &str| {
        let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        match head.split(' ').nth(1) {
            Some("/a.B/Listed") if is_first => respond_with_status_only(peer, 14),
            Some("/a.B/Other") if is_first => respond_with_status_only(peer, 13),
            Some("/a.B/Late") if is_first => respond(peer, "grpc-status: 14\r\n"),
            _ => respond(peer, "grpc-status: 0\r\n"),
        }
    };
    let script = move |peer: &mut Connection| each(peer, &serve);
    let (server, _servers) = before_two(script, "retries: { grpc: [unavailable] }");
    for (path, attempts, code, text) in [
        ("/a.B/Listed", 2, None, MESSAGE),
        ("/a.B/Other", 1, Some("13"), ""),
        ("/a.B/Late", 1, None, MESSAGE),
    ] {
        calls.store(0, Ordering::SeqCst);
        let response = call(&mut server.connect("web"), path, "");
        assert_eq!((response.header("grpc-status"), response.text().as_str()), (code, text));
        assert_eq!(calls.load(Ordering::SeqCst), attempts, "{path}");
    }
}

#[test]
fn a_server_that_is_unavailable_is_ejected() {
    let script = |peer: &mut Connection| {
        each(peer, |peer, head| {
            respond_with_status_only(peer, if head.contains("/a.B/Known ") { 5 } else { 14 });
        });
    };
    let (server, _servers) = before_two(script, "ejection: { failures: 2 }");
    let ejections = || server.metrics().sum("tidegate_upstream_ejections_total", &[]);
    for _ in 0..6 {
        let response = call(&mut server.connect("web"), "/a.B/Known", "");
        assert_eq!(response.header("grpc-status"), Some("5"));
    }
    assert_eq!(ejections(), 0.0, "not_found is 404: the server works");
    for _ in 0..6 {
        call(&mut server.connect("web"), "/a.B/Get", "");
    }
    assert_eq!(ejections(), 1.0, "of two servers one may be ejected");
}
