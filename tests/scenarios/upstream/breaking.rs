//! The circuit breaker of a route is shown with the upstream that the route leads to.

use scenarios::{Tidegate, Upstream};
use serde_json::json;

use super::{ask, config, servers, shown};

#[test]
fn a_breaker_is_shown_with_the_upstream_of_its_route() {
    let failing = Upstream::responding("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let breaker = "circuit_breaker: { min_requests: 2, window: 1h, open: 1h }";
    let config = config(&servers(&[&failing]), 2).replace(
        "handler: { upstream: u }",
        &format!("filters: [{{ {breaker} }}], handler: {{ upstream: u }}"),
    );
    let server = Tidegate::start(&config);
    let mut expected = json!({
        "name": "all", "routes": ["all"], "uses": 1, "state": "closed", "since": null,
        "requests": 0, "failed": 0, "slow": 0, "window_ms": 3_600_000,
    });
    assert_eq!(shown(&server)["breakers"], json!([expected]));
    for _ in 0..3 {
        assert_eq!(ask(&server).status, 503);
    }
    let mut breaker = shown(&server)["breakers"][0].take();
    let since = breaker["since"].take();
    assert!(since.as_str().is_some_and(|since| since.ends_with('Z')), "{since}");
    expected["state"] = "open".into();
    (expected["requests"], expected["failed"]) = (2.into(), 2.into());
    assert_eq!(breaker, expected, "the third request was rejected");
}
