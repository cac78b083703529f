//! Interim responses (RFC 9110 15.2): all but 100 Continue are forwarded, and a server that sends
//! no final response is given up.

use super::{
    GET, assert_fault, config, gateway, servers, settle_without_connections, wait_until_released,
};
use scenarios::{Tidegate, Upstream};

#[test]
fn early_hints_reach_the_client_and_filters_see_the_final_response() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send(
                "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x-own\r\n\
                 x-own: 1\r\n\r\n",
            );
            peer.send("HTTP/1.1 103 Early Hints\r\nlink: </b.js>; rel=preload\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nserver: inner\r\n\r\nok");
        }
    });
    let filters = "defaults: { filters: [{ response_headers: { set: { x-seen: yes }, \
                   remove: [server] } }] }";
    let server = Tidegate::start(&format!("{}{filters}\n", config(&servers(&[&upstream]), 1)));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(GET);
        for link in ["</a.css>; rel=preload", "</b.js>; rel=preload"] {
            let hints = client.read_response();
            assert_eq!((hints.status, hints.header("link")), (103, Some(link)));
            assert_eq!((hints.header("x-own"), hints.header("x-seen")), (None, None), "{hints:?}");
        }
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "ok"));
        assert_eq!((response.header("x-seen"), response.header("server")), (Some("yes"), None));
    }
    assert_eq!(upstream.accepted(), 1);
    // HTTP/1.0 knows no interim answers (RFC 9110 15.2).
    assert_eq!(server.exchange("web", "GET / HTTP/1.0\r\n\r\n").status, 200);
    drop(client);
    wait_until_released(&server);
}

/// RFC 9110 15.2: a proxy forwards interim responses, except a 100 that it has asked for itself.
#[test]
fn continue_ends_at_the_gateway_and_others_reach_the_client() {
    let upstream = Upstream::responding(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 Odd\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    );
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(GET);
        let seen = [client.read_response().status, client.read_response().status];
        assert_eq!(seen, [102, 199]);
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn interim_responses_for_ever_are_502() {
    for interim in
        ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"]
    {
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            while peer.try_send(interim) {}
        });
        let other = Upstream::responding(super::OK);
        let first_only = format!(
            r#"servers: ["{}", {{ address: "{}", backup: true }}]"#,
            upstream.address(),
            other.address()
        );
        let server = gateway(&first_only);
        let mut client = server.connect("web");
        client.send(GET);
        let mut hints = 0;
        let response = loop {
            let response = client.read_response();
            if response.status != 103 {
                break response;
            }
            hints += 1;
        };
        assert!(hints <= 16, "{hints} hints");
        assert_fault(&response, 502, "http_protocol_error");
        assert_eq!(other.accepted(), 0, "a client that has seen hints gets no other answer");
        drop(client);
        settle_without_connections(&server);
    }
}

#[test]
fn switching_protocols_unasked_is_502() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n");
        peer.expect_closed();
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET);
    assert_fault(&client.read_response(), 502, "http_protocol_error");
    drop(client);
    settle_without_connections(&server);
}
