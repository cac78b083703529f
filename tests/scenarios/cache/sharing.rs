//! However many ask at once, the origin is asked once.

use super::{Origin, cache, get, is_hit, origin_response};
use std::sync::{Mutex, mpsc};

#[test]
fn all_waiting_requests_get_the_same_response() {
    const CLIENTS: usize = 20;
    let (let_go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |_, _| {
        let _ = wait.lock().expect("no panic under it").recv();
        origin_response(200, "cache-control: max-age=60\r\n", b"one for all")
    });
    let server = cache(&origin, "fetch: { wait: 1m }");
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| get(&server, "/", "").text())).collect();
        // All of them have come; none has a response.
        server.wait_for_metric("tidegate_requests_in_flight", &[("route", "all")], CLIENTS as f64);
        let_go.send(()).expect("the origin waits");
        for client in clients {
            assert_eq!(client.join().expect("a response"), "one for all");
        }
    });
    assert_eq!(origin.fetches(), 1);
    let told = server.metrics().sum("tidegate_cache_coalesced_total", &[]);
    let hits = server.metrics().sum("tidegate_cache_hits_total", &[]);
    assert_eq!(told + hits, CLIENTS as f64 - 1.0);
}

#[test]
fn the_first_client_may_disconnect() {
    let (let_go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |_, _| {
        let _ = wait.lock().expect("no panic under it").recv();
        origin_response(200, "cache-control: max-age=60\r\n", b"for later requests")
    });
    let server = cache(&origin, "");
    let mut client = server.connect("web");
    client.send("GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    server.wait_for_metric("tidegate_upstream_requests_in_flight", &[], 1.0);
    drop(client);
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", "client_gone")], 1.0);
    let_go.send(()).expect("the origin waits");
    server.wait_for_metric("tidegate_cache_stored_total", &[("cache", "pages")], 1.0);
    assert!(is_hit(&get(&server, "/", "")));
    assert_eq!(origin.fetches(), 1);
}
