//! Signatures of requests (RFC 9421).

use crate::{FuzzTarget, owned};
use auth::verify_message;
use message::{Headers, Request, Target};
use wire::Method;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: signature,
    seeds: || {
        owned(&[INPUT, SIGNATURE, b"s=(\"@path\";req \"a\";key=\"b\");created=1", b"s=:AA==:"])
    },
    dictionary: &[
        "(",
        ")",
        ";",
        "=",
        "\"",
        ":",
        ",",
        "\"@method\"",
        "\"@query-param\";name=\"a\"",
        ";sf",
        ";bs",
        "created=",
        "keyid=",
        "alg=",
        "@target-uri",
    ],
    cases: 2000,
};

/// The signature of RFC 9421 B.2.5.
const INPUT: &[u8] = b"s=(\"date\" \"@authority\" \"content-type\");created=1618884473;\
keyid=\"test-shared-secret\"";
const SIGNATURE: &[u8] = b"s=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:";
const NOW: u64 = 1_618_884_473;
/// RFC 9421 B.1.5.
const SECRET: [u8; 64] = [
    0xbb, 0x3b, 0xc9, 0x7c, 0x1e, 0x2e, 0xdc, 0xdd, 0x09, 0xcb, 0x84, 0xfb, 0x35, 0x9e, 0xf9, 0x30,
    0x35, 0x5c, 0xaf, 0xcc, 0xd2, 0x4c, 0x89, 0xde, 0x74, 0x9b, 0x64, 0x81, 0xcb, 0xb8, 0xe9, 0x85,
    0xb8, 0x5c, 0x1c, 0xb3, 0x34, 0x98, 0xf1, 0x05, 0xdb, 0x63, 0x52, 0x47, 0x49, 0x3c, 0x1b, 0x5b,
    0x98, 0x78, 0x48, 0x0e, 0x2e, 0xa9, 0x72, 0x5f, 0x23, 0xb1, 0xab, 0x23, 0x95, 0x33, 0x2d, 0x0d,
];

fn request(input: &[u8], signature: &[u8]) -> Request {
    let mut headers = Headers::new();
    headers.append("host", "example.com");
    headers.append("date", "Tue, 20 Apr 2021 02:07:55 GMT");
    headers.append("content-type", "application/json");
    headers.append("signature-input", input);
    headers.append("signature", signature);
    let target = Target::new("/foo?param=Value&Pet=dog".into()).expect("a target");
    Request::made_up(Method::Post, target, headers)
}

fn is_valid(input: &[u8], signature: &[u8]) -> bool {
    verify_message(&request(input, signature), &SECRET, NOW)
}

/// Only what was signed is valid: neither the input nor the signature with a byte changed.
fn signature(data: &[u8]) {
    // Spaces, escapes and leading zeros do not change what a structured field says.
    let said = |data: &[u8]| -> Vec<u8> {
        let kept = |byte: &&u8| byte.is_ascii_alphanumeric() && **byte != b'0';
        data.iter().filter(kept).copied().collect()
    };
    let (said, signed) = (said(data), said(&INPUT[2..]));
    let is_said = said.windows(signed.len()).any(|window| window == signed);
    assert!(!is_valid(data, SIGNATURE) || is_said);
    is_valid(INPUT, data);
    if let [at, change, ..] = *data {
        let mut altered = SIGNATURE.to_vec();
        // The last digit has bits that stand for nothing, which RFC 8941 4.2.7 ignores.
        let at = 3 + usize::from(at) % 42;
        altered[at] ^= change;
        assert_eq!(is_valid(INPUT, &altered), altered == SIGNATURE, "{altered:?}");
    }
}

#[test]
fn the_signature_is_valid_and_with_any_bit_changed_it_is_not() {
    assert!(is_valid(INPUT, SIGNATURE));
    for at in 0..=u8::MAX {
        for bit in 0..8 {
            signature(&[at, 1 << bit]);
        }
    }
}
