//! Requests that two servers could read differently: each gets its status, ends the connection, is
//! counted, and nothing of it or of what it smuggles reaches the upstream.
//!
//! The rows are those of the wire room's verdict table, as bytes on a real connection.

use crate::setup::behind;
use scenarios::{Tidegate, Upstream};

/// What is hidden behind each: it must never be answered.
const HIDDEN: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

const ROWS: &[(u16, &str)] = &[
    // Two framings, or none that is certain.
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 2\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"),
    (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    (400, "POST / HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n"),
    (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    // Names that others take for those that frame messages.
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer--Encoding: chunked\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nHOST_: b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection-: close\r\n\r\n"),
    // Lines and fields that end elsewhere for others.
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX[1]: b\r\n\r\n"),
    (400, "GET / HTTP/1.1\n\n"),
    // The host of the request.
    (400, "GET / HTTP/1.1\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    (400, "GET http://u:p@b/ HTTP/1.1\r\nHost: b\r\n\r\n"),
    // What is asked for, and in which version.
    (400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
    (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    // Methods that others may take for registered ones, and one that is too long for any.
    (501, "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (501, "Post / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
    (501, "delete / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (501, "AAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "CONNECT / HTTP/1.1\r\nHost: b:443\r\n\r\n"),
    (400, "\x16\x03\x01\x02\0\x01\0"),
];

#[test]
fn each_is_refused_in_public_and_goes_no_further() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let server = Tidegate::start(&behind(&upstream, ""));
    for (status, row) in ROWS {
        let mut client = server.connect("web");
        client.send(format!("{row}{HIDDEN}"));
        let response = client.read_response();
        assert_eq!(
            (response.status, response.header("connection")),
            (*status, Some("close")),
            "{row:?}"
        );
        // Nothing of why: that is in the log.
        assert!(response.body.len() < 64, "{row:?}: {:?}", response.text());
        client.expect_closed();
    }
    assert_eq!(upstream.accepted(), 0);
    let reason = [("reason", "malformed_request"), ("fault", "client")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, ROWS.len() as f64);
    assert_eq!(server.metrics().sum("tidegate_requests_total", &[]), 0.0);
}

#[test]
fn one_behind_a_good_request_does_not_spoil_its_response() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let server = Tidegate::start(&behind(&upstream, ""));
    for (status, row) in ROWS {
        let mut client = server.connect("web");
        client.send(format!("GET /good HTTP/1.1\r\nhost: a\r\n\r\n{row}{HIDDEN}"));
        assert_eq!(client.read_response().text(), "ok", "{row:?}");
        assert_eq!(client.read_response().status, *status, "{row:?}");
        client.expect_closed();
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_requests_total", &[]), ROWS.len() as f64);
}

#[test]
fn each_is_refused_in_single_bytes_as_well() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let server = Tidegate::start(&behind(&upstream, ""));
    for (status, row) in ROWS {
        let mut client = server.connect("web");
        for byte in row.as_bytes() {
            // It may be refused before its end.
            if !client.try_send([*byte]) {
                break;
            }
        }
        assert_eq!(client.read_response().status, *status, "{row:?}");
    }
    assert_eq!(upstream.accepted(), 0);
}

/// RFC 9112 3: too long a method is 501, not 414, however long the rest of the line would be.
#[test]
fn a_method_longer_than_a_request_line_may_be_is_not_implemented() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send("A".repeat(20_000));
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (501, Some("close")));
}

#[test]
fn the_reason_is_in_the_log() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let log = "log: { access: { format: json, path: stderr } }";
    let server = Tidegate::start(&behind(&upstream, log));
    server.exchange("web", ROWS[0].1);
    let line = server.wait_for_log("\"status\":400");
    assert!(line.contains("\"fault\":\"length_and_coding\""), "{line}");
}
