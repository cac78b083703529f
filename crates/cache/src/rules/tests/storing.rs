//! RFC 9111 3: which responses are stored, and which of their fields.

use wire::Method;

use super::{Case, date, fields, is_stored, lines};
use crate::rules::{Flags, Heuristic, Policy, SetCookie, StatusCeiling, UncachedReason};

const FRESH: &str = "Cache-Control: max-age=60";

#[test]
fn s3_only_responses_to_get_are_stored() {
    assert_eq!(Case::default().refusal(FRESH), None);
    for (method, reason) in [
        (Method::Head, UncachedReason::Head),
        (Method::Post, UncachedReason::Method),
        (Method::Options, UncachedReason::Method),
        (Method::Other("QUERY".into()), UncachedReason::Method),
    ] {
        let case = Case { method, ..Case::default() };
        assert_eq!(case.refusal(FRESH), Some(reason));
    }
}

#[test]
fn s3_the_status_is_final() {
    for status in [100, 101, 103] {
        assert_eq!(Case::status(status).refusal(FRESH), Some(UncachedReason::Status));
    }
    for status in [200, 201, 203, 204, 301, 302, 307, 404, 410, 418, 499, 500, 503, 599] {
        assert_eq!(Case::status(status).refusal(FRESH), None, "{status}");
    }
}

#[test]
fn s3_responses_to_one_request_alone_are_not_stored() {
    for status in [304, 412, 416] {
        assert_eq!(Case::status(status).refusal(FRESH), Some(UncachedReason::Status));
    }
}

#[test]
fn rfc6585_s3_to_s6_what_is_about_the_client_is_not_stored() {
    for status in [428, 429, 431, 511] {
        assert_eq!(Case::status(status).refusal(FRESH), Some(UncachedReason::Status));
    }
}

#[test]
fn rfc9110_s6_6_1_a_response_without_a_date_gets_that_of_its_arrival() {
    let date_of = |declared: &str| {
        let stored = Case::default().evaluate(&format!("{FRESH}\n{declared}")).unwrap();
        let dates: Vec<String> =
            stored.head.get_all("Date").map(|date| String::from_utf8_lossy(date).into()).collect();
        assert_eq!(dates.len(), 1);
        dates[0].clone()
    };
    assert_eq!(date_of(""), date(0));
    assert_eq!(date_of("Date: nonsense"), date(0));
    assert_eq!(date_of(&format!("Date: {}", date(-9))), date(-9));
}

#[test]
fn s3_no_store_is_not_stored() {
    let declared = "Cache-Control: max-age=60\nCache-Control: no-store";
    assert_eq!(Case::default().refusal(declared), Some(UncachedReason::NoStore));
    assert!(!is_stored("Cache-Control: public, max-age=60, No-Store"));
}

#[test]
fn s3_private_is_not_stored() {
    assert_eq!(
        Case::default().refusal("Cache-Control: private, max-age=60"),
        Some(UncachedReason::Private)
    );
}

#[test]
fn s3_something_must_allow_to_store() {
    assert_eq!(Case::default().refusal("ETag: \"a\""), Some(UncachedReason::NoLifetime));
    assert_eq!(Case::default().refusal(""), Some(UncachedReason::NoLifetime));
    assert!(is_stored("Cache-Control: s-maxage=1"));
    assert!(is_stored(&format!("Expires: {}", date(60))));
    // no-cache with a validator may be stored where the status is cacheable by default, or public.
    let validated = "Cache-Control: no-cache\nETag: \"a\"";
    assert_eq!(Case::status(200).refusal(validated), None);
    assert_eq!(Case::status(302).refusal(validated), Some(UncachedReason::NoLifetime));
    let public = "Cache-Control: no-cache, public\nETag: \"a\"";
    assert_eq!(Case::status(302).refusal(public), None);
}

#[test]
fn s3_1_unknown_fields_are_stored() {
    let declared = "Cache-Control: max-age=60\nX-Unknown: a\nX-Unknown: b\nServer: c";
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(
        lines(&stored.head),
        ["Cache-Control: max-age=60", "X-Unknown: a", "X-Unknown: b", "Server: c"]
    );
}

#[test]
fn s3_1_fields_of_the_connection_are_not_stored() {
    let declared = "Cache-Control: max-age=60\nConnection: close, X-Hop\nX-Hop: 1\nKeep-Alive: 5\n\
                Transfer-Encoding: chunked\nTE: trailers\nTrailer: X-T\nUpgrade: h2c\n\
                Proxy-Connection: close\nX-End: 1";
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(lines(&stored.head), ["Cache-Control: max-age=60", "X-End: 1"]);
}

