//! Trying again: on another server, only where nothing can happen twice, within bounds, and never
//! once the client has seen anything of a response.

use super::{GET, OK, Refusing, ask, assert_fault, gateway, wait_until_released};
use scenarios::{Connection, Tidegate, Upstream, eventually};
use std::net::SocketAddr;
use std::time::Instant;

/// Tries the servers in the order they stand here: each later one is only used when none before it
/// is left to try.
fn in_turn(addresses: &[SocketAddr], more: &str) -> Tidegate {
    let servers: Vec<_> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    let servers = servers.join(", ");
    gateway(&format!("servers: [{servers}], balance: round_robin, {more}"))
}

/// Takes a whole request and hangs up without a response.
fn mute() -> Upstream {
    Upstream::start(|peer| {
        let head = peer.read_head().to_ascii_lowercase();
        if let Some(length) = head.split("content-length: ").nth(1) {
            let length = length.lines().next().and_then(|text| text.parse().ok());
            peer.read_exactly(length.expect("a length"));
        }
    })
}

/// Takes what comes and says how long the body was.
fn measuring() -> Upstream {
    Upstream::start(|peer: &mut Connection| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|text| text.lines().next()?.parse().ok()).unwrap_or(0);
            let body = peer.read_exactly(length);
            assert!(body.iter().all(|byte| *byte == b'b'));
            let text = length.to_string();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()));
        }
    })
}

fn count(server: &Tidegate, name: &str) -> f64 {
    server.metrics().sum(name, &[("upstream", "u")])
}

const RETRIES: &str = "tidegate_upstream_retries_total";
const DENIED: &str = "tidegate_upstream_retries_denied_total";

#[test]
fn a_refused_connection_is_retried_with_another_server_whatever_the_method() {
    let (down, good) = (Refusing::start(), measuring());
    let server = in_turn(&[down.address(), good.address()], "ejection: { failures: 0 }");
    let mut client = server.connect("web");
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        for _ in 0..2 {
            client.send(format!("{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nbbb"));
            assert_eq!(client.read_response().text(), "3", "{method}");
        }
    }
    assert!(count(&server, RETRIES) >= 3.0);
    drop(client);
    wait_until_released(&server);
}

