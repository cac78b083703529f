//! Tests of the handler against real directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use message::{Body, Frame, Headers, Target, WINDOW_BYTES};
use net::FileRange;
use plugin::problem::{ErrorPages, render};
use settings::{Node, Reader, Report, Setting, node};
use tempfile::TempDir;

use super::*;
use crate::limits::{FRESH, SMALL_FILE_BYTES};

mod changes;

mod ranges;

fn context() -> WorkerContext {
    WorkerContext::default()
}

fn record(node: &Node) -> Files {
    settings::read(node).unwrap()
}

fn handler(node: &Node) -> FilesHandler {
    FilesHandler::new(Arc::new(record(node)), &context())
}

/// A directory with these files; a path that ends in `/` is a directory.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn at(dir: &TempDir) -> Node {
    node!((dir.path().to_str().unwrap()))
}

fn request(method: Method, target: &str, headers: &[(&str, &str)]) -> Request {
    let mut fields = Headers::new();
    for (name, value) in headers {
        fields.append(*name, *value);
    }
    Request::made_up(
        method,
        Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap(),
        fields,
    )
}

struct TestResponse {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
    /// Responded without waiting.
    at_once: bool,
}

impl TestResponse {
    fn field(&self, name: &str) -> &str {
        self.headers.get_str(name).unwrap_or("")
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn send(handler: &FilesHandler, mut request: Request) -> TestResponse {
    let (outcome, at_once) = match handler.handle(&mut request) {
        MaybeFuture::Ready(outcome) => (outcome, true),
        MaybeFuture::Future(future) => (future.await, false),
    };
    read(outcome, at_once).await
}

async fn read(outcome: HandlerResult, at_once: bool) -> TestResponse {
    let response = outcome.unwrap_or_else(|fault| render(&fault, None, &ErrorPages::default()));
    let Response { status, headers, mut body, .. } = response;
    let promised = body.length().unwrap();
    let mut content = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame.unwrap() {
            Frame::Data(data) => content.extend_from_slice(&data),
            Frame::File(range) => read_range(&range, &mut content),
            Frame::Trailers(_) => panic!("trailers"),
        }
    }
    assert_eq!(content.len() as u64, promised);
    TestResponse { status, headers, body: content, at_once }
}

fn read_range(range: &FileRange, out: &mut Vec<u8>) {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; range.length as usize];
    range.file.read_exact_at(&mut bytes, range.offset).unwrap();
    out.extend_from_slice(&bytes);
}

async fn get(handler: &FilesHandler, target: &str, headers: &[(&str, &str)]) -> TestResponse {
    send(handler, request(Method::Get, target, headers)).await
}

fn run(test: impl Future<Output = ()>) {
    net::manual_time::block_on(test);
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Files>().unwrap();
}

#[test]
fn a_file_is_served_with_its_validators_and_then_at_once() {
    let dir =
        directory(&[("a.txt", "hello"), ("sub/b.css", "b{}"), ("C%41.bin", "c"), ("empty", "")]);
    run(async {
        let handler = handler(&at(&dir));
        let first = get(&handler, "/a.txt", &[]).await;
        assert_eq!((first.status, first.text(), first.at_once), (200, "hello", false));
        assert_eq!(first.field("content-type"), "text/plain; charset=utf-8");
        assert_eq!(first.field("accept-ranges"), "bytes");
        assert!(first.field("last-modified").ends_with(" GMT"));
        assert!(first.field("etag").starts_with('"') && first.field("etag").ends_with("-5\""));
        assert_eq!(first.field("vary"), "");
        let again = get(&handler, "/a.txt?x=1", &[]).await;
        assert_eq!((again.status, again.text(), again.at_once), (200, "hello", true));
        assert_eq!(again.field("etag"), first.field("etag"));
        assert_eq!(
            get(&handler, "/./sub//b.css", &[]).await.field("content-type"),
            "text/css; charset=utf-8"
        );
        assert_eq!(get(&handler, "/C%2541.bin", &[]).await.text(), "c");
        let empty = get(&handler, "/empty", &[]).await;
        assert_eq!((empty.status, empty.text()), (200, ""));
        assert_eq!(empty.field("content-type"), "application/octet-stream");
        for missing in ["/none", "/a.txt/", "/a.txt/x", "/CA.bin"] {
            assert_eq!(get(&handler, missing, &[]).await.status, 404, "{missing}");
        }
    });
}

