//! Purges: by URL, prefix, tag, group, all; hard and soft; and with the method PURGE.

use scenarios::Tidegate;
use serde_json::Value;

use super::{Origin, api, cache, cache_status, get, is_hit, origin_response, purge, send_line};

const TAGGED: &str = "cache-control: max-age=60\r\nsurrogate-key: all shop\r\ncache-tag: x, y\r\n\
                      cache-groups: \"g\"\r\n";

#[test]
fn every_form_removes_what_it_names_and_nothing_else() {
    let origin = Origin::start(|head, before| {
        let fields =
            if head.starts_with("GET /shop/") { TAGGED } else { "cache-control: max-age=60\r\n" };
        origin_response(200, fields, before.to_string().as_bytes())
    });
    let server = cache(&origin, "");
    let paths = ["/shop/a", "/shop/b", "/other"];
    for (body, gone) in [
        (r#"{"url": "http://shop.example/shop/a"}"#, vec!["/shop/a"]),
        (r#"{"url": "HTTP://Shop.Example:80/sh%6fp/a"}"#, vec!["/shop/a"]),
        (r#"{"url": "http://shop.example/x/%2e./shop//./%61"}"#, vec!["/shop/a"]),
        (r#"{"prefix": "http://shop.example/shop/"}"#, vec!["/shop/a", "/shop/b"]),
        (r#"{"prefix": "http://shop.example//x/../sh%6Fp/"}"#, vec!["/shop/a", "/shop/b"]),
        (r#"{"tags": ["shop"]}"#, vec!["/shop/a", "/shop/b"]),
        (r#"{"tags": ["y"]}"#, vec!["/shop/a", "/shop/b"]),
        (r#"{"groups": ["g"]}"#, vec!["/shop/a", "/shop/b"]),
        (r#"{"all": true}"#, paths.to_vec()),
        (r#"{"tags": ["other"]}"#, vec![]),
    ] {
        paths.iter().for_each(|path| drop(get(&server, path, "")));
        let preview = preview(&server, body);
        assert_eq!(preview["responses"], gone.len(), "{body}: {preview}");
        let mut urls = gone.iter().map(|path| format!("http://shop.example{path}"));
        assert!(urls.all(|url| preview["urls"].as_array().unwrap().contains(&url.into())));
        assert!(paths.iter().all(|path| is_hit(&get(&server, path, ""))), "nothing was purged");
        assert_eq!(purge(&server, body), gone.len() as u64, "{body}");
        for path in paths {
            assert_eq!(is_hit(&get(&server, path, "")), !gone.contains(&path), "{body}: {path}");
        }
    }
}

fn preview(server: &Tidegate, body: &str) -> Value {
    let (status, preview) = api(server, "POST /v1/caches/pages/preview", body);
    assert_eq!(status, 200, "{preview}");
    preview
}

#[test]
fn a_preview_shows_no_secret_and_compares_none_with_a_prefix() {
    let origin = Origin::counting(TAGGED);
    let server = cache(&origin, "");
    for path in ["/a?token=s3cret", "/a?token=other", "/a?x=1", "/a?x=2"] {
        get(&server, path, "");
    }
    let of = |prefix: &str| {
        let body = format!(r#"{{"prefix": "http://shop.example{prefix}"}}"#);
        let preview = preview(&server, &body);
        (preview["responses"].as_u64().unwrap(), preview["is_upper_bound"] == true)
    };
    // Neither guess is nearer than the other.
    assert_eq!((of("/a?token=s3"), of("/a?token=zz")), ((2, true), (2, true)));
    assert_eq!((of("/a?x="), of("/a?x=1"), of("/a")), ((2, false), (1, false), (4, false)));
    let shown = preview(&server, r#"{"tags": ["shop"]}"#);
    let urls = ["x=1", "x=2", "token=***"].map(|query| format!("http://shop.example/a?{query}"));
    let mut listed: Vec<_> =
        shown["urls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    listed.sort_unstable();
    let mut urls = urls.each_ref().map(String::as_str);
    urls.sort_unstable();
    assert_eq!((shown["responses"].as_u64(), &listed[..]), (Some(4), &urls[..]));
    let exact = preview(&server, r#"{"url": "http://shop.example/a?token=s3cret"}"#);
    assert_eq!((&exact["responses"], &exact["is_upper_bound"]), (&1.into(), &false.into()));
    assert_eq!(purge(&server, r#"{"prefix": "http://shop.example/a?token=s3"}"#), 1);
}

#[test]
fn tags_are_for_us_and_not_for_clients() {
    let origin = Origin::counting(TAGGED);
    let server = cache(&origin, "");
    for _ in 0..2 {
        let told = get(&server, "/", "");
        assert_eq!((told.header("surrogate-key"), told.header("cache-tag")), (None, None));
    }
}

#[test]
fn a_soft_purge_makes_it_stale() {
    let origin = Origin::counting("cache-control: max-age=60, stale-while-revalidate=60\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    assert_eq!(purge(&server, r#"{"all": true, "soft": true}"#), 1);
    let stale = get(&server, "/", "");
    assert_eq!(stale.text(), "answer 0", "served while it is fetched again: {stale:?}");
    server.wait_for_metric("tidegate_cache_stored_total", &[("cache", "pages")], 2.0);
    let again = get(&server, "/", "");
    assert!(is_hit(&again) && again.text() == "answer 1", "{again:?}");
}

#[test]
fn the_method_needs_permission() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "purge: { allow: [127.0.0.1] }");
    get(&server, "/a", "");
    get(&server, "/b", "");
    let purged = send_line(&server, "PURGE /a", "");
    assert_eq!(purged.status, 200, "{purged:?}");
    assert!(purged.text().contains("\"purged\""), "{purged:?}");
    assert!(cache_status(&get(&server, "/a", "")).starts_with("fwd=uri-miss"));
    assert!(is_hit(&get(&server, "/b", "")));
    let fetches = origin.fetches();
    for (entry, status) in [("purge: { allow: [10.0.0.0/8] }", 403), ("", 405)] {
        let server = cache(&origin, entry);
        assert_eq!(send_line(&server, "PURGE /a", "").status, status, "{entry}");
    }
    assert_eq!(origin.fetches(), fetches, "the origin does not hear of it");
}

/// RFC 9111 4.4: `Location` and `Content-Location` of a response to an unsafe request, in whatever
/// spelling.
#[test]
fn a_location_in_an_odd_spelling_purges_what_it_names() {
    for location in [
        "/a/b%2Bc?d",
        "/a/%62%2bc?d",
        "/x/..//a/./b%2Bc?d#e",
        "a/b%2Bc?d",
        "./x/%2e%2E/a/b%2Bc?d",
        "HTTP://Shop.Example:80/a/b%2Bc?d",
        "//SHOP.example/a//b%2bc?d",
    ] {
        let origin = Origin::start(move |head, _| match head.starts_with("POST ") {
            true => origin_response(201, &format!("location: {location}\r\n"), b""),
            false => origin_response(200, "cache-control: max-age=60\r\n", b"stored"),
        });
        let server = cache(&origin, "");
        let paths = ["/a/b%2Bc?d", "/a/b+c?d", "/a/b%2Bc"];
        paths.iter().for_each(|path| drop(get(&server, path, "")));
        send_line(&server, "POST /new", "content-length: 0\r\n");
        let hits = paths.map(|path| is_hit(&get(&server, path, "")));
        assert_eq!(hits, [false, true, true], "{location}");
    }
}
