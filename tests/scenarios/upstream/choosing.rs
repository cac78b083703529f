//! Which server gets a request.

use super::{Tidegate, Upstream, gateway, sent_to, wait_until_released};

const WAYS: [&str; 4] = ["p2c", "least_requests", "random", "round_robin"];

/// Servers that response with their own letter.
fn letters(count: usize) -> Vec<Upstream> {
    let letters = (b'a'..).take(count).map(char::from);
    let response = |letter| format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{letter}");
    letters.map(|letter| Upstream::responding(response(letter))).collect()
}

fn balanced(upstreams: &[Upstream], weights: &[u32], balance: &str) -> Tidegate {
    let servers: Vec<_> = upstreams
        .iter()
        .zip(weights)
        .map(|(upstream, weight)| {
            format!(r#"{{ address: "{}", weight: {weight} }}"#, upstream.address())
        })
        .collect();
    gateway(&format!("servers: [{}], balance: {balance}", servers.join(", ")))
}

/// The letters of as many responses on one connection.
fn responses(server: &Tidegate, count: usize, request: impl Fn(usize) -> String) -> String {
    let mut client = server.connect("web");
    let mut responses = String::new();
    for turn in 0..count {
        client.send(request(turn));
        responses.push_str(&client.read_response().text());
    }
    responses
}

fn get(_: usize) -> String {
    super::GET.to_owned()
}

#[test]
fn round_robin_goes_round() {
    let upstreams = letters(3);
    let server = balanced(&upstreams, &[1, 1, 1], "round_robin");
    let order = responses(&server, 9, get);
    assert_eq!(&order[..3], &order[3..6]);
    assert_eq!(&order[..3], &order[6..]);
    for upstream in &upstreams {
        assert_eq!(sent_to(&server, upstream, "2xx"), 3.0);
    }
    wait_until_released(&server);
}

#[test]
fn weights_are_shares_and_are_spread() {
    let upstreams = letters(2);
    let server = balanced(&upstreams, &[3, 1], "round_robin");
    let order = responses(&server, 16, get);
    assert_eq!(order.matches('a').count(), 12, "{order}");
    assert!(!order.contains("aaaa") && !order.contains("bb"), "{order}");
}

#[test]
fn every_way_uses_every_server() {
    for balance in WAYS {
        let upstreams = letters(3);
        let server = balanced(&upstreams, &[1, 1, 1], balance);
        let order = responses(&server, 120, get);
        for letter in ["a", "b", "c"] {
            // One slow answer is enough for p2c to prefer the others for a while.
            let least = if balance == "p2c" { 1 } else { 5 };
            assert!(order.matches(letter).count() >= least, "{balance}: {order}");
        }
    }
}

#[test]
fn a_key_sticks_to_its_server_and_only_its_own_move() {
    let upstreams = letters(3);
    let by_header = "{ hash: header.x-user }";
    let server = balanced(&upstreams, &[1, 1, 1], by_header);
    let user =
        |turn: usize| format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: user-{}\r\n\r\n", turn % 40);
    let first = responses(&server, 40, user);
    assert_eq!(first, responses(&server, 40, user));
    for letter in ["a", "b", "c"] {
        assert!(first.contains(letter), "{first}");
    }

    // A server that is gone takes only its own keys along.
    let server = balanced(&upstreams[..2], &[1, 1], by_header);
    let second = responses(&server, 40, user);
    for (before, after) in first.chars().zip(second.chars()) {
        assert!(before == after || before == 'c', "{first} {second}");
    }
}

#[test]
fn the_one_with_the_fewest_requests_gets_the_next() {
    let (opener, gate) = scenarios::gate();
    let busy = Upstream::start(move |peer| {
        while !peer.at_end() {
            if peer.read_head().starts_with("GET /slow ") {
                gate.wait();
            }
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx");
        }
    });
    let idle = letters(1);
    let server = gateway(&format!(
        r#"servers: ["{}", "{}"], balance: least_requests"#,
        busy.address(),
        idle[0].address()
    ));
    // Until the busy one has got a slow request; the other knows none.
    let mut waiting = Vec::new();
    while busy.accepted() == 0 {
        let mut client = server.connect("web");
        client.send("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n");
        waiting.push(client);
        let requests = waiting.len();
        scenarios::eventually("a server has the request", || {
            busy.accepted() > 0 || idle[0].accepted() >= requests
        });
    }
    let order = responses(&server, 10, get);
    assert_eq!(order, "aaaaaaaaaa");
    opener.open();
    drop(waiting);
    wait_until_released(&server);
}