#[test]
fn s3_1_fields_of_the_proxy_are_not_stored() {
    let declared = "Cache-Control: max-age=60\nProxy-Authenticate: Basic\n\
                Proxy-Authentication-Info: a\nProxy-Authorization: b\nWWW-Authenticate: Basic";
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(lines(&stored.head), ["Cache-Control: max-age=60", "WWW-Authenticate: Basic"]);
}

#[test]
fn s3_1_fields_that_private_and_no_cache_name_are_not_stored() {
    let control = "max-age=60, private=\"X-User, set-cookie\", no-cache=X-Token";
    let declared =
        &format!("Cache-Control: {control}\nx-user: 1\nSet-Cookie: a=b\nX-Token: t\nX-Else: 1");
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(lines(&stored.head)[1..], ["X-Else: 1"]);
    // The client that caused the fetch gets all of them nevertheless.
    assert_eq!(lines(&stored.private), ["x-user: 1", "Set-Cookie: a=b", "X-Token: t"]);
    // No client could read content without its encoding.
    let declared = "Cache-Control: max-age=60, private=content-encoding\nContent-Encoding: gzip";
    assert_eq!(Case::default().refusal(declared), Some(UncachedReason::Private));
    assert!(!stored.meta.flags.has(Flags::NO_CACHE));
}

#[test]
fn s3_3_parts_are_not_stored() {
    let declared = "Cache-Control: max-age=60\nContent-Range: bytes 0-1/9";
    assert_eq!(Case::status(206).refusal(declared), Some(UncachedReason::Partial));
}

#[test]
fn rfc9110_s15_3_7_3_parts_are_stored_under_a_strong_validator() {
    let good = "Cache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 2-4/9";
    let (stored, range, length) = Case::status(206).evaluate_part(good).unwrap();
    assert_eq!((range.first, range.last, length), (2, 4, 9));
    assert_eq!((stored.meta.status, stored.meta.lifetime_s), (200, 60));
    assert_eq!(lines(&stored.head), ["Cache-Control: max-age=60", "ETag: \"a\""]);
    for (was, is) in [
        ("ETag: \"a\"", "ETag: W/\"a\""),
        ("ETag: \"a\"", "Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT"),
        ("ETag: \"a\"", "ETag: \"a\"\nETag: \"b\""),
        ("ETag: \"a\"", "ETag: \"a\"\nContent-Encoding: gzip"),
        ("2-4/9", "2-4/*"),
        ("2-4/9", "2-9/9"),
        ("2-4/9", "2-4/9\nContent-Range: bytes 2-4/10"),
        ("Content-Range: bytes 2-4/9", "Content-Type: multipart/byteranges; boundary=b"),
    ] {
        let refused = Case::status(206).evaluate_part(&good.replace(was, is)).err();
        assert_eq!(refused, Some(UncachedReason::Partial), "{is}");
    }
    let refused = Case::status(206).evaluate_part(&good.replace("max-age=60", "no-store")).err();
    assert_eq!(refused, Some(UncachedReason::NoStore));
}

#[test]
fn rfc9110_s14_4_content_range_of_a_whole_response_is_ignored() {
    let declared = "Cache-Control: max-age=60\nContent-Range: bytes 0-1/9";
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(lines(&stored.head), ["Cache-Control: max-age=60"]);
}

#[test]
fn s3_5_authenticated_responses_are_stored_only_if_that_is_allowed() {
    let case = Case::asking("Authorization: Basic a");
    assert_eq!(case.refusal(FRESH), Some(UncachedReason::Authorization));
    for allowed in ["public, max-age=60", "must-revalidate, max-age=60", "s-maxage=60"] {
        assert_eq!(case.refusal(&format!("Cache-Control: {allowed}")), None, "{allowed}");
    }
    for not in ["proxy-revalidate, max-age=60", "immutable, max-age=60", "public=1, max-age=60"] {
        let refusal = case.refusal(&format!("Cache-Control: {not}"));
        assert_eq!(refusal, Some(UncachedReason::Authorization), "{not}");
    }
}

#[test]
fn s4_what_is_never_fresh_and_has_no_validator_is_of_no_use() {
    assert_eq!(Case::default().refusal("Cache-Control: max-age=0"), Some(UncachedReason::Stale));
    assert_eq!(Case::default().refusal("Cache-Control: no-cache"), Some(UncachedReason::Stale));
    assert_eq!(
        Case::default().refusal("Cache-Control: max-age=9\nAge: 9"),
        Some(UncachedReason::Stale)
    );
    assert_eq!(Case::default().refusal("Cache-Control: max-age=0\nETag: \"a\""), None);
}

