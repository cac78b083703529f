//! The admin API says what is stored and why a request was a miss or would be.

use super::{Origin, api, cache, explained, get, origin_response, purge};

#[test]
fn a_request_is_explained_before_and_after() {
    let origin = Origin::counting("cache-control: max-age=60\r\nvary: x-a\r\n");
    let server = cache(&origin, "");
    let why = |path| explained(&server, path);
    assert_eq!((&why("/")["verdict"], &why("/")["route"]), (&"miss".into(), &"all".into()));
    get(&server, "/", "x-a: 1\r\n");
    let other = why("/");
    assert_eq!(other["verdict"], "miss");
    assert!(other["why"].as_str().expect("a text").contains("not for these header fields"));
    let url = "http://shop.example/&header=x-a:1";
    let (_, same) = api(&server, &format!("GET /v1/caches/pages/explain?url={url}"), "");
    assert_eq!(same["verdict"], "hit", "{same}");
    let kinds: Vec<_> =
        same["stored"].as_array().expect("a list").iter().map(|one| &one["kind"]).collect();
    assert!(kinds.contains(&&"response".into()) && kinds.contains(&&"varies".into()), "{same}");
    purge(&server, r#"{"all": true}"#);
    assert_eq!(why("/")["stored"], serde_json::json!([]));
}

#[test]
fn what_cannot_be_stored_is_remembered() {
    let origin = Origin::counting("cache-control: private\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    let why = explained(&server, "/");
    assert_eq!(why["verdict"], "miss");
    assert!(
        why["why"].as_str().expect("a text").contains("could not be stored (private)"),
        "{why}"
    );
}

#[test]
fn what_bypasses_the_cache_is_explained() {
    let origin = Origin::counting("");
    let server = cache(&origin, "");
    let send_line =
        |query: &str| api(&server, &format!("GET /v1/caches/pages/explain?{query}"), "");
    let (_, post) = send_line("url=http://shop.example/&method=POST");
    assert_eq!(post["verdict"], "pass", "{post}");
    let (_, odd) = send_line("url=http://shop.example/a%252fb");
    assert_eq!(odd["verdict"], "pass", "an ambiguous path: {odd}");
    assert_eq!(send_line("url=shop.example").0, 400);
    assert_eq!(api(&server, "GET /v1/caches/none/explain?url=/", "").0, 404);
}

#[test]
fn the_top_responses_are_listed_and_their_secrets_masked() {
    let origin = Origin::start(|head, _| {
        let size = if head.starts_with("GET /large ") { 5000 } else { 1 };
        origin_response(200, "cache-control: max-age=60\r\n", &vec![b'x'; size])
    });
    let server = cache(&origin, "");
    get(&server, "/large", "");
    (0..3).for_each(|_| drop(get(&server, "/often?token=s3cret&a=1", "")));
    let (status, top) = api(&server, "GET /v1/caches/pages/top?limit=1", "");
    assert_eq!(status, 200, "{top}");
    let (often, large) = (&top["by_hits"][0], &top["by_memory"][0]);
    assert_eq!(often["url"], "http://shop.example/often?token=***&a=1");
    assert_eq!((&often["hits"], &often["masked"]), (&2.into(), &true.into()));
    assert_eq!((&large["url"], &large["hits"]), (&"http://shop.example/large".into(), &0.into()));
    assert!(large["memory_bytes"].as_u64() > large["bytes"].as_u64(), "{large}");
    assert_eq!(top["by_hits"].as_array().map(Vec::len), Some(1));
    // A secret can be neither read nor guessed letter by letter.
    for token in ["", "s3c", "x"] {
        let prefix = format!("http://shop.example/often%3Ftoken={token}");
        let line = format!("GET /v1/caches/pages/entries?prefix={prefix}");
        let (_, page) = api(&server, &line, "");
        assert_eq!(page["entries"][0]["url"], often["url"], "{page}");
        assert_eq!(page["entries"].as_array().map(Vec::len), Some(1), "{page}");
    }
}

#[test]
fn values_of_header_fields_are_shown_without_credentials() {
    let origin = Origin::counting(
        "cache-control: public, max-age=60\r\n\
         vary: authorization, cookie, x-color, x-shop-token, x-size\r\n",
    );
    let server = cache(&origin, "");
    let secrets = "authorization: Bearer s3cret\r\ncookie: sid=s3cret\r\nx-shop-token: s3cret\r\n";
    get(&server, "/", &format!("{secrets}x-color: red\r\n"));
    let (_, page) = api(&server, "GET /v1/caches/pages/entries", "");
    let explained = explained(&server, "/");
    let shown = "authorization: ***, cookie: ***, x-color: red, x-shop-token: ***, x-size";
    for rows in [&page["entries"], &explained["stored"]] {
        let rows = rows.as_array().expect("a list");
        assert!(rows.iter().any(|row| row["vary"] == shown), "{rows:?}");
        assert!(!format!("{rows:?}").contains("s3cret"), "{rows:?}");
    }
}

#[test]
fn entries_are_listed_page_by_page() {
    let origin = Origin::start(|_, _| origin_response(200, "cache-control: max-age=60\r\n", b"x"));
    let server = cache(&origin, "");
    (0..7).for_each(|n| drop(get(&server, &format!("/a/{n}"), "")));
    get(&server, "/b", "");
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let line =
            format!("GET /v1/caches/pages/entries?prefix=http://shop.example/a/&limit=3{after}");
        let (status, page) = api(&server, &line, "");
        assert_eq!(status, 200, "{page}");
        let entries = page["entries"].as_array().expect("a list");
        assert!(entries.len() <= 3);
        seen.extend(entries.iter().map(|entry| entry["url"].as_str().expect("a URL").to_owned()));
        match page["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    seen.sort();
    let wanted: Vec<_> = (0..7).map(|n| format!("http://shop.example/a/{n}")).collect();
    assert_eq!(seen, wanted);
}
