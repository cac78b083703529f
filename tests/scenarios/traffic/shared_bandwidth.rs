//! `bandwidth` with a key: exchanges with the same value share the rate, others do not, and a
//! reload does not refill it.

use scenarios::{Connection, Tidegate, eventually};

use super::{config, get, reload, says};

/// Within the burst.
const BODY_BYTES: usize = 30 * 1024;

#[test]
fn exchanges_with_the_same_key_share_the_rate_across_a_reload() {
    let body = "x".repeat(BODY_BYTES);
    let large = says(&body);
    let with = |limit: u32| {
        let routes = format!(
            "  - name: large
    filters:
      - concurrency: {{ limit: {limit} }}
      - bandwidth: {{ response: 1KiB, burst: 32KiB, key: header.x-client }}
    handler: {{ upstream: large }}"
        );
        config(&[("large", &large)], &routes)
    };
    let server = Tidegate::start(&with(8));
    let pauses = || {
        let labels = [("limit", "large"), ("direction", "response")];
        server.metrics().sum("tidegate_bandwidth_pauses_total", &labels)
    };
    let whole = |client: &str| {
        let response = get(&server, "/", &format!("x-client: {client}\r\n"));
        assert_eq!(response.text().len(), BODY_BYTES);
    };
    let begin = |client: &str| -> Connection {
        let mut connection = server.connect("web");
        connection.send(format!("GET / HTTP/1.1\r\nhost: a\r\nx-client: {client}\r\n\r\n"));
        connection
    };
    whole("ann");
    whole("bob");
    assert_eq!(pauses(), 0.0);
    // The rest of the burst would take half a minute to be enough for another body.
    let again = begin("ann");
    eventually("a pause", || pauses() > 0.0);
    drop(again);
    eventually("no request is in flight", || {
        server.metrics().sum("tidegate_concurrency_in_flight", &[("limit", "large")]) == 0.0
    });
    reload(&server, &with(9));
    let before = pauses();
    whole("lee");
    assert_eq!(pauses(), before);
    let _again = [begin("ann"), begin("bob")];
    eventually("a pause of both", || pauses() >= before + 2.0);
}
