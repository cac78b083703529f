//! Requests sent before the responses to earlier ones: answered in order, in few pieces,
//! and never more of them in memory than is allowed.

use crate::setup::{behind, responding};
use scenarios::{Tidegate, Upstream};

fn get(path: &str, n: usize) -> String {
    format!("GET {path}?n={n} HTTP/1.1\r\nhost: a\r\n\r\n")
}

#[test]
fn a_slow_response_is_not_overtaken() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    let paths = ["/slow", "/ping", "/slow", "/ping", "/none", "/slow", "/ping"];
    let requests: String = paths.iter().enumerate().map(|(n, path)| get(path, n)).collect();
    client.send(requests);
    for (n, path) in paths.iter().enumerate() {
        let response = client.read_response();
        let expected = if *path == "/none" { (404, None) } else { (200, Some(n.to_string())) };
        assert_eq!((response.status, response.header("x-n").map(str::to_owned)), expected, "{n}");
    }
}

#[test]
fn a_thousand_requests_in_one_go_get_a_thousand_responses_in_order() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send((0..1000).map(|n| get("/ping", n)).collect::<String>());
    for n in 0..1000 {
        let response = client.read_response();
        assert_eq!(response.header("x-n"), Some(&*n.to_string()));
        assert_eq!(response.body, b"pong");
    }
    // A second time on the same connection: nothing of the first was left behind.
    client.send((0..1000).map(|n| get("/ping", n)).collect::<String>());
    for n in 0..1000 {
        assert_eq!(client.read_response().header("x-n"), Some(&*n.to_string()));
    }
}

#[test]
fn responses_to_requests_in_one_piece_leave_in_one_piece() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send((0..8).map(|n| get("/ping", n)).collect::<String>());
    let first = client.read_response();
    // With the first response came all the others: they are in the receive buffer already.
    assert_eq!(client.waiting(), 7 * first.bytes.len());
    for _ in 0..7 {
        assert_eq!(client.read_response().body, b"pong");
    }
}

#[test]
fn responses_through_an_upstream_keep_their_order() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let target = head.split(' ').nth(1).unwrap_or_default();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}",
                target.len()
            ));
        }
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send((0..100).map(|n| get("/up", n)).collect::<String>());
    for n in 0..100 {
        assert_eq!(client.read_response().text(), format!("/up?n={n}"));
    }
}

#[test]
fn a_flood_waits_in_the_kernel_while_a_response_is_made() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        let _ = wait.lock().expect("no panic").recv();
        peer.send("HTTP/1.1 200 OK\r\nx-n: 0\r\ncontent-length: 0\r\n\r\n");
        peer.at_end();
    });
    let config = behind(&upstream, "").replace(
        "routes: [",
        "routes: [{ match: { path: /ping }, \
         handler: { respond: { headers: { x-n: \"{query.n}\" }, body: pong } } }, ",
    );
    let server = Tidegate::start(&config);
    let mut client = server.connect("web");
    // 3 MB of requests behind a slow one: far more than the server takes in advance.
    let count = 20_000;
    let padding = "p".repeat(100);
    let ping = move |n: usize| {
        format!("GET /ping?n={n} HTTP/1.1\r\nhost: a\r\nx-padding: {padding}\r\n\r\n")
    };
    let mut reader = client.clone_for_reading();
    let sender = std::thread::spawn(move || {
        client.send(get("/slow", 0));
        client.send((1..=count).map(ping).collect::<String>());
        client
    });
    let limit = [("limit", "pipeline")];
    server.wait_for_metric("tidegate_limits_hit_total", &limit, 1.0);
    let taken = server.metrics().sum("tidegate_received_bytes_total", &[]);
    assert!(taken < f64::from(200 << 10), "{taken} bytes were taken in advance");
    go_on.send(()).expect("the upstream waits");
    for n in 0..=count {
        assert_eq!(reader.read_response().header("x-n"), Some(&*n.to_string()));
    }
    drop(sender.join());
}

#[test]
fn a_response_does_not_wait_for_the_next_one() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            if head.starts_with("GET /never") {
                peer.read_until_gone();
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send([get("/a", 0), get("/b", 1), get("/never", 2)].concat());
    for _ in 0..2 {
        assert_eq!(client.read_response().text(), "ok");
    }
}

#[test]
fn one_client_that_never_stops_does_not_starve_the_others() {
    let server = Tidegate::start(&responding("").replace("workers: 2", "workers: 1"));
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let mut flood = server.connect("web");
        let mut reader = flood.clone_for_reading();
        scope.spawn(move || {
            let many = get("/ping", 0).repeat(2000);
            while flood.try_send(&many) {}
        });
        let reading = scope.spawn(move || {
            while !is_over() {
                reader.read_exactly(1 << 16);
            }
            reader.finish_sending(); // which stops the flood
        });
        server.wait_for_metric("tidegate_responses_total", &[], 20_000.0);
        let mut other = server.connect("web");
        for _ in 0..20 {
            // The flood does not end before this does.
            other.send(get("/ping", 1));
            assert_eq!(other.read_response().body, b"pong");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        reading.join().expect("no panic");
    });
}
