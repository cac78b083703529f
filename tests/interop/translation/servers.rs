//! Odd requests of HTTP/1.1, and what servers of HTTP/2 read of what Tidegate forwards.

use super::{Recorder, node, start};
use crate::tools::{go_program, has, nginx, proxy};
use scenarios::{Http2Peer, Http2Request, HttpResponse, Upstream};
use tempfile::TempDir;
use wire::h2::{Config, Event};

/// A request, and what a server reads: the method, path and authority, the fields in their order,
/// the content, and the trailers. A number is the status of a response of our own.
const ROWS: &[(&str, &str)] = &[
    ("GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a?b=c a"),
    ("GET //b/../c?d#e HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET //b/../c?d HTTP/1.1\r\nHost: a\r\n\r\n", "GET /c?d a"),
    ("GET http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /c b"),
    ("GET http://b:81 HTTP/1.1\r\nHost: a\r\n\r\n", "GET / b:81"),
    ("GET http://u@b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS /x a"),
    ("PURGE / HTTP/1.1\r\nHost: a\r\n\r\n", "PURGE / a"),
    ("M-SEARCH / HTTP/1.1\r\nHost: A.Example:80\r\n\r\n", "M-SEARCH / A.Example:80"),
    ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / a"),
    ("get / HTTP/1.1\r\nHost: a\r\n\r\n", "501"),
    ("GET /a%2Fb%2e%41;c='d'?e=%zz&f=+ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /%2e%2e/%2E./a/./b/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a/b/ a"),
    ("GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /a%0d%0ab:c HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "GET /? a"),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "204"),
    ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "501"),
    ("GET ftp://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    // Hosts.
    ("GET / HTTP/1.1\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "GET / a:"),
    ("GET / HTTP/1.1\r\nHost: a:70000\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET / [::1]:80"),
    ("GET / HTTP/1.1\r\nHost: a.\r\n\r\n", "GET / a."),
    ("GET / HTTP/1.0\r\n\r\n", "GET / SERVER"),
    // Pseudo-header fields are not fields of HTTP/1.1.
    ("GET / HTTP/1.1\r\nHost: a\r\n:path: /b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\n:authority: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nx:path: /b\r\n\r\n", "GET / a|x: path: /b"),
    ("GET / HTTP/1.1\r\n:authority: b\r\n\r\n", "400"),
    // RFC 9113 8.2.1: names are in lower case.
    ("GET / HTTP/1.1\r\nHost: a\r\nX-MiXed: Value\r\n\r\n", "GET / a|x-mixed: Value"),
    ("GET / HTTP/1.1\r\nHOST: a\r\nACCEPT: x\r\n\r\n", "GET / a|accept: x"),
    ("GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+.^`|~-9: b\r\n\r\n", "GET / a|!#$%&'*+.^`|~-9: b"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \t b\tc \t\r\n\r\n", "GET / a|x: b\tc"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", "GET / a|x: "),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\nX: c\r\n\r\n", "GET / a|x: b|x: c"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\nb: c\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{e4}\r\n\r\n", "GET / a|x: \u{e4}"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX_y: b\r\n\r\n", "GET / a|x_y: b"),
    // RFC 9113 8.2.2: nothing of the connection is forwarded, nor what it names.
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Own\r\nX-Own: b\r\n\r\n", "GET / a"),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\r\n", "GET / a"),
    ("GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n", "GET / a"),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "GET / a",
    ),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n", "GET / a|te: trailers"),
    ("GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=0.5\r\n\r\n", "GET / a"),
    ("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1; b=2\r\n\r\n", "GET / a|cookie: a=1; b=2"),
    ("GET / HTTP/1.1\r\nHost: a\r\nCookie: c=3\r\nCookie: d=4\r\n\r\n", "GET / a|cookie: c=3; d=4"),
    ("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers, deflate\r\n\r\n", "GET / a|te: trailers"),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Host\r\n\r\n", "GET / a"),
    ("GET / HTTP/1.1\r\nHost: a\r\nTrailer: x\r\n\r\n", "GET / a"),
    ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n", "GET / a"),
    // Framing.
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", "GET / a|content-length: 2|hi"),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "GET / a|content-length: 0"),
    ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / a|content-length: 0"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 02\r\n\r\nhi", "POST / a|content-length: 2|hi"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\nhi", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\nhi", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "400"),
    ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / a"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n02\r\nhi\r\n00\r\n\r\n",
        "POST / a|hi",
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\nhi\n0\n\n", "400"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n",
        "400",
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", "POST / a|content-length: 2|hi"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST / a|content-length: 0"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         2;x=y\r\nhi\r\n1\r\n!\r\n0\r\n\r\n",
        "POST / a|hi!",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nhi\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\nHost: b\r\n\r\n",
        "POST / a|hi|x-sum: 7",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n",
        "400",
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "400"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nhi\r\n0\r\n:path: /b\r\n\r\n",
        "400",
    ),
    // Content may look like frames.
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n\0\0\0\x07\x01\0\0\0\x01",
        "POST / a|content-length: 9|\0\0\0\x07\x01\0\0\0\x01",
    ),
];

