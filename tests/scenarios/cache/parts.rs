//! Parts of what is too long to be stored whole (RFC 9111 3.3, 3.4).

use scenarios::{HttpResponse, Tidegate};

use super::{Origin, cache, cache_status, get, is_hit, origin_response, purge};

const ENTRY: &str = "max_size: 1KiB";
const LENGTH: usize = 4096;
const KEPT: &str = "cache-control: max-age=60\r\netag: \"a\"\r\n";

/// Four kibibytes whose bytes say where they are.
fn content() -> Vec<u8> {
    (0..LENGTH / 4).flat_map(|at| format!("{at:03x}.").into_bytes()).collect()
}

/// The response to a request for all or a part of it, with these fields.
fn file(head: &str, fields: &str) -> Vec<u8> {
    let lower = head.to_ascii_lowercase();
    let fetches = lower.lines().find_map(|line| line.strip_prefix("range: bytes="));
    let Some((first, last)) = fetches.and_then(|fetches| fetches.trim().split_once('-')) else {
        return origin_response(200, fields, &content());
    };
    let (first, last): (usize, usize) =
        (first.parse().expect("a number"), last.parse().expect("a number"));
    let fields = format!("{fields}content-range: bytes {first}-{last}/{LENGTH}\r\n");
    origin_response(206, &fields, &content()[first..=last])
}

fn origin(fields: &'static str) -> Origin {
    Origin::start(move |head, _| file(head, fields))
}

fn part(server: &Tidegate, path: &str, first: usize, last: usize) -> HttpResponse {
    part_with(server, path, (first, last), "")
}

fn part_with(
    server: &Tidegate,
    path: &str,
    (first, last): (usize, usize),
    fields: &str,
) -> HttpResponse {
    let part = get(server, path, &format!("range: bytes={first}-{last}\r\n{fields}"));
    assert_eq!(part.status, 206, "{part:?}");
    assert_eq!(part.body, content()[first..=last], "{first}-{last}");
    let place = format!("bytes {first}-{last}/{LENGTH}");
    assert_eq!(part.header("content-range"), Some(&*place));
    part
}

#[test]
fn a_part_of_a_long_response_is_stored_and_parts_are_combined() {
    let origin = origin(KEPT);
    let server = cache(&origin, ENTRY);
    assert_eq!(get(&server, "/", "").body.len(), LENGTH);
    let stored = part(&server, "/", 100, 199);
    assert!(cache_status(&stored).contains("; stored"), "{stored:?}");
    assert!(!origin.last().contains("gzip"), "{}", origin.last());
    let hit = part(&server, "/", 120, 150);
    assert!(is_hit(&hit) && hit.header("age").is_some(), "{hit:?}");
    assert_eq!(hit.header("etag"), Some("\"a\""));
    let beyond = part(&server, "/", 150, 249);
    assert!(cache_status(&beyond).starts_with("fwd=partial"), "{beyond:?}");
    assert!(is_hit(&part(&server, "/", 100, 249)));
    assert!(!is_hit(&part(&server, "/", 99, 249)));
    assert_eq!(origin.fetches(), 4);
    // If-Range that holds, and one that does not (RFC 9110 13.1.5).
    assert!(is_hit(&part_with(&server, "/", (99, 249), "if-range: \"a\"\r\n")));
    get(&server, "/", "range: bytes=100-199\r\nif-range: \"b\"\r\n");
    assert!(origin.last().contains("if-range: \"b\""), "{}", origin.last());
    // The whole, several parts and conditions are not answered from parts.
    assert_eq!(get(&server, "/", "").body.len(), LENGTH);
    get(&server, "/", "range: bytes=100-199\r\nif-none-match: \"b\"\r\n");
    assert_eq!(origin.fetches(), 7);
}

