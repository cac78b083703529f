//! Servers of a fleet that request responses from the owners of their URLs.

use super::{Origin, api, cache_status, get, is_hit, origin_response};
use scenarios::{Tidegate, Upstream, eventually, free_port, gate};
use std::collections::HashSet;

const KEPT: &str = "cache-control: max-age=600\r\n";
const PAGES: usize = 24;

/// A server on a port, in a fleet of these addresses, which listens: one that did not would be
/// ejected by the others.
fn node(origin: &Origin, port: u16, fleet: &[String], owners: &str) -> Tidegate {
    let server = Tidegate::start(&config(origin, port, fleet, owners));
    server.address("web");
    server
}

fn owners(within: &str) -> String {
    format!("owners: {{ upstream: fleet, within: {within}, secret: of-the-whole-fleet }}")
}

fn config(origin: &Origin, port: u16, fleet: &[String], owners: &str) -> String {
    let (address, fleet) = (origin.upstream.address(), fleet.join("\", \""));
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:{port}" }} }}
admin: {{ bind: "127.0.0.1:0", token: open-sesame }}
upstreams:
  u: {{ servers: ["{address}"] }}
  fleet: {{ servers: ["{fleet}"] }}
caches: {{ pages: {{ memory: 64MiB }} }}
routes:
  - name: all
    match: {{ path: "/{{*rest}}" }}
    filters: [{{ cache: {{ store: pages, {owners} }} }}]
    handler: {{ upstream: u }}
  - {{ match: {{ path: "/of-the-fleet" }}, handler: {{ upstream: fleet }} }}
"#
    )
}

fn addresses(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

fn page(number: usize) -> String {
    format!("/page/{number}")
}

fn asked(server: &Tidegate, result: &str) -> f64 {
    server.metrics().sum("tidegate_cache_owner_requests_total", &[("result", result)])
}

/// A server in a fleet with one other member, which is not a server of ours.
fn with_another(origin: &Origin, other: String, within: &str) -> Tidegate {
    let port = free_port();
    let fleet = [addresses(&[port]), vec![other]].concat();
    node(origin, port, &fleet, &owners(within))
}

/// Requests pages, all of which come from the origin.
fn origin_serves_all(server: &Tidegate, origin: &Origin) {
    for number in 0..PAGES {
        let response = get(server, &page(number), "");
        assert_eq!((response.status, response.text()), (200, format!("answer {number}")));
    }
    assert_eq!(origin.fetches(), PAGES);
}

#[test]
fn three_servers_make_one_request_for_each_page() {
    let origin = Origin::start(|head, _| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        origin_response(200, KEPT, path.as_bytes())
    });
    let ports = [free_port(), free_port(), free_port()];
    let start = |port: &u16| node(&origin, *port, &addresses(&ports), &owners("1m"));
    let servers: Vec<Tidegate> = ports.iter().map(start).collect();
    let mut details = HashSet::new();
    for number in 0..PAGES {
        for at in 0..servers.len() {
            let server = &servers[(at + number) % servers.len()];
            let response = get(server, &page(number), "");
            assert_eq!((response.status, response.text()), (200, page(number)));
            let status = cache_status(&response);
            details.insert(status.split("; detail=").nth(1).unwrap_or_default().to_owned());
        }
        assert_eq!(origin.fetches(), number + 1, "{}", page(number));
    }
    for detail in ["", "owner-hit", "owner-fetch"] {
        assert!(details.contains(detail), "{detail:?} is missing in {details:?}");
    }
    for server in &servers {
        assert!(is_hit(&get(server, &page(0), "")));
        assert!(asked(server, "own") <= 1.0, "it asks itself once");
        assert!(asked(server, "stored") + asked(server, "fetched") > 0.0);
    }
    assert!(!origin.last().contains("tidegate-ask"), "{}", origin.last());
}

#[test]
fn the_origin_answers_for_an_owner_that_is_not_there() {
    let origin = Origin::counting(KEPT);
    let server = with_another(&origin, format!("127.0.0.1:{}", free_port()), "1m");
    origin_serves_all(&server, &origin);
    assert!(asked(&server, "failed") > 0.0);
}

#[test]
fn the_origin_answers_for_an_owner_that_hangs() {
    let origin = Origin::counting(KEPT);
    let (opener, gate) = gate();
    let hanging = Upstream::start(move |peer| {
        // The time may be over before the request is sent.
        if !peer.at_end() {
            peer.read_head();
            gate.wait();
        }
    });
    let server = with_another(&origin, hanging.address().to_string(), "20ms");
    origin_serves_all(&server, &origin);
    assert!(asked(&server, "timeout") > 0.0);
    opener.open();
}

#[test]
fn the_origin_answers_for_an_owner_without_the_secret() {
    let origin = Origin::counting(KEPT);
    let lying = Upstream::responding(
        "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\n\
         tidegate-owner: stored 00000000000000000000000000000000\r\ncontent-length: 5\r\n\r\na lie",
    );
    let server = with_another(&origin, lying.address().to_string(), "1m");
    origin_serves_all(&server, &origin);
    assert!(asked(&server, "failed") > 0.0);
}

