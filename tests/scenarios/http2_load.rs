//! Many requests over few connections of HTTP/2, on both sides, while connections end: none is
//! lost, and none reaches the upstream twice.

use scenarios::{Connection, Http2Peer, Tidegate, Upstream};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wire::Method;
use wire::h2::{Config, Event, RequestLine, StreamKey};

const CONNECTIONS: usize = 4;
/// Requests of a connection at the same time.
const STREAMS: usize = 20;

/// What became of the requests of one client connection.
#[derive(Default)]
struct Tally {
    responses: usize,
    /// The server has said that it did not process them.
    refused: usize,
}

/// Has so many requests responded to, or as many as the server accepts.
fn load(address: SocketAddr, name: usize, requests: usize, progress: &AtomicUsize) -> Tally {
    let mut connection = Connection::to(address);
    let mut client = Http2Peer::client(&mut connection);
    let (mut tally, mut sent, mut is_ending) = (Tally::default(), 0, false);
    let mut pending: HashMap<StreamKey, (String, Vec<u8>)> = HashMap::new();
    loop {
        while !is_ending && pending.len() < STREAMS && sent < requests {
            let path = format!("/{name}/{sent}");
            let (method, authority, bytes) = (&Method::Get, b"a".as_slice(), path.as_bytes());
            let line =
                RequestLine { method, secure: false, authority, path: bytes, protocol: None };
            match client.protocol.request(line, [], true) {
                Ok(stream) => _ = pending.insert(stream, (path, Vec::new())),
                Err(_) => is_ending = true,
            }
            sent += 1;
        }
        if pending.is_empty() {
            return tally;
        }
        match client.event() {
            Some(Event::Response { status, ends, .. }) => assert_eq!((status, ends), (200, false)),
            Some(Event::Data { stream, data, ends }) => {
                client.protocol.release(stream, data.len());
                let (_, content) = pending.get_mut(&stream).expect("a stream with a request");
                content.extend_from_slice(&data);
                if ends {
                    let (path, content) = pending.remove(&stream).expect("a stream");
                    assert_eq!(content, path.as_bytes());
                    tally.responses += 1;
                    progress.fetch_add(1, SeqCst);
                }
            }
            Some(Event::Reset { stream, unprocessed: true, .. }) => {
                pending.remove(&stream);
                tally.refused += 1;
            }
            Some(Event::GoAway { .. }) => is_ending = true,
            Some(other) => panic!("{other:?}"),
            None => panic!("the connection ended with {} open streams", pending.len()),
        }
    }
}

/// An upstream of HTTP/2 that responds with the path, and counts its requests.
fn counting(limit: Option<usize>) -> (Upstream, Arc<AtomicUsize>) {
    let received = Arc::new(AtomicUsize::new(0));
    let counter = received.clone();
    let upstream = Upstream::http2(Config::default(), move |peer| {
        let mut served = 0;
        while let Some(request) = peer.request() {
            counter.fetch_add(1, SeqCst);
            peer.respond(request.stream, request.path);
            served += 1;
            if Some(served) == limit {
                // GOAWAY in the middle of the load: what comes later is not processed.
                peer.protocol.close_to_new_streams();
                peer.flush();
            }
        }
    });
    (upstream, received)
}

fn config(upstream: &Upstream, version: usize, max_requests: usize) -> String {
    let address = upstream.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  u:
    servers: ["h2c://{address}"]
    keepalive: {{ max_requests: {max_requests} }}
    retries: {{ attempts: 10, budget: 100% }}
routes:
  - {{ match: {{ path: "/version/{version}" }}, handler: {{ respond: {{}} }} }}
  - {{ match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: u }} }}
"#
    )
}

/// Runs the load and `during`; the responses, and the requests that were refused.
fn run(server: &Tidegate, requests: usize, during: impl FnOnce(&AtomicUsize)) -> (usize, usize) {
    let (address, progress) = (server.address("web"), &AtomicUsize::new(0));
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|name| scope.spawn(move || load(address, name, requests, progress)))
            .collect();
        during(progress);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum();
    (sum(|tally| tally.responses), sum(|tally| tally.refused))
}

#[test]
fn ten_thousand_requests_through_reloads_and_short_upstream_connections() {
    let (upstream, received) = counting(None);
    let server = Tidegate::start(&config(&upstream, 0, 100));
    let (responses, refused) = run(&server, 2500, |progress| {
        for version in 1..=5 {
            scenarios::eventually("more responses", || progress.load(SeqCst) >= version * 1000);
            server.rewrite_config(&config(&upstream, version, 100));
            server.signal("HUP");
            server.wait_for_metric("tidegate_config_reloads_total", &[], version as f64);
        }
    });
    assert_eq!((responses, refused, received.load(SeqCst)), (10_000, 0, 10_000));
    assert!(upstream.accepted() >= 100, "{} connections", upstream.accepted());
}

#[test]
fn an_upstream_that_goes_away_under_load_gets_each_request_once() {
    let (upstream, received) = counting(Some(200));
    let server = Tidegate::start(&config(&upstream, 0, 100_000));
    let (responses, refused) = run(&server, 500, |_| {});
    assert_eq!((responses, refused, received.load(SeqCst)), (2000, 0, 2000));
    assert!(upstream.accepted() >= 10, "{} connections", upstream.accepted());
}

#[test]
fn a_drain_under_load_responds_to_every_request_that_it_accepts() {
    let (upstream, received) = counting(None);
    let server = Tidegate::start(&config(&upstream, 0, 100_000));
    let (responses, refused) = run(&server, usize::MAX, |progress| {
        scenarios::eventually("some responses", || progress.load(SeqCst) >= 400);
        server.signal("TERM");
    });
    assert_eq!(responses, received.load(SeqCst), "{refused} were refused");
    assert!(responses >= 400, "{responses}");
    assert_eq!(server.wait().code, Some(0));
}
