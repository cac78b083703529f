//! RFC 9111 4.1: which variant is selected for a request.

use super::{Case, fields, is_stored};
use crate::limits::VARY_FIELDS_MAX;
use crate::rules::{Policy, UncachedReason, Vary, vary};

fn of(vary: &str) -> Option<Vary> {
    let declared = format!("Cache-Control: max-age=60\nVary: {vary}");
    Case::default().evaluate(&declared).unwrap().vary
}

fn values(vary: &str, request: &str, policy: &Policy) -> Vec<u8> {
    let mut out = Vec::new();
    vary::values(&of(vary).unwrap(), &fields(request), policy, &mut out);
    out
}

fn is_same(vary: &str, first: &str, second: &str) -> bool {
    let policy = Policy::default();
    values(vary, first, &policy) == values(vary, second, &policy)
}

#[test]
fn s4_1_all_nominated_fields_must_match() {
    assert!(is_same("X, Y", "X: 1\nY: 2\nZ: 3", "Y: 2\nX: 1"));
    assert!(!is_same("X, Y", "X: 1\nY: 2", "X: 1\nY: 3"));
    assert!(!is_same("X, Y", "X: 1\nY: 2", "X: 2\nY: 1"));
    assert!(!is_same("X", "X: a", "X: A"), "what case means in it is not known");
}

#[test]
fn s4_1_the_order_and_case_of_names_do_not_matter() {
    assert_eq!(of("B, a, b"), of("A,B"));
    assert_eq!(of(""), None);
    let two = "Cache-Control: max-age=60\nVary: a\nVary: b";
    assert_eq!(Case::default().evaluate(two).unwrap().vary, of("b, a"));
}

#[test]
fn s4_1_absent_matches_absent_only() {
    assert!(is_same("X", "Y: 1", ""));
    assert!(!is_same("X", "X: 1", ""));
    assert!(!is_same("X", "X:", ""));
    assert!(!is_same("X, Y", "X: 1", "Y: 1"));
}

#[test]
fn s4_1_lines_are_joined_and_white_space_goes_where_it_means_nothing() {
    assert!(is_same("X", "X: a\nX: b", "X: a,b"));
    assert!(!is_same("X", "X: a\nX: b", "X: b\nX: a"));
    assert!(is_same("Accept", "Accept: a/b ,, c/d; q=1", "Accept: a/b\nAccept: C/D;q=1"));
    assert!(!is_same("User-Agent", "User-Agent: a,b", "User-Agent: a, b"));
    assert!(!is_same("X", "X: a, b", "X: a,b"), "it might not be a list");
}

#[test]
fn s4_1_an_asterisk_never_matches() {
    for any in ["*", "a, *", "*, a", "a b", "a, \"x\""] {
        let declared = format!("Cache-Control: max-age=60\nVary: {any}");
        assert_eq!(Case::default().refusal(&declared), Some(UncachedReason::VaryAny), "{any}");
    }
}

#[test]
fn s4_1_accept_encoding_is_ours() {
    assert_eq!(of("Accept-Encoding"), None);
    assert_eq!(of("accept-encoding, X"), of("x"));
    let coded = |coding: &str| {
        let declared =
            format!("Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: {coding}");
        Case::default().refusal(&declared)
    };
    for known in ["gzip", "x-gzip", "BR", "zstd", "identity"] {
        assert_eq!(coded(known), None, "{known}");
    }
    for unknown in ["deflate", "dcb", "gzip, br"] {
        assert_eq!(coded(unknown), Some(UncachedReason::Coding), "{unknown}");
    }
    let same_for_all = "Cache-Control: max-age=60\nContent-Encoding: deflate";
    assert_eq!(Case::default().refusal(same_for_all), None);
}

#[test]
fn s4_1_values_never_look_like_another_part_of_a_key() {
    let policy = Policy::default();
    let text = values("C, D", "C: gzip\nD: x", &policy);
    assert_eq!(text, b"\nc:gzip\nd:x");
    assert_ne!(values("A", "A: 1", &policy), values("B", "B: 1", &policy));
    assert_ne!(values("A, B", "A: 1", &policy), values("A, B", "B: 1", &policy));
}

#[test]
fn too_many_fields_are_not_compared() {
    let list = |n: usize| (0..n).map(|i| format!("x-{i}")).collect::<Vec<_>>().join(", ");
    assert_eq!(of(&list(VARY_FIELDS_MAX)).unwrap().fields.len(), VARY_FIELDS_MAX);
    let declared = format!("Cache-Control: max-age=60\nVary: {}", list(VARY_FIELDS_MAX + 1));
    assert_eq!(Case::default().refusal(&declared), Some(UncachedReason::VaryFields));
}

#[test]
fn languages_are_reduced_to_those_of_the_route() {
    let policy = Policy {
        languages: Box::new(["en".into(), "de".into(), "pt-br".into()]),
        ..Policy::default()
    };
    let chosen = |accepted: &str| {
        let text = values("Accept-Language", accepted, &policy);
        let mut sent = fields(accepted);
        vary::normalise(&mut sent, &policy);
        let sent = sent.get_str("Accept-Language").unwrap().to_owned();
        assert_eq!(text, format!("\naccept-language:{sent}").into_bytes());
        sent
    };
    for (accepted, language) in [
        ("", "en"),
        ("Accept-Language: de", "de"),
        ("Accept-Language: de-AT, en;q=0.9", "de"),
        ("Accept-Language: en;q=0.5, DE;q=0.6", "de"),
        ("Accept-Language: fr, de;q=0.1", "de"),
        ("Accept-Language: fr", "en"),
        ("Accept-Language: de;q=0", "en"),
        ("Accept-Language: pt", "pt-br"),
        ("Accept-Language: pt-PT", "en"),
        ("Accept-Language: den", "en"),
        ("Accept-Language: *, de;q=0.5", "en"),
        ("Accept-Language: de;q=x, pt-br", "pt-br"),
        ("Accept-Language: fr\nAccept-Language: de", "de"),
    ] {
        assert_eq!(chosen(accepted), language, "{accepted}");
    }
    let mut untouched = fields("Accept-Language: fr");
    vary::normalise(&mut untouched, &Policy::default());
    assert_eq!(untouched.get_str("Accept-Language"), Some("fr"));
}

#[test]
fn s4_1_what_varies_by_the_clients_address_is_for_that_client() {
    for field in ["X-Forwarded-For", "accept, forwarded"] {
        let declared = format!("Cache-Control: max-age=60\nVary: {field}");
        assert_eq!(Case::default().refusal(&declared), Some(UncachedReason::VaryAny), "{field}");
    }
    // Scheme and host are part of the key.
    assert!(is_stored("Cache-Control: max-age=60\nVary: X-Forwarded-Proto, X-Forwarded-Host"));
}
