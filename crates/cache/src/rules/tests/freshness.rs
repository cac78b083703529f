//! RFC 9111 4.2 and 5.1, 5.3: lifetimes, dates and ages.

use super::{Case, NOW, date, is_stored, is_used, later};
use crate::rules::{Reuse, reuse};

fn lifetime(response: &str) -> u32 {
    Case::default().meta(&format!("{response}\nETag: \"a\"")).lifetime_s
}

fn initial_age(response: &str) -> u32 {
    Case::default().meta(&format!("Cache-Control: max-age=9999\n{response}")).initial_age_s
}

#[test]
fn s1_2_2_seconds_too_great_are_the_greatest() {
    for great in ["2147483648", "2147483649", "4294967296", "99999999999999999999999"] {
        let case = Case::default();
        let policy = crate::rules::Policy { ttl_max_s: u32::MAX, ..case.policy };
        let case = Case::under(policy);
        let meta = case.meta(&format!("Cache-Control: max-age={great}"));
        assert_eq!(meta.lifetime_s, 1 << 31, "{great}");
        assert!(is_used(reuse::evaluate(&meta, false, &super::requested(""), NOW + 86_400)));
    }
    assert_eq!(initial_age("Age: 99999999999\nETag: \"a\""), 1 << 31);
}

#[test]
fn s4_2_fresh_is_what_is_younger_than_its_lifetime() {
    let declared = "Cache-Control: max-age=10\nETag: \"a\"";
    assert!(is_used(later(declared, 9, "")));
    assert!(!is_used(later(declared, 10, "")), "as old as its lifetime is stale");
}

#[test]
fn s4_2_dates_have_no_case() {
    let declared = |date: String| format!("Expires: {date}");
    assert_eq!(lifetime(&declared(date(60).to_lowercase())), 60);
    assert_eq!(lifetime(&declared(date(60).to_uppercase())), 60);
}

#[test]
fn s4_2_a_date_of_another_zone_is_invalid() {
    for zone in ["UTC", "EST", "+0000", ""] {
        let declared = format!("Expires: {}", date(60).replace("GMT", zone));
        assert_eq!(lifetime(&declared), 0, "{zone}");
    }
}

#[test]
fn s4_2_dates_come_in_three_forms() {
    // Sun, 06 Nov 2033 08:49:37 GMT
    const SECS: u64 = 2_014_879_777;
    for form in [
        "Sun, 06 Nov 2033 08:49:37 GMT",
        "Sunday, 06-Nov-33 08:49:37 GMT",
        "Sun Nov  6 08:49:37 2033",
        "sunday, 06-nov-33 08:49:37 gmt",
    ] {
        let expected = (SECS - NOW).min(365 * 86_400) as u32;
        assert_eq!(lifetime(&format!("Expires: {form}")), expected, "{form}");
    }
}

#[test]
fn s4_2_1_s_maxage_comes_before_max_age_before_expires() {
    let expires = format!("Expires: {}", date(30));
    assert_eq!(lifetime(&format!("Cache-Control: max-age=20, s-maxage=10\n{expires}")), 10);
    assert_eq!(lifetime(&format!("Cache-Control: s-maxage=10, max-age=20\n{expires}")), 10);
    assert_eq!(lifetime(&format!("Cache-Control: max-age=20\n{expires}")), 20);
    assert_eq!(lifetime(&expires), 30);
}

#[test]
fn s4_2_1_expires_counts_from_date() {
    let declared = format!("Date: {}\nExpires: {}", date(-100), date(-40));
    assert_eq!(lifetime(&declared), 60, "whatever our own clock says");
    let declared = format!("Date: {}\nExpires: {}", date(100), date(40));
    assert_eq!(lifetime(&declared), 0);
    let declared = format!("Date: nonsense\nExpires: {}", date(40));
    assert_eq!(lifetime(&declared), 40, "without a date it was made when it came");
}

