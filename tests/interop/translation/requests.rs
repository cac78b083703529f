//! Odd requests of HTTP/2, and what Tidegate does with them.

/// What Tidegate does with a request.
#[derive(Debug)]
pub(super) enum Decision {
    /// Forwards it as exactly this: lines and content, without what is added to every request.
    Forwards(&'static str),
    /// Responds by itself.
    Responds(u16),
    /// Resets the stream.
    Resets,
}

use Decision::{Forwards, Resets, Responds};

#[derive(Debug)]
pub(super) struct Row {
    pub(super) fields: Vec<(&'static str, &'static str)>,
    pub(super) content: Option<&'static str>,
    pub(super) trailers: &'static [(&'static str, &'static str)],
    pub(super) decision: Decision,
    /// The names of the servers that forward what Tidegate does not, or the reverse; with a
    /// question mark if that depends on what they see first, the content or the response of their
    /// upstream.
    pub(super) others: &'static str,
}

impl Row {
    fn content(self, content: &'static str) -> Row {
        Row { content: Some(content), ..self }
    }

    fn trailers(self, trailers: &'static [(&'static str, &'static str)]) -> Row {
        Row { trailers, ..self }
    }

    /// These servers decide differently; a comment in the table says why.
    fn unlike(self, others: &'static str) -> Row {
        Row { others, ..self }
    }
}

/// Exactly these fields.
fn exactly(fields: &[(&'static str, &'static str)], decision: Decision) -> Row {
    Row { fields: fields.to_vec(), content: None, trailers: &[], decision, others: "" }
}

/// A request with these four pseudo-header fields, and the fields after them.
fn request(
    [method, scheme, authority, path]: [&'static str; 4],
    fields: &[(&'static str, &'static str)],
    decision: Decision,
) -> Row {
    let pseudo =
        [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
    exactly(&[&pseudo[..], fields].concat(), decision)
}

fn path(path: &'static str, decision: Decision) -> Row {
    request(["GET", "http", "a", path], &[], decision)
}

fn authority(authority: &'static str, decision: Decision) -> Row {
    request(["GET", "http", authority, "/"], &[], decision)
}

fn method(method: &'static str, decision: Decision) -> Row {
    request([method, "http", "a", "/"], &[], decision)
}

fn field(name: &'static str, value: &'static str, decision: Decision) -> Row {
    request(["GET", "http", "a", "/"], &[(name, value)], decision)
}

fn fields(fields: &[(&'static str, &'static str)], decision: Decision) -> Row {
    request(["GET", "http", "a", "/"], fields, decision)
}

fn post(fields: &[(&'static str, &'static str)], decision: Decision) -> Row {
    request(["POST", "http", "a", "/"], fields, decision)
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = names_and_values();
    rows.extend(paths());
    rows.extend(authorities());
    rows.extend(pseudo_headers());
    rows.extend(connection_fields());
    rows.extend(lengths());
    rows.extend(methods_and_more());
    rows
}

const PLAIN: &str = "GET / HTTP/1.1|host: a";

fn names_and_values() -> Vec<Row> {
    vec![
        field("x", "b", Forwards("GET / HTTP/1.1|host: a|x: b")),
        field("x", "", Forwards("GET / HTTP/1.1|host: a|x: ")),
        field("x", "b\tc  d", Forwards("GET / HTTP/1.1|host: a|x: b\tc  d")),
        field("x", "\u{e9}", Forwards("GET / HTTP/1.1|host: a|x: \u{e9}")),
        field("!#$%&'*+.^`|~-9", "b", Forwards("GET / HTTP/1.1|host: a|!#$%&'*+.^`|~-9: b")),
        // Node's protocol library (nghttp2) drops an invalid field and forwards the rest of the
        // request. nginx rejects only CR, LF and NUL in values, and in names white space and
        // colons.
        field("x", "a\rb", Resets).unlike("node"),
        field("x", "a\nb", Resets).unlike("node"),
        field("x", "a\r\nsmuggled: yes", Resets).unlike("node"),
        field("x", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n", Resets).unlike("node"),
        field("x", "a\0b", Resets).unlike("node"),
        field("x", "\x01", Resets).unlike("nginx node"),
        field("x", "a\x7fb", Resets).unlike("nginx node"),
        // RFC 9113 8.2.1: malformed. Servers of HTTP/1.1 would remove the white space, and a filter
        // would have checked another value.
        field("x", " b", Resets).unlike("nginx go node"),
        field("x", "b ", Resets).unlike("nginx go node"),
        field("x", "\tb", Resets).unlike("nginx go node"),
        field("", "b", Resets).unlike("node"),
        field("x y", "b", Resets).unlike("node"),
        field("x\t", "b", Resets).unlike("node"),
        field(" x", "b", Resets).unlike("node"),
        field("x:", "b", Resets).unlike("node"),
        field("x: y\r\nz", "b", Resets).unlike("node"),
        field("x\r", "b", Resets).unlike("node"),
        field("x\n", "b", Resets).unlike("node"),
        field("x\0", "b", Resets).unlike("node"),
        field("X", "b", Resets),
        field("x\u{e9}", "b", Resets).unlike("nginx node"),
        field("x[1]", "b", Resets).unlike("nginx node"),
        field("x\"", "b", Resets).unlike("nginx node"),
    ]
}

fn paths() -> Vec<Row> {
    vec![
        path("/a?b=c", Forwards("GET /a?b=c HTTP/1.1|host: a")),
        path("/?", Forwards("GET /? HTTP/1.1|host: a")),
        path("//", Forwards("GET / HTTP/1.1|host: a")),
        path("//b/c", Forwards("GET /b/c HTTP/1.1|host: a")),
        path("/b/../c", Forwards("GET /c HTTP/1.1|host: a")),
        // RFC 3986 5.2.4 removes what is above the root; nginx rejects it.
        path("/../c", Forwards("GET /c HTTP/1.1|host: a")).unlike("nginx"),
        path("/b/%2e%2e/c", Forwards("GET /c HTTP/1.1|host: a")),
        // Programs read these paths differently (see `paths.rs`): the others forward them as they
        // are.
        path("/a%2fb", Responds(400)).unlike("nginx go node"),
        path("/a%00b", Responds(400)).unlike("go node"),
        path("/a%0d%0ab", Responds(400)).unlike("nginx go node"),
        path("/a%zz", Responds(400)).unlike("node"),
        path("/a\\b", Responds(400)).unlike("nginx go node"),
        // RFC 9113 8.3.1 has only origin-form and `*` for OPTIONS. Go accepts absolute-form and
        // `*`, and encodes or cuts off what is not part of a path.
        path("http://b/c", Resets).unlike("go"),
        path("http://a/c", Resets).unlike("go"),
        path("*", Resets).unlike("go"),
        path("", Resets),
        path("a", Resets),
        path("?a", Resets),
        path("/a#b", Resets).unlike("nginx go node"),
        path("/a b", Resets).unlike("go"),
        path("/a HTTP/1.1\r\nsmuggled: yes", Resets),
        path("/a\tb", Resets),
        path("/a\r\nb", Resets),
        path("/a\nb", Resets),
        path("/a\0b", Resets),
        path("/a\x7fb", Resets),
        path("/\u{e9}", Resets).unlike("nginx go node"),
    ]
}

fn authorities() -> Vec<Row> {
    vec![
        authority("a:80", Forwards("GET / HTTP/1.1|host: a:80")),
        authority("A.Example", Forwards("GET / HTTP/1.1|host: A.Example")),
        authority("[::1]:8080", Forwards("GET / HTTP/1.1|host: [::1]:8080")),
        // Go replaces an empty or missing host; what is not a host[:port] is forwarded by some as
        // it is.
        authority("", Resets).unlike("go"),
        authority("u@a", Resets).unlike("nginx node"),
        authority("u:p@a", Resets).unlike("nginx node"),
        authority("a:", Forwards("GET / HTTP/1.1|host: a:")),
        authority(":80", Resets).unlike("go node"),
        authority("a:65536", Resets).unlike("nginx go node"),
        authority("a:b", Resets).unlike("nginx go node"),
        authority("a/b", Resets).unlike("go"),
        authority("a?b", Resets).unlike("nginx go"),
        authority("a b", Resets).unlike("go"),
        authority("a, b", Resets).unlike("go"),
        authority("a\\b", Resets).unlike("nginx go"),
        authority("a%00", Resets).unlike("nginx go node"),
        authority("a\r\nsmuggled: yes", Resets),
        authority("[::1", Resets).unlike("nginx go node"),
        // RFC 9113 8.3.1: Host may repeat `:authority`, and must not differ. nginx 1.22 takes both
        // for two hosts; Go and Node prefer one.
        field("host", "a", Forwards(PLAIN)).unlike("nginx"),
        field("host", "A", Forwards(PLAIN)).unlike("nginx"),
        field("host", "b", Resets).unlike("go node"),
        field("host", "a:80", Resets).unlike("go node"),
        field("host", "", Resets).unlike("go"),
        fields(&[("host", "a"), ("host", "a")], Resets).unlike("go"),
        exactly(
            &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "b")],
            Forwards("GET / HTTP/1.1|host: b"),
        ),
        exactly(&[(":method", "GET"), (":scheme", "http"), (":path", "/")], Resets).unlike("go"),
        exactly(
            &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a/b")],
            Resets,
        )
        .unlike("go"),
    ]
}

fn pseudo_headers() -> Vec<Row> {
    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    let with = |more: (&'static str, &'static str), decision| {
        exactly(&[&GET[..], &[more]].concat(), decision)
    };
    vec![
        exactly(&GET, Forwards(PLAIN)),
        exactly(&[GET[3], GET[2], GET[1], GET[0]], Forwards(PLAIN)),
        with((":method", "GET"), Resets),
        with((":scheme", "http"), Resets),
        with((":authority", "a"), Resets),
        with((":path", "/"), Resets),
        with((":path", "/b"), Resets),
        with((":status", "200"), Resets),
        with((":x", "b"), Resets),
        with((":", "b"), Resets),
        with((":protocol", "websocket"), Resets),
        // nginx does not check the order.
        exactly(&[GET[0], GET[1], GET[2], ("x", "b"), GET[3]], Resets).unlike("nginx"),
        exactly(&[("x", "b"), GET[0], GET[1], GET[2], GET[3]], Resets).unlike("nginx"),
        exactly(&[GET[1], GET[2], GET[3]], Resets),
        exactly(&[GET[0], GET[2], GET[3]], Resets),
        exactly(&[GET[0], GET[1], GET[2]], Resets),
        exactly(&[], Resets),
        request(["GET", "https", "a", "/"], &[], Forwards(PLAIN)),
        // The scheme is part of no forwarded request; nginx and Node do not read it.
        request(["GET", "ftp", "a", "/"], &[], Resets).unlike("nginx node"),
        request(["GET", "HTTP", "a", "/"], &[], Resets).unlike("nginx node"),
        request(["GET", "http://b/?", "a", "/"], &[], Resets),
        request(["GET", "", "a", "/"], &[], Resets),
    ]
}

fn connection_fields() -> Vec<Row> {
    vec![
        // RFC 9113 8.2.2: malformed. nginx ignores them.
        field("connection", "close", Resets).unlike("nginx"),
        field("connection", "x", Resets).unlike("nginx"),
        field("keep-alive", "5", Resets).unlike("nginx"),
        field("proxy-connection", "close", Resets).unlike("nginx"),
        field("transfer-encoding", "chunked", Resets).unlike("nginx"),
        field("transfer-encoding", "identity", Resets),
        field("upgrade", "h2c", Resets).unlike("nginx"),
        field("upgrade", "websocket", Resets).unlike("nginx"),
        field("http2-settings", "AAMAAABkAAQAAP__", Forwards(PLAIN)),
        field("te", "trailers", Forwards("GET / HTTP/1.1|host: a|te: trailers|connection: TE")),
        field("te", "gzip", Resets).unlike("nginx"),
        field("te", "trailers, gzip", Resets).unlike("nginx"),
        // Other spellings of fields that frame messages.
        field("transfer_encoding", "chunked", Resets).unlike("nginx go node"),
        field("content_length", "5", Resets).unlike("nginx go node"),
        field("transfer-encoding ", "chunked", Resets).unlike("node"),
        field("trailer", "x", Forwards(PLAIN)),
        // Fields that only proxies may state.
        field("x-forwarded-for", "6.6.6.6", Forwards(PLAIN)),
        field("forwarded", "for=6.6.6.6", Forwards(PLAIN)),
        field("proxy", "http://b", Forwards(PLAIN)),
        // RFC 9110 10.1.1 allows to ignore it.
        field("expect", "200-ok", Responds(417)).unlike("nginx go node"),
    ]
}

fn lengths() -> Vec<Row> {
    const WHOLE: &str = "POST / HTTP/1.1|host: a|content-length: 5|hello";
    vec![
        post(&[("content-length", "5")], Forwards(WHOLE)).content("hello"),
        post(&[], Forwards("POST / HTTP/1.1|host: a|transfer-encoding: chunked|hello"))
            .content("hello"),
        post(&[], Forwards("POST / HTTP/1.1|host: a|content-length: 0")),
        post(&[("content-length", "0")], Forwards("POST / HTTP/1.1|host: a|content-length: 0")),
        post(&[("content-length", "4")], Resets).content("hello"),
        post(&[("content-length", "6")], Resets).content("hello"),
        // Go takes a length that it cannot read for 0. It forwards a request without content, and
        // may have its response before it sees DATA, with which it would reset the stream.
        post(&[("content-length", "0")], Resets).content("hello").unlike("go?"),
        // Go takes the first length, and none of a request without DATA.
        post(&[("content-length", "5")], Resets).unlike("go"),
        post(&[("content-length", "5"), ("content-length", "5")], Resets)
            .content("hello")
            .unlike("go"),
        post(&[("content-length", "5"), ("content-length", "6")], Resets)
            .content("hello")
            .unlike("go"),
        post(&[("content-length", "5, 5")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "+5")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "-5")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "0x5")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "5 ")], Resets).content("hello").unlike("go? node"),
        post(&[("content-length", "")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "18446744073709551621")], Resets).content("hello").unlike("go?"),
        post(&[("content-length", "99999999999999999999999")], Resets)
            .content("hello")
            .unlike("go?"),
        post(&[("content-length", "5"), ("transfer-encoding", "chunked")], Resets).content("hello"),
        // Content that looks like a message of HTTP/1.1 stays content.
        post(
            &[("content-length", "22")],
            Forwards("POST / HTTP/1.1|host: a|content-length: 22|0\r\n\r\nGET / HTTP/1.1\r\n\r"),
        )
        .content("0\r\n\r\nGET / HTTP/1.1\r\n\r"),
        post(
            &[],
            Forwards("POST / HTTP/1.1|host: a|transfer-encoding: chunked|0\r\n\r\nGET / HTTP/1.1"),
        )
        .content("0\r\n\r\nGET / HTTP/1.1"),
    ]
}

