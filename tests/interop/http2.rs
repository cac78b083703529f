//! HTTP/2 with clients of others: h2spec, curl, nghttp, h2load and Python's httpx.

use crate::tools::{has, run, skip};
use scenarios::{Authority, Exit, Launch, Process, Tidegate, command_exists};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What scripts/prepare has installed for this repository; a program of the machine otherwise.
fn prepared(path: &str) -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools").join(path);
    if installed.is_file() {
        return Some(installed);
    }
    let name = installed.file_name().and_then(|name| name.to_str())?;
    let found = command_exists(name).then(|| PathBuf::from(name));
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// A server in the clear for both versions, one for HTTP/2 only, and one with TLS.
fn start() -> Tidegate {
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    let config = r#"
workers: 1
listeners:
  web: { bind: "127.0.0.1:0" }
  http2: { bind: "127.0.0.1:0", protocols: [h2] }
  secure: { bind: "127.0.0.1:0", tls: { certificates: [{ cert: a.pem, key: a.key }] } }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { path: "/files/{*file}" }
    handler: { files: { root: . } }
  - match: { path: "/{*rest}" }
    handler: { respond: { body: hello } }
"#;
    Launch::new(config)
        .file("a.pem", issued.chain)
        .file("a.key", issued.key)
        .file("ca.pem", authority.pem())
        .file("files/page.txt", "x".repeat(300_000))
        .start()
}

fn h2spec(program: &Path, server: &Tidegate, listener: &str, more: &[&str]) -> Exit {
    let port = server.address(listener).port().to_string();
    let mut command = Command::new(program);
    // A machine three times slower passes too: the time is of each case, and only of failures.
    Process::run(command.args(["-h", "127.0.0.1", "-p", &port, "-o", "10"]).args(more))
}

/// Bytes that are not a preface get a response of HTTP/1.1 where the listener has both versions,
/// which h2spec does not expect: so it is run where HTTP/2 is certain.
#[test]
fn h2spec_finds_no_failure() {
    let Some(program) = prepared("bin/h2spec") else { return };
    let server = start();
    for (listener, more) in [("http2", &[][..]), ("secure", &["-t", "-k"])] {
        let exit = h2spec(&program, &server, listener, more);
        let total = exit.stdout.lines().rev().find(|line| line.contains(" tests, "));
        let total = total.unwrap_or_else(|| panic!("{exit:?}"));
        assert!(total.contains("145 passed, 0 skipped, 0 failed"), "{listener}: {}", exit.stdout);
    }
}

#[test]
fn curl_negotiates_http2_and_shares_its_connection() {
    if !has("curl") {
        return;
    }
    let server = start();
    let url = format!("https://localhost:{}", server.address("secure").port());
    let (page, other) = (format!("{url}/files/page.txt"), format!("{url}/other"));
    let ca = server.path("ca.pem").display().to_string();
    let told = "%{http_version} %{http_code} %{num_connects} %{size_download}\n";
    let arguments =
        ["-sS", "--max-time", "40", "--cacert", &ca, "-w", told, "-o", "a", "-o", "b", &page];
    let directory = server.path("");
    let exit = run("curl", &directory, &[&arguments[..], &[&other]].concat());
    assert_eq!(exit.stdout, "2 200 1 300000\n2 200 0 5\n", "{exit:?}");
}

#[test]
fn nghttp_fetches_several_streams() {
    if !has("nghttp") {
        return;
    }
    let server = start();
    let url = |path: &str| format!("http://{}{path}", server.address("web"));
    let directory = server.path("");
    let urls = [url("/files/page.txt"), url("/a"), url("/b")];
    let mut arguments = vec!["--stat", "--null-out", "--no-dep", "--timeout=40s"];
    arguments.extend(urls.iter().map(String::as_str));
    let exit = run("nghttp", &directory, &arguments);
    assert_eq!(exit.stdout.matches(" 200 ").count(), 3, "{exit:?}");
}

#[test]
fn h2load_has_every_response() {
    if !has("h2load") {
        return;
    }
    let server = start();
    let (clear, secure) = (server.address("web"), server.address("secure"));
    for url in [format!("http://{clear}/"), format!("https://{secure}/files/page.txt")] {
        let arguments = ["-n", "300", "-c", "5", "-m", "20", &url];
        let exit = run("h2load", &server.path(""), &arguments);
        let all = "300 succeeded, 0 failed, 0 errored, 0 timeout";
        assert!(exit.stdout.contains(all), "{exit:?}");
    }
    // Nothing of them stays.
    scenarios::eventually("no request is in flight", || {
        server.metrics().sum("tidegate_requests_in_flight", &[]) == 0.0
    });
}

const HTTPX: &str = r#"
import sys, httpx
with httpx.Client(http2=True, verify=sys.argv[2], timeout=40) as client:
    for method, path in [("GET", "/a"), ("POST", "/b"), ("HEAD", "/c"), ("GET", "/files/page.txt")]:
        content = b"x" * 200000 if method == "POST" else None
        response = client.request(method, sys.argv[1] + path, content=content)
        print(response.http_version, response.status_code, len(response.content))
"#;

#[test]
fn httpx_sends_and_receives_content() {
    let Some(python) = prepared("venv/bin/python") else { return };
    let imports = Process::run(Command::new(&python).args(["-c", "import httpx, h2"]));
    if imports.code != Some(0) {
        return skip("httpx[http2] is not installed");
    }
    let server = start();
    let url = format!("https://localhost:{}", server.address("secure").port());
    let ca = server.path("ca.pem").display().to_string();
    let exit = Process::run(Command::new(&python).args(["-c", HTTPX, &url, &ca]));
    let expected = "HTTP/2 200 5\nHTTP/2 200 5\nHTTP/2 200 0\nHTTP/2 200 300000\n";
    assert_eq!(exit.stdout, expected, "{exit:?}");
}
