//! Metrics for StatsD: what each request sends, next to an access log or alone, and after a reload.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use std::net::UdpSocket;
use std::time::Duration;

use scenarios::Tidegate;

use crate::setup::responding;

fn receiver() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid time");
    let port = socket.local_addr().expect("it is bound").port();
    (socket, port)
}

/// The three metrics of one request, without the duration.
fn metrics_of_a_request(socket: &UdpSocket) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < 3 {
        let mut buffer = [0; 2000];
        let length = socket.recv(&mut buffer).expect("a datagram");
        lines.extend(String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned));
    }
    let (name, duration) = lines[0].split_once(':').expect("a name and a value");
    assert!(duration.starts_with(|c: char| c.is_ascii_digit()), "{duration}");
    let unit = &duration[duration.find('|').expect("a unit")..];
    lines[0] = format!("{name}:{unit}");
    lines
}

fn ask(server: &Tidegate, path: &str) -> u16 {
    let response = server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    response.status
}

#[test]
fn each_request_sends_gunicorns_metrics() {
    let (first, port) = receiver();
    let alone = format!("log: {{ statsd: \"127.0.0.1:{port}\" }}");
    let server = Tidegate::start(&responding(&alone));
    assert_eq!(ask(&server, "/ping"), 200);
    assert_eq!(
        metrics_of_a_request(&first),
        [
            "gunicorn.request.duration:|ms",
            "gunicorn.requests:1|c|@1.0",
            "gunicorn.request.status.200:1|c|@1.0"
        ]
    );
    // Another server, a prefix and tags, next to an access log.
    let (second, port) = receiver();
    let both = format!(
        "log: {{ access: {{ path: a.log }}, statsd: {{ host: \"127.0.0.1:{port}\", prefix: \
         shop, tags: \"env:test\" }} }}"
    );
    let reloads = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&responding(&both));
    server.wait_for_metric("tidegate_config_reloads_total", &[], reloads + 1.0);
    assert_eq!(ask(&server, "/none"), 404);
    assert_eq!(
        metrics_of_a_request(&second),
        [
            "shop.gunicorn.request.duration:|ms|#env:test",
            "shop.gunicorn.requests:1|c|@1.0|#env:test",
            "shop.gunicorn.request.status.404:1|c|@1.0|#env:test"
        ]
    );
    scenarios::eventually("a line in the access log", || {
        std::fs::read_to_string(server.path("a.log")).is_ok_and(|text| text.contains("/none"))
    });
}