#[test]
fn only_get_and_head() {
    let dir = directory(&[("a.txt", "hello")]);
    run(async {
        let handler = handler(&at(&dir));
        for _ in 0..2 {
            let head =
                send(&handler, request(Method::Head, "/a.txt", &[("range", "bytes=0-1")])).await;
            assert_eq!((head.status, head.text(), head.field("content-length")), (200, "", "5"));
        }
        for method in [Method::Post, Method::Put, Method::Delete, Method::Options] {
            let refused = send(&handler, request(method, "/a.txt", &[])).await;
            assert_eq!((refused.status, refused.field("allow")), (405, "GET, HEAD"));
        }
    });
}

#[test]
fn directories_have_an_index_and_a_slash() {
    let dir = directory(&[
        ("docs/index.htm", "two"),
        ("a:b/index.html", "colon"),
        ("none/x", ""),
        ("both/index.html", "one"),
        ("both/index.htm", "two"),
        ("index.html/x", "a directory of that name"),
    ]);
    run(async {
        let root = dir.path().to_str().unwrap();
        let handler = handler(&node!({ "root": root, "index": ["index.html", "index.htm"] }));
        for (target, location) in [
            ("/docs", "./docs/"),
            ("/docs?a=b&c", "./docs/?a=b&c"),
            ("/x/../a:b", "./a:b/"),
            ("/%64ocs", "./docs/"),
        ] {
            let redirect = get(&handler, target, &[]).await;
            assert_eq!((redirect.status, redirect.field("location")), (301, location), "{target}");
        }
        let docs = get(&handler, "/docs/", &[]).await;
        assert_eq!((docs.text(), docs.field("content-type")), ("two", "text/html; charset=utf-8"));
        assert_eq!(get(&handler, "/both/", &[]).await.text(), "one");
        assert_eq!(get(&handler, "/none/", &[]).await.status, 404);
        assert_eq!(get(&handler, "/", &[]).await.status, 404);
    });
}

#[test]
fn precompressed_files_are_negotiated() {
    let dir = directory(&[
        ("app.js", "plain"),
        ("app.js.br", "brotli"),
        ("app.js.gz", "gzip!"),
        ("alone.js", "alone"),
        ("old.js", "new"),
        ("old.js.gz", "stale"),
    ]);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(100);
    fs::File::open(dir.path().join("old.js.gz")).unwrap().set_modified(long_ago).unwrap();
    run(async {
        let handler = handler(&at(&dir));
        let plain = get(&handler, "/app.js", &[]).await;
        for (accepted, coding, body) in [
            ("gzip, br", "br", "brotli"),
            ("gzip", "gzip", "gzip!"),
            ("x-gzip", "gzip", "gzip!"),
            ("br;q=0.5, gzip", "gzip", "gzip!"),
            ("*", "br", "brotli"),
            ("zstd", "", "plain"),
            ("gzip;q=0", "", "plain"),
            ("identity, br;q=0.5", "", "plain"),
            ("identity;q=0, deflate", "", "plain"),
        ] {
            let response = get(&handler, "/app.js", &[("accept-encoding", accepted)]).await;
            let found = (response.field("content-encoding"), response.text());
            assert_eq!(found, (coding, body), "{accepted}");
            assert_eq!(response.field("vary"), "Accept-Encoding");
            assert_eq!(response.field("content-type"), "text/javascript; charset=utf-8");
            assert_eq!(response.field("etag") != plain.field("etag"), !coding.is_empty());
        }
        let ranged = [("accept-encoding", "br"), ("range", "bytes=0-1")];
        assert_eq!(get(&handler, "/app.js", &ranged).await.text(), "br");
        for path in ["/alone.js", "/old.js"] {
            let response = get(&handler, path, &[("accept-encoding", "br, gzip")]).await;
            assert_eq!((response.field("content-encoding"), response.field("vary")), ("", ""));
        }
        let itself = get(&handler, "/app.js.gz", &[("accept-encoding", "gzip")]).await;
        assert_eq!(itself.field("content-type"), "application/gzip");
        assert_eq!(itself.field("content-encoding"), "");
        let root = dir.path().to_str().unwrap();
        let none = super::tests::handler(&node!({ "root": root, "precompressed": [] }));
        assert_eq!(get(&none, "/app.js", &[("accept-encoding", "br")]).await.text(), "plain");
        let first =
            super::tests::handler(&node!({ "root": root, "precompressed": ["gzip", "br"] }));
        assert_eq!(
            get(&first, "/app.js", &[("accept-encoding", "br, gzip")]).await.text(),
            "gzip!"
        );
    });
}

