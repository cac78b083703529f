//! What a reload changes of mirrors, faults and mocks, and what it does not: copies in flight, and
//! counters.

use std::sync::Arc;

use scenarios::{Tidegate, Upstream, eventually, gate};

use super::{config, get, reload, says};

#[test]
fn copies_in_flight_count_against_the_budget_of_the_next_configuration() {
    let (release, wait) = gate();
    let wait = Arc::new(wait);
    let shadow = Upstream::start(move |peer| {
        peer.read_head();
        wait.wait();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    // Dropped before the upstream, whose scripts wait for it.
    let opener = release;
    let real = says("real");
    let with = |concurrent: u32| {
        let mirror = format!("to: {{ upstream: shadow }}, concurrent: {concurrent}, timeout: 5m");
        let routes = format!(
            "  - name: orders
    filters: [{{ mirror: {{ {mirror} }} }}]
    handler: {{ upstream: real }}"
        );
        config(&[("real", &real), ("shadow", &shadow)], &routes)
    };
    let server = Tidegate::start(&with(2));
    let copied = |result: &str, count: f64| {
        let labels = [("mirror", "orders"), ("result", result)];
        server.wait_for_metric("tidegate_mirror_requests_total", &labels, count);
        assert_eq!(server.metrics().sum("tidegate_mirror_requests_total", &labels), count);
    };
    let in_flight = || server.metrics().sum("tidegate_mirror_in_flight", &[("mirror", "orders")]);
    let send = |count: usize| {
        for _ in 0..count {
            assert_eq!(get(&server, "/", "").text(), "real");
        }
    };
    send(5);
    copied("over_budget", 3.0);
    assert_eq!(in_flight(), 2.0);
    // With one more, exactly one more is copied; with one less, none.
    reload(&server, &with(3));
    send(5);
    copied("over_budget", 7.0);
    assert_eq!(in_flight(), 3.0);
    reload(&server, &with(1));
    send(5);
    copied("over_budget", 12.0);
    assert_eq!(in_flight(), 3.0);
    opener.open();
    copied("ok", 3.0);
    eventually("no copy is in flight", || in_flight() == 0.0);
    send(1);
    copied("ok", 4.0);
}

#[test]
fn faults_and_mocks_change_with_a_reload_and_their_counters_continue() {
    let real = says("real");
    let with = |abort: &str, mock: &str| {
        let routes = format!(
            "  - name: broken
    match: {{ path: /broken }}
    filters: [{{ fault: {{ delay: 1ms, abort: {{ {abort} }} }} }}]
    handler: {{ upstream: real }}
  - name: mocked
    match: {{ path: /mocked }}
    filters: [{{ mock: {{ {mock} }} }}]
    handler: {{ upstream: real }}"
        );
        config(&[("real", &real)], &routes)
    };
    let server = Tidegate::start(&with("status: 418", "status: 201, body: first"));
    let injected = |fault| {
        let labels = [("route", "broken"), ("fault", fault)];
        server.metrics().sum("tidegate_faults_injected_total", &labels)
    };
    let mocked = || server.metrics().sum("tidegate_mock_responses_total", &[("route", "mocked")]);
    for _ in 0..5 {
        assert_eq!(get(&server, "/broken", "").status, 418);
        assert_eq!(get(&server, "/mocked", "").text(), "first");
    }
    assert_eq!((injected("abort"), injected("delay"), mocked()), (5.0, 5.0, 5.0));

    // Another status and another response, for half of the requests.
    reload(&server, &with("status: 503, share: 50%", "status: 202, body: second, share: 50%"));
    let responses = |path: &str| (0..20).map(|_| get(&server, path, "")).collect::<Vec<_>>();
    let failed = responses("/broken").iter().filter(|response| response.status == 503).count();
    assert!((8..=12).contains(&failed), "{failed}");
    let made = responses("/mocked");
    let made = made.iter().filter(|response| response.text() == "second").count();
    assert!((8..=12).contains(&made), "{made}");
    let counted = (injected("abort"), injected("delay"), mocked());
    assert_eq!(counted, (5.0 + failed as f64, 25.0, 5.0 + made as f64));

    // An error leaves the configuration in use.
    server.rewrite_config(&with("status: 99", "statsu: 200"));
    server.wait_for_log("configuration rejected");
    assert!(responses("/broken").iter().any(|response| response.status == 503));
    assert!(responses("/mocked").iter().any(|response| response.text() == "second"));
}
