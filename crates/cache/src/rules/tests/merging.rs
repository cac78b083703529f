//! RFC 9111 3.2, 4.3.4: stored responses that a 304 freshens.

use super::{Case, date, fields, lines};
use crate::rules::merge;

fn merged(stored: &str, hidden: &str, newer: &str) -> Vec<String> {
    lines(&merge::merged([&fields(stored), &fields(hidden)], &fields(newer)))
}

#[test]
fn s3_2_fields_of_the_newer_response_take_the_place_of_stored_ones() {
    let stored = "X: 1\nX: 2\nCache-Control: max-age=1\nY: 3";
    let newer = "Cache-Control: max-age=9\nx: 4\nZ: 5";
    assert_eq!(merged(stored, "", newer), ["Y: 3", "Cache-Control: max-age=9", "x: 4", "Z: 5"]);
}

#[test]
fn s3_2_what_describes_the_stored_content_stays() {
    let stored = "Content-Encoding: gzip\nContent-Type: text/css\nA: 1";
    let newer = "Content-Length: 0\nContent-Encoding: br\nContent-Range: bytes 0-1/9\n\
                 Transfer-Encoding: chunked\nContent-Type: text/html";
    assert_eq!(
        merged(stored, "", newer),
        ["Content-Encoding: gzip", "A: 1", "Content-Type: text/html"]
    );
}

#[test]
fn s3_2_fields_that_are_not_stored_are_not_merged_either() {
    let newer = fields("Connection: X-Hop\nX-Hop: 1\nProxy-Authenticate: a\nB: 2");
    let stored = fields("Cache-Control: max-age=60");
    let all = merge::merged([&stored, &fields("")], &newer);
    let text = lines(&all).join("\n");
    let kept = Case::default().evaluate(&text).unwrap();
    assert_eq!(lines(&kept.head), ["Cache-Control: max-age=60", "B: 2"]);
}

#[test]
fn s4_2_3_age_restarts_when_it_was_revalidated() {
    let stored = format!("Cache-Control: max-age=60\nDate: {}\nAge: 50", date(-500));
    let initial_age =
        |newer: &str| Case::default().meta(&merged(&stored, "", newer).join("\n")).initial_age_s;
    assert_eq!(initial_age(&format!("Date: {}", date(-3))), 3);
    assert_eq!(initial_age("ETag: \"a\""), 0, "an old Date is not the new one's");
    assert_eq!(initial_age("Age: 7"), 7);
}

#[test]
fn what_was_hidden_is_merged_too() {
    let text = merged(
        "Cache-Control: max-age=1",
        "Surrogate-Key: a b\nTidegate-Cache-Control: max-age=50",
        "Cache-Control: max-age=2\nSurrogate-Key: c",
    );
    let stored = Case::default().evaluate(&text.join("\n")).unwrap();
    assert_eq!(stored.meta.lifetime_s, 50);
    assert_eq!(&*stored.tags, [crate::rules::tags::tag(b"c")]);
}

fn confirms(stored: &str, newer: &str) -> bool {
    merge::confirms(&fields(stored), &fields(newer))
}

#[test]
fn s4_3_4_a_strong_validator_names_the_stored_response() {
    assert!(confirms("ETag: \"a\"", "ETag: \"a\""));
    assert!(!confirms("ETag: \"a\"", "ETag: \"b\""));
    assert!(!confirms("ETag: W/\"a\"", "ETag: \"a\""), "a strong one is not that weak one");
    assert!(!confirms("X: 1", "ETag: \"a\""));
    let modified = format!("Last-Modified: {}", date(-9));
    assert!(!confirms(&modified, "ETag: \"a\""));
}

#[test]
fn s4_3_4_a_weak_validator_names_it_too() {
    assert!(confirms("ETag: W/\"a\"", "ETag: W/\"a\""));
    assert!(confirms("ETag: \"a\"", "ETag: W/\"a\""));
    assert!(!confirms("ETag: W/\"a\"", "ETag: W/\"b\""));
    let modified = |offset_s| format!("Last-Modified: {}", date(offset_s));
    assert!(confirms(&modified(-9), &modified(-9)));
    assert!(!confirms(&modified(-9), &modified(-8)));
    assert!(!confirms("ETag: \"a\"", &modified(-8)));
}

#[test]
fn s4_3_4_without_validators_it_is_about_what_was_requested() {
    assert!(confirms("X: 1", ""));
    assert!(confirms("ETag: \"a\"", "Cache-Control: max-age=9"));
    assert!(confirms(&format!("Last-Modified: {}", date(-9)), ""));
}
