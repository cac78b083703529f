//! `concurrency` with an adaptive limit: which requests are rejected first, and a limit that falls
//! when responses get slower, and outlives a reload.

use std::sync::Arc;

use scenarios::{Connection, Tidegate, Upstream, eventually, gate};

use super::{config, get, reload};

const LABELS: [(&str, &str); 1] = [("limit", "api")];

/// Begins a request.
fn begin(server: &Tidegate, fields: &str) -> Connection {
    let mut client = server.connect("web");
    client.send(format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    client
}

#[test]
fn requests_of_a_low_priority_are_rejected_first() {
    let (release, wait) = gate();
    let wait = Arc::new(wait);
    let slow = Upstream::start(move |peer| {
        peer.read_head();
        wait.wait();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone");
    });
    // Dropped before the upstream, whose scripts wait for it.
    let opener = release;
    let routes = "  - name: api
    filters:
      - concurrency:
          adaptive: { min: 4, max: 4 }
          priorities:
            - { when: { header: x-probe }, share: 100% }
            - { when: { header: x-batch }, share: 50% }
    handler: { upstream: slow }";
    let server = Tidegate::start(&config(&[("slow", &slow)], routes));
    let in_flight = |count: f64| {
        server.wait_for_metric("tidegate_concurrency_in_flight", &LABELS, count);
    };
    let rejected = |fields: &str| {
        let response = get(&server, "/", fields);
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")), "{fields}");
    };
    let (batch, both) = ("x-batch: 1\r\n", "x-batch: 1\r\nx-probe: 1\r\n");
    let mut held = vec![begin(&server, batch), begin(&server, batch)];
    in_flight(2.0);
    rejected(batch);
    // The first priority that applies counts; requests without one may use the whole limit.
    held.push(begin(&server, both));
    in_flight(3.0);
    rejected(batch);
    held.push(begin(&server, ""));
    in_flight(4.0);
    for fields in ["", batch, both] {
        rejected(fields);
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_concurrency_limit", &LABELS), 4.0);
    assert_eq!(metrics.sum("tidegate_concurrency_rejected_total", &LABELS), 5.0);
    opener.open();
    for client in &mut held {
        assert_eq!(client.read_response().text(), "done");
    }
    eventually("no request is in flight", || {
        server.metrics().sum("tidegate_concurrency_in_flight", &LABELS) == 0.0
    });
    assert_eq!(get(&server, "/", batch).text(), "done");
}

#[test]
fn an_adaptive_limit_falls_with_slower_responses_and_outlives_a_reload() {
    let with = |body: &str| {
        let routes = format!(
            "  - name: api
    filters:
      - concurrency: {{ adaptive: {{ min: 2, max: 8 }} }}
      - fault: {{ delay: 100ms, when: {{ header: x-slow }} }}
    handler: {{ respond: {{ body: {body} }} }}"
        );
        config(&[], &routes)
    };
    let server = Tidegate::start(&with("first"));
    let limit = || server.metrics().sum("tidegate_concurrency_limit", &LABELS);
    // The latency of an idle server.
    for _ in 0..20 {
        assert_eq!(get(&server, "/", "").text(), "first");
    }
    assert_eq!(limit(), 8.0);
    eventually("the limit falls", || {
        let mut clients: Vec<_> = (0..6).map(|_| begin(&server, "x-slow: 1\r\n")).collect();
        for client in &mut clients {
            client.read_response();
        }
        limit() < 8.0
    });
    let fallen = limit();
    assert!(fallen >= 2.0, "{fallen}");
    reload(&server, &with("second"));
    assert_eq!(get(&server, "/", "").text(), "second");
    assert_eq!(limit(), fallen);
}
