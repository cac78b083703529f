//! The filters that limit and distribute requests, through a whole server with two workers: use,
//! rejection, metrics, and state across a reload.

mod load_shedding;
mod reloads;
mod shared_bandwidth;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::{HttpResponse, Launch, Tidegate, Upstream, eventually, gate};

const ADMIN: &str = "admin: { bind: \"127.0.0.1:0\" }";

fn config(upstreams: &[(&str, &Upstream)], routes: &str) -> String {
    let upstreams: Vec<_> = (upstreams.iter())
        .map(|(name, upstream)| format!("{name}: {{ servers: [\"{}\"] }}", upstream.address()))
        .collect();
    format!(
        "workers: 2\nlisteners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\n{ADMIN}\n\
         upstreams: {{ {} }}\nroutes:\n{routes}\n",
        upstreams.join(", ")
    )
}

/// An upstream that responds with this text.
fn says(text: &str) -> Upstream {
    Upstream::responding(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()))
}

fn get(server: &Tidegate, path: &str, fields: &str) -> HttpResponse {
    server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
}

fn reload(server: &Tidegate, config: &str) {
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(config);
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
}

#[test]
fn a_canary_gets_its_share_keeps_its_clients_and_is_rolled_back() {
    let (stable, canary) = (says("stable"), says("canary"));
    let with = |weight: u32| {
        let routes = format!(
            "  - name: shop
    filters:
      - split:
          variants:
            - name: canary
              weight: {weight}
              handler: {{ upstream: next }}
              when: {{ header: x-canary }}
            - {{ name: stable, weight: 3 }}
          sticky: {{ cookie: variant }}
    handler: {{ upstream: now }}"
        );
        config(&[("now", &stable), ("next", &canary)], &routes)
    };
    let server = Tidegate::start(&with(1));
    let mut first = None;
    for _ in 0..40 {
        let response = get(&server, "/", "");
        let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(cookie, format!("variant={}", response.text()));
        if response.text() == "canary" {
            first = Some(cookie);
        }
    }
    let metrics = server.metrics();
    let counted = |variant| {
        let labels = [("split", "shop"), ("variant", variant), ("class", "2xx")];
        metrics.sum("tidegate_split_responses_total", &labels)
    };
    // A quarter on each worker.
    assert!((8.0..=12.0).contains(&counted("canary")), "{}", counted("canary"));
    assert_eq!(counted("canary") + counted("stable"), 40.0);
    let cookie = format!("cookie: {}\r\n", first.unwrap());
    assert_eq!(get(&server, "/", &cookie).text(), "canary");
    reload(&server, &with(0));
    eventually("the canary is rolled back", || get(&server, "/", &cookie).text() == "stable");
    for _ in 0..10 {
        assert_eq!(get(&server, "/", &cookie).text(), "stable");
    }
    assert_eq!(get(&server, "/", "x-canary: 1\r\n").text(), "canary");
}

#[test]
fn the_cookie_of_a_variant_ends_with_the_session_of_the_browser_or_later() {
    let (blue, green) = (says("blue"), says("green"));
    let with = |weights: [u32; 2], cookie: &str| {
        let [first, second] = weights;
        let routes = format!(
            "  - filters:
      - split:
          variants:
            - {{ name: blue, weight: {first} }}
            - {{ name: green, weight: {second}, handler: {{ upstream: green }} }}
          sticky: {{ cookie: {cookie} }}
    handler: {{ upstream: blue }}"
        );
        config(&[("blue", &blue), ("green", &green)], &routes)
    };
    let server = Tidegate::start(&with([1, 0], "variant"));
    let set = |fields: &str| {
        let response = get(&server, "/", fields);
        (response.text(), response.header("set-cookie").map(str::to_owned))
    };
    // Neither Max-Age nor Expires (RFC 6265 5.3).
    let cookie = |name: &str| Some(format!("variant={name}; Path=/; HttpOnly; SameSite=Lax"));
    assert_eq!(set(""), ("blue".to_owned(), cookie("blue")));
    assert_eq!(set("cookie: a=b; variant=blue\r\n"), ("blue".to_owned(), None));
    // Neither a variant that has no weight nor one that does not exist.
    for other in ["green", "red", ""] {
        let fields = format!("cookie: variant={other}\r\n");
        assert_eq!(set(&fields), ("blue".to_owned(), cookie("blue")), "{other}");
    }
    reload(&server, &with([0, 1], "variant"));
    assert_eq!(set("cookie: variant=blue\r\n"), ("green".to_owned(), cookie("green")));
    assert_eq!(set("cookie: variant=green\r\n"), ("green".to_owned(), None));
    // A cookie that outlives the session, also of a client that has one of the session.
    reload(&server, &with([1, 0], "{ name: variant, max_age: 1h }"));
    let stored = "variant=blue; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax".to_owned();
    assert_eq!(set("cookie: variant=green\r\n"), ("blue".to_owned(), Some(stored)));
}

