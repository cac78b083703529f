//! Lua filters that replace the content of an upstream.

use scenarios::{HttpResponse, Launch, Tidegate, Upstream};

/// A server whose `/x` passes the responses of an upstream through this function.
fn filtered(upstream: &Upstream, function: &str) -> Tidegate {
    let config = format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
upstreams: {{ u: {{ servers: ["{}"] }} }}
routes:
  - match: {{ path: "/x" }}
    filters: [{{ lua: f.lua }}]
    handler: {{ upstream: u }}
"#,
        upstream.address()
    );
    let filter = format!("return {{ response = function(request, response) {function} end }}");
    Launch::new(&config).file("f.lua", filter).start()
}

fn exchange(server: &Tidegate, method: &str) -> HttpResponse {
    let mut client = server.connect("web");
    client.send(format!("{method} /x HTTP/1.1\r\nhost: a\r\n\r\n"));
    if method == "HEAD" { client.read_response_to_head() } else { client.read_response() }
}

/// An upstream whose response is part of a compressed page.
fn upstream() -> Upstream {
    Upstream::start(|peer| {
        let head = peer.read_head();
        peer.send(
            "HTTP/1.1 206 Partial Content\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\
             etag: \"page\"\r\nlast-modified: Mon, 30 Nov 2026 10:00:00 GMT\r\n\
             content-range: bytes 0-5/12\r\naccept-ranges: bytes\r\ndigest: sha-256=x\r\n\
             content-digest: sha-256=:x:\r\nx-page: 1\r\nconnection: close\r\n\
             content-length: 6\r\n\r\n",
        );
        if head.starts_with("GET ") {
            peer.send("secret");
        }
    })
}

#[test]
fn replaced_content_has_its_own_fields() {
    let upstream = upstream();
    for (function, status, content_type, content) in [
        ("response:text(403, '')", 403, "text/plain; charset=utf-8", ""),
        ("response:json{ page = '<script>' }", 200, "application/json", "{\"page\":\"<script>\"}"),
        ("response:write('<p>')", 200, "text/html", "<p>"),
        ("response:finish('')", 200, "text/html", ""),
        ("response:stream() response:write('<p>')", 200, "text/html", "<p>"),
    ] {
        let server = filtered(&upstream, function);
        for method in ["GET", "HEAD"] {
            let response = exchange(&server, method);
            assert_eq!(response.status, status, "{method} {function}");
            assert_eq!(response.header("content-type"), Some(content_type), "{method} {function}");
            assert_eq!(response.header("x-page"), Some("1"), "{method} {function}");
            for gone in [
                "content-encoding",
                "etag",
                "last-modified",
                "content-range",
                "accept-ranges",
                "digest",
                "content-digest",
            ] {
                assert_eq!(response.header(gone), None, "{method} {function}");
            }
            let length = content.len().to_string();
            let sent = response.header("content-length");
            assert!(sent.is_none_or(|sent| sent == length), "{method} {function}: {sent:?}");
            let expected = if method == "GET" { content } else { "" };
            assert_eq!(response.text(), expected, "{method} {function}");
        }
    }
}

#[test]
fn what_a_filter_sets_itself_stays_and_what_it_does_not_replace() {
    let upstream = upstream();
    let own = "response.headers.etag = '\"own\"' response.headers['Content-Type'] = 'text/css'
      response.status = 206 response:text('p {}')";
    let response = exchange(&filtered(&upstream, own), "GET");
    assert_eq!((response.status, response.header("etag")), (206, Some("\"own\"")));
    assert_eq!(response.header("content-type"), Some("text/css"));
    assert_eq!((response.header("content-range"), &*response.text()), (None, "p {}"));
    let response = exchange(&filtered(&upstream, "response.headers['x-page'] = nil"), "GET");
    assert_eq!((response.status, response.header("etag")), (206, Some("\"page\"")));
    assert_eq!((response.header("x-page"), &*response.text()), (None, "secret"));
}
