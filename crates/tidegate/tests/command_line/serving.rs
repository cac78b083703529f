//! Commands that serve: they start, answer, and end as they should.

use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;

use crate::process::{Running, get, run_in, status, tidegate};

const BACKEND: &str = r#"
listeners: { backend: { bind: "127.0.0.1:0" } }
routes:
  - match: { path: "/{*rest}" }
    handler: { respond: { body: "from the backend", headers: { x-host: "{header.host}" } } }
"#;

fn up(directory: &Path, text: &str) -> Running {
    std::fs::write(directory.join("tidegate.yaml"), text).unwrap();
    Running::start(tidegate(directory, &["up", "--workers", "1"]))
}

#[test]
fn up_serves_and_ends_well_when_it_is_signalled() {
    let directory = TempDir::new().unwrap();
    let mut server = up(directory.path(), BACKEND);
    let address = server.address("backend");
    let answer = get(address, "/", "");
    assert!(status(&answer) == "200" && answer.ends_with("from the backend"), "{answer}");
    server.terminate();
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn proxy_sends_on() {
    let directory = TempDir::new().unwrap();
    let mut backend = up(directory.path(), BACKEND);
    let to = format!("http://{}", backend.address("backend"));
    let arguments = ["proxy", "127.0.0.1:0", &to, "--log-format", "text"];
    let mut proxy = Running::start(tidegate(directory.path(), &arguments));
    let address = proxy.address("proxy");
    let answer = get(address, "/any/path?a=b", "");
    assert!(status(&answer) == "200" && answer.ends_with("from the backend"), "{answer}");
    assert!(answer.contains(&format!("x-host: {address}")), "the client's Host: {answer}");
    proxy.line(|line| line.starts_with(&format!("http://{address} -> ")).then_some(()));
}

#[test]
fn proxy_says_what_it_cannot() {
    let directory = TempDir::new().unwrap();
    let refused = |to: &str| run_in(directory.path(), &["proxy", ":0", to]).failed(2);
    assert!(refused("ftp://example.com").contains("a scheme other than http, https and h2c"));
    assert!(refused("https://example.com/api").contains("more than a host and a port"));
    let why = run_in(directory.path(), &["proxy", "example.com:80", "127.0.0.1:1"]).failed(2);
    assert!(why.contains("bound to an address"), "{why}");
}

#[test]
fn files_serves_a_directory() {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("site")).unwrap();
    std::fs::write(directory.path().join("site/a.txt"), "text").unwrap();
    std::fs::write(directory.path().join("site/app.html"), "<p>app").unwrap();
    let start = |more: &[&str]| {
        let arguments = [&["files", "site", "--bind", "127.0.0.1:0"], more].concat();
        Running::start(tidegate(directory.path(), &arguments))
    };
    let mut plain = start(&[]);
    let address = plain.address("files");
    let answer = get(address, "/a.txt", "");
    assert!(status(&answer) == "200" && answer.ends_with("\r\n\r\ntext"), "{answer}");
    assert_eq!(status(&get(address, "/", "")), "404");
    assert_ne!(status(&get(address, "/../tidegate.yaml", "")), "200");

    let mut listed = start(&["--listing"]);
    let answer = get(listed.address("files"), "/", "Accept: text/html\r\n");
    assert!(status(&answer) == "200" && answer.contains("a.txt"), "{answer}");

    let mut spa = start(&["--spa", "app.html"]);
    let answer = get(spa.address("files"), "/some/route", "Accept: text/html\r\n");
    assert!(status(&answer) == "200" && answer.ends_with("<p>app"), "{answer}");
}

#[test]
fn files_rejects_a_path_that_is_not_a_directory() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("a.txt"), "").unwrap();
    let why = run_in(directory.path(), &["files", "none"]).failed(2);
    assert!(why.starts_with("error: cannot serve none: No such file"), "{why}");
    let why = run_in(directory.path(), &["files", "a.txt"]).failed(2);
    assert_eq!(why, "error: a.txt is not a directory\n");
}

#[test]
fn an_address_in_use_is_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = TempDir::new().unwrap();
    let why = run_in(directory.path(), &["files", ".", "--bind", &address]).failed(1);
    assert!(why.contains(&format!("cannot listen on {address}: the address is in use")), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
}

/// A terminal that is stopped, a collector of logs that hangs.
#[test]
fn an_unread_log_stops_neither_requests_nor_the_shutdown() {
    let directory = TempDir::new().unwrap();
    let (unread, mut full) = std::io::pipe().unwrap();
    let mut command = tidegate(directory.path(), &["files", ".", "--bind", "127.0.0.1:0"]);
    command.stderr(full.try_clone().unwrap());
    // Ends when the pipe has no reader any more.
    let filling = std::thread::spawn(move || {
        use std::io::Write;
        while full.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let mut server = Running::with_stderr(command);
    let address = server.line(|line| line.rsplit_once("http://")?.1.parse().ok());
    for _ in 0..20 {
        assert_eq!(status(&get(address, "/bad\u{1}", "")), "400");
    }
    assert_eq!(status(&get(address, "/none", "")), "404");
    server.terminate();
    assert_eq!(server.end().0, Some(0));
    drop(unread);
    filling.join().unwrap();
}