#[test]
fn s4_followers_share_a_response_only_if_it_may_be_reused() {
    let share = |declared: &str| Case::default().evaluate(declared).unwrap().share;
    assert!(share(FRESH));
    assert!(share("Cache-Control: max-age=0, stale-while-revalidate=5"));
    assert!(!share("Cache-Control: max-age=0\nETag: \"a\""));
    assert!(!share("Cache-Control: no-cache, max-age=60\nETag: \"a\""));
}

#[test]
fn s7_3_cookies_are_stored_only_if_the_policy_says_so() {
    let declared = "Cache-Control: max-age=60\nSet-Cookie: a=b";
    assert_eq!(Case::default().refusal(declared), Some(UncachedReason::SetCookie));
    for (set_cookie, kept) in [(SetCookie::Strip, 1), (SetCookie::Store, 2)] {
        let case = Case::under(Policy { set_cookie, ..Policy::default() });
        assert_eq!(lines(&case.evaluate(declared).unwrap().head).len(), kept);
    }
}

#[test]
fn ceilings_and_floors_are_the_policys() {
    let policy = Policy {
        ttl_min_s: 10,
        ttl_max_s: 100,
        status_ceilings: Box::new([
            StatusCeiling { first: 404, last: 404, ttl_max_s: 7 },
            StatusCeiling { first: 500, last: 599, ttl_max_s: 0 },
        ]),
        ..Policy::default()
    };
    let lifetime = |status, seconds: u32| {
        let case = Case { status, policy: policy.clone(), ..Case::default() };
        let declared = format!("Cache-Control: max-age={seconds}\nETag: \"a\"");
        case.evaluate(&declared).map(|stored| stored.meta.lifetime_s)
    };
    assert_eq!(lifetime(200, 50), Ok(50));
    assert_eq!(lifetime(200, 5), Ok(10));
    assert_eq!(lifetime(200, 0), Ok(0));
    assert_eq!(lifetime(200, 5000), Ok(100));
    assert_eq!(lifetime(404, 50), Ok(7));
    assert_eq!(lifetime(503, 50), Err(UncachedReason::Ceiling));
}

#[test]
fn s4_2_2_lifetimes_are_guessed_only_if_the_policy_says_so() {
    let modified = format!("Last-Modified: {}", date(-1000));
    assert_eq!(Case::default().refusal(&modified), Some(UncachedReason::NoLifetime));
    let heuristic = Some(Heuristic { percent: 10, ttl_max_s: 90 });
    let guess = |status, declared: &str| {
        let policy = Policy { heuristic, default_ttl_s: 5, ..Policy::default() };
        let case = Case { status, policy, ..Case::default() };
        case.evaluate(declared)
            .map(|stored| (stored.meta.lifetime_s, stored.meta.flags.has(Flags::HEURISTIC)))
    };
    assert_eq!(guess(200, &format!("Last-Modified: {}", date(-500))), Ok((50, true)));
    assert_eq!(guess(200, &modified), Ok((90, true)), "no more than the cap");
    assert_eq!(guess(200, "ETag: \"a\""), Ok((5, true)), "the policy's own time");
    assert_eq!(guess(200, &format!("Last-Modified: {}", date(500))), Ok((5, true)));
    // RFC 9111 4.2.2: never with an explicit time, nor with another status.
    let declared = format!("{modified}\nCache-Control: max-age=1");
    assert_eq!(guess(200, &declared), Ok((1, false)));
    let declared = format!("{modified}\nExpires: 0");
    assert_eq!(guess(200, &declared), Ok((0, false)));
    for status in [203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501] {
        assert!(guess(status, &modified).is_ok_and(|(seconds, _)| seconds > 0), "{status}");
    }
    for status in [201, 302, 303, 307, 400, 403, 500, 502, 503, 599] {
        assert_eq!(guess(status, &modified), Err(UncachedReason::NoLifetime), "{status}");
    }
    let public = format!("{modified}\nCache-Control: public");
    assert_eq!(guess(302, &public), Ok((90, true)));
}

#[test]
fn fields_for_the_cache_alone_are_hidden() {
    let declared = "Cache-Control: max-age=60\nSurrogate-Key: a\nCache-Tag: b\n\
                Tidegate-Cache-Control: max-age=70\nCDN-Cache-Control: max-age=80\n\
                Surrogate-Control: max-age=90\nOther-Cache-Control: max-age=1";
    let stored = Case::default().evaluate(declared).unwrap();
    assert_eq!(
        lines(&stored.head),
        [
            "Cache-Control: max-age=60",
            "CDN-Cache-Control: max-age=80",
            "Surrogate-Control: max-age=90",
            "Other-Cache-Control: max-age=1",
        ]
    );
    assert_eq!(stored.hidden.len(), 3);
    let mut passed = fields(declared);
    crate::rules::remove_cache_fields(&mut passed, &Policy::default());
    assert_eq!(passed.len(), 4);
}