/// What programs make of what arrived, where that differs: the program, what arrived, and what it
/// says.
const UNLIKE: &[(&str, &str, &str)] = &[
    // Go reads only the trailers that the field Trailer names, which is not forwarded.
    ("go", "POST / a|hi|x-sum: 7", "POST / a|hi"),
    // RFC 9113 8.2.3: cookies may come as several fields, which only Node shows as they are.
    ("node", "GET / a|cookie: c=3; d=4", "GET / a|cookie: c=3|cookie: d=4"),
    // Node takes bytes for Latin-1.
    ("node", "GET / a|x: \u{e4}", "GET / a|x: \u{c3}\u{a4}"),
    // nginx reads a request before it forwards it with its length, and not its trailers: version
    // 1.22 ends the connection at them.
    ("nginx", "POST / a", "POST / a|content-length: 0"),
    ("nginx", "POST / a|hi", "POST / a|content-length: 2|hi"),
    ("nginx", "POST / a|hi!", "POST / a|content-length: 3|hi!"),
    ("nginx", "POST / a|hi|x-sum: 7", "502"),
    ("nginx", "GET / a|te: trailers", "GET / a"),
    // The name has the character that separates fields here.
    ("nginx", "GET / a|!#$%&'*+.^`|~-9: b", "GET / a|~-9: b|!#$%&'*+.^`"),
];

/// What a gateway adds to every request.
fn is_added(name: &str) -> bool {
    name == "via" || name.starts_with("x-forwarded-")
}

