//! Active health checks: they take a server out and bring it back, and metrics show it.

use super::{
    OK, ask, assert_fault, from_api, gateway, sent_to, shown, wait_for_states, wait_until,
    wait_until_released,
};
use scenarios::{Connection, Tidegate, Upstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that is well until it is told otherwise: checks see it, requests are always answered.
struct Patient {
    well: Arc<AtomicBool>,
    upstream: Upstream,
}

impl Patient {
    fn start() -> Self {
        let well = Arc::new(AtomicBool::new(true));
        let state = Arc::clone(&well);
        let upstream = Upstream::start(move |peer: &mut Connection| {
            while !peer.at_end() {
                let head = peer.read_head();
                if !head.starts_with("GET /healthz ") {
                    peer.send(OK);
                    continue;
                }
                assert!(head.contains("User-Agent: tidegate-health\r\n"), "{head}");
                let status = if state.load(Ordering::SeqCst) { "204 Fine" } else { "500 Ill" };
                peer.send(format!("HTTP/1.1 {status}\r\n\r\n"));
                return;
            }
        });
        Self { well, upstream }
    }

    fn be(&self, well: bool) {
        self.well.store(well, Ordering::SeqCst);
    }

    fn requests(&self, server: &Tidegate) -> f64 {
        sent_to(server, &self.upstream, "2xx")
    }
}

/// Every check gets its response: none fails by its time-out, however busy the machine is.
const CHECKS: &str = "health: { path: /healthz, interval: 100ms, timeout: 1m, healthy_after: 2, \
                      unhealthy_after: 2 }";

fn checked(patients: &[&Patient], more: &str) -> Tidegate {
    let upstreams: Vec<_> = patients.iter().map(|patient| &patient.upstream).collect();
    gateway(&format!("{}, {CHECKS}, balance: round_robin, {more}", super::servers(&upstreams)))
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let (one, two) = (Patient::start(), Patient::start());
    let server = checked(&[&one, &two], "");
    wait_for_states(&server, &["healthy", "healthy"]);
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!((one.requests(&server), two.requests(&server)), (2.0, 2.0));

    one.be(false);
    wait_for_states(&server, &["unhealthy", "healthy"]);
    server.wait_for_log("a server is unhealthy");
    let labels = [("server", shown(&server)["servers"][0]["address"].as_str().unwrap().to_owned())];
    let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(server.metrics().sum("tidegate_upstream_server_healthy", &labels), 0.0);
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!((one.requests(&server), two.requests(&server)), (2.0, 6.0));

    one.be(true);
    wait_for_states(&server, &["healthy", "healthy"]);
    server.wait_for_log("a server is healthy again");
    let address = shown(&server)["servers"][0]["address"].clone();
    let history = from_api(&server, "/v1/upstreams/u/history");
    let changes: Vec<_> = history["changes"].as_array().unwrap().iter().take(2).collect();
    let parts = changes.iter().map(|one| (&one["server"], one["state"].as_str().unwrap()));
    let expected = [(&address, "healthy"), (&address, "unhealthy")];
    assert_eq!(parts.collect::<Vec<_>>(), expected, "{history:#}");
    assert_eq!(changes[1]["why"], "the response was 500");
    let last = &shown(&server)["servers"][0]["last_change"];
    assert_eq!((&last["at"], &last["state"]), (&changes[0]["at"], &"healthy".into()));
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!((one.requests(&server), two.requests(&server)), (4.0, 8.0));

    let checks = |result| {
        let labels = [("upstream", "u"), ("result", result)];
        server.metrics().sum("tidegate_upstream_health_checks_total", &labels)
    };
    assert!(checks("failed") >= 2.0 && checks("ok") >= 4.0);
    wait_until_released(&server);
}

#[test]
fn without_a_healthy_server_the_response_is_503_until_one_is_back() {
    let only = Patient::start();
    let server = checked(&[&only], "");
    wait_for_states(&server, &["healthy"]);
    only.be(false);
    wait_for_states(&server, &["unhealthy"]);
    assert_fault(&ask(&server), 503, "destination_unavailable");
    assert_eq!(only.requests(&server), 0.0);
    only.be(true);
    wait_for_states(&server, &["healthy"]);
    assert_eq!(ask(&server).status, 200);
    wait_until_released(&server);
}

#[test]
fn with_too_few_healthy_servers_all_are_used() {
    let (one, two) = (Patient::start(), Patient::start());
    let server = checked(&[&one, &two], "panic_threshold: 50%");
    one.be(false);
    wait_for_states(&server, &["unhealthy", "healthy"]);
    ask(&server);
    assert_eq!((one.requests(&server), two.requests(&server)), (0.0, 1.0));
    assert_eq!(shown(&server)["panic"], false);

    two.be(false);
    wait_for_states(&server, &["unhealthy", "unhealthy"]);
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!((one.requests(&server), two.requests(&server)), (2.0, 3.0));
    assert_eq!(shown(&server)["panic"], true);
    let panic = |metrics: &scenarios::Metrics| metrics.sum("tidegate_upstream_panic", &[]);
    assert_eq!(panic(&server.metrics()), 1.0);

    two.be(true);
    wait_for_states(&server, &["unhealthy", "healthy"]);
    ask(&server);
    wait_until(&server, "no panic", |metrics| panic(metrics) == 0.0);
}

#[test]
fn backups_are_used_only_while_no_primary_is() {
    let (primary, backup) = (Patient::start(), Patient::start());
    let server = gateway(&format!(
        r#"servers: ["{}", {{ address: "{}", backup: true }}], {CHECKS}"#,
        primary.upstream.address(),
        backup.upstream.address()
    ));
    wait_for_states(&server, &["healthy", "healthy"]);
    ask(&server);
    primary.be(false);
    wait_for_states(&server, &["unhealthy", "healthy"]);
    assert_eq!(ask(&server).status, 200);
    assert_eq!((primary.requests(&server), backup.requests(&server)), (1.0, 1.0));
    primary.be(true);
    wait_for_states(&server, &["healthy", "healthy"]);
    ask(&server);
    assert_eq!((primary.requests(&server), backup.requests(&server)), (2.0, 1.0));
    wait_until_released(&server);
}

#[test]
fn a_check_without_a_path_is_a_connection() {
    let down = super::Refusing::start();
    let up = Upstream::responding(OK);
    let server = gateway(&format!(
        r#"servers: ["{}", "{}"], health: {{ interval: 100ms, timeout: 1m }}"#,
        down.address(),
        up.address()
    ));
    wait_for_states(&server, &["unhealthy", "healthy"]);
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!(server.metrics().sum("tidegate_upstream_retries_total", &[]), 0.0);
}

#[test]
fn standing_and_connections_outlive_a_reload() {
    let (one, two) = (Patient::start(), Patient::start());
    let server = checked(&[&one, &two], "");
    one.be(false);
    wait_for_states(&server, &["unhealthy", "healthy"]);
    ask(&server);
    let reused =
        |server: &Tidegate| server.metrics().sum("tidegate_upstream_connection_reuses_total", &[]);
    let before = reused(&server);
    let upstreams = [&one.upstream, &two.upstream];
    let config = format!("{}, {CHECKS}, balance: random", super::servers(&upstreams));
    server.rewrite_config(&super::config(&config, 1));
    server.signal("HUP");
    wait_until(&server, "a reload", |metrics| {
        metrics.sum("tidegate_config_reloads_total", &[]) >= 2.0
            || metrics.sum("tidegate_config_reloads_total", &[]) >= 1.0
                && shown(&server)["balance"] == "random"
    });
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!(one.requests(&server), 0.0, "it is still ill");
    assert!(reused(&server) - before >= 4.0, "no connection was lost");
    wait_until_released(&server);
}
