//! Headers of both versions: written, parsed whole and in pieces, and rejected.

use super::*;

fn v1(line: &str) -> Result<Option<Header>, Malformed> {
    parse(line.as_bytes())
}

/// A header of version 2 with this command, family and content.
fn v2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&version2::SIGNATURE[..], &[command, family], &length, content].concat()
}

fn endpoints(source: &str, destination: &str) -> Endpoints {
    Endpoints { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

const IPV4: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb];

#[test]
fn what_is_written_is_parsed_as_the_same_endpoints() {
    let table = [
        endpoints("192.0.2.1:56324", "192.0.2.2:443"),
        endpoints("[2001:db8::1]:1", "[2001:db8::2]:65535"),
        endpoints("0.0.0.0:0", "255.255.255.255:0"),
    ];
    for version in [Version::V1, Version::V2] {
        for endpoints in table.map(Some).into_iter().chain([None]) {
            let mut bytes = Vec::new();
            write(version, endpoints, &mut bytes);
            let length = bytes.len();
            assert_eq!(parse(&bytes), Ok(Some(Header { endpoints, length })), "{version:?}");
            bytes.extend_from_slice(b"\r\n\r\nrest");
            assert_eq!(parse(&bytes), Ok(Some(Header { endpoints, length })), "with a rest");
            for end in 0..length {
                assert_eq!(parse(&bytes[..end]), Ok(None), "{version:?} of {end} bytes");
            }
        }
    }
}

#[test]
fn endpoints_of_two_families_are_written_in_one() {
    let mixed = endpoints("192.0.2.1:1", "[2001:db8::2]:2");
    let mut line = Vec::new();
    write(Version::V1, Some(mixed), &mut line);
    assert_eq!(line, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n");
    line.clear();
    write(Version::V1, Some(endpoints("[::ffff:192.0.2.1]:1", "192.0.2.2:2")), &mut line);
    assert_eq!(line, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
}

#[test]
fn lines_that_name_no_client() {
    for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"] {
        assert_eq!(v1(line), Ok(Some(Header { endpoints: None, length: line.len() })));
    }
}

#[test]
fn malformed_lines_are_rejected() {
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
    for line in [
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 ::2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWN \u{fffd}\n",
        &long,
        &long[..LINE],
    ] {
        assert_eq!(v1(line), Err(Malformed::Line), "{line:?}");
    }
}

/// The longest line: without its end, no byte that follows can make it one.
const LINE: usize = 107;

#[test]
fn what_is_not_a_header_is_rejected_at_its_first_byte() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"P\r", b"\x16\x03\x01", b"\r\n\r\n\0\r\nQUIT\r"] {
        assert_eq!(parse(bytes), Err(Malformed::Missing), "{bytes:?}");
    }
    assert_eq!(parse(b""), Ok(None));
}

#[test]
fn version_2_without_endpoints_of_tcp() {
    let unix = [b'/'; 216];
    for header in [
        v2(0x20, 0x11, IPV4),
        v2(0x20, 0xff, b"discarded"),
        v2(0x21, 0x00, b"not defined"),
        v2(0x21, 0x12, IPV4),
        v2(0x21, 0x31, &unix),
    ] {
        assert_eq!(parse(&header), Ok(Some(Header { endpoints: None, length: header.len() })));
    }
}

#[test]
fn malformed_headers_of_version_2_are_rejected() {
    let with = |value: &[u8]| v2(0x21, 0x11, &[IPV4, value].concat());
    let long_id = [&[5, 0, 129][..], &[7; 129]].concat();
    let twice = [&[3, 0, 4, 0, 0, 0, 0][..], &[3, 0, 4, 0, 0, 0, 0]].concat();
    for (header, expected) in [
        (v2(0x11, 0x11, IPV4), Malformed::Command),
        (v2(0x22, 0x11, IPV4), Malformed::Command),
        (v2(0x21, 0x13, IPV4), Malformed::Family),
        (v2(0x21, 0x41, IPV4), Malformed::Family),
        (v2(0x21, 0x21, IPV4), Malformed::Family),
        (v2(0x21, 0x11, &IPV4[..11]), Malformed::Family),
        (v2(0x21, 0x31, IPV4), Malformed::Family),
        (v2(0x21, 0x11, &[0; HEADER_BYTES_MAX]), Malformed::TooLong),
        (with(&[1, 0]), Malformed::Value),
        (with(&[1, 0, 2, 7]), Malformed::Value),
        (with(&[2, 0, 0]), Malformed::Value),
        (with(&[2, 0, 1, 0xff]), Malformed::Value),
        (with(&long_id), Malformed::Value),
        (with(&[3, 0, 3, 0, 0, 0]), Malformed::Value),
        (with(&[3, 0, 4, 1, 2, 3, 4]), Malformed::Checksum),
        (with(&twice), Malformed::Checksum),
    ] {
        assert_eq!(parse(&header), Err(expected), "{header:?}");
    }
}

#[test]
fn additional_values_are_skipped_and_their_checksum_is_verified() {
    // A vendor's value, an authority, a unique id, padding, and the checksum.
    let values = [
        &[0xea, 0, 2, 1, 1][..],
        b"\x02\x00\x09a.example",
        b"\x05\x00\x02id",
        &[4, 0, 1, 0],
        &[3, 0, 4, 0, 0, 0, 0],
    ]
    .concat();
    let mut header = v2(0x21, 0x11, &[IPV4, &values].concat());
    let length = header.len();
    assert_eq!(parse(&header), Err(Malformed::Checksum));
    let checksum = bitwise_crc32c(&header);
    header[length - 4..].copy_from_slice(&checksum.to_be_bytes());
    let endpoints = Some(endpoints("192.0.2.1:56324", "192.0.2.2:443"));
    assert_eq!(parse(&header), Ok(Some(Header { endpoints, length })));
    header[16] ^= 1;
    assert_eq!(parse(&header), Err(Malformed::Checksum));
}

/// CRC-32C by polynomial division from the highest bit of a reflected register.
fn bitwise_crc32c(bytes: &[u8]) -> u32 {
    let mut register = !0u32;
    for byte in bytes {
        for bit in 0..8 {
            let input = u32::from(byte >> bit) & 1;
            let top = (register >> 31) & 1;
            register <<= 1;
            if input ^ top == 1 {
                register ^= 0x1edc_6f41;
            }
        }
    }
    !register.reverse_bits()
}
