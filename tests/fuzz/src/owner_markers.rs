//! The fields by which servers of a fleet recognise one another: a marker is accepted only as the
//! server that knows the secret writes it, and reads back the same.

use crate::FuzzTarget;
use cache::{signed_ask, signed_reply};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: owner_markers,
    seeds: || asks().into_iter().chain(replies()).collect(),
    dictionary: &["stored ", "fetched ", "own ", "declined ", "ffffffffffffffff", "s", "p", "+"],
    cases: 3500,
};

const SECRET: &[u8] = b"a secret of the whole fleet";

/// A value, a secret; the value that a server with it writes, and whether it accepts the first one.
type Signed = fn(&[u8], &[u8]) -> Option<(String, bool)>;

/// A marker with this scheme.
fn ask(scheme: char) -> String {
    format!("0123456789abcdef{}{scheme}{}", "f".repeat(32), "0".repeat(32))
}

/// Markers of requests, without a code and as a server writes them.
fn asks() -> Vec<Vec<u8>> {
    let unsigned = ['s', 'p'].map(|scheme| ask(scheme).into_bytes());
    let signed = unsigned.clone().map(|ask| resigned(signed_ask(&ask, SECRET)));
    unsigned.into_iter().chain(signed).collect()
}

/// Replies to the first of them, the same.
fn replies() -> Vec<Vec<u8>> {
    let texts = ["own", "declined", "stored", "fetched 1 ffffffffffffffff 0"];
    let unsigned = texts.map(|text| format!("{text} ").into_bytes());
    let signed = unsigned.clone().map(|text| resigned(reply(&text, SECRET)));
    unsigned.into_iter().chain(signed).collect()
}

fn reply(value: &[u8], secret: &[u8]) -> Option<(String, bool)> {
    signed_reply(value, ask('s').as_bytes(), secret)
}

fn resigned(signed: Option<(String, bool)>) -> Vec<u8> {
    signed.map(|(value, _)| value.into_bytes()).unwrap_or_default()
}

fn owner_markers(bytes: &[u8]) {
    check(bytes, signed_ask);
    check(bytes, reply);
}

/// What is read is written in one way, and only that is accepted, by a server with the secret.
fn check(bytes: &[u8], signed: Signed) {
    let Some((value, is_accepted)) = signed(bytes, SECRET) else { return };
    assert_eq!(is_accepted, value.as_bytes() == bytes);
    let by_another = signed(value.as_bytes(), b"another secret of a fleet");
    assert_eq!(by_another.map(|(_, is_accepted)| is_accepted), Some(false));
    assert_eq!(signed(value.as_bytes(), SECRET), Some((value, true)));
}

#[test]
fn seeds_are_read_and_signed_ones_are_accepted() {
    let accepted = |seeds: Vec<Vec<u8>>, signed: Signed| {
        seeds.iter().map(|seed| signed(seed, SECRET).unwrap().1).collect::<Vec<_>>()
    };
    assert_eq!(accepted(asks(), signed_ask), [false, false, true, true]);
    let replies = accepted(replies(), reply);
    assert_eq!((&replies[..4], &replies[4..]), (&[false; 4][..], &[true; 4][..]));
}
