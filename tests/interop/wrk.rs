//! wrk: as many requests as go, over kept connections, for a second.

use crate::tools::{assert_served, gateway, has, proxy, run};
use scenarios::{Tidegate, Upstream};

/// Loads `path` and returns how many requests were answered.
fn load(server: &Tidegate, path: &str) -> f64 {
    let url = format!("http://{}{path}", server.address("web"));
    let directory = std::env::temp_dir();
    let output = run("wrk", &directory, &["-t1", "-c16", "-d1s", "--timeout", "10s", &url]).stdout;
    // wrk speaks of these only when there are some.
    assert!(!output.contains("Socket errors") && !output.contains("Non-2xx"), "{output}");
    let count = output.lines().find_map(|line| line.trim().split_once(" requests in "));
    let count: f64 = count.and_then(|(count, _)| count.parse().ok()).expect("a count of requests");
    assert!(count > 100.0, "{output}");
    count
}

#[test]
fn respond_handles_every_request() {
    if !has("wrk") {
        return;
    }
    let server =
        gateway("routes: [{ match: { path: /hello }, handler: { respond: { body: Hello } } }]\n");
    let count = load(&server, "/hello");
    assert_served(&server, count);
}

#[test]
fn the_proxy_passes_every_request_on() {
    if !has("wrk") {
        return;
    }
    for body in [
        "content-length: 2048\r\n\r\n".to_owned() + &"x".repeat(2048),
        format!(
            "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n800\r\n{}\r\n0\r\n\r\n",
            "y".repeat(2048)
        ),
    ] {
        let upstream = Upstream::responding(format!("HTTP/1.1 200 OK\r\n{body}"));
        let server = proxy(&upstream.address().to_string());
        let count = load(&server, "/");
        assert_served(&server, count);
        let metrics = server.metrics();
        let to = |class| metrics.sum("tidegate_upstream_requests_total", &[("class", class)]);
        assert!(to("2xx") >= count);
        // What wrk left unanswered when its second was over is cancelled, and no error.
        assert_eq!((to("error"), to("5xx")), (0.0, 0.0));
        assert!(upstream.accepted() <= 64, "{} connections", upstream.accepted());
    }
}