#[test]
fn a_mirror_that_hangs_delays_nothing() {
    let (opener, wait) = gate();
    let copies = Arc::new(AtomicUsize::new(0));
    let (counted, wait) = (copies.clone(), Arc::new(wait));
    let shadow = Upstream::start(move |peer| {
        let head = peer.read_head();
        assert!(head.starts_with("POST /orders") && head.contains("Content-Length: 5"), "{head}");
        peer.expect("order");
        counted.fetch_add(1, Ordering::SeqCst);
        wait.wait();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let real = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.expect("order");
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone");
        }
    });
    let routes = "  - name: orders
    filters: [{ mirror: { to: { upstream: shadow }, concurrent: 3, timeout: 5m } }]
    handler: { upstream: real }";
    let server = Tidegate::start(&config(&[("real", &real), ("shadow", &shadow)], routes));
    for _ in 0..10 {
        let request = "POST /orders HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\norder";
        assert_eq!(server.exchange("web", request).text(), "done");
    }
    server.wait_for_metric("tidegate_mirror_requests_total", &[("result", "over_budget")], 7.0);
    eventually("three copies arrived", || copies.load(Ordering::SeqCst) == 3);
    assert_eq!(server.metrics().sum("tidegate_mirror_in_flight", &[("mirror", "orders")]), 3.0);
    opener.open();
    server.wait_for_metric("tidegate_mirror_requests_total", &[("result", "ok")], 3.0);
}