fn methods_and_more() -> Vec<Row> {
    const CHUNKED: &str = "POST / HTTP/1.1|host: a|transfer-encoding: chunked|hello";
    const TRAILER: &str = "POST / HTTP/1.1|host: a|transfer-encoding: chunked|hello|x-sum: 7";
    vec![
        method("PURGE", Forwards("PURGE / HTTP/1.1|host: a")),
        method("M-SEARCH", Forwards("M-SEARCH / HTTP/1.1|host: a")),
        method("HEAD", Forwards("HEAD / HTTP/1.1|host: a")),
        // Servers may take it for the registered method: nginx rejects lower case too.
        method("get", Responds(501)).unlike("go node"),
        method("Get", Responds(501)).unlike("go node"),
        method("", Resets),
        method("GET ", Resets),
        method("GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\nGET", Resets),
        method("G\tT", Resets),
        method("G(T", Resets),
        method("GET\0", Resets),
        method("PRI", Forwards("PRI / HTTP/1.1|host: a")),
        method("CONNECT", Resets),
        // Go forwards it, with `/` as its target.
        exactly(&[(":method", "CONNECT"), (":authority", "b:443")], Responds(501)).unlike("go"),
        exactly(&[(":method", "CONNECT")], Resets),
        // It is about the whole server: ours responds.
        request(["OPTIONS", "http", "a", "*"], &[], Responds(204)).unlike("node"),
        fields(
            &[("cookie", "a=1"), ("cookie", "b=2"), ("x", "y"), ("cookie", "c=3")],
            Forwards("GET / HTTP/1.1|host: a|x: y|cookie: a=1; b=2; c=3"),
        ),
        // nginx 1.22 ends the connection at trailers of a request. Go drops invalid ones, and so
        // does Node, which resets the stream of a length.
        post(&[], Forwards(TRAILER)).content("hello").trailers(&[("x-sum", "7")]).unlike("nginx"),
        post(&[], Resets).content("hello").trailers(&[(":path", "/b")]),
        post(&[], Resets).content("hello").trailers(&[("X", "7")]),
        post(&[], Resets).content("hello").trailers(&[("x", "7\r\nsmuggled: yes")]).unlike("node"),
        post(&[], Resets)
            .content("hello")
            .trailers(&[("transfer-encoding", "chunked")])
            .unlike("go"),
        post(&[], Forwards(CHUNKED))
            .content("hello")
            .trailers(&[("content-length", "9")])
            .unlike("nginx node"),
        post(&[], Forwards(CHUNKED)).content("hello").trailers(&[("host", "b")]).unlike("nginx"),
    ]
}
