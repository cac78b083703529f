//! The demo does what its page says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use tempfile::TempDir;

use crate::process::{Running, TIMEOUT, get, run_in, status, tidegate, until_limited};

/// The address in the line of the table that begins with `what`.
fn address(demo: &mut Running, what: &str) -> SocketAddr {
    demo.line(|line| {
        let rest = line.trim_start().strip_prefix(what)?.trim_start().strip_prefix("http://")?;
        rest.split('/').next()?.parse().ok()
    })
}

/// The reply to one PING, as redis-cli sends it.
fn pong(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn everything_on_the_page_responds() {
    let directory = TempDir::new().unwrap();
    let arguments = ["demo", "--port", "0", "--workers", "1"];
    let mut demo = Running::start(tidegate(directory.path(), &arguments));
    let gateway = address(&mut demo, "gateway");
    let backend = address(&mut demo, "mock backend");
    let admin = address(&mut demo, "metrics");
    let ping: SocketAddr = demo.line(|line| {
        line.trim_start().strip_prefix("PING program ")?.split_whitespace().next()?.parse().ok()
    });

    let page = get(gateway, "/", "");
    assert!(status(&page) == "200" && page.contains("content-type: text/html"), "{page}");
    for shown in [gateway, backend, admin] {
        assert!(page.contains(&format!("http://{shown}")), "the page does not show {shown}");
    }

    let through = get(gateway, "/api/hello", "");
    assert!(status(&through) == "200" && through.contains("x-backend: mock"), "{through}");
    let (_, body) = through.split_once("\r\n\r\n").expect("a body");
    assert_eq!(body.len(), 2048);
    assert_eq!(status(&get(backend, "/", "")), "200");

    assert_eq!(status(&get(gateway, "/private/hello", "")), "401");
    assert_eq!(status(&get(gateway, "/private/hello", "x-api-key: demo-key\r\n")), "200");
    // One more a second passes: on a slow machine the burst lasts longer.
    let begin = Instant::now();
    let allowed = until_limited(|| get(gateway, "/limited", ""));
    let most = 5 + begin.elapsed().as_secs() as usize;
    assert!((5..=most).contains(&allowed), "{allowed}");
    let moved = get(gateway, "/old/42", "");
    assert!(status(&moved) == "308" && moved.contains("location: /api/items/42"), "{moved}");

    let pair: Vec<_> = (0..2).map(|_| get(gateway, "/cached/hello", "")).collect();
    assert!(pair[0].contains("cache-status: tidegate; fwd=uri-miss; stored"), "{}", pair[0]);
    assert!(pair[1].contains("cache-status: tidegate; hit"), "{}", pair[1]);
    let lua = get(gateway, "/lua/world", "");
    assert!(lua.contains("x-visits: 1") && lua.contains("\"hello\":\"world\""), "{lua}");
    assert_eq!(pong(ping), "+PONG\r\n");

    // The chart of the page reads the metrics through the gateway.
    let metrics = get(gateway, "/metrics", "");
    assert!(
        metrics.contains("tidegate_request_duration_seconds_bucket{route=\"api\""),
        "{metrics}"
    );
    let metrics = get(admin, "/metrics", "");
    assert!(metrics.contains("tidegate_requests_total{route=\"api\""), "{metrics}");
    assert_eq!(status(&get(admin, "/readyz", "")), "200");
    assert_eq!(status(&get(admin, "/v1/status", "")), "401", "this needs the token of the link");
    let console = get(admin, "/console/", "");
    assert!(status(&console) == "200" && console.contains("console.js"), "{console}");

    let seen = run_in(directory.path(), &["ctl", "status"]).printed();
    assert!(seen.contains("gateway") && seen.contains("healthy"), "{seen}");
}

#[test]
fn its_configuration_can_be_printed_and_served() {
    let directory = TempDir::new().unwrap();
    let text = run_in(directory.path(), &["demo", "--print-config"]).printed();
    std::fs::write(directory.path().join("demo.yaml"), &text).unwrap();
    let checked = run_in(directory.path(), &["check", "demo.yaml"]).printed();
    assert_eq!(checked, "ok: 10 routes, 2 upstreams, 2 listeners\n");
    let url = "http://127.0.0.1:8080/private/hello";
    let arguments = ["explain", "demo.yaml", "GET", url, "--listener", "gateway"];
    let explained = run_in(directory.path(), &arguments).printed();
    assert!(explained.contains("private") && explained.contains("key_auth"), "{explained}");
    // The error that the page suggests.
    let broken = text.replace("upstream:", "upstraem:");
    std::fs::write(directory.path().join("broken.yaml"), broken).unwrap();
    let why = run_in(directory.path(), &["check", "broken.yaml"]).failed(2);
    assert!(why.contains("did you mean \"upstream\"?"), "{why}");
}

#[test]
fn a_taken_port_is_replaced_and_printed() {
    let directory = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = taken.local_addr().unwrap();
    let port = wanted.port().to_string();
    let mut demo = Running::start(tidegate(directory.path(), &["demo", "--port", &port]));
    demo.line(|line| line.contains(&format!("{wanted} is taken: the gateway is on")).then_some(()));
    let gateway = address(&mut demo, "gateway");
    assert_ne!(gateway, wanted);
    assert_eq!(status(&get(gateway, "/", "")), "200");
}
