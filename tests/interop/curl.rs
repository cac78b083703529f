//! curl: the most common command-line client.

use crate::tools::{gateway, has, long_text, proxy, run, skip};
use scenarios::{Launch, Tidegate, Upstream};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const PONG: &str = r#"
routes: [{ name: pong, match: { path: "/pong" }, handler: { respond: { body: "pong" } } }]
"#;

fn url(server: &Tidegate, path: &str) -> String {
    format!("http://{}{path}", server.address("web"))
}

/// Runs curl silently, except for errors; what it wrote.
fn curl(directory: &Path, arguments: &[&str]) -> String {
    let all: Vec<_> = ["-sS", "--max-time", "50"].iter().chain(arguments).copied().collect();
    run("curl", directory, &all).stdout
}

/// Whether this curl was built with `feature`.
fn can(feature: &str) -> bool {
    let version = curl(Path::new("/"), &["--version"]);
    let features = version.lines().find(|line| line.starts_with("Features:"));
    let can = features.is_some_and(|line| line.split(' ').any(|word| word == feature));
    if !can {
        skip(&format!("this curl has no {feature}"));
    }
    can
}

#[test]
fn versions_and_connections() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = gateway(PONG);
    let pong = url(&server, "/pong");
    let told = "%{http_version} %{http_code} %{num_connects}\n";
    let responses = curl(directory.path(), &["-w", told, &pong, &pong, &pong]);
    assert_eq!(responses, "pong1.1 200 1\npong1.1 200 0\npong1.1 200 0\n");
    // We always speak HTTP/1.1 (RFC 9110 6.2), and close unless HTTP/1.0 asks us not to.
    let responses = curl(directory.path(), &["--http1.0", "-w", told, &pong, &pong]);
    assert_eq!(responses, "pong1.1 200 1\npong1.1 200 1\n");
    let keep = ["--http1.0", "-H", "Connection: keep-alive", "-w", told, &pong, &pong];
    assert_eq!(curl(directory.path(), &keep), "pong1.1 200 1\npong1.1 200 0\n");
    if can("HTTP2") {
        // An offer to speak HTTP/2 in the clear is ignored (RFC 9113 3.1) and harmless.
        let responses = curl(directory.path(), &["--http2", "-w", told, &pong]);
        assert_eq!(responses, "pong1.1 200 1\n");
    }
    let responses = curl(directory.path(), &["-I", "-w", told, &pong, &pong]);
    assert_eq!(responses.matches("Content-Length: 4\r\n").count(), 2, "{responses}");
    assert!(responses.ends_with("1.1 200 0\n"), "{responses}");
}

#[test]
fn requests_in_the_form_for_proxies_are_understood() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = gateway(PONG);
    let proxy = url(&server, "");
    // The absolute form of a target (RFC 9112 3.2.2).
    let response = curl(directory.path(), &["-x", &proxy, "http://shop.example/pong"]);
    assert_eq!(response, "pong");
    let status = ["-x", &proxy, "-p", "-o", "out", "-w", "%{http_connect}", "http://a.example/"];
    let mut all = vec!["-s", "--max-time", "50"];
    all.extend(status);
    let exit = scenarios::Process::run(crate::tools::command("curl", directory.path()).args(&all));
    assert_eq!(exit.stdout, "501", "{exit:?}");
}

/// Answers every request with the length of its body, after the whole of it has come.
fn measuring() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1);
            let body = match length.and_then(|text| text.lines().next()?.parse().ok()) {
                Some(length) => peer.read_exactly(length),
                None => peer.read_chunks(),
            };
            assert!(body.iter().all(|byte| *byte == b'x'));
            let text = body.len().to_string();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()));
        }
    })
}

#[test]
fn uploads_wait_for_100_continue() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("two-megabytes"), vec![b'x'; 2 << 20]).expect("a file");
    let upstream = measuring();
    let server = proxy(&upstream.address().to_string());
    let upload = url(&server, "/upload");
    for framing in ["X-None: 1", "Transfer-Encoding: chunked"] {
        let all = [
            "-sSv",
            "--max-time",
            "50",
            // Longer than the test may take: only 100 makes it continue.
            "--expect100-timeout",
            "60",
            "-H",
            "Expect: 100-continue",
            "-H",
            framing,
            "-T",
            "two-megabytes",
            &upload,
        ];
        let exit = run("curl", directory.path(), &all);
        assert_eq!(exit.stdout, "2097152");
        assert!(exit.stderr.contains("< HTTP/1.1 100 Continue"), "{}", exit.stderr);
    }

    // A refusal instead: nothing is uploaded.
    let small = gateway(&format!(
        "limits: {{ body: 1MiB }}\nupstreams: {{ u: {{ servers: [\"{}\"] }} }}\n\
         routes: [{{ match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: u }} }}]\n",
        upstream.address()
    ));
    let told = "%{http_code} %{size_upload}";
    let upload = url(&small, "/upload");
    // Without a limit of its own curl would upload after a second.
    let expect = ["-H", "Expect: 100-continue", "--expect100-timeout", "60"];
    let rest = ["-T", "two-megabytes", "-o", "refusal", "-w", told, &upload];
    assert_eq!(curl(directory.path(), &[&expect[..], &rest].concat()), "413 0");
}

