//! RFC 5861, and RFC 9111 4.2.4: stale responses.

use super::{Case, NOW, is_used, later, requested};
use crate::rules::{Forward, Policy, Reuse, reuse};

fn fails(response: &str, seconds: u64, cache_control: &str) -> bool {
    let meta = Case::default().meta(response);
    let requested = requested(cache_control);
    let declared = reuse::may_serve_on_error(&meta, &requested, NOW + seconds);
    if let Reuse::Validate { if_error, .. } =
        reuse::evaluate(&meta, false, &requested, NOW + seconds)
    {
        assert_eq!(if_error, declared);
    }
    declared
}

#[test]
fn rfc5861_s3_it_is_served_while_it_is_revalidated() {
    let declared = "Cache-Control: max-age=10, stale-while-revalidate=5";
    assert_eq!(later(declared, 9, ""), Reuse::Use { age_s: 9, left_s: 1, refresh: false });
    assert_eq!(later(declared, 10, ""), Reuse::Use { age_s: 10, left_s: 0, refresh: true });
    assert_eq!(later(declared, 14, ""), Reuse::Use { age_s: 14, left_s: -4, refresh: true });
    assert!(!is_used(later(declared, 15, "")));
}

#[test]
fn rfc5861_s3_not_for_clients_that_want_it_fresh() {
    let declared = "Cache-Control: max-age=10, stale-while-revalidate=5";
    for directives in ["max-age=60", "min-fresh=1", "no-cache", "max-stale=1"] {
        let verdict = later(declared, 12, directives);
        assert!(matches!(verdict, Reuse::Validate { why: Forward::Stale, .. }), "{directives}");
    }
}

#[test]
fn rfc5861_s3_an_invalid_time_is_none() {
    for bad in ["=a", "", "=-5", "=\"x\""] {
        let declared = format!("Cache-Control: max-age=10, stale-while-revalidate{bad}");
        assert!(!is_used(later(&declared, 11, "")), "{bad}");
    }
    assert!(is_used(later("Cache-Control: max-age=10, stale-while-revalidate=\"5\"", 11, "")));
}

#[test]
fn rfc5861_s4_it_is_served_when_the_origin_fails() {
    let declared = "Cache-Control: max-age=10, stale-if-error=5";
    assert!(!is_used(later(declared, 12, "")), "the origin is asked first");
    assert!(fails(declared, 12, "") && fails(declared, 15, ""));
    assert!(!fails(declared, 16, ""));
    assert!(!fails("Cache-Control: max-age=10", 11, ""));
}

#[test]
fn rfc5861_s4_a_request_may_say_it_too() {
    assert!(fails("Cache-Control: max-age=10", 12, "stale-if-error=5"));
    assert!(!fails("Cache-Control: max-age=10", 16, "stale-if-error=5"));
    assert!(!fails("Cache-Control: max-age=10, must-revalidate", 12, "stale-if-error=5"));
}

#[test]
fn s4_2_4_nothing_is_served_stale_that_forbids_it() {
    for strict in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
        let windows = "stale-while-revalidate=60, stale-if-error=60";
        let declared = format!("Cache-Control: max-age=10, {strict}, {windows}\nETag: \"a\"");
        assert!(!is_used(later(&declared, 11, "")), "{strict}");
        assert!(!fails(&declared, 11, "stale-if-error=60"), "{strict}");
    }
}

#[test]
fn s4_2_4_nothing_is_served_stale_without_permission() {
    let declared = "Cache-Control: max-age=10\nETag: \"a\"";
    assert!(!is_used(later(declared, 11, "")));
    assert!(!fails(declared, 11, ""));
}

#[test]
fn s4_2_4_the_policy_may_allow_it_where_nothing_forbids_it() {
    let policy = Policy { while_revalidate_s: 20, if_error_s: 30, ..Policy::default() };
    let case = Case::under(policy);
    let windows = |declared: &str| {
        let meta = case.meta(declared);
        (meta.while_revalidate_s, meta.if_error_s)
    };
    assert_eq!(windows("Cache-Control: max-age=10"), (20, 30));
    let declared = "Cache-Control: max-age=10, stale-while-revalidate=5, stale-if-error=50";
    assert_eq!(windows(declared), (20, 50));
    assert_eq!(windows("Cache-Control: max-age=10, must-revalidate"), (0, 0));
    assert_eq!(windows("Cache-Control: s-maxage=10"), (0, 0));
}
