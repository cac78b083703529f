//! Where a server may be: behind a Unix socket, behind a name.

use super::{OK, Refusing, ask, assert_fault, gateway, wait_until_released};
use scenarios::{Tidegate, Upstream};

/// A gateway to itself over a Unix socket.
fn over_unix(directory: &tempfile::TempDir, host: &str) -> Tidegate {
    let socket = directory.path().join("inner.sock");
    Tidegate::start(&format!(
        r#"
workers: 1
listeners:
  web: {{ bind: "127.0.0.1:0" }}
  inner: {{ bind: "unix:{socket}" }}
admin: {{ bind: "127.0.0.1:0", socket: admin.sock }}
upstreams:
  u: {{ servers: ["unix:{socket}"], host: {host} }}
routes:
  - name: inner
    match: {{ listener: inner, path: "/{{*rest}}" }}
    handler:
      respond:
        headers: {{ x-seen: "{{path}} for {{host}}" }}
        body: inside
  - name: outer
    match: {{ listener: web, path: "/{{*rest}}" }}
    handler: {{ upstream: u }}
"#,
        socket = socket.display()
    ))
}

#[test]
fn a_unix_socket_is_a_place_like_any_other() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let server = over_unix(&directory, "server");
    server.address_text("inner");
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send("GET /a/b HTTP/1.1\r\nhost: shop.example\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.text(), "inside");
        // A socket file has no authority of its own (RFC 9110 7.2).
        assert_eq!(response.header("x-seen"), Some("/a/b for localhost"));
    }
    assert_eq!(server.metrics().sum("tidegate_upstream_connection_reuses_total", &[]), 2.0);
    drop(client);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn an_old_client_that_names_no_host_gets_one_that_is_valid() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let server = over_unix(&directory, "preserve");
    server.address_text("inner");
    let response = server.exchange("web", "GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(response.header("x-seen"), Some("/a for localhost"));
}

#[test]
fn a_socket_file_that_is_not_there_is_a_refused_connection() {
    let server = gateway(r#"servers: ["unix:/nowhere/at/all.sock"]"#);
    let response = ask(&server);
    assert_fault(&response, 502, "connection_refused");
    wait_until_released(&server);
}

#[test]
fn a_name_is_resolved_before_the_first_request() {
    let upstream = Upstream::responding(OK);
    let server =
        gateway(&format!(r#"servers: ["localhost:{}"], host: server"#, upstream.address().port()));
    for _ in 0..4 {
        assert_eq!(ask(&server).text(), "ok");
    }
    wait_until_released(&server);
}

#[test]
fn an_unknown_name_is_503_and_others_are_used() {
    // RFC 6761 6.4: never to be resolved.
    let server = gateway(r#"servers: ["missing.invalid:80"]"#);
    let response = ask(&server);
    assert_fault(&response, 503, "dns_error");
    server.wait_for_log("cannot be resolved");

    let upstream = Upstream::responding(OK);
    let server = gateway(&format!(r#"servers: ["missing.invalid:80", "{}"]"#, upstream.address()));
    for _ in 0..4 {
        assert_eq!(ask(&server).text(), "ok");
    }
}

#[test]
fn host_says_what_the_configuration_wants() {
    let echo = || {
        Upstream::start(|peer| {
            while !peer.at_end() {
                let head = peer.read_head();
                let host = head.lines().find_map(|line| line.strip_prefix("Host: "));
                let host = host.expect("Host").to_owned();
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{host}",
                    host.len()
                ));
            }
        })
    };
    let upstream = echo();
    let address = upstream.address().to_string();
    for (host, expected) in [
        ("preserve", "shop.example:81"),
        ("server", address.as_str()),
        ("{ fixed: app.internal }", "app.internal"),
    ] {
        let server = gateway(&format!(r#"servers: ["{address}"], host: {host}"#));
        let request = "GET / HTTP/1.1\r\nhost: shop.example:81\r\n\r\n";
        assert_eq!(server.exchange("web", request).text(), expected);
    }
}

#[test]
fn a_server_that_comes_up_later_is_found() {
    let down = Refusing::start();
    let address = down.address();
    let server = gateway(&format!(r#"servers: ["{address}"], ejection: {{ failures: 0 }}"#));
    assert_fault(&ask(&server), 502, "connection_refused");
    down.listen();
    let accepting = std::thread::spawn(move || down.respond_once(OK));
    assert_eq!(ask(&server).text(), "ok");
    accepting.join().expect("it was asked");
}