#[test]
fn a_circuit_breaker_opens_for_all_workers_and_stays_open_over_a_reload() {
    let failing = Upstream::responding("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let with = |fallback: &str| {
        let routes = format!(
            "  - name: api
    filters: [{{ circuit_breaker: {{ min_requests: 6, open: 1h{fallback} }} }}]
    handler: {{ upstream: api }}
  - {{ match: {{ path: /version }}, handler: {{ respond: {{ body: \"{}\" }} }} }}",
            fallback.len()
        );
        config(&[("api", &failing)], &routes)
    };
    let server = Tidegate::start(&with(""));
    let sent = (0..20).filter(|_| get(&server, "/", "").header("retry-after").is_none()).count();
    assert_eq!(sent, 6);
    let labels = [("circuit_breaker", "api")];
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_circuit_breaker_state", &labels), 2.0);
    assert_eq!(metrics.sum("tidegate_circuit_breaker_rejected_total", &labels), 14.0);
    server.wait_for_log("circuit breaker opened");
    reload(&server, &with(", fallback: { respond: { status: 203, body: saved } }"));
    eventually("the fallback responds", || get(&server, "/", "").text() == "saved");
    assert_eq!(
        failing.accepted(),
        server.metrics().sum("tidegate_upstream_connects_total", &[]) as usize
    );
}

#[test]
fn concurrency_counts_until_the_last_byte_and_over_a_reload() {
    let (opener, wait) = gate();
    let wait = Arc::new(wait);
    let slow = Upstream::start(move |peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n");
        wait.wait();
        peer.send("done");
    });
    let with = |limit: u32| {
        let routes = format!(
            "  - name: slow
    filters: [{{ concurrency: {{ limit: {limit} }} }}]
    handler: {{ upstream: slow }}"
        );
        config(&[("slow", &slow)], &routes)
    };
    let server = Tidegate::start(&with(2));
    let mut held: Vec<_> = (0..2)
        .map(|_| {
            let mut client = server.connect("web");
            client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            assert!(client.read_head().starts_with("HTTP/1.1 200"));
            client
        })
        .collect();
    let rejected = get(&server, "/", "");
    assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
    // With one more, exactly one more passes.
    reload(&server, &with(3));
    let mut third = server.connect("web");
    third.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(third.read_head().starts_with("HTTP/1.1 200"));
    assert_eq!(get(&server, "/", "").status, 503);
    held.push(third);
    opener.open();
    for mut client in held {
        client.expect("done");
    }
    let labels = [("limit", "slow")];
    eventually("no request is in flight", || {
        server.metrics().sum("tidegate_concurrency_in_flight", &labels) == 0.0
    });
    assert_eq!(server.metrics().sum("tidegate_concurrency_rejected_total", &labels), 2.0);
}

#[test]
fn faults_and_mocks_are_what_they_are_set_to() {
    let real = says("real");
    let routes = "  - name: broken
    match: { path: /broken }
    filters: [{ fault: { abort: 418, delay: 1ms, when: { header: x-test } } }]
    handler: { upstream: real }
  - name: mocked
    match: { path: '/orders/{id}' }
    filters:
      - mock:
          status: 201
          headers: { content-type: application/json, x-id: '{path.id}' }
          body: '{{\"id\": \"{path.id}\", \"state\": \"{random.of open|paid}\"}}'
          share: 50%
    handler: { upstream: real }";
    let server = Tidegate::start(&config(&[("real", &real)], routes));
    assert_eq!(get(&server, "/broken", "").text(), "real");
    let failed = get(&server, "/broken", "x-test: 1\r\n");
    assert_eq!(failed.status, 418);
    assert!(!failed.text().contains("purpose"), "{}", failed.text());
    let responses: Vec<_> = (0..20).map(|_| get(&server, "/orders/7", "")).collect();
    let made: Vec<_> = responses.iter().filter(|response| response.status == 201).collect();
    assert!((8..=12).contains(&made.len()), "{}", made.len());
    for response in &made {
        assert_eq!(response.header("x-id"), Some("7"));
        let text = response.text();
        assert!(text.starts_with("{\"id\": \"7\", \"state\": \""), "{text}");
    }
    let metrics = server.metrics();
    for fault in ["abort", "delay"] {
        let labels = [("route", "broken"), ("fault", fault)];
        assert_eq!(metrics.sum("tidegate_faults_injected_total", &labels), 1.0);
    }
    let mocked = metrics.sum("tidegate_mock_responses_total", &[("route", "mocked")]);
    assert_eq!(mocked as usize, made.len());
}

#[test]
fn a_response_at_a_limited_bandwidth_is_whole() {
    let long = "x".repeat(200_000);
    let large = says(&long);
    let routes = "  - name: large
    filters: [{ bandwidth: { response: 1MiB, request: 1MiB, burst: 32KiB } }]
    handler: { upstream: large }";
    let server = Tidegate::start(&config(&[("large", &large)], routes));
    assert_eq!(get(&server, "/", "").text(), long);
    // The tests of the filter measure the rate, with a manual clock.
    let labels = [("limit", "large"), ("direction", "response")];
    assert!(server.metrics().sum("tidegate_bandwidth_pauses_total", &labels) > 0.0);
}

#[test]
fn handlers_of_filters_are_checked_and_explained() {
    let stable = says("stable");
    let routes = |handler: &str| {
        format!(
            "  - filters:
      - split: {{ variants: [{{ name: a, handler: {handler} }}, {{ name: b }}] }}
    handler: {{ upstream: now }}"
        )
    };
    let check = |handler: &str| {
        let files = Launch::new(&config(&[("now", &stable)], &routes(handler)));
        let exit = files.run(&["check", "tidegate.yaml"]);
        format!("{}{}", exit.stdout, exit.stderr)
    };
    assert!(
        check("{ upstream: nwo }").contains("did you mean \"now\"?"),
        "{}",
        check("{ upstream: nwo }")
    );
    let unknown = check("{ upstraem: now }");
    assert!(
        unknown.contains("unknown handler \"upstraem\", did you mean \"upstream\"?"),
        "{unknown}"
    );
    let misspelt = check("{ respond: { stats: 200 } }");
    assert!(misspelt.contains("did you mean \"status\"?"), "{misspelt}");
}
