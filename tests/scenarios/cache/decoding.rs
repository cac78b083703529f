//! Stored responses in an encoding that a client does not accept: they are decoded as fast as the
//! client reads, within limits, and one that does not decode is fetched again.

use super::{Origin, cache, cache_status, config, get, is_hit, origin_response};
use scenarios::{Connection, Tidegate};
use std::fs;
use std::io::Write;

const STORED: &str = "cache-control: max-age=600\r\ncontent-type: text/plain\r\n";
/// A request that accepts no encoding.
const PLAIN: &str = "GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n";
const GZIP: &str = "accept-encoding: gzip\r\n";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    origin_response(200, &format!("{STORED}content-encoding: gzip\r\n"), body)
}

/// An origin that compresses only for clients that accept it.
fn compressing(plain: Vec<u8>) -> Origin {
    let coded = gzip(&plain);
    Origin::start(move |head, _| match head.to_ascii_lowercase().contains("gzip") {
        true => gzipped(&coded),
        false => origin_response(200, STORED, b"from the origin"),
    })
}

/// An origin whose first response has a wrong checksum.
fn damaged_once(whole: Vec<u8>) -> Origin {
    let mut damaged = whole.clone();
    let sum = damaged.len() - 6;
    damaged[sum] ^= 1;
    Origin::start(move |_, before| gzipped(if before == 0 { &damaged } else { &whole }))
}

/// The most memory that the process has had so far, in MiB.
fn peak_mib(server: &Tidegate) -> u64 {
    let path = format!("/proc/{}/status", server.id());
    let status = fs::read_to_string(path).expect("a Linux machine");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("KiB") / 1024
}

/// A client that accepts no encoding, has read the head, and reads no further.
fn stalled(server: &Tidegate) -> (Connection, String) {
    let mut client = server.connect("web");
    client.shrink_receive_buffer();
    client.send(PLAIN);
    let head = client.read_head();
    // The body is on its way: what is decoded ahead is decoded.
    client.read_exactly(10);
    (client, head)
}

/// 64 MiB that come in 64 KiB of gzip.
#[test]
fn stalled_clients_hold_little_memory() {
    let origin = compressing(vec![b'x'; 64 << 20]);
    let server = cache(&origin, "");
    get(&server, "/", GZIP);
    let mut first = stalled(&server).0;
    let before = peak_mib(&server);
    let clients: Vec<_> = (0..30).map(|_| stalled(&server).0).collect();
    let grown = peak_mib(&server) - before;
    assert!(grown <= 32, "{grown} MiB for {} stalled clients", clients.len());
    // More comes as they read.
    assert_eq!(first.read_exactly(200_000).len(), 200_000);
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn without_memory_for_decoding_the_origin_is_requested() {
    let origin = compressing(vec![b'x'; 64 << 20]);
    let server = Tidegate::start(&config(&origin, "", "1MiB"));
    get(&server, "/", GZIP);
    let clients: Vec<_> = (0..120).map(|_| stalled(&server)).collect();
    let passed = clients.iter().filter(|(_, head)| head.contains("decoding_full")).count();
    assert!(passed > 0 && passed < clients.len() / 2, "{passed} of {}", clients.len());
    assert!(clients.iter().all(|(_, head)| head.starts_with("HTTP/1.1 200 ")));
    let labels = [("cache", "pages"), ("reason", "decoding_full")];
    let counted = server.metrics().sum("tidegate_cache_passes_total", &labels);
    assert_eq!(counted as usize, passed);
    // The memory comes back with the clients.
    drop(clients);
    scenarios::eventually("the memory for decoding is free again", || {
        !stalled(&server).1.contains("decoding_full")
    });
}

/// A response that is not stored cannot be requested again without the encoding.
#[test]
fn without_memory_for_decoding_an_unstored_response_is_refused() {
    let coded = gzip(&vec![b'x'; 64 << 20]);
    let origin = Origin::start(move |head, _| match head.starts_with("GET /private ") {
        true => origin_response(
            200,
            "cache-control: no-store\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\n",
            &gzip(b"for one client"),
        ),
        false => gzipped(&coded),
    });
    let server = Tidegate::start(&config(&origin, "", "1MiB"));
    get(&server, "/", GZIP);
    assert_eq!(get(&server, "/private", "").text(), "for one client");
    let clients: Vec<_> = (0..120).map(|_| stalled(&server)).collect();
    let refused = get(&server, "/private", "");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(get(&server, "/private", GZIP).status, 200, "nothing to decode");
    drop(clients);
    scenarios::eventually("the memory for decoding is free again", || {
        get(&server, "/private", "").text() == "for one client"
    });
}

#[test]
fn a_damaged_response_is_fetched_again_before_the_response_begins() {
    let origin = damaged_once(gzip(b"whole again"));
    let server = cache(&origin, "");
    get(&server, "/", GZIP);
    assert!(is_hit(&get(&server, "/", GZIP)));
    let plain = get(&server, "/", "");
    assert_eq!((plain.status, plain.text().as_str()), (200, "whole again"), "{plain:?}");
    assert_eq!(origin.fetches(), 2);
    assert!(is_hit(&get(&server, "/", "")));
    server.wait_for_log("stored response does not decode");
    let labels = [("cache", "pages"), ("reason", "damaged")];
    server.wait_for_metric("tidegate_cache_removed_total", &labels, 1.0);
}

#[test]
fn a_client_whose_response_has_begun_sees_the_damage_and_the_next_one_does_not() {
    let text: Vec<u8> = (0..400_000_u32).flat_map(|n| (n ^ n << 13).to_le_bytes()).collect();
    let whole = gzip(&text);
    assert!(whole.len() > 512 * 1024, "{}", whole.len());
    let origin = damaged_once(whole);
    let server = cache(&origin, "");
    let mut client = server.connect("web");
    client.send(PLAIN);
    let got = client.read_until_gone();
    assert!(
        got.starts_with(b"HTTP/1.1 200 ") && !got.ends_with(b"\r\n0\r\n\r\n"),
        "it looks whole"
    );
    let next = get(&server, "/", "");
    assert!(next.body == text, "{} bytes", next.body.len());
    assert_eq!(origin.fetches(), 2);
}

#[test]
fn decoding_stops_at_max_decoded_and_the_origin_is_requested_from_then_on() {
    let origin = compressing(vec![b'x'; 8 << 20]);
    let server = cache(&origin, "codings: { max_size: 64KiB, max_decoded: 2MiB }");
    get(&server, "/", GZIP);
    let mut client = server.connect("web");
    client.send(PLAIN);
    let got = client.read_until_gone();
    assert!(got.len() < 3 << 20 && !got.ends_with(b"\r\n0\r\n\r\n"), "{} bytes", got.len());
    let next = get(&server, "/", "");
    assert_eq!(
        (cache_status(&next), next.text().as_str()),
        ("fwd=bypass; detail=decoded_size", "from the origin")
    );
    assert!(is_hit(&get(&server, "/", GZIP)), "it stays for clients that accept gzip");
}
