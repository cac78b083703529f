//! Fields that are not stored: the client that caused the fetch gets them, and no other client.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scenarios::{HttpResponse, Tidegate, Upstream};

use super::{Origin, cache, cache_status, config, found_on_disk, get, is_hit, origin_response};

const COOKIES: &str = "set-cookie: sid=1; path=/\r\nset-cookie: theme=dark\r\n";

fn cookies(response: &HttpResponse) -> Vec<&str> {
    response.all("set-cookie")
}

#[test]
fn the_client_that_caused_the_fetch_is_logged_in_and_no_other() {
    for (entry, control) in [
        ("set_cookie: strip", "max-age=60"),
        ("", "max-age=60, private=\"set-cookie\""),
        ("", "max-age=60, no-cache=\"set-cookie, x-user\""),
    ] {
        let origin = Origin::start(move |_, _| {
            let fields =
                format!("cache-control: {control}\r\n{COOKIES}x-user: 7\r\netag: \"a\"\r\n");
            origin_response(200, &fields, b"0123456789")
        });
        let server = cache(&origin, entry);
        let first = get(&server, "/a", "");
        assert_eq!(cookies(&first), ["sid=1; path=/", "theme=dark"], "{control}: {first:?}");
        assert_eq!(first.header("x-user"), Some("7"));
        let second = get(&server, "/a", "");
        assert!(is_hit(&second) && cookies(&second).is_empty(), "{control}: {second:?}");
        // A part and a 304 are of the same fetch.
        let part = get(&server, "/b", "range: bytes=0-1\r\n");
        assert_eq!((part.status, cookies(&part).len()), (206, 2), "{part:?}");
        let unchanged = get(&server, "/c", "if-none-match: \"a\"\r\n");
        assert_eq!((unchanged.status, cookies(&unchanged).len()), (304, 2), "{unchanged:?}");
        assert_eq!(origin.fetches(), 3);
    }
}

/// Two clients share one fetch while its content still comes: only the first gets the cookie.
#[test]
fn a_client_that_shares_a_fetch_gets_no_cookie() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let upstream = Upstream::start(move |peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n{COOKIES}\
                 content-length: 10\r\n\r\n01234"
            ));
            let patience = Duration::from_secs(60);
            wait.lock().expect("no panic under it").recv_timeout(patience).expect("a word");
            peer.send("56789");
        }
    });
    let origin = Origin { upstream, heads: Arc::default() };
    let server = cache(&origin, "set_cookie: strip");
    let mut first = server.connect("web");
    first.send("GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    server.wait_for_metric("tidegate_cache_misses_total", &[("cache", "pages")], 1.0);
    let mut second = server.connect("web");
    second.send("GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    server.wait_for_metric("tidegate_cache_coalesced_total", &[("cache", "pages")], 1.0);
    go_on.send(()).expect("the origin waits");
    let (first, second) = (first.read_response(), second.read_response());
    assert_eq!((first.text().as_str(), cookies(&first).len()), ("0123456789", 2), "{first:?}");
    assert_eq!((second.text().as_str(), cookies(&second).len()), ("0123456789", 0), "{second:?}");
}

/// What a 304 sets is for the client whose request had it asked.
#[test]
fn a_cookie_of_a_304_reaches_the_client_that_caused_it() {
    let origin = Origin::start(|_, before| match before {
        0 => origin_response(200, "cache-control: no-cache\r\netag: \"a\"\r\n", b"content"),
        _ => b"HTTP/1.1 304 Any\r\netag: \"a\"\r\ncache-control: max-age=60\r\n\
               set-cookie: sid=2\r\n\r\n"
            .to_vec(),
    });
    let server = cache(&origin, "set_cookie: strip");
    assert!(cookies(&get(&server, "/", "")).is_empty());
    let confirmed = get(&server, "/", "");
    assert!(cache_status(&confirmed).contains("fwd-status=304"), "{confirmed:?}");
    assert_eq!(cookies(&confirmed), ["sid=2"]);
    let hit = get(&server, "/", "");
    assert!(is_hit(&hit) && cookies(&hit).is_empty(), "{hit:?}");
}

#[test]
fn a_cookie_is_not_on_disk() {
    let origin = Origin::start(|_, _| {
        origin_response(200, &format!("cache-control: max-age=600\r\n{COOKIES}"), b"content")
    });
    let directory = tempfile::tempdir().expect("a directory");
    let disk = format!("1MiB, disk: {{ path: {}, size: 64MiB }}", directory.path().display());
    let config = config(&origin, "set_cookie: strip", &disk);
    let server = Tidegate::start(&config);
    assert_eq!(cookies(&get(&server, "/", "")).len(), 2);
    server.wait_for_metric("tidegate_cache_disk_writes_total", &[("cache", "pages")], 1.0);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    let server = Tidegate::start(&config);
    found_on_disk(&server, 1);
    let hit = get(&server, "/", "");
    assert!(is_hit(&hit) && cookies(&hit).is_empty(), "{hit:?}");
    assert_eq!(origin.fetches(), 1);
}