/// Sends every row through a gateway in front of this server; `read` says what that has read of a
/// request that it has responded to.
fn read_by(name: &str, server: &str, read: impl Fn(&HttpResponse) -> String) {
    let gateway = proxy(&format!("h2c://{server}"));
    let mut wrong = Vec::new();
    let large = format!("X-Large: {}\r\n", "x".repeat(20_000));
    let mut rows: Vec<(String, String)> =
        ROWS.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    // More than fits into one frame of headers.
    rows.push((
        format!("GET / HTTP/1.1\r\nHost: a\r\n{large}\r\n"),
        format!("GET / a|{}", large.trim_end().to_lowercase()),
    ));
    for (request, expected) in rows {
        let response = gateway.exchange("web", &request);
        let read = match response.status {
            200 => read(&response),
            status => status.to_string(),
        };
        if read != by_this(name, server, &expected) {
            wrong.push(format!("{request:?}\n  {name}: {read:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// What this server makes of a request that arrives like this. `SERVER` is what it listens on.
fn by_this(name: &str, server: &str, expected: &str) -> String {
    let unlike = UNLIKE.iter().find(|row| row.0 == name && row.1 == expected);
    let host = if server.starts_with("unix:") { "localhost" } else { server };
    unlike.map_or(expected, |row| row.2).replace("SERVER", host)
}

/// The lines of a server: the request, then marked fields in any order, then all else.
fn sorted(text: &str) -> String {
    let (line, rest) = text.split_once('\u{1e}').unwrap_or((text, ""));
    let (fields, content) = rest.split_once('\u{1d}').unwrap_or((rest, ""));
    let mut shown: Vec<&str> = fields.split('\u{1e}').collect();
    shown.retain(|field| field.split_once(": ").is_some_and(|(name, _)| !is_added(name)));
    shown.sort_unstable();
    shown.insert(0, line);
    shown.extend(content.split('\u{1d}').filter(|part| !part.is_empty()));
    shown.join("|")
}

/// What was read; `None` if the gateway has reset the stream.
fn describe(peer: &mut Http2Peer<'_>, request: &Http2Request) -> Option<String> {
    let authority = request.field("host").unwrap_or("none");
    let mut text = format!("{} {} {authority}\u{1e}", request.method, request.path);
    for (name, value) in request.fields.iter().filter(|field| field.0 != "host") {
        text.push_str(&format!("{name}: {value}\u{1e}"));
    }
    text.push('\u{1d}');
    let mut is_whole = request.ends;
    while !is_whole {
        match peer.event()? {
            Event::Data { data, ends, .. } => {
                text.push_str(&String::from_utf8_lossy(&data));
                is_whole = ends;
            }
            Event::Trailers { .. } => {
                let trailers = String::from_utf8_lossy(&peer.protocol.fields().text).into_owned();
                text.push('\u{1d}');
                text.push_str(&trailers.replace("\r\n", "\u{1d}"));
                is_whole = true;
            }
            Event::Reset { .. } => return None,
            _ => {}
        }
    }
    Some(text)
}

#[test]
fn requests_of_http_1_1_arrive_at_a_server_of_http_2() {
    let upstream = Upstream::http2(Config::default(), |peer| {
        while let Some(request) = peer.request() {
            if let Some(text) = describe(peer, &request) {
                peer.respond(request.stream, text);
            }
        }
    });
    read_by("recorder", &upstream.address().to_string(), |response| sorted(&response.text()));
}

#[test]
fn go_reads_what_was_forwarded_over_http_2() {
    if !has("go") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let mut program = go_program(directory.path(), include_str!("server.go"));
    let (_process, address) = start(&mut program);
    read_by("go", &address.to_string(), |response| sorted(&response.text()));
}

#[test]
fn node_reads_what_was_forwarded_over_http_2() {
    if !has("node") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let mut program = node(directory.path(), include_str!("server.js"));
    let (_process, address) = start(&mut program);
    read_by("node", &address.to_string(), |response| sorted(&response.text()));
}

const NGINX: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 64; }
http {
  access_log off; large_client_header_buffers 4 32k; ignore_invalid_headers off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:nginx.sock http2;
    location / {
      proxy_pass http://RECORDER; proxy_http_version 1.1;
      proxy_set_header Host $http_host; proxy_set_header Connection '';
    }
  }
}
";

#[test]
fn nginx_forwards_what_was_forwarded_over_http_2() {
    if !has("nginx") {
        return;
    }
    let (recorder, upstream) = Recorder::start();
    let directory = TempDir::new().expect("a temporary directory");
    let config = NGINX.replace("RECORDER", &upstream.address().to_string());
    let (_process, address) = nginx(&directory, &config, "text");
    read_by("nginx", &address, |_| {
        let requests = recorder.take();
        requests.iter().map(|request| recorded(request)).collect::<Vec<_>>().join(" and ")
    });
}

/// A recorded request in the form of the table.
fn recorded(request: &str) -> String {
    let (line, rest) = request.split_once(" HTTP/1.1|host: ").unwrap_or((request, ""));
    let mut parts: Vec<&str> = rest.split('|').collect();
    let host = parts.remove(0);
    let (mut fields, content): (Vec<&str>, Vec<&str>) = parts
        .into_iter()
        .filter(|part| !part.starts_with("via: "))
        .partition(|part| part.contains(": "));
    fields.sort_unstable();
    let first = format!("{line} {host}");
    [vec![&*first], fields, content].concat().join("|")
}
