//! ab: HTTP/1.0 with and without keep-alive.

use crate::tools::{assert_served, gateway, has, proxy, run};
use scenarios::{Tidegate, Upstream};
use std::fs;
use tempfile::TempDir;

const REQUESTS: &str = "500";

fn load(server: &Tidegate, arguments: &[&str]) -> String {
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("body"), vec![b'x'; 3000]).expect("a file");
    let url = format!("http://{}/", server.address("web"));
    let all: Vec<_> =
        ["-q", "-n", REQUESTS, "-c", "8"].iter().chain(arguments).copied().chain([&*url]).collect();
    let output = run("ab", directory.path(), &all).stdout;
    let line = |name: &str| {
        let found = output.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {output}")).trim().to_owned()
    };
    assert_eq!(
        (line("Complete requests:"), line("Failed requests:")),
        (REQUESTS.into(), "0".into())
    );
    assert!(!output.contains("Non-2xx"), "{output}");
    output
}

#[test]
fn respond_and_proxy_handle_every_request() {
    if !has("ab") {
        return;
    }
    let hello =
        gateway("routes: [{ match: { path: / }, handler: { respond: { body: Hello } } }]\n");
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            if head.starts_with("POST") {
                peer.read_exactly(3000);
            }
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let proxy = proxy(&upstream.address().to_string());
    for server in [&hello, &proxy] {
        load(server, &[]);
        let output = load(server, &["-k"]);
        let kept = output
            .lines()
            .any(|line| line.starts_with("Keep-Alive requests:") && line.ends_with(REQUESTS));
        assert!(kept, "{output}");
        assert_served(server, 1000.0);
    }
    load(&proxy, &["-k", "-p", "body", "-T", "text/plain"]);
    assert_served(&proxy, 1500.0);
}