#[test]
fn nothing_outside_the_root_is_served() {
    let dir = directory(&[("root/a.txt", "inside"), ("secret", "secret"), ("root/sub/b", "b")]);
    let root = dir.path().join("root");
    symlink("../secret", root.join("up")).unwrap();
    symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("a.txt", root.join("link")).unwrap();
    run(async {
        let handler = handler(&node!((root.to_str().unwrap())));
        for target in [
            "/../secret",
            "/sub/../../secret",
            "/%2e%2e/secret",
            "/%2E%2E/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "/sub%2f..%2f..%2fsecret",
            "/.%2e/secret",
            "//secret",
            "/up",
            "/absolute",
            "/etc/passwd",
            "/loop",
            "/%252e%252e/secret",
        ] {
            let response = get(&handler, target, &[]).await;
            assert_eq!(response.status, 404, "{target}: {}", response.text());
        }
        for refused in [&b"/a.txt%00.png"[..], b"/..\\secret", b"/%5c..%5csecret"] {
            assert!(Target::new(Bytes::from_static(refused)).is_err());
        }
        assert_eq!(get(&handler, "/link", &[]).await.text(), "inside");
        let strict = node!({ "root": (root.to_str().unwrap()), "symlinks": "never" });
        assert_eq!(get(&super::tests::handler(&strict), "/link", &[]).await.status, 404);
    });
}

#[test]
fn hidden_and_special_files_are_not_there() {
    let dir =
        directory(&[(".env", "s"), (".git/config", "s"), (".well-known/x", "ok"), ("a", "a")]);
    let socket = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(socket.unwrap().success());
    fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o644)).unwrap();
    run(async {
        let hidden = handler(&at(&dir));
        for target in ["/.env", "/.git/config", "/.git/", "/%2egit/config", "/pipe"] {
            assert_eq!(get(&hidden, target, &[]).await.status, 404, "{target}");
        }
        assert_eq!(get(&hidden, "/.well-known/x", &[]).await.text(), "ok");
        let root = dir.path().to_str().unwrap();
        let shown = handler(&node!({ "root": root, "dotfiles": true }));
        assert_eq!(get(&shown, "/.env", &[]).await.text(), "s");
    });
}

#[test]
fn a_listing_shows_what_can_be_requested() {
    let dir =
        directory(&[("b&b.txt", "123"), ("a/x", ""), (".hidden", ""), ("c/index.html", "index")]);
    symlink("b&b.txt", dir.path().join("link")).unwrap();
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    run(async {
        let root = dir.path().to_str().unwrap();
        assert_eq!(get(&handler(&at(&dir)), "/", &[]).await.status, 404);
        let handler = handler(&node!({ "root": root, "listing": true }));
        let json = get(&handler, "/", &[("accept", "application/json")]).await;
        assert_eq!(json.field("content-type"), "application/json");
        let items: serde_json::Value = serde_json::from_str(json.text()).unwrap();
        let names: Vec<_> = items.as_array().unwrap().iter().map(|item| &item["name"]).collect();
        assert_eq!(names, ["a", "c", "b&b.txt", "link"]);
        assert_eq!(items[3]["size"], 3);
        let html = get(&handler, "/", &[]).await;
        assert_eq!(html.field("content-type"), "text/html; charset=utf-8");
        assert!(
            html.text().contains("<a href=\"./b&amp;b.txt\">b&amp;b.txt</a>"),
            "{}",
            html.text()
        );
        assert_eq!(html.field("vary"), "Accept");
        assert_eq!(get(&handler, "/c/", &[]).await.text(), "index");
        assert_eq!(get(&handler, "/none/", &[]).await.status, 404);
    });
}