#[test]
fn s4_2_1_of_repeated_values_the_first_counts() {
    assert_eq!(lifetime("Cache-Control: max-age=10, max-age=20"), 10);
    assert_eq!(lifetime("Cache-Control: max-age=20\nCache-Control: max-age=10"), 20);
    assert_eq!(lifetime(&format!("Expires: {}\nExpires: {}", date(10), date(20))), 10);
}

#[test]
fn s4_2_1_the_most_restrictive_of_conflicting_directives_counts() {
    let declared = "Cache-Control: max-age=60, no-cache\nETag: \"a\"";
    assert!(!is_used(later(declared, 0, "")));
    assert!(!is_stored("Cache-Control: public, no-store, max-age=60"));
    assert!(!is_stored("Cache-Control: public, private, max-age=60"));
}

#[test]
fn s4_2_1_an_invalid_max_age_is_stale() {
    for bad in ["", "=", "=a", "=-1", "=+1", "=1.5", "=1s", "= 60", "=60 0", "=0x10", "=\"\""] {
        assert_eq!(lifetime(&format!("Cache-Control: max-age{bad}")), 0, "{bad}");
        let declared = format!("Cache-Control: s-maxage{bad}, max-age=60");
        assert_eq!(lifetime(&declared), 0, "{bad}");
    }
    assert_eq!(lifetime("Cache-Control: max-age =60"), 0);
}

#[test]
fn s5_3_an_invalid_expires_is_in_the_past() {
    for bad in ["0", "-1", "", "60", "Thu, 01 Jan 1970", "Mon, 32 Jan 2040 00:00:00 GMT", "never"] {
        assert_eq!(lifetime(&format!("Expires: {bad}")), 0, "{bad}");
    }
    assert!(!is_stored("Expires: 0"));
}

#[test]
fn s5_3_expires_is_ignored_if_there_is_max_age() {
    assert_eq!(lifetime("Cache-Control: max-age=60\nExpires: 0"), 60);
    assert_eq!(lifetime("Cache-Control: s-maxage=60\nExpires: 0"), 60);
    assert_eq!(lifetime("Cache-Control: max-age=x\nExpires: Sun, 06 Nov 2044 08:49:37 GMT"), 0);
}

#[test]
fn s4_2_3_the_apparent_age_is_the_time_since_date() {
    assert_eq!(initial_age(&format!("Date: {}", date(-30))), 30);
    assert_eq!(initial_age(&format!("Date: {}", date(30))), 0);
    assert_eq!(initial_age("X: 1"), 0);
    assert_eq!(initial_age("Date: x"), 0);
}

#[test]
fn s4_2_3_age_counts_from_when_the_request_was_sent() {
    let case = Case { delay_s: 4, ..Case::default() };
    let age =
        |declared: &str| case.meta(&format!("Cache-Control: max-age=99\n{declared}")).initial_age_s;
    assert_eq!(age("Age: 10"), 14);
    assert_eq!(age("X: 1"), 4);
    assert_eq!(age(&format!("Age: 10\nDate: {}", date(-20))), 20);
    assert_eq!(age(&format!("Age: 30\nDate: {}", date(-20))), 34);
}

#[test]
fn s4_2_3_age_grows_with_the_time_in_the_cache() {
    let declared = "Cache-Control: max-age=100\nAge: 10";
    let Reuse::Use { age_s, left_s, refresh } = later(declared, 20, "") else { panic!() };
    assert_eq!((age_s, left_s, refresh), (30, 70, false));
    let meta = Case::default().meta(declared);
    assert_eq!(reuse::age_s(&meta, NOW - 5), 10, "a clock set back does not make it younger");
    assert_eq!(reuse::age_s(&meta, u64::MAX), 1 << 31);
}

#[test]
fn s5_1_the_first_member_of_age_counts_and_an_invalid_one_is_ignored() {
    assert_eq!(initial_age("Age: 7, 9"), 7);
    assert_eq!(initial_age("Age: 7\nAge: 9"), 7);
    for bad in ["", "a", "-7", "7.5", "a, 7", "\"7\"", "7 9", "+7"] {
        assert_eq!(initial_age(&format!("Age: {bad}")), 0, "{bad}");
    }
}
