//! Stale responses: during a revalidation, and when the origin fails.

use super::{Origin, cache, cache_status, get, origin_response};

/// Right at first, then out of order.
fn failing(first: &'static str) -> Origin {
    Origin::start(move |_, before| match before {
        0 => origin_response(200, first, b"good"),
        _ => origin_response(503, "", b"down"),
    })
}

#[test]
fn a_failing_origin_is_not_seen_where_that_is_allowed() {
    for (fields, entry) in [
        ("cache-control: max-age=1, stale-if-error=60\r\nage: 1\r\n", ""),
        ("cache-control: max-age=1\r\nage: 1\r\n", "stale: { if_error: 1h }"),
    ] {
        let origin = failing(fields);
        let server = cache(&origin, entry);
        get(&server, "/", "");
        let stale = get(&server, "/", "");
        assert_eq!((stale.status, stale.text().as_str()), (200, "good"), "{entry}: {stale:?}");
        let error = [("reason", "error")];
        assert_eq!(server.metrics().sum("tidegate_cache_stale_total", &error), 1.0);
    }
}

#[test]
fn where_it_is_not_allowed_the_failure_is_seen() {
    for (fields, entry) in [
        ("cache-control: max-age=1\r\nage: 1\r\n", ""),
        ("cache-control: max-age=1, must-revalidate\r\nage: 1\r\n", "stale: { if_error: 1h }"),
    ] {
        let server_side = failing(fields);
        let server = cache(&server_side, entry);
        get(&server, "/", "");
        assert_eq!(get(&server, "/", "").status, 503, "{fields}{entry}");
    }
}

#[test]
fn stale_responses_are_served_while_one_request_revalidates() {
    let origin = Origin::start(|_, before| match before {
        0 => origin_response(200, "cache-control: max-age=10\r\nage: 10\r\n", b"old"),
        _ => origin_response(200, "cache-control: max-age=60\r\n", b"new"),
    });
    let server = cache(&origin, "stale: { while_revalidate: 1h }");
    get(&server, "/", "");
    let stale = get(&server, "/", "");
    assert_eq!(stale.text(), "old", "{stale:?}");
    assert!(cache_status(&stale).starts_with("hit"), "{stale:?}");
    server.wait_for_metric("tidegate_cache_stored_total", &[("cache", "pages")], 2.0);
    assert_eq!(get(&server, "/", "").text(), "new");
    let behind = [("reason", "revalidating")];
    assert_eq!(server.metrics().sum("tidegate_cache_stale_total", &behind), 1.0);
}