#[test]
fn what_was_sent_is_sent_again_only_if_the_method_is_idempotent() {
    for (method, again) in [
        ("GET", true),
        ("HEAD", true),
        ("OPTIONS", true),
        ("PUT", true),
        ("DELETE", true),
        ("POST", false),
        ("PATCH", false),
        ("BREW", false),
    ] {
        let (mute, good) = (mute(), measuring());
        let server = in_turn(&[mute.address(), good.address()], "ejection: { failures: 0 }");
        let mut client = server.connect("web");
        client.send(format!("{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nbbb"));
        let response =
            if method == "HEAD" { client.read_response_to_head() } else { client.read_response() };
        assert_eq!(mute.accepted(), 1);
        if again {
            assert_eq!(response.status, 200, "{method}");
            assert_eq!(count(&server, RETRIES), 1.0);
        } else {
            assert_fault(&response, 502, "connection_terminated");
            assert_eq!((good.accepted(), count(&server, RETRIES)), (0, 0.0), "{method}");
        }
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn a_body_is_sent_again_as_long_as_it_is_remembered() {
    for (length, again) in [(60_000, true), (200_000, false)] {
        let (mute, good) = (mute(), measuring());
        let server = in_turn(&[mute.address(), good.address()], "");
        let mut client = server.connect("web");
        client.send(format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"));
        client.send(vec![b'b'; length]);
        let response = client.read_response();
        if again {
            assert_eq!(response.text(), length.to_string());
        } else {
            assert_fault(&response, 502, "connection_terminated");
            assert_eq!(good.accepted(), 0);
        }
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn attempts_are_bounded_and_each_goes_to_another_server() {
    for (attempts, tried) in [(1, 1), (2, 2), (3, 3), (10, 4)] {
        let servers: Vec<_> = (0..4).map(|_| mute()).collect();
        let addresses: Vec<_> = servers.iter().map(Upstream::address).collect();
        let server = in_turn(&addresses, &format!("retries: {{ attempts: {attempts} }}"));
        assert_fault(&ask(&server), 502, "connection_terminated");
        let accepted: Vec<_> = servers.iter().map(Upstream::accepted).collect();
        assert_eq!(accepted.iter().sum::<usize>(), tried, "{accepted:?}");
        assert!(accepted.iter().all(|count| *count <= 1), "{accepted:?}");
        wait_until_released(&server);
    }
}

#[test]
fn retries_end_with_the_budget() {
    let servers: Vec<_> = (0..2).map(|_| mute()).collect();
    let addresses: Vec<_> = servers.iter().map(Upstream::address).collect();
    let server = in_turn(&addresses, "retries: { budget: 0% }, ejection: { failures: 0 }");
    let mut client = server.connect("web");
    let begin = Instant::now();
    for _ in 0..20 {
        client.send(GET);
        assert_fault(&client.read_response(), 502, "connection_terminated");
    }
    let (retries, denied) = (count(&server, RETRIES), count(&server, DENIED));
    assert_eq!(retries + denied, 20.0);
    // A few are always allowed, and one comes back each second.
    let most = 4.0 + begin.elapsed().as_secs_f64();
    assert!((3.0..=most).contains(&retries), "{retries} retries");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn nothing_is_tried_again_once_a_response_has_begun() {
    for begun in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            peer.send(begun);
        });
        let good = Upstream::responding(OK);
        let server = in_turn(&[upstream.address(), good.address()], "");
        let mut client = server.connect("web");
        client.send(GET);
        let head = client.read_head();
        let rest = String::from_utf8(client.read_until_gone()).expect("text");
        assert!(!rest.contains("ok") && !rest.contains("HTTP/"), "{head}{rest}");
        assert_eq!((good.accepted(), count(&server, RETRIES)), (0, 0.0));
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn chosen_statuses_are_tried_again_if_the_method_is_idempotent() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy";
    let (first, good) = (Upstream::responding(busy), Upstream::responding(OK));
    let more = "retries: { statuses: [503] }, ejection: { failures: 0 }";
    let server = in_turn(&[first.address(), good.address()], more);
    for _ in 0..4 {
        assert_eq!(ask(&server).text(), "ok");
    }
    let post = GET.replace("GET", "POST");
    let responses: Vec<_> = (0..2).map(|_| server.exchange("web", &post).text()).collect();
    assert!(responses.contains(&"busy".to_owned()) && responses.contains(&"ok".to_owned()));

    // Without another server the response is that of the last one.
    let alone = in_turn(&[first.address()], more);
    assert_eq!(ask(&alone).text(), "busy");
    wait_until_released(&server);
}

#[test]
fn a_server_that_stalls_is_given_up_for_another() {
    let stalling = Upstream::start(|peer| {
        peer.read_head();
        peer.expect_closed();
    });
    let good = Upstream::responding(OK);
    let more = "timeouts: { response: 500ms }, ejection: { failures: 0 }";
    let server = in_turn(&[stalling.address(), good.address()], more);
    // A busy machine may be too slow for that time with the other server as well.
    eventually("the other server responds after the one that stalls", || {
        let before = count(&server, RETRIES);
        ask(&server).text() == "ok" && count(&server, RETRIES) > before
    });
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_upstream")], 1.0);
    wait_until_released(&server);
}

#[test]
fn a_request_without_a_body_is_not_held_back_by_one_that_failed() {
    // The first server takes the head and resets; the body is still on its way then.
    let first = Upstream::start_owned(|mut peer| {
        peer.read_head();
        peer.reset();
    });
    let good = measuring();
    let server = in_turn(&[first.address(), good.address()], "");
    let mut client = server.connect("web");
    client.send("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbb");
    server.wait_for_metric("tidegate_requests_in_flight", &[], 1.0);
    client.send("bb");
    assert_eq!(client.read_response().text(), "4");
    assert_eq!((first.accepted(), good.accepted()), (1, 1));
    drop(client);
    wait_until_released(&server);
}
