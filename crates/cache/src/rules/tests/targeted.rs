//! RFC 9213: cache directives that are targeted at this cache.

use super::{Case, date, is_used, later};
use crate::rules::{Flags, Policy, UncachedReason};

fn lifetime(declared: &str) -> Option<u32> {
    Case::default()
        .evaluate(&format!("{declared}\nETag: \"a\""))
        .ok()
        .map(|stored| stored.meta.lifetime_s)
}

#[test]
fn rfc9213_s2_2_the_first_of_the_list_that_is_valid_counts() {
    let ours = "Tidegate-Cache-Control: max-age=1";
    let cdn = "CDN-Cache-Control: max-age=2";
    let all = "Cache-Control: max-age=3";
    assert_eq!(lifetime(&format!("{all}\n{cdn}\n{ours}")), Some(1));
    assert_eq!(lifetime(&format!("{all}\n{cdn}")), Some(2));
    assert_eq!(lifetime(&format!("{all}\nTidegate-Cache-Control: max-age=,\n{cdn}")), Some(2));
    assert_eq!(lifetime(all), Some(3));
}

#[test]
fn rfc9213_s2_1_what_is_empty_or_fails_anywhere_is_ignored() {
    for bad in ["", " ", "max-age=1,", "max-age=1 x", "Max-Age=1", "max-age=1, a=(", "max-age=\"1"]
    {
        let declared = format!("Cache-Control: max-age=3\nCDN-Cache-Control: {bad}");
        assert_eq!(lifetime(&declared), Some(3), "{bad}");
    }
    let declared = "Cache-Control: max-age=3\nCDN-Cache-Control: max-age=1\nCDN-Cache-Control: =";
    assert_eq!(lifetime(declared), Some(3), "its lines are one value");
}

#[test]
fn rfc9213_s2_2_cache_control_and_expires_are_ignored_if_there_is_one() {
    assert_eq!(lifetime("Cache-Control: no-store, private\nCDN-Cache-Control: max-age=2"), Some(2));
    let declared = format!("Expires: {}\nCDN-Cache-Control: none", date(60));
    assert_eq!(
        lifetime(&declared),
        None,
        "a field that says nothing of time says that there is none"
    );
    assert_eq!(lifetime("Cache-Control: max-age=9\nCDN-Cache-Control: none"), None);
    let declared = "Cache-Control: max-age=9\nCDN-Cache-Control: no-store";
    assert_eq!(Case::default().refusal(declared), Some(UncachedReason::NoStore));
}

#[test]
fn rfc9213_s2_2_other_targeted_fields_change_nothing() {
    assert_eq!(lifetime("Cache-Control: max-age=3\nOther-Cache-Control: max-age=1"), Some(3));
    let case = Case::under(Policy { targeted: Box::default(), ..Policy::default() });
    let declared = "Cache-Control: max-age=3\nTidegate-Cache-Control: max-age=1";
    let stored = case.evaluate(declared).unwrap();
    let passed_on = stored.head.contains("Tidegate-Cache-Control");
    assert_eq!((stored.meta.lifetime_s, passed_on), (3, true));
}

#[test]
fn rfc9213_s2_1_values_of_another_type_are_not_consumed() {
    for odd in ["max-age=\"60\"", "max-age=60.0", "max-age=a", "max-age", "max-age=(60)"] {
        assert_eq!(lifetime(&format!("CDN-Cache-Control: {odd}")), None, "{odd}");
    }
    assert_eq!(lifetime("CDN-Cache-Control: max-age=9, no-store=?0, private=1"), Some(9));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=-9"), Some(0));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=999999999999999"), Some(365 * 86_400));
}

#[test]
fn rfc9213_s2_1_parameters_are_ignored_and_the_last_of_a_key_counts() {
    assert_eq!(lifetime("CDN-Cache-Control: max-age=9;x=1;no-store"), Some(9));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=9, max-age=8"), Some(8));
}

#[test]
fn rfc9213_s2_2_the_directives_mean_the_same() {
    let refusal =
        |declared: &str| Case::default().refusal(&format!("CDN-Cache-Control: {declared}"));
    assert_eq!(refusal("max-age=9, private"), Some(UncachedReason::Private));
    assert_eq!(refusal("max-age=9, no-store"), Some(UncachedReason::NoStore));
    assert_eq!(refusal("max-age=9, no-store, must-understand"), None);
    let strict = "CDN-Cache-Control: max-age=9, must-revalidate, stale-while-revalidate=99";
    assert!(!is_used(later(&format!("{strict}\nETag: \"a\""), 9, "max-stale")));
    let never = "CDN-Cache-Control: max-age=9, no-cache\nETag: \"a\"";
    assert!(!is_used(later(never, 0, "")));
    let meta = Case::default().meta(
        "CDN-Cache-Control: max-age=9, stale-while-revalidate=5, stale-if-error=6, immutable, \
         no-transform",
    );
    assert_eq!((meta.while_revalidate_s, meta.if_error_s), (5, 6));
    assert!(meta.flags.has(Flags::IMMUTABLE) && meta.flags.has(Flags::NO_TRANSFORM));
    assert_eq!(lifetime("CDN-Cache-Control: max-age=9, s-maxage=4"), Some(4));
    let meta = Case::default().meta("CDN-Cache-Control: max-age=9, proxy-revalidate");
    assert!(meta.flags.has(Flags::MUST_REVALIDATE));
    let shared = Case::asking("Authorization: a");
    assert_eq!(
        shared.refusal("Cache-Control: public\nCDN-Cache-Control: max-age=9"),
        Some(UncachedReason::Authorization)
    );
    assert_eq!(shared.refusal("CDN-Cache-Control: max-age=9, public"), None);
}

#[test]
fn rfc9213_s2_1_fields_that_are_named_are_not_kept() {
    let declared =
        "CDN-Cache-Control: max-age=9, no-cache=\"X-A\", private=\"x-b\"\nX-A: 1\nX-B: 2\nC: 3";
    let stored = Case::default().evaluate(declared).unwrap();
    assert!(!stored.head.contains("X-A") && !stored.head.contains("X-B"));
    assert!(stored.head.contains("C"));
    assert!(!stored.meta.flags.has(Flags::NO_CACHE));
}

#[test]
fn surrogate_control_counts_if_the_policy_reads_it() {
    let declared =
        "Cache-Control: max-age=3\nSurrogate-Control: max-age=\"5\", content=\"ESI/1.0\"";
    assert_eq!(lifetime(declared), Some(3));
    let case = Case::under(Policy { surrogate_control: true, ..Policy::default() });
    let stored = case.evaluate(declared).unwrap();
    assert_eq!((stored.meta.lifetime_s, stored.hidden.len()), (5, 1));
    let surplus = case.meta("Surrogate-Control: max-age=5+6");
    assert_eq!((surplus.lifetime_s, surplus.while_revalidate_s), (5, 6));
    let targeted = format!("{declared}\nCDN-Cache-Control: max-age=1");
    assert_eq!(case.meta(&targeted).lifetime_s, 1);
    let only = "Cache-Control: max-age=3\nSurrogate-Control: content=\"ESI/1.0\"";
    assert_eq!(case.meta(only).lifetime_s, 3);
}
