//! RFC 9111 4: which requests are looked up, and which stored response they get.

use wire::Method;

use super::{Case, NOW, fields, is_used, later, requested};
use crate::rules::{
    Disposition, Forward, Policy, RequestDirectives, Reuse, UncachedReason, request, reuse,
};

fn way(method: Method, headers: &str) -> Disposition {
    request::classify(&method, &fields(headers), false, false, &Policy::default())
}

#[test]
fn s4_get_and_head_are_served_from_stored_responses_to_get() {
    for method in [Method::Get, Method::Head] {
        assert_eq!(way(method, ""), Disposition::Lookup(RequestDirectives::default()));
    }
    let lower = Method::Other("get".into());
    assert_eq!(way(lower, ""), Disposition::Invalidate, "methods have case: this one is unknown");
}

#[test]
fn s4_unsafe_methods_are_written_through() {
    for method in [Method::Post, Method::Put, Method::Delete, Method::Patch] {
        assert_eq!(way(method, ""), Disposition::Invalidate);
    }
    for name in ["PURGE", "MKCOL", "FOO"] {
        assert_eq!(way(Method::from_bytes(name.as_bytes()), ""), Disposition::Invalidate, "{name}");
    }
}

#[test]
fn s4_other_safe_methods_go_past() {
    for name in ["OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY"] {
        let way = way(Method::from_bytes(name.as_bytes()), "");
        assert_eq!(way, Disposition::Pass(UncachedReason::Method), "{name}");
    }
}

#[test]
fn rfc9110_s9_3_1_a_get_with_content_goes_past() {
    let policy = Policy::default();
    for method in [Method::Get, Method::Head] {
        let way = request::classify(&method, &fields(""), false, true, &policy);
        assert_eq!(way, Disposition::Pass(UncachedReason::Content));
        let way = request::classify(&method, &fields(""), true, false, &policy);
        assert_eq!(way, Disposition::Pass(UncachedReason::Upgrade));
    }
}

#[test]
fn s4_a_response_without_validation_has_its_current_age() {
    let declared = "Cache-Control: max-age=60\nAge: 3";
    let verdict = later(declared, 4, "");
    assert_eq!(verdict, Reuse::Use { age_s: 7, left_s: 53, refresh: false });
}

#[test]
fn s4_what_is_stale_is_validated() {
    let declared = "Cache-Control: max-age=10\nETag: \"a\"";
    let verdict = later(declared, 12, "");
    let expected = Reuse::Validate { why: Forward::Stale, age_s: 12, left_s: -2, if_error: false };
    assert_eq!(verdict, expected);
}

#[test]
fn s4_3_2_conditions_for_the_origin_go_to_the_origin() {
    let range = "Range: bytes=0-9\nIf-Match: \"a\"";
    for name in ["If-Match: \"a\"", "If-Unmodified-Since: x", range] {
        assert_eq!(
            way(Method::Get, name),
            Disposition::Pass(UncachedReason::Precondition),
            "{name}"
        );
    }
    for name in ["If-None-Match: \"a\"", "If-Modified-Since: x", "If-Range: \"a\"", "Range: a"] {
        assert_eq!(
            way(Method::Get, name),
            Disposition::Lookup(RequestDirectives::default()),
            "{name}"
        );
    }
}

#[test]
fn s4_4_what_was_purged_softly_is_validated_however_fresh() {
    let meta = Case::default().meta("Cache-Control: max-age=60\nETag: \"a\"");
    let evaluate = |cache_control| reuse::evaluate(&meta, true, &requested(cache_control), NOW + 1);
    for directives in ["", "max-stale", "min-fresh=1", "max-age=9"] {
        let verdict = evaluate(directives);
        assert!(matches!(verdict, Reuse::Validate { why: Forward::Stale, .. }), "{directives}");
    }
    let declared = "Cache-Control: max-age=60, stale-while-revalidate=5, stale-if-error=5";
    let meta = Case::default().meta(declared);
    let verdict = reuse::evaluate(&meta, true, &requested(""), NOW + 1);
    assert_eq!(verdict, Reuse::Use { age_s: 1, left_s: 59, refresh: true });
    assert!(is_used(reuse::evaluate(&meta, false, &requested(""), NOW + 1)));
}

#[test]
fn reasons_have_slugs_of_their_own() {
    let mut slugs: Vec<_> = UncachedReason::ALL.iter().map(|reason| reason.slug()).collect();
    slugs.sort_unstable();
    slugs.dedup();
    assert_eq!(slugs.len(), UncachedReason::ALL.len());
    let token = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b"_-".contains(&b));
    assert!(slugs.iter().all(|slug| token(slug)));
    assert!(Forward::ALL.iter().all(|why| token(why.token())));
}