#[test]
fn a_single_page_application_gets_its_page() {
    let dir = directory(&[("index.html", "app"), ("a.js", "js")]);
    run(async {
        let root = dir.path().to_str().unwrap();
        let handler = handler(&node!({ "root": root, "spa": "index.html" }));
        for _ in 0..2 {
            let page = get(&handler, "/users/17", &[]).await;
            assert_eq!((page.status, page.text()), (200, "app"));
            assert_eq!(page.field("content-type"), "text/html; charset=utf-8");
        }
        let page = get(&handler, "/users/j.doe", &[("accept", "text/html")]).await;
        assert_eq!((page.text(), page.field("vary")), ("app", "Accept"));
        let gone = get(&handler, "/gone.js", &[("accept", "*/*")]).await;
        assert_eq!((gone.status, gone.field("vary")), (404, "Accept"));
        assert_eq!(get(&handler, "/a.js", &[]).await.text(), "js");
        assert_eq!(get(&handler, "/.env", &[]).await.status, 404);
        let page = get(&handler, "/x", &[]).await;
        assert_eq!(page.field("vary"), "", "whatever the client accepts");
        let etag = page.field("etag").to_owned();
        assert_eq!(get(&handler, "/y", &[("if-none-match", &etag)]).await.status, 304);
        let known = [("if-none-match", etag.as_str()), ("accept", "text/html")];
        let same = get(&handler, "/y.z", &known).await;
        assert_eq!((same.status, same.field("vary")), (304, "Accept"));
    });
}

#[test]
fn cache_control_and_types_are_settings() {
    let dir = directory(&[("a.wasm2", "w"), ("b.txt", "b")]);
    run(async {
        let root = dir.path().to_str().unwrap();
        let handler = handler(&node!({
            "root": root,
            "cache_control": "public, max-age=60",
            "types": { "wasm2": "application/x-wasm2", "txt": "text/markdown" }
        }));
        let first = get(&handler, "/a.wasm2", &[]).await;
        assert_eq!(first.field("content-type"), "application/x-wasm2");
        assert_eq!(first.field("cache-control"), "public, max-age=60");
        let second = get(&handler, "/b.txt", &[]).await;
        assert_eq!(second.field("content-type"), "text/markdown; charset=utf-8");
        let same = [("if-none-match", second.field("etag"))];
        assert_eq!(
            get(&handler, "/b.txt", &same).await.field("cache-control"),
            "public, max-age=60"
        );
    });
}

#[test]
fn errors_are_named() {
    let dir = directory(&[("a", "")]);
    let root = dir.path().to_str().unwrap();
    let file = format!("{root}/a");
    let read = |node: &Node| {
        let mut report = Report::new();
        let plan = (crate::KIND.read)(node, &mut Reader::new(&mut report));
        assert!(plan.is_none() || !report.is_empty());
        report.render()
    };
    for (settings, why) in [
        (node!("none/such"), "there is no directory none/such"),
        (node!((file)), "there is no directory"),
        (node!({ "root": root, "index": ["../x"] }), "an index is a file name"),
        (node!({ "root": root, "spa": "/index.html" }), "not a path inside"),
        (node!({ "root": root, "precompressed": ["br", "br"] }), "twice"),
        (node!({ "root": root, "precompressed": ["lz4"] }), "lz4"),
        (node!({ "root": root, "cache_control": "" }), "value of a header"),
        (node!({ "root": root, "types": { ".x": "a/b" } }), "without its dot"),
        (node!({ "root": root, "types": { "x": "ab" } }), "not a media type"),
        (node!({ "root": root, "symlinks": "always" }), "always"),
        (node!({ "root": root, "listings": true }), "\"listing\"?"),
    ] {
        let report = read(&settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    assert_eq!(
        Files::read(&at(&dir), &mut Reader::new(&mut Report::new())).unwrap().root,
        settings::FilePath::new(Path::new(root))
    );
}
