//! RFC 9111 5.2: Cache-Control and Pragma.

use wire::Method;

use super::{Case, fields, is_stored, is_used, later, requested};
use crate::rules::{
    Disposition, Flags, Forward, Policy, RequestDirectives, Reuse, SECONDS_MAX, UncachedReason,
    request,
};

fn validates(response: &str, seconds: u64, cache_control: &str) -> Option<Forward> {
    match later(response, seconds, cache_control) {
        Reuse::Validate { why, .. } => Some(why),
        _ => None,
    }
}

const TAGGED: &str = "Cache-Control: max-age=10\nETag: \"a\"";

#[test]
fn s5_2_names_have_no_case_and_arguments_two_forms() {
    let lifetime = |declared: &str| Case::default().meta(declared).lifetime_s;
    assert_eq!(lifetime("cache-control: MAX-AGE=60"), 60);
    assert_eq!(lifetime("Cache-Control: max-age=\"60\""), 60);
    assert_eq!(lifetime("Cache-Control: S-MaxAge=\"7\" ,, max-age=60"), 7);
    assert_eq!(lifetime("Cache-Control: \tmax-age=007\t"), 7);
}

#[test]
fn s5_2_3_what_is_not_known_is_ignored() {
    let lifetime = |declared: &str| Case::default().meta(declared).lifetime_s;
    assert_eq!(lifetime("Cache-Control: community=\"a, no-store\", max-age=60"), 60);
    assert_eq!(lifetime("Cache-Control: x-max-age=1, max-age-x=2, max-age=60, xno-store"), 60);
    assert_eq!(lifetime("Cache-Control: \"no-store\", max-age=60"), 60);
    assert_eq!(lifetime("Cache-Control: x=\"a\\\"b, private\", max-age=60"), 60);
    assert!(!is_stored("Cache-Control: x-max-age=60"));
}

#[test]
fn s5_2_a_quoted_string_without_end_hides_nothing() {
    assert!(!is_stored("Cache-Control: max-age=60, x=\"a, no-store"));
    assert!(!is_stored("Cache-Control: max-age=60, no-cache=\"a, private"));
    let declared = "Cache-Control: max-age=60, no-cache=\"x-a\nETag: \"a\"";
    assert!(!is_used(later(declared, 0, "")), "what it names cannot be read: everything");
}

#[test]
fn s5_2_1_directives_of_requests_are_ignored_if_the_policy_says_so() {
    let policy = Policy { honour_request: false, ..Policy::default() };
    let all = "no-cache, no-store, max-age=0, min-fresh=9, max-stale, only-if-cached";
    let headers = fields(&format!("Cache-Control: {all}\nPragma: no-cache"));
    let way = request::classify(&Method::Get, &headers, false, false, &policy);
    assert_eq!(way, Disposition::Lookup(RequestDirectives::default()));
}

#[test]
fn s5_2_1_1_max_age_is_the_greatest_age() {
    assert!(is_used(later(TAGGED, 5, "max-age=5")));
    assert_eq!(validates(TAGGED, 6, "max-age=5"), Some(Forward::Request));
    assert_eq!(validates(TAGGED, 1, "max-age=0"), Some(Forward::Request));
    assert_eq!(validates(TAGGED, 11, "max-age=60"), Some(Forward::Stale));
    // An unreadable argument requests nothing.
    assert!(is_used(later(TAGGED, 6, "max-age=x")));
}

#[test]
fn s5_2_1_2_max_stale_takes_what_is_stale_for_so_long() {
    assert!(is_used(later(TAGGED, 15, "max-stale")));
    assert!(is_used(later(TAGGED, 15, "max-stale=5")));
    assert_eq!(validates(TAGGED, 16, "max-stale=5"), Some(Forward::Stale));
    assert!(is_used(later(TAGGED, 15, "max-stale=5, max-age=20")));
    assert_eq!(validates(TAGGED, 15, "max-stale=5, max-age=12"), Some(Forward::Stale));
    assert_eq!(requested("max-stale").max_stale_s, Some(SECONDS_MAX));
    assert_eq!(requested("max-stale=a").max_stale_s, None);
    let Reuse::Use { left_s, refresh, .. } = later(TAGGED, 15, "max-stale") else { panic!() };
    assert_eq!((left_s, refresh), (-5, false));
}

#[test]
fn s5_2_1_2_max_stale_does_not_overrule_the_origin() {
    for strict in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
        let declared = format!("Cache-Control: max-age=10, {strict}\nETag: \"a\"");
        assert_eq!(validates(&declared, 15, "max-stale"), Some(Forward::Stale), "{strict}");
    }
}

#[test]
fn s5_2_1_3_min_fresh_is_how_long_it_must_stay_fresh() {
    assert!(is_used(later(TAGGED, 5, "min-fresh=5")));
    assert_eq!(validates(TAGGED, 6, "min-fresh=5"), Some(Forward::Request));
}

#[test]
fn s5_2_1_4_no_cache_is_validated() {
    assert_eq!(validates(TAGGED, 0, "no-cache"), Some(Forward::Request));
    assert_eq!(validates(TAGGED, 12, "no-cache, max-stale"), Some(Forward::Stale));
}

#[test]
fn s5_2_1_5_no_store_is_not_stored() {
    let case = Case::asking("Cache-Control: no-store");
    assert_eq!(case.refusal("Cache-Control: max-age=60"), Some(UncachedReason::RequestNoStore));
    assert!(is_used(later(TAGGED, 1, "no-store")), "but what is stored already may be used");
}

#[test]
fn s5_2_1_6_no_transform_is_known() {
    assert!(requested("no-transform").no_transform && !requested("").no_transform);
}