fn files(directory: &Path) -> Tidegate {
    let text = long_text(20_000);
    let root = directory.display();
    let config = format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
routes:
  - match: {{ path: "/plain/{{*rest}}" }}
    filters: [{{ rewrite: {{ strip_prefix: /plain }} }}]
    handler: {{ files: "{root}" }}
  - match: {{ path: "/packed/{{*rest}}" }}
    filters: [{{ rewrite: {{ strip_prefix: /packed }} }}, {{ compress: {{}} }}]
    handler: {{ files: "{root}" }}
"#
    );
    fs::write(directory.join("text.txt"), text).expect("a file");
    Launch::new(&config).start()
}

#[test]
fn ranges_and_resumed_downloads() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = files(directory.path());
    let text = long_text(20_000);
    let file = url(&server, "/plain/text.txt");
    assert_eq!(curl(directory.path(), &["-r", "10-19", &file]), &text[10..20]);
    assert_eq!(curl(directory.path(), &["-r", "-5", &file]), &text[text.len() - 5..]);
    let parts = curl(directory.path(), &["-i", "-r", "0-3,5000-5009", &file]);
    assert!(parts.contains("multipart/byteranges; boundary="), "{parts}");
    assert!(parts.contains(&text[5000..5010]) && parts.contains("Content-Range: bytes 0-3/"));
    let status = ["-r", "99999999-", "-o", "none", "-w", "%{http_code}", &file];
    assert_eq!(curl(directory.path(), &status), "416");

    fs::write(directory.path().join("part"), &text[..100_000]).expect("a file");
    let told = curl(directory.path(), &["-C", "-", "-o", "part", "-w", "%{http_code}", &file]);
    assert_eq!(told, "206");
    assert!(fs::read(directory.path().join("part")).expect("a file") == text.as_bytes());

    // Conditional: curl keeps the entity tag for the next time.
    let etag = ["--etag-save", "tag", "--etag-compare", "tag", "-o", "whole"];
    let told = ["-w", "%{http_code} %{size_download}", &file];
    let all: Vec<_> = etag.iter().chain(&told).copied().collect();
    fs::write(directory.path().join("tag"), "").expect("a file");
    assert_eq!(curl(directory.path(), &all), format!("200 {}", text.len()));
    assert_eq!(curl(directory.path(), &all), "304 0");
}

#[test]
fn compressed_responses_are_what_they_were() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let server = files(directory.path());
    let text = long_text(20_000);
    let file = url(&server, "/packed/text.txt");
    for (coding, feature) in [("gzip", "libz"), ("br", "brotli"), ("zstd", "zstd")] {
        if !can(feature) {
            continue;
        }
        let accept = format!("Accept-Encoding: {coding}");
        let all = ["--compressed", "-H", &accept, "-D", "head", "-o", "body"];
        let told = ["-w", "%{size_download}", &file];
        let all: Vec<_> = all.iter().chain(&told).copied().collect();
        let size: usize = curl(directory.path(), &all).parse().expect("a size");
        assert!(size < text.len() / 4, "{size} bytes with {coding}");
        let head = fs::read_to_string(directory.path().join("head")).expect("a head");
        assert!(head.contains(&format!("Content-Encoding: {coding}\r\n")), "{head}");
        assert!(fs::read(directory.path().join("body")).expect("a body") == text.as_bytes());
    }
    // What curl offers by itself.
    let offered = curl(directory.path(), &["--compressed", &file]);
    assert!(offered == text);
}

#[test]
fn unix_sockets() {
    if !has("curl") || !can("UnixSockets") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let socket = directory.path().join("web.sock").display().to_string();
    let config = format!("listeners: {{ web: {{ bind: \"unix:{socket}\" }} }}\n{PONG}");
    let server = Tidegate::start(&config);
    server.address_text("web");
    let all = ["--unix-socket", &socket, "http://localhost/pong"];
    assert_eq!(curl(directory.path(), &all), "pong");
}
