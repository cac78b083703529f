//! What lies on disk outlives the process.

use super::{Origin, api, config, found_on_disk, get, is_hit};
use scenarios::Tidegate;

fn on_disk(origin: &Origin, directory: &std::path::Path) -> String {
    let disk = format!("1MiB, disk: {{ path: {}, size: 64MiB }}", directory.display());
    config(origin, "", &disk)
}

/// Waits until so many objects lie on disk.
fn written(server: &Tidegate, least: f64) {
    server.wait_for_metric("tidegate_cache_disk_writes_total", &[("cache", "pages")], least);
}

#[test]
fn a_restart_finds_what_was_stored_and_not_what_was_purged() {
    let origin = Origin::counting("cache-control: max-age=60\r\nvary: accept-language\r\n");
    let directory = tempfile::tempdir().expect("a directory");
    let config = on_disk(&origin, directory.path());
    let server = Tidegate::start(&config);
    let [german, english] = ["accept-language: de\r\n", "accept-language: en\r\n"];
    let before = [get(&server, "/a", german), get(&server, "/a", english), get(&server, "/b", "")];
    // What is purged before it is written never is.
    written(&server, 5.0);
    let (_, purged) =
        api(&server, "POST /v1/caches/pages/purge", r#"{"prefix": "http://shop.example/b"}"#);
    assert_eq!(purged["purged"], 1);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));

    let server = Tidegate::start(&config);
    found_on_disk(&server, 3);
    for (at, fields) in [german, english].into_iter().enumerate() {
        let after = get(&server, "/a", fields);
        assert_eq!(after.body, before[at].body);
        assert!(is_hit(&after), "{after:?}");
    }
    assert_eq!(origin.fetches(), 3);
    assert!(!is_hit(&get(&server, "/b", "")));
    let (_, shown) = api(&server, "GET /v1/caches/pages", "");
    assert!(shown["disk"]["objects"].as_u64() >= Some(3), "{shown}");
}

#[test]
fn what_memory_has_no_room_for_is_read_back() {
    let origin = Origin::start(|head, _| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        super::origin_response(200, "cache-control: max-age=60\r\n", path.repeat(20_000).as_bytes())
    });
    let directory = tempfile::tempdir().expect("a directory");
    let server = Tidegate::start(&on_disk(&origin, directory.path()));
    let paths: Vec<String> = (100..140).map(|page| format!("/{page}")).collect();
    for (count, path) in (1..).zip(&paths) {
        get(&server, path, "");
        // What does not fit in the queue of a slow disk is not written.
        written(&server, f64::from(count));
    }
    for path in &paths {
        let again = get(&server, path, "");
        assert!(is_hit(&again) && again.body == path.repeat(20_000).as_bytes(), "{path}");
    }
    assert_eq!(origin.fetches(), 40);
}
