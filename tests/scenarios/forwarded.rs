//! The client's address and the path of a request: Via, X-Forwarded-*, Forwarded; what a client
//! says of itself is believed only when `trusted_proxies` names it.

use crate::setup::behind;
use scenarios::{Tidegate, Upstream};

/// Answers with the head it got, so that the page can look at it.
fn mirror() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let length = head.len();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}"));
        }
    })
}

/// The values of a field in a mirrored head.
fn values(head: &str, name: &str) -> Vec<String> {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
    let same = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
    same.map(|(_, value)| value.to_owned()).collect()
}

const CLAIMS: &str = "GET / HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: 203.0.113.9, \
                      10.1.1.1\r\nx-forwarded-proto: https\r\nx-forwarded-host: other.example\r\n\
                      x-real-ip: 203.0.113.9\r\nvia: 1.0 first\r\n\r\n";
const LOG: &str = "log: { access: { format: json, path: stderr } }";

#[test]
fn a_stranger_is_not_believed() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, LOG));
    let head = server.exchange("web", CLAIMS).text();
    assert_eq!(values(&head, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(values(&head, "x-forwarded-proto"), ["http"]);
    assert_eq!(values(&head, "x-forwarded-host"), ["shop.example"]);
    assert_eq!(values(&head, "via"), ["1.0 first", "1.1 tidegate"]);
    assert!(values(&head, "forwarded").is_empty(), "{head}");
    assert!(values(&head, "x-real-ip").is_empty(), "{head}");
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"127.0.0.1\""), "{line}");
}

#[test]
fn a_strangers_forwarded_field_is_removed() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, ""));
    let request = "GET / HTTP/1.1\r\nhost: a\r\nforwarded: for=203.0.113.9\r\n\r\n";
    let head = server.exchange("web", request).text();
    assert!(values(&head, "forwarded").is_empty(), "{head}");
}

#[test]
fn a_trusted_proxy_is_believed_and_added_to_the_list() {
    let upstream = mirror();
    let more = format!("{LOG}\ntrusted_proxies: [127.0.0.0/8, 10.0.0.0/8]");
    let server = Tidegate::start(&behind(&upstream, &more));
    let head = server.exchange("web", CLAIMS).text();
    assert_eq!(values(&head, "x-forwarded-for"), ["203.0.113.9, 10.1.1.1, 127.0.0.1"]);
    assert_eq!(values(&head, "x-forwarded-proto"), ["https"]);
    assert_eq!(values(&head, "x-forwarded-host"), ["other.example"]);
    // From the nearest outwards, the first that is not trusted is the client.
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"203.0.113.9\""), "{line}");
}

#[test]
fn a_list_is_believed_only_as_far_as_trust_goes() {
    let upstream = mirror();
    let more = format!("{LOG}\ntrusted_proxies: [127.0.0.1/32]");
    let server = Tidegate::start(&behind(&upstream, &more));
    // 10.1.1.1 is the nearest untrusted address; its own claims are not verified.
    server.exchange("web", CLAIMS);
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"10.1.1.1\""), "{line}");
}

#[test]
fn x_forwarded_for_goes_before_a_forwarded_field_that_the_proxy_may_only_have_passed_on() {
    let upstream = mirror();
    let more = format!("{LOG}\ntrusted_proxies: [127.0.0.1/32]");
    let server = Tidegate::start(&behind(&upstream, &more));
    let request = "GET / HTTP/1.1\r\nhost: a\r\nforwarded: for=203.0.113.9\r\n\
                   x-forwarded-for: 198.51.100.1\r\n\r\n";
    server.exchange("web", request);
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"198.51.100.1\""), "{line}");
}

#[test]
fn forwarded_is_believed_and_added_to() {
    let upstream = mirror();
    let more = format!("{LOG}\ntrusted_proxies: [127.0.0.1/32]");
    let config = behind(&upstream, &more).replace("\"] }", "\"], forwarded: true }");
    let server = Tidegate::start(&config);
    let request = "GET / HTTP/1.1\r\nhost: a.example\r\nforwarded: for=\"[2001:db8::7]:9\"\r\n\
                   \r\n";
    let head = server.exchange("web", request).text();
    let elements = values(&head, "forwarded");
    assert_eq!(elements.first().map(String::as_str), Some("for=\"[2001:db8::7]:9\""));
    assert_eq!(
        elements.last().map(String::as_str),
        Some("for=127.0.0.1;host=\"a.example\";proto=http")
    );
    assert_eq!(values(&head, "x-forwarded-for"), ["2001:db8::7, 127.0.0.1"]);
    let line = server.wait_for_log("\"status\":200");
    assert!(line.contains("\"client_ip\":\"2001:db8::7\""), "{line}");
}

#[test]
fn a_list_that_cannot_be_read_says_nothing() {
    let upstream = mirror();
    let more = format!("{LOG}\ntrusted_proxies: [127.0.0.1/32]");
    let server = Tidegate::start(&behind(&upstream, &more));
    for (value, expected) in [("unknown", "127.0.0.1"), ("198.51.100.7, nonsense", "127.0.0.1")] {
        server.exchange(
            "web",
            format!("GET /{expected} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {value}\r\n\r\n"),
        );
        let line = server.wait_for_log(&format!("\"path\":\"/{expected}\""));
        assert!(line.contains(&format!("\"client_ip\":\"{expected}\"")), "{line}");
    }
}

/// Each proxy adds the scheme by which it was reached, as it adds the address: what stands before
/// the client's own is unverified.
#[test]
fn of_a_list_of_schemes_the_clients_is_believed() {
    let scheme = |trusted: &str, fields: &str| {
        let server = Tidegate::start(&format!(
            r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
trusted_proxies: [{trusted}]
routes:
  - match: {{ path: "/" }}
    handler: {{ respond: {{ headers: {{ x-scheme: "{{scheme}}" }} }} }}
"#
        ));
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        server.exchange("web", request).header("x-scheme").map(str::to_owned).unwrap_or_default()
    };
    let all = "127.0.0.1/32, 10.0.0.0/8";
    let chain = "x-forwarded-for: 203.0.113.9, 10.1.1.1\r\n";
    let two = format!("{chain}x-forwarded-proto: https, http\r\n");
    assert_eq!(scheme(all, &two), "https");
    assert_eq!(scheme("127.0.0.1/32", &two), "http");
    let lines = format!("{chain}x-forwarded-proto: https\r\nx-forwarded-proto: http\r\n");
    assert_eq!(scheme(all, &lines), "https");
    // A stranger's claim, to which the nearest proxy has added.
    let claimed = "x-forwarded-for: 203.0.113.9\r\nx-forwarded-proto: https, http\r\n";
    assert_eq!(scheme(all, claimed), "http");
    // A proxy that replaces the field says one thing for all before it.
    assert_eq!(scheme(all, &format!("{chain}x-forwarded-proto: https\r\n")), "https");
    assert_eq!(scheme(all, "x-forwarded-proto: HTTPS\r\n"), "https");
    assert_eq!(scheme(all, &format!("{chain}x-forwarded-proto: https, gopher\r\n")), "https");
    assert_eq!(scheme("127.0.0.1/32", &format!("{chain}x-forwarded-proto: https, ws\r\n")), "http");
}

#[test]
fn http10_is_named_in_via() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, ""));
    let head = server.exchange("web", "GET / HTTP/1.0\r\nhost: a\r\n\r\n").text();
    assert_eq!(values(&head, "via"), ["1.0 tidegate"]);
}
