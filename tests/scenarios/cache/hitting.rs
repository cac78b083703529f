//! What is stored is the response: its age, its parts, its head, and what is not stored.

use super::{Origin, cache, cache_status, get, is_hit, origin_response, send_line};

#[test]
fn the_second_client_is_served_from_the_cache() {
    let origin = Origin::counting("cache-control: max-age=60\r\nserver: origin\r\n");
    let server = cache(&origin, "");
    let first = get(&server, "/a", "");
    // The time that the fetch took counts as age (RFC 9111 4.2.3).
    let ttl_s = cache_status(&first).strip_prefix("fwd=uri-miss; stored; ttl=");
    let ttl_s: u64 = ttl_s.expect("it is stored").parse().expect("a number");
    assert!((1..=60).contains(&ttl_s), "{ttl_s}");
    let second = get(&server, "/a", "");
    assert!(is_hit(&second), "{second:?}");
    assert_eq!((second.status, second.text().as_str()), (200, "answer 0"));
    assert_eq!(second.header("server"), Some("origin"));
    let age: u64 = second.header("age").expect("RFC 9111 5.1").parse().expect("a number");
    assert!(age < 60);
    assert_eq!(origin.fetches(), 1);
    assert_eq!(server.metrics().sum("tidegate_cache_hits_total", &[("cache", "pages")]), 1.0);
}

#[test]
fn the_age_it_came_with_counts() {
    let origin = Origin::counting("cache-control: max-age=100\r\nage: 40\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    let age: u64 = get(&server, "/", "").header("age").expect("an age").parse().expect("a number");
    assert!((40..100).contains(&age), "{age}");
}

#[test]
fn what_may_not_be_stored_is_not() {
    for fields in [
        "",
        "cache-control: no-store, max-age=60\r\n",
        "cache-control: private, max-age=60\r\n",
        "cache-control: max-age=60\r\nset-cookie: a=b\r\n",
        "cache-control: max-age=60\r\nvary: *\r\n",
        "cache-control: max-age=0\r\n",
    ] {
        let origin = Origin::counting(fields);
        let server = cache(&origin, "");
        for count in 0..2 {
            assert_eq!(get(&server, "/", "").text(), format!("answer {count}"), "{fields}");
        }
    }
}

#[test]
fn one_users_response_is_not_for_others() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    let mine = "authorization: Basic YTpi\r\n";
    assert_eq!(get(&server, "/", mine).text(), "answer 0");
    assert_eq!(get(&server, "/", "").text(), "answer 1");
    assert!(is_hit(&get(&server, "/", "")));
}

#[test]
fn head_is_served_from_what_get_stored() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    let head = send_line(&server, "HEAD /", "");
    assert!(is_hit(&head) && head.body.is_empty(), "{head:?}");
    assert_eq!(head.header("content-length"), Some("8"));
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn parts_are_cut_from_the_whole() {
    let origin = Origin::start(|_, _| {
        origin_response(200, "cache-control: max-age=60\r\netag: \"a\"\r\n", b"0123456789")
    });
    let server = cache(&origin, "");
    let part = get(&server, "/", "range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "234"), "{part:?}");
    assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
    assert!(!origin.last().contains("range:"), "the whole is fetched: {}", origin.last());
    let part = get(&server, "/", "range: bytes=-3\r\nif-range: \"a\"\r\n");
    assert!(part.status == 206 && part.text() == "789" && is_hit(&part), "{part:?}");
    assert_eq!(get(&server, "/", "range: bytes=-3\r\nif-range: \"b\"\r\n").status, 200);
    let past = get(&server, "/", "range: bytes=10-\r\n");
    assert_eq!((past.status, past.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(origin.fetches(), 1);
}

/// Long enough to be held in a file that is memory.
#[test]
fn what_is_long_comes_whole_and_in_parts_again_and_again() {
    let whole: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let sent = whole.clone();
    let fields = "cache-control: max-age=60\r\ncontent-type: image/png\r\n";
    let origin = Origin::start(move |_, _| origin_response(200, fields, &sent));
    let server = cache(&origin, "");
    // While it comes in, several ranges are answered with the whole (RFC 9110 14.2).
    assert!(get(&server, "/", "").body == whole);
    server.wait_for_metric("tidegate_cache_stored_total", &[("cache", "pages")], 1.0);
    for _ in 0..5 {
        assert!(get(&server, "/", "").body == whole);
        let part = get(&server, "/", "range: bytes=100000-299999\r\n");
        assert!(part.status == 206 && part.body == whole[100_000..], "{:?}", part.status);
        let parts = get(&server, "/", "range: bytes=0-9,200000-200009\r\n");
        let kind = parts.header("content-type").expect("a type");
        assert!(parts.status == 206 && kind.starts_with("multipart/byteranges"), "{kind}");
        let holds = |piece: &[u8]| parts.body.windows(piece.len()).any(|window| window == piece);
        assert!(holds(&whole[..10]) && holds(&whole[200_000..200_010]));
        assert!(holds(b"Content-Type: image/png\r\nContent-Range: bytes 0-9/300000\r\n\r\n"));
        let head = send_line(&server, "HEAD /", "");
        assert_eq!(head.header("content-length"), Some("300000"));
    }
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn what_changes_something_goes_by_and_invalidates() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    let post = send_line(&server, "POST /", "content-length: 0\r\n");
    assert_eq!(post.text(), "answer 1", "{post:?}");
    assert_eq!(get(&server, "/", "").text(), "answer 2", "RFC 9111 4.4");
}

#[test]
fn x_status_is_sent_where_it_is_requested() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "x_status: true");
    assert_eq!(get(&server, "/", "").header("x-status"), Some("fetching"));
    assert_eq!(get(&server, "/", "").header("x-status"), Some("hit"));
    let server = cache(&origin, "");
    assert_eq!(get(&server, "/", "").header("x-status"), None);
}