#[test]
fn s5_2_1_7_only_if_cached_is_never_forwarded() {
    assert!(is_used(later(TAGGED, 1, "only-if-cached")));
    assert_eq!(later(TAGGED, 11, "only-if-cached"), Reuse::OnlyIfCached);
    assert_eq!(later(TAGGED, 1, "only-if-cached, no-cache"), Reuse::OnlyIfCached);
    assert!(is_used(later(TAGGED, 11, "only-if-cached, max-stale")));
    assert!(requested("only-if-cached").only_if_cached);
}

#[test]
fn s5_2_2_2_must_revalidate_is_never_served_stale() {
    let declared = "Cache-Control: max-age=10, must-revalidate, stale-while-revalidate=60, \
                stale-if-error=60\nETag: \"a\"";
    assert!(is_used(later(declared, 9, "")));
    for directives in ["", "max-stale", "stale-if-error=60"] {
        let verdict = later(declared, 11, directives);
        assert!(matches!(verdict, Reuse::Validate { if_error: false, .. }), "{directives}");
    }
}

#[test]
fn s5_2_2_3_must_understand_needs_a_status_that_is_understood() {
    let declared = "Cache-Control: max-age=60, must-understand";
    for status in [200, 203, 204, 300, 301, 302, 307, 308, 404, 410, 501] {
        assert_eq!(Case::status(status).refusal(declared), None, "{status}");
    }
    for status in [222, 399, 418, 499, 599] {
        assert_eq!(
            Case::status(status).refusal(declared),
            Some(UncachedReason::Status),
            "{status}"
        );
    }
}

#[test]
fn s5_2_2_3_must_understand_takes_the_place_of_no_store() {
    let declared = "Cache-Control: max-age=60, must-understand, no-store";
    assert_eq!(Case::status(200).refusal(declared), None);
    assert_eq!(Case::status(418).refusal(declared), Some(UncachedReason::Status));
}

#[test]
fn s5_2_2_4_no_cache_is_never_used_unasked() {
    let declared = "Cache-Control: max-age=60, no-cache, stale-while-revalidate=60, \
                stale-if-error=60\nETag: \"a\"";
    for directives in ["", "max-stale", "max-age=100", "stale-if-error=60"] {
        let verdict = later(declared, 0, directives);
        assert!(matches!(verdict, Reuse::Validate { if_error: false, .. }), "{directives}");
    }
}

#[test]
fn s5_2_2_4_no_cache_that_names_no_field_names_all() {
    for odd in ["no-cache=\"\"", "no-cache=", "no-cache=\",\"", "no-cache=\"a b\"", "NO-CACHE"] {
        let declared = format!("Cache-Control: max-age=60, {odd}\nETag: \"a\"");
        assert!(!is_used(later(&declared, 0, "")), "{odd}");
    }
}

#[test]
fn s5_2_2_5_no_store_is_obeyed_however_it_is_written() {
    for odd in ["no-store=1", "No-Store=\"x\"", "no-store =1"] {
        assert!(!is_stored(&format!("Cache-Control: max-age=60, {odd}")), "{odd}");
    }
}

#[test]
fn s5_2_2_6_no_transform_is_remembered() {
    let meta = Case::default().meta("Cache-Control: max-age=60, no-transform");
    assert!(meta.flags.has(Flags::NO_TRANSFORM));
}

#[test]
fn s5_2_2_7_private_that_names_no_field_names_all() {
    for odd in ["private=\"\"", "private=", "private=\"a b\"", "Private"] {
        assert!(!is_stored(&format!("Cache-Control: max-age=60, {odd}")), "{odd}");
    }
}

#[test]
fn s5_2_2_8_proxy_revalidate_is_never_served_stale() {
    let declared = "Cache-Control: max-age=10, proxy-revalidate, stale-if-error=60\nETag: \"a\"";
    assert!(is_used(later(declared, 9, "")));
    assert!(matches!(later(declared, 11, ""), Reuse::Validate { if_error: false, .. }));
}

#[test]
fn s5_2_2_10_s_maxage_is_never_served_stale() {
    let declared = "Cache-Control: s-maxage=10, stale-while-revalidate=60\nETag: \"a\"";
    assert!(is_used(later(declared, 9, "")));
    assert!(matches!(later(declared, 11, ""), Reuse::Validate { if_error: false, .. }));
}

#[test]
fn s5_4_pragma_counts_in_requests_without_cache_control_only() {
    let way = |text: &str| {
        request::classify(&Method::Get, &fields(text), false, false, &Policy::default())
    };
    let no_cache =
        Disposition::Lookup(RequestDirectives { no_cache: true, ..RequestDirectives::default() });
    assert_eq!(way("Pragma: No-Cache"), no_cache);
    assert_eq!(way("Pragma: x, no-cache"), no_cache);
    assert_eq!(
        way("Pragma: no-cache\nCache-Control: x"),
        Disposition::Lookup(RequestDirectives::default())
    );
    assert_eq!(way("Pragma: x=no-cache"), Disposition::Lookup(RequestDirectives::default()));
    assert!(is_stored("Cache-Control: max-age=60\nPragma: no-cache"), "answers have none");
}

#[test]
fn rfc8246_s2_what_is_immutable_is_not_validated_while_fresh_unless_the_client_insists() {
    let declared = "Cache-Control: max-age=10, immutable\nETag: \"a\"";
    assert!(is_used(later(declared, 5, "max-age=0")));
    assert_eq!(validates(declared, 5, "no-cache"), Some(Forward::Request));
    assert_eq!(validates(declared, 11, ""), Some(Forward::Stale));
    let not = "Cache-Control: max-age=10, immutable=1\nETag: \"a\"";
    assert_eq!(validates(not, 5, "max-age=0"), Some(Forward::Request));
}
