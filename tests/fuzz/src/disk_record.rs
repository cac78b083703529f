//! Descriptions in the records of the disk cache: what can be decoded is encoded as the same bytes.

use crate::FuzzTarget;
use cache::store::reencoded;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: disk_record,
    seeds: || vec![response(), varies(), search()],
    dictionary: &["\0\0\0\0", "\u{1}\0\0\0", "\u{4}\0\0\0ETag", "\r\n"],
    cases: 5000,
};

fn number(number: usize) -> Vec<u8> {
    (number as u32).to_le_bytes().to_vec()
}

fn text(text: &str) -> Vec<u8> {
    [number(text.len()), text.into()].concat()
}

/// A key and the length of its URL.
fn key() -> Vec<u8> {
    [text("http://a/b?c\nx"), number(12)].concat()
}

fn response() -> Vec<u8> {
    let version = 7u64.to_le_bytes();
    let status_flags_coding = [200, 0, 1, 2];
    let received_and_spans = [0; 24];
    let tags = [number(1), vec![9; 8]].concat();
    let fields = [number(2), text("ETag"), text("\"a\""), text("x"), text("")].concat();
    let hidden = number(0);
    let meta = [&version[..], &status_flags_coding, &received_and_spans].concat();
    [vec![1], key(), meta, tags, fields, hidden].concat()
}

fn varies() -> Vec<u8> {
    [vec![2], key(), number(2), text("accept"), text("x")].concat()
}

fn search() -> Vec<u8> {
    [vec![3], key(), vec![1, 0], number(1), text("utm_source")].concat()
}

/// A known field name in another case is written as the field's usual name; the rest is the same.
fn disk_record(bytes: &[u8]) {
    let Some((form, description)) = bytes.split_first() else { return };
    if let Some(again) = reencoded(*form, description) {
        assert!(again.eq_ignore_ascii_case(description), "{}", again.escape_ascii());
        assert_eq!(reencoded(*form, &again).as_ref(), Some(&again));
    }
}

#[test]
fn seeds_are_descriptions_as_the_cache_writes_them() {
    for seed in (TARGET.seeds)() {
        assert_eq!(reencoded(seed[0], &seed[1..]).as_deref(), Some(&seed[1..]));
    }
}