/// The first request for a URL learns that it is too long, and its part is stored as well.
#[test]
fn the_part_of_a_first_request_is_stored() {
    let origin = origin(KEPT);
    let server = cache(&origin, ENTRY);
    assert!(!is_hit(&part(&server, "/", 100, 199)));
    assert!(is_hit(&part(&server, "/", 100, 199)));
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn what_has_no_strong_validator_or_may_not_be_stored_is_not() {
    for fields in [
        "cache-control: max-age=60\r\n",
        "cache-control: max-age=60\r\netag: W/\"a\"\r\n",
        "cache-control: no-store\r\netag: \"a\"\r\n",
        "cache-control: private\r\netag: \"a\"\r\n",
        "cache-control: max-age=60\r\netag: \"a\"\r\ncontent-encoding: x\r\n",
    ] {
        let origin = origin(fields);
        let server = cache(&origin, ENTRY);
        get(&server, "/", "");
        part(&server, "/", 0, 9);
        assert!(!is_hit(&part(&server, "/", 0, 9)), "{fields}");
    }
}

#[test]
fn parts_under_another_validator_replace_what_was_stored() {
    let origin = Origin::start(|head, before| match before < 2 {
        true => file(head, KEPT),
        false => file(head, "cache-control: max-age=60\r\netag: \"b\"\r\n"),
    });
    let server = cache(&origin, ENTRY);
    get(&server, "/", "");
    part(&server, "/", 0, 99);
    assert!(is_hit(&part(&server, "/", 0, 99)));
    assert!(!is_hit(&part(&server, "/", 50, 149)));
    assert_eq!(part(&server, "/", 50, 149).header("etag"), Some("\"b\""));
    assert!(!is_hit(&part(&server, "/", 0, 99)));
    // A whole that is not stored replaces them as well.
    let other = Origin::start(|head, before| match before < 2 {
        true => file(head, KEPT),
        false => {
            origin_response(200, "cache-control: max-age=60\r\netag: \"b\"\r\n", &[b'x'; LENGTH])
        }
    });
    let server = cache(&other, &format!("{ENTRY}, hit_for_miss: 0s"));
    get(&server, "/", "");
    part(&server, "/", 0, 99);
    assert!(is_hit(&part(&server, "/", 0, 99)));
    get(&server, "/", "");
    assert_eq!(get(&server, "/", "range: bytes=0-9\r\n").text(), "xxxxxxxxxx");
}

#[test]
fn parts_are_purged_like_all_else() {
    let fields = "cache-control: max-age=60\r\netag: \"a\"\r\nsurrogate-key: news\r\n";
    let origin = origin(fields);
    let server = cache(&origin, ENTRY);
    for what in [
        r#"{"url": "http://shop.example/a"}"#,
        r#"{"prefix": "http://shop.example/"}"#,
        r#"{"tags": ["news"]}"#,
        r#"{"all": true}"#,
        r#"{"tags": ["news"], "soft": true}"#,
    ] {
        get(&server, "/a", "");
        part(&server, "/a", 0, 99);
        part(&server, "/a", 100, 199);
        assert!(is_hit(&part(&server, "/a", 0, 199)), "{what}");
        assert_eq!(purge(&server, what), 1, "{what}");
        assert!(!is_hit(&part(&server, "/a", 0, 99)), "{what}");
        // A part under the same validator confirms those that are stale.
        assert_eq!(is_hit(&part(&server, "/a", 0, 199)), what.contains("soft"), "{what}");
    }
}

#[test]
fn parts_vary_as_the_whole_does() {
    let origin = Origin::start(|head, _| {
        let tag = if head.to_ascii_lowercase().contains("accept-language: de") { "d" } else { "e" };
        let varies = "cache-control: max-age=60\r\nvary: accept-language\r\n";
        file(head, &format!("{varies}etag: \"{tag}\"\r\n"))
    });
    let server = cache(&origin, ENTRY);
    for _ in 0..2 {
        for language in ["de", "en"] {
            part_with(&server, "/", (0, 99), &format!("accept-language: {language}\r\n"));
        }
    }
    for language in ["de", "en"] {
        let hit = part_with(&server, "/", (0, 99), &format!("accept-language: {language}\r\n"));
        assert!(is_hit(&hit), "{hit:?}");
        assert_eq!(hit.header("etag"), Some(&*format!("\"{}\"", &language[..1])));
    }
}

#[test]
fn parts_of_one_response_stay_within_max_size() {
    let origin = origin(KEPT);
    let server = cache(&origin, ENTRY);
    get(&server, "/", "");
    part(&server, "/", 0, 499);
    part(&server, "/", 500, 999);
    assert!(is_hit(&part(&server, "/", 0, 999)));
    part(&server, "/", 1000, 1499);
    assert!(is_hit(&part(&server, "/", 500, 1499)));
    assert!(!is_hit(&part(&server, "/", 0, 9)));
    // One that is longer alone is not stored.
    part(&server, "/", 2000, 3999);
    assert!(!is_hit(&part(&server, "/", 2000, 3999)));
}

/// Answers with fields that make it stale at once; a validation of `"a"` gets this 304.
fn stale_origin(not_modified: &'static str) -> Origin {
    Origin::start(move |head, _| {
        if head.to_ascii_lowercase().contains("if-none-match: \"a\"") {
            return format!("HTTP/1.1 304 Not Modified\r\n{not_modified}\r\n").into_bytes();
        }
        file(head, "cache-control: max-age=60\r\nage: 60\r\netag: \"a\"\r\nx-old: 1\r\n")
    })
}

/// RFC 9111 4.3.4.
#[test]
fn stale_parts_are_revalidated() {
    for entry in [ENTRY, "max_size: 1KiB, hit_for_miss: 0s"] {
        let origin = stale_origin("cache-control: max-age=60\r\netag: \"a\"\r\nx-new: 1\r\n");
        let server = cache(&origin, entry);
        part(&server, "/", 100, 199);
        let fetches = origin.fetches();
        let revalidated = part(&server, "/", 120, 150);
        let last = origin.last();
        assert!(last.contains("range: bytes=120-150"), "a 304 is not certain: {last}");
        assert!(last.contains("if-none-match: \"a\""), "{last}");
        assert!(
            cache_status(&revalidated).starts_with("fwd=stale; fwd-status=304"),
            "{revalidated:?}"
        );
        assert_eq!(revalidated.header("x-new"), Some("1"), "RFC 9111 3.2");
        let hit = part(&server, "/", 100, 199);
        assert!(is_hit(&hit) && hit.header("x-new") == Some("1"), "{hit:?}");
        assert_eq!((hit.header("x-old"), hit.header("etag")), (Some("1"), Some("\"a\"")));
        assert_eq!(origin.fetches(), fetches + 1);
        let valid = [("result", "valid")];
        assert_eq!(server.metrics().sum("tidegate_cache_revalidations_total", &valid), 1.0);
    }
}

#[test]
fn a_304_for_another_representation_revalidates_no_parts() {
    for tag in ["\"b\"", "W/\"a\""] {
        let fields = format!("cache-control: max-age=60\r\netag: {tag}\r\n").leak();
        let origin = stale_origin(fields);
        let server = cache(&origin, ENTRY);
        part(&server, "/", 100, 199);
        let fetches = origin.fetches();
        assert_eq!(part(&server, "/", 120, 150).header("etag"), Some("\"a\""), "{tag}");
        assert!(!origin.last().contains("if-none-match"), "{}", origin.last());
        assert_eq!(origin.fetches(), fetches + 2, "{tag}");
    }
}

#[test]
fn parts_that_a_304_forbids_to_store_are_served_once_more() {
    let origin = stale_origin("cache-control: no-store\r\netag: \"a\"\r\n");
    let server = cache(&origin, ENTRY);
    part(&server, "/", 100, 199);
    let last = part(&server, "/", 120, 150);
    assert!(cache_status(&last).contains("detail="), "{last:?}");
    part(&server, "/", 120, 150);
    assert!(!origin.last().contains("if-none-match"), "{}", origin.last());
}

#[test]
fn stale_parts_of_another_response_are_replaced() {
    let origin = Origin::start(|head, before| match before {
        0 => file(head, "cache-control: max-age=60\r\nage: 60\r\netag: \"a\"\r\n"),
        _ => file(head, "cache-control: max-age=60\r\netag: \"b\"\r\n"),
    });
    let server = cache(&origin, ENTRY);
    part(&server, "/", 100, 199);
    let replaced = part(&server, "/", 120, 150);
    assert!(origin.last().contains("if-none-match: \"a\""), "{}", origin.last());
    assert_eq!(replaced.header("etag"), Some("\"b\""));
    assert!(!is_hit(&part(&server, "/", 100, 199)));
    assert!(is_hit(&part(&server, "/", 120, 150)));
}
