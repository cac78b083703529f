//! The cache from the command line: `proxy --cache`, `ctl caches`, `ctl purge`.

use std::path::Path;

use tempfile::TempDir;

use crate::process::{Running, get, run_in, status, tidegate};

const BACKEND: &str = r#"
listeners: { backend: { bind: "127.0.0.1:0" } }
admin: { socket: backend.sock }
routes:
  - match: { path: /kept }
    handler: { respond: { body: "from the backend", headers: { cache-control: max-age=60 } } }
  - match: { path: "/{*rest}" }
    handler: { respond: { body: "from the backend" } }
"#;

fn backend(directory: &Path) -> (Running, String) {
    std::fs::write(directory.join("tidegate.yaml"), BACKEND).unwrap();
    let mut backend = Running::start(tidegate(directory, &["up", "--workers", "1"]));
    let address = backend.address("backend").to_string();
    (backend, address)
}

#[test]
fn proxy_keeps_what_it_may_and_is_emptied_by_ctl() {
    let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_backend, to) = backend(other.path());
    let arguments = ["proxy", "127.0.0.1:0", &to, "--cache", "--cache-memory", "8MiB"];
    let mut proxy = Running::start(tidegate(directory.path(), &arguments));
    let address = proxy.address("proxy");
    let kept = || get(address, "/kept", "");
    assert!(kept().contains("tidegate; fwd=uri-miss; stored"), "the first is asked for");
    let answer = kept();
    assert!(answer.contains("tidegate; hit") && answer.ends_with("from the backend"), "{answer}");
    for _ in 0..2 {
        assert!(!get(address, "/other", "").contains("tidegate; hit"), "nothing says to keep it");
    }
    let ctl = |words: &[&str]| run_in(directory.path(), &[&["ctl"], words].concat());
    let table = ctl(&["caches"]).printed();
    assert!(table.contains("pages") && table.contains("8.0MiB"), "{table}");
    let url = format!("http://{address}/kept");
    let why = ctl(&["caches", "pages", "--explain", &url]).printed();
    assert!(why.starts_with("hit: stored, "), "{why}");
    assert_eq!(ctl(&["purge", "pages", "--url", &url]).printed(), "purged 1\n");
    let why = ctl(&["caches", "pages", "--explain", &url]).printed();
    assert!(why.starts_with("miss: nothing is stored for its URL"), "{why}");
    assert!(kept().contains("fwd=uri-miss"), "purged");
    assert_eq!(ctl(&["purge", "pages", "--all"]).printed(), "purged 1\n");
    let why = ctl(&["purge", "pagse", "--all"]).failed(1);
    assert!(why.contains("there is no cache \"pagse\"") && why.contains("pages"), "{why}");
    ctl(&["purge", "pages"]).failed(2);
}

#[test]
fn sizes_of_its_cache_are_checked() {
    let directory = TempDir::new().unwrap();
    let refused = |words: &[&str]| {
        run_in(directory.path(), &[&["proxy", ":0", "127.0.0.1:1"], words].concat()).failed(2)
    };
    assert!(refused(&["--cache", "--cache-memory", "5"]).contains("has no unit"));
    assert!(refused(&["--cache", "--cache-memory", "5B"]).contains("is not between"));
    assert!(refused(&["--cache-memory", "5MiB"]).contains("--cache"));
}

#[test]
fn the_example_responds_as_its_comments_say() {
    let directory = TempDir::new().unwrap();
    let (server, address) = crate::examples::start("cache.yaml", directory.path());
    let first = get(address, "/products/7", "");
    assert_eq!(status(&first), "200");
    assert!(first.contains("fwd=uri-miss; stored"), "{first}");
    assert!(get(address, "/products/7?utm_source=mail", "").contains("tidegate; hit"));
    assert!(get(address, "/products/7?page=2", "").contains("fwd=uri-miss"), "another URL");
    let purged =
        run_in(directory.path(), &["ctl", "purge", "pages", "--tag", "products"]).printed();
    assert_eq!(purged, "purged 2\n");
    assert!(get(address, "/products/7", "").contains("fwd=uri-miss; stored"));
    assert!(!get(address, "/basket", "").contains("stored"));
    server.terminate();
    assert_eq!(server.end().0, Some(0));
}
