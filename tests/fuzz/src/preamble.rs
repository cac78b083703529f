//! What a connection may begin with: the PROXY protocol, and the first message of TLS.

use crate::{FuzzTarget, owned};
use wire::client_hello::{ClientHello, HELLO_BYTES_MAX, HelloReader, Malformed};
use wire::proxy_protocol::{self, HEADER_BYTES_MAX, Version};

pub(crate) const PROXY_PROTOCOL: FuzzTarget = FuzzTarget {
    check: proxy_header,
    seeds: || {
        owned(&[
            &b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET"[..],
            b"PROXY TCP6 2001:db8::1 ::ffff:192.0.2.2 0 65535\r\n",
            b"PROXY UNKNOWN ffff::1 x\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0caaaabbbb\x00\x01\x00\x02rest",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14aaaabbbb\x00\x01\x00\x02\x05\x00\x05qqqqq",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb\x00\x01\x00\x02",
        ])
    },
    dictionary: &[
        "TCP4 ", "TCP6 ", "UNKNOWN", "::", ".", " ", "0", "65536", "\r\n", "!", "\0\u{c}",
    ],
    cases: 4500,
};

/// Two records, an extension without meaning, and the name `a.example`.
const HELLO: &[u8] = b"\x16\x03\x01\x00\x0a\x01\x00\x00\x42\x03\x03rrrr\
    \x16\x03\x03\x00\x3crrrrrrrrrrrrrrrrrrrrrrrrrrrr\x00\x00\x02\x13\x01\x01\x00\
    \x00\x17\x0a\x0a\x00\x01\x00\x00\x00\x00\x0e\x00\x0c\x00\x00\x09a.example";

pub(crate) const CLIENT_HELLO: FuzzTarget = FuzzTarget {
    check: client_hello,
    seeds: || owned(&[HELLO]),
    dictionary: &["\u{16}\u{3}\u{1}", "\0\0", "\0\u{1}", "A"],
    cases: 4000,
};

/// Any bytes as a PROXY header: the same result however they were split, and a header that names
/// endpoints names the same ones after it was written.
fn proxy_header(data: &[u8]) {
    let whole = proxy_protocol::parse(data);
    for end in 0..data.len() {
        match (proxy_protocol::parse(&data[..end]), &whole) {
            (Ok(None), whole) => {
                assert!(end < HEADER_BYTES_MAX, "no end after {end} bytes");
                // Nothing that follows a header was taken for a part of it.
                let ends_before = matches!(whole, Ok(Some(header)) if header.length <= end);
                assert!(!ends_before, "incomplete at {end}, but {whole:?}");
            }
            (early, whole) => assert_eq!(&early, whole, "decided at {end}"),
        }
    }
    let Ok(Some(header)) = whole else { return };
    assert!(header.length <= data.len());
    for version in [Version::V1, Version::V2] {
        let mut written = Vec::new();
        proxy_protocol::write(version, header.endpoints, &mut written);
        let Ok(Some(read)) = proxy_protocol::parse(&written) else { panic!("{version:?}") };
        assert_eq!(read.length, written.len());
        let canonical = |header: proxy_protocol::Header| {
            header.endpoints.map(|endpoints| {
                let address = |at: std::net::SocketAddr| (at.ip().to_canonical(), at.port());
                (address(endpoints.source), address(endpoints.destination))
            })
        };
        assert_eq!(canonical(read), canonical(header), "{version:?}");
    }
}

/// Any bytes as the beginning of a TLS connection: the same result however they were split.
fn client_hello(data: &[u8]) {
    let whole = hello(&[data]);
    if whole == Ok(None) {
        assert!(data.len() < HELLO_BYTES_MAX);
    }
    let single: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(hello(&single), whole, "byte by byte");
    for cut in [data.len() / 3, data.len() / 2] {
        let (left, right) = data.split_at(cut);
        assert_eq!(hello(&[left, right]), whole, "cut at {cut}");
    }
    if let Ok(Some(ClientHello { server_name: Some(name), .. })) = whole {
        assert!(!name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_uppercase()));
    }
}

fn hello(pieces: &[&[u8]]) -> Result<Option<ClientHello>, Malformed> {
    let mut reader = HelloReader::default();
    for piece in pieces {
        if let Some(hello) = reader.feed(piece)? {
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

#[test]
fn the_seed_names_its_server() {
    let hello = hello(&[HELLO]).expect("well-formed").expect("complete");
    assert_eq!(hello.server_name.as_deref(), Some("a.example"));
}
