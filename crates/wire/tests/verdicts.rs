//! What each malformed, ambiguous or just unusual head gets. One row per case: name, bytes, verdict.
//!
//! A verdict is `STATUS slug` of the rejection, or what was understood. Every row is also fed split at every
//! byte: a prefix never gets a head, and never another rejection than the whole.

use wire::Reject;
use wire::h1::{
    FieldSpan, Framing, HeadLimits, RequestHead, ResponseFraming, ResponseHead, parse_request,
    parse_response,
};

type Row = (&'static str, &'static str, &'static str);

/// Small enough that a row can exceed each of them.
const LIMITS: HeadLimits = HeadLimits { request_line: 100, headers: 200, header_count: 6 };

fn refused(reject: Reject) -> String {
    format!("{} {}", reject.status(), reject.slug())
}

fn request_verdict(input: &[u8]) -> String {
    match parse_request(input, &LIMITS, &mut Vec::new()) {
        Ok(None) => "more".to_owned(),
        Ok(Some(head)) => describe_request(&head, input),
        Err(reject) => refused(reject),
    }
}

fn describe_request(head: &RequestHead, input: &[u8]) -> String {
    assert!(head.len <= input.len());
    let framing = match head.framing {
        Framing::None => "none".to_owned(),
        Framing::Length(length) => format!("length={length}"),
        Framing::Chunked => "chunked".to_owned(),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let host = head.authority.map_or("-".to_owned(), |span| text(span.of(input)));
    let path = text(head.path_bytes(input));
    let query = head.query.map_or(String::new(), |span| format!("?{}", text(span.of(input))));
    let mut out = format!("{} {host} {path}{query} {framing}", head.method.as_str());
    for (flag, name) in [
        (head.keep_alive, " keep"),
        (head.expect_continue, " continue"),
        (head.upgrade, " upgrade"),
    ] {
        if flag {
            out.push_str(name);
        }
    }
    out
}

fn response_verdict(input: &[u8], to_head: bool) -> String {
    match parse_response(input, &LIMITS, &mut Vec::new(), to_head) {
        Ok(None) => "more".to_owned(),
        Ok(Some(head)) => describe_response(&head, input),
        Err(reject) => refused(reject),
    }
}

fn describe_response(head: &ResponseHead, input: &[u8]) -> String {
    assert!(head.len <= input.len());
    let framing = match head.framing {
        ResponseFraming::None => "none".to_owned(),
        ResponseFraming::Length(length) => format!("length={length}"),
        ResponseFraming::Chunked => "chunked".to_owned(),
        ResponseFraming::UntilClose => "until-close".to_owned(),
    };
    let keep = if head.keep_alive { " keep" } else { "" };
    let upgrade = if head.upgrade { " upgrade" } else { "" };
    format!("{} {framing}{keep}{upgrade}", head.status)
}

/// The verdict of the whole, with anything behind it, and of every prefix.
fn check(name: &str, input: &[u8], expected: &str, verdict: impl Fn(&[u8]) -> String) {
    assert_eq!(verdict(input), expected, "{name}");
    let rejected = Reject::ALL.iter().any(|&reject| refused(reject) == expected);
    let head = input.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
    let len = if rejected { input.len() } else { head.unwrap_or(input.len()) };
    for end in 0..len {
        let found = verdict(&input[..end]);
        assert!(
            found == "more" || (rejected && found == expected),
            "{name}: the first {end} bytes get {found}, the whole {expected}"
        );
    }
    if expected != "more" {
        for behind in ["\r\n", "\n", " ", "GET /next HTTP/1.1\r\nHost: b\r\n\r\n", "\0\u{1}"] {
            let longer = [input, behind.as_bytes()].concat();
            assert_eq!(verdict(&longer), expected, "{name}, followed by {behind:?}");
        }
    }
}

#[test]
fn requests() {
    assert!(REQUESTS.len() >= 80, "only {} rows", REQUESTS.len());
    for (name, input, expected) in REQUESTS {
        check(name, input.as_bytes(), expected, request_verdict);
    }
}

#[test]
fn responses() {
    assert!(RESPONSES.len() >= 40, "only {} rows", RESPONSES.len());
    for (name, input, expected) in RESPONSES {
        let to_head = name.starts_with("HEAD");
        check(name, input.as_bytes(), expected, |input| response_verdict(input, to_head));
    }
}

#[test]
fn bytes_above_ascii() {
    let table: [(&[u8], &str); 4] = [
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", "400 invalid_host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\xff: b\r\n\r\n", "400 invalid_field_name"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\x80\r\n\r\n", "GET a / none keep"),
    ];
    for (input, expected) in table {
        check(&String::from_utf8_lossy(input), input, expected, request_verdict);
    }
}

#[test]
fn fields_come_in_order_with_their_places() {
    let input =
        b"\r\nGET / HTTP/1.1\r\nhost:a\r\nX-Odd: \t b c \t\r\nX-Empty: \r\nhOsT2:x\r\n\r\nrest";
    let mut fields: Vec<FieldSpan> = Vec::new();
    let head = parse_request(input, &LIMITS, &mut fields).unwrap().unwrap();
    assert_eq!(&input[head.len..], b"rest");
    let found: Vec<_> =
        fields.iter().map(|f| (f.name().of(input), f.value().of(input), f.known)).collect();
    let expected: [(&[u8], &[u8], _); 4] = [
        (b"host", b"a", Some(wire::Known::Host)),
        (b"X-Odd", b"b c", None),
        (b"X-Empty", b"", None),
        (b"hOsT2", b"x", None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn default_limits_refuse_without_waiting_for_the_end() {
    let limits = HeadLimits::default();
    let mut fields = Vec::new();
    let endless_line = [b"GET /".to_vec(), vec![b'a'; limits.request_line]].concat();
    let verdict = parse_request(&endless_line, &limits, &mut fields);
    assert_eq!(verdict, Err(Reject::RequestLineTooLong));
    let line = b"GET / HTTP/1.1\r\n".to_vec();
    let endless_value = [line.clone(), b"A: ".to_vec(), vec![b'a'; limits.headers]].concat();
    assert_eq!(parse_request(&endless_value, &limits, &mut fields), Err(Reject::HeadersTooLarge));
    let many = [line, b"A: b\r\n".repeat(limits.header_count + 1)].concat();
    assert_eq!(parse_request(&many, &limits, &mut fields), Err(Reject::TooManyFields));
    let status = [b"HTTP/1.1 200 ".to_vec(), vec![b'a'; limits.request_line]].concat();
    let verdict = parse_response(&status, &limits, &mut fields, false);
    assert_eq!(verdict, Err(Reject::StatusLineTooLong));
}

#[rustfmt::skip]
const REQUESTS: &[Row] = &[
    // Ordinary ones.
    ("plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET a / none keep"),
    ("query", "GET /p?q=1?2 HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET a:80 /p?q=1?2 none keep"),
    ("empty query", "GET /p? HTTP/1.1\r\nHost: a\r\n\r\n", "GET a /p? none keep"),
    ("length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "POST a / length=5 keep"),
    ("zero length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST a / length=0 keep"),
    ("leading zeros in length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\n\r\n", "POST a / length=7 keep"),
    ("white space around length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \t5 \r\n\r\n", "POST a / length=5 keep"),
    ("chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "POST a / chunked keep"),
    ("body with GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "GET a / length=1 keep"),
    ("unknown method", "PURGE /x HTTP/1.1\r\nHost: a\r\n\r\n", "PURGE a /x none keep"),
    ("lower-case method is another method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", "get a / none keep"),
    ("upper-case field name", "GET / HTTP/1.1\r\nHOST: a\r\n\r\n", "GET a / none keep"),
    ("one empty line before", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET a / none keep"),
    ("close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET a / none"),
    ("close in a list", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE ,y\r\n\r\n", "GET a / none"),
    ("close in a second field", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", "GET a / none"),
    ("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "GET - / none"),
    ("HTTP/1.0 with Host", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET a / none"),
    ("HTTP/1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET - / none keep"),
    ("HTTP/1.0 keep-alive and close", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "GET - / none"),
    ("HTTP/1.0 length", "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "POST - / length=3"),
    ("later minor version is 1.1", "GET / HTTP/1.7\r\nHost: a\r\n\r\n", "GET a / none keep"),
    ("later minor version needs Host", "GET / HTTP/1.2\r\n\r\n", "400 missing_host"),
    ("expectation", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", "PUT a / length=1 keep continue"),
    ("expectation without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "GET a / none keep"),
    ("expectation in HTTP/1.0", "PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "PUT - / length=1"),
    ("unknown expectation in HTTP/1.0", "PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: x\r\n\r\n", "PUT - / length=1"),
    ("unknown expectation", "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", "417 unknown_expectation"),
    ("known and unknown expectation", "PUT / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nExpect: 100-continue\r\n\r\n", "417 unknown_expectation"),
    ("upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET a / none keep upgrade"),
    ("Upgrade not named in Connection", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", "GET a / none keep"),
    ("Connection names an absent Upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n", "GET a / none keep"),
    ("upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "GET - / none"),
    ("obs-text and tab in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\té\r\n\r\n", "GET a / none keep"),
    ("empty value", "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", "GET a / none keep"),
    ("every field allowed", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\n\r\n", "GET a / none keep"),
    ("unfinished", "GET / HTTP/1.1\r\nHost: a\r\n", "more"),
    ("unfinished target", "GET /abc", "more"),
    // Forms of the target.
    ("absolute", "GET http://b/p?q HTTP/1.1\r\nHost: b\r\n\r\n", "GET b /p?q none keep"),
    ("absolute wins over Host", "GET http://b:81/p HTTP/1.1\r\nHost: a\r\n\r\n", "GET b:81 /p none keep"),
    ("absolute without path", "GET HTTPS://b HTTP/1.1\r\nHost: b\r\n\r\n", "GET b / none keep"),
    ("absolute without path, with query", "GET http://b?q HTTP/1.1\r\nHost: b\r\n\r\n", "GET b /?q none keep"),
    ("absolute IPv6", "GET http://[::1]:8/ HTTP/1.1\r\nHost: [::1]:8\r\n\r\n", "GET [::1]:8 / none keep"),
    ("absolute without Host field", "GET http://b/ HTTP/1.1\r\n\r\n", "400 missing_host"),
    ("absolute in HTTP/1.0", "GET http://b/ HTTP/1.0\r\n\r\n", "GET b / none"),
    ("absolute with user information", "GET http://u:p@b/ HTTP/1.1\r\nHost: b\r\n\r\n", "400 userinfo_in_target"),
    ("absolute with empty host", "GET http:///p HTTP/1.1\r\nHost: b\r\n\r\n", "400 invalid_target"),
    ("absolute with bad port", "GET http://b:99999/ HTTP/1.1\r\nHost: b\r\n\r\n", "400 invalid_target"),
    ("absolute with other scheme", "GET ftp://b/ HTTP/1.1\r\nHost: b\r\n\r\n", "400 unsupported_scheme"),
    ("absolute without slashes", "GET http:b HTTP/1.1\r\nHost: b\r\n\r\n", "400 invalid_target"),
    ("asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS a * none keep"),
    ("asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("asterisk and more", "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("CONNECT", "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", "501 connect_refused"),
    ("CONNECT with a path", "CONNECT / HTTP/1.1\r\nHost: b\r\n\r\n", "501 connect_refused"),
    ("authority-form with GET", "GET b:443 HTTP/1.1\r\nHost: b\r\n\r\n", "400 invalid_target"),
    ("relative path", "GET index.html HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("fragment in the query", "GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("UTF-8 in the target", "GET /é HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("tab in the target", "GET /\ta HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_version"),
    // The request line.
    ("empty line twice", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 empty_line"),
    ("bare LF before", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bare_lf"),
    ("bare CR before", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bare_cr"),
    ("CRLF and LF before", "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 empty_line"),
    ("space before", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_method"),
    ("two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_target"),
    ("two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_version"),
    ("tab after the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_method"),
    ("space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400 invalid_request_line"),
    ("colon in the method", "G:T / HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_method"),
    ("NUL in the method", "G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid_method"),
    ("endless method", "AAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n", "501 method_too_long"),
    ("HTTP/0.9", "GET /\r\n", "400 invalid_request_line"),
    ("method alone", "GET\r\n\r\n", "400 invalid_request_line"),
    ("HTTP/0.9 by name", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505 unsupported_version"),
    ("HTTP/2 by name", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 unsupported_version"),
    ("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 unsupported_version"),
    ("HTTP/2 without minor", "GET / HTTP/2\r\nHost: a\r\n\r\n", "400 invalid_version"),
    ("HTTP/1 without minor", "GET / HTTP/1\r\nHost: a\r\n\r\n", "400 invalid_version"),
    ("two-digit minor", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", "400 invalid_request_line"),
    ("lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", "400 invalid_version"),
    ("other protocol", "GET / ICAP/1.0\r\nHost: a\r\n\r\n", "400 invalid_version"),
    ("TLS on a plain port", "\x16\x03\x01\x02\0\x01\0", "400 invalid_method"),
    ("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", "400 bare_lf"),
    ("bare CR after the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n", "400 bare_cr"),
    // Lines and fields.
    ("bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "400 bare_lf"),
    ("bare LF after the last field", "GET / HTTP/1.1\r\nHost: a\n\r\n", "400 bare_lf"),
    ("bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", "400 bare_lf"),
    ("bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n", "400 bare_lf"),
    ("bare LF after an empty value", "GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n", "400 bare_lf"),
    ("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "400 bare_cr"),
    ("bare CR before CRLF", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "400 bare_cr"),
    ("bare CR at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX", "400 bare_cr"),
    ("bare CR at the start of a line", "GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n", "400 bare_cr"),
    ("folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", "400 obsolete_folding"),
    ("folded with tab", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", "400 obsolete_folding"),
    ("folded framing", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", "400 obsolete_folding"),
    ("space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400 space_before_first_field"),
    ("space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 space_in_field_name"),
    ("tab before the colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\n", "400 space_in_field_name"),
    ("space in a name", "GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n", "400 space_in_field_name"),
    ("no name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400 empty_field_name"),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "400 invalid_field_name"),
    ("brackets in a name", "GET / HTTP/1.1\r\nHost: a\r\nX[1]: b\r\n\r\n", "400 invalid_field_name"),
    ("NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n", "400 invalid_field_name"),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", "400 invalid_field_value"),
    ("control in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", "400 invalid_field_value"),
    ("vertical tab before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", "400 invalid_field_value"),
    ("DEL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", "400 invalid_field_value"),
    ("offence of syntax after one of meaning", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\nX: \0\r\n\r\n", "400 invalid_field_value"),
    // Host.
    ("no Host", "GET / HTTP/1.1\r\n\r\n", "400 missing_host"),
    ("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400 repeated_host"),
    ("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400 repeated_host"),
    ("list in Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400 invalid_host"),
    ("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "400 invalid_host"),
    ("user information in Host", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400 invalid_host"),
    ("path in Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400 invalid_host"),
    ("port of letters in Host", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "400 invalid_host"),
    ("port too large in Host", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", "400 invalid_host"),
    ("open bracket in Host", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400 invalid_host"),
    ("invalid Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "400 invalid_host"),
    ("invalid Host beside absolute", "GET http://b/ HTTP/1.1\r\nHost: a/\r\n\r\n", "400 invalid_host"),
    // Framing.
    ("length and chunked", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "400 length_and_coding"),
    ("chunked and length", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", "400 length_and_coding"),
    ("two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "400 repeated_content_length"),
    ("the same length twice", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "400 repeated_content_length"),
    ("list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", "400 invalid_content_length"),
    ("signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", "400 invalid_content_length"),
    ("negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400 invalid_content_length"),
    ("space in a length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 2\r\n\r\n", "400 invalid_content_length"),
    ("hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", "400 invalid_content_length"),
    ("quoted length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\n", "400 invalid_content_length"),
    ("empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "400 invalid_content_length"),
    ("length above 63 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n", "400 invalid_content_length"),
    ("length above 64 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\n", "400 invalid_content_length"),
    ("chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "400 repeated_transfer_coding"),
    ("chunked twice in a list", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "400 repeated_transfer_coding"),
    ("gzip and chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400 unknown_transfer_coding"),
    ("chunked not last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", "400 unknown_transfer_coding"),
    ("gzip alone", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "400 unknown_transfer_coding"),
    ("identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "400 unknown_transfer_coding"),
    ("nearly chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", "400 unknown_transfer_coding"),
    ("chunked with a parameter", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", "400 unknown_transfer_coding"),
    ("chunked with a comma", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", "400 unknown_transfer_coding"),
    ("quoted chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", "400 unknown_transfer_coding"),
    ("empty coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", "400 unknown_transfer_coding"),
    ("gzip and chunked in two fields", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", "400 unknown_transfer_coding"),
    ("chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400 transfer_coding_in_http10"),
    // Limits.
    ("request line too long", "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\n\r\n", "414 request_line_too_long"),
    ("request line too long, then malformed", "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0 HTTP/1.1\r\n\r\n", "414 request_line_too_long"),
    ("malformed, then too long", "GET /\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "400 invalid_target"),
    ("fields too large", "GET / HTTP/1.1\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n", "431 headers_too_large"),
    ("fields too large without an end", "GET / HTTP/1.1\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "431 headers_too_large"),
    ("too many fields", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\n\r\n", "431 too_many_fields"),
    ("too many fields, then malformed", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\n: \r\n\r\n", "431 too_many_fields"),
    ("syntax before meaning, also when a limit calls early", "GET /# HTTP/1.1\r\nHost: a\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n", "400 invalid_target"),
    // Smuggling classics: the hidden request must not be seen as a head of its own.
    ("CL.TE", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", "400 length_and_coding"),
    ("TE.TE with a space", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", "400 space_in_field_name"),
    ("CL in a name with LF", "POST / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 5\r\n\r\n", "400 bare_lf"),
    ("underscore is another name", "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", "POST a / none keep"),
];

#[rustfmt::skip]
const RESPONSES: &[Row] = &[
    ("length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 length=2 keep"),
    ("chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200 chunked keep"),
    ("until close", "HTTP/1.1 200 OK\r\n\r\n", "200 until-close"),
    ("until close despite keep-alive", "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 until-close"),
    ("close with length", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n", "200 length=2"),
    ("empty reason", "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", "404 length=0 keep"),
    ("long reason", "HTTP/1.1 200 all is \twell é\r\nContent-Length: 0\r\n\r\n", "200 length=0 keep"),
    ("unregistered status", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", "599 length=0 keep"),
    ("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", "200 length=2"),
    ("HTTP/1.0 keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n", "200 length=2 keep"),
    ("later minor version", "HTTP/1.3 200 OK\r\nContent-Length: 2\r\n\r\n", "200 length=2 keep"),
    ("HEAD with length", "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", "200 none keep"),
    ("HEAD with chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 none keep"),
    ("HEAD without either", "HTTP/1.1 200 OK\r\n\r\n", "200 none keep"),
    ("HEAD with both", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "400 length_and_coding"),
    ("204", "HTTP/1.1 204 No Content\r\n\r\n", "204 none keep"),
    ("204 with zero length", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 none keep"),
    ("204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "400 forbidden_body"),
    ("204 with chunked", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 forbidden_body"),
    ("304 with length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2000\r\n\r\n", "304 none keep"),
    ("304 with chunked", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "304 none keep"),
    ("100", "HTTP/1.1 100 Continue\r\n\r\n", "100 none keep"),
    ("100 with a length", "HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\nx", "400 forbidden_body"),
    ("103", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "103 none keep"),
    ("101", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x01", "101 none upgrade"),
    ("206", "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\n", "206 length=3 keep"),
    ("unfinished", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "more"),
    ("both", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "400 length_and_coding"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", "400 repeated_content_length"),
    ("the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", "400 repeated_content_length"),
    ("list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n", "400 invalid_content_length"),
    ("negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", "400 invalid_content_length"),
    ("length above 63 bits", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "400 invalid_content_length"),
    ("gzip and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400 unknown_transfer_coding"),
    ("gzip alone", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "400 unknown_transfer_coding"),
    ("chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "400 repeated_transfer_coding"),
    ("chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "400 transfer_coding_in_http10"),
    ("no space after the status", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", "400 invalid_status_line"),
    ("two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n", "400 invalid_status_line"),
    ("two-digit status", "HTTP/1.1 20 OK\r\n\r\n", "400 invalid_status_line"),
    ("four-digit status", "HTTP/1.1 2000 OK\r\n\r\n", "400 invalid_status_line"),
    ("status of letters", "HTTP/1.1 2xx OK\r\n\r\n", "400 invalid_status_line"),
    ("status below 100", "HTTP/1.1 099 OK\r\n\r\n", "400 invalid_status"),
    ("status above 599", "HTTP/1.1 600 OK\r\n\r\n", "400 invalid_status"),
    ("control in the reason", "HTTP/1.1 200 O\x01K\r\n\r\n", "400 invalid_status_line"),
    ("bare CR in the reason", "HTTP/1.1 200 O\rK\r\n\r\n", "400 bare_cr"),
    ("bare LF after the status line", "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\n", "400 bare_lf"),
    ("bare LF after an empty reason", "HTTP/1.1 200 \nContent-Length: 2\r\n\r\n", "400 bare_lf"),
    ("bare LF after a field", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\n", "400 bare_lf"),
    ("bare LF at the end", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\n", "400 bare_lf"),
    ("folded field", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "400 obsolete_folding"),
    ("space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n", "400 space_in_field_name"),
    ("NUL in a value", "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", "400 invalid_field_value"),
    ("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "505 unsupported_version"),
    ("other protocol", "ICY 200 OK\r\n\r\n", "400 invalid_version"),
    ("empty line before", "\r\nHTTP/1.1 200 OK\r\n\r\n", "400 invalid_version"),
    ("body bytes of an earlier response", "xHTTP/1.1 200 OK\r\n\r\n", "400 invalid_version"),
    ("SSH banner", "SSH-2.0-OpenSSH_9.2\r\n", "400 invalid_version"),
    ("status line too long", "HTTP/1.1 200 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n", "431 status_line_too_long"),
    ("too many fields", "HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\n\r\n", "431 too_many_fields"),
];