/// The owner stops while it has a request in flight, and is gone afterwards.
#[test]
fn the_origin_answers_for_an_owner_that_stops() {
    let (opener, gate) = gate();
    let origin = Origin::start(move |head, _| {
        if head.starts_with("GET /slow ") {
            gate.wait();
        }
        origin_response(200, KEPT, b"page")
    });
    let ports = [free_port(), free_port()];
    let [a, b] = ports.map(|port| node(&origin, port, &addresses(&ports), &owners("1m")));
    let mut slow = b.connect("web");
    slow.send("GET /slow HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    eventually("the origin has the slow request", || origin.fetches() == 1);
    for number in 0..PAGES / 2 {
        assert_eq!(get(&a, &page(number), "").text(), "page");
    }
    assert!(asked(&a, "fetched") > 0.0);
    b.signal("TERM");
    b.wait_for_log("drain");
    for number in PAGES / 2..PAGES {
        assert_eq!(get(&a, &page(number), "").text(), "page");
    }
    opener.open();
    assert_eq!(slow.read_response().text(), "page");
    drop(b.wait());
    assert_eq!(get(&a, "/last", "").text(), "page");
}

#[test]
fn a_client_is_not_a_server() {
    let origin = Origin::counting("cache-control: no-store\r\n");
    let ports = [free_port(), free_port()];
    let server = node(&origin, ports[0], &addresses(&ports), &owners("1m"));
    let forged = format!("tidegate-ask: {}\r\n", "0".repeat(113));
    let response = get(&server, "/", &forged);
    assert_eq!((response.status, response.header("tidegate-owner")), (200, None));
    assert!(!origin.last().contains("tidegate-ask"), "{}", origin.last());
    let answered = |result| {
        let labels = [("result", result)];
        server.metrics().sum("tidegate_cache_owner_responses_total", &labels)
    };
    assert_eq!(answered("stored") + answered("fetched") + answered("declined"), 0.0);
}

/// Without shared purges each server is purged by itself: until the owner is, its response is not
/// used.
#[test]
fn a_purge_is_not_undone_by_the_owner() {
    let origin = Origin::counting(KEPT);
    let ports = [free_port(), free_port()];
    let servers = ports.map(|port| node(&origin, port, &addresses(&ports), &owners("1m")));
    let purge = |server: &Tidegate| {
        let (status, body) = api(server, "POST /v1/caches/pages/purge", "{\"all\": true}");
        assert_eq!(status, 200, "{body}");
    };
    // Each server owns some of them.
    let pages = || (0..PAGES).map(page);
    let [first, second] = &servers;
    let old: Vec<String> = pages().map(|page| get(first, &page, "").text()).collect();
    for (page, old) in pages().zip(&old) {
        assert_eq!(get(second, &page, "").text(), *old);
    }
    for server in &servers {
        purge(server);
        for (page, old) in pages().zip(&old) {
            assert_ne!(get(server, &page, "").text(), *old);
        }
    }
}

#[test]
fn a_reload_turns_owners_on_and_off() {
    let origin = Origin::counting(KEPT);
    let ports = [free_port(), free_port()];
    let fleet = addresses(&ports);
    let off = |port| config(&origin, port, &fleet, "variants: 32");
    let on = |port| config(&origin, port, &fleet, &owners("1m"));
    let servers = ports.map(|port| Tidegate::start(&off(port)));
    let reload = |config: &dyn Fn(u16) -> String| {
        for (server, port) in servers.iter().zip(ports) {
            server.rewrite_config(&config(port));
            let (status, response) = api(server, "POST /v1/reload?wait", "");
            assert_eq!(status, 200, "{response}");
        }
    };
    let fetches_of = |pages: std::ops::Range<usize>| {
        let before = origin.fetches();
        for number in pages {
            let bodies = servers.each_ref().map(|server| get(server, &page(number), "").status);
            assert_eq!(bodies, [200, 200]);
        }
        origin.fetches() - before
    };
    assert_eq!(fetches_of(0..8), 16);
    reload(&on);
    assert_eq!(fetches_of(8..16), 8);
    reload(&off);
    assert_eq!(fetches_of(16..24), 16);
}

#[test]
fn explain_names_the_upstream_of_the_owners() {
    let origin = Origin::counting(KEPT);
    let port = free_port();
    let server = node(&origin, port, &addresses(&[port]), &owners("1m"));
    let question = "GET /v1/caches/pages/explain?url=http://shop.example/";
    let (status, answer) = api(&server, question, "");
    let why = answer["why"].as_str().unwrap_or_default();
    assert_eq!(status, 200, "{answer}");
    assert!(why.ends_with("its owner among the servers of fleet is requested first"), "{answer}");
}
