//! The result for each malformed, ambiguous or unusual head: the rows of `verdicts/*.txt`.
//!
//! Every row is also fed split at every byte: a prefix never gets a head, and never another
//! rejection than the whole. What follows a head never changes its result.

use wire::Reject;
use wire::h1::{
    FieldSpan, Framing, HeadLimits, RequestHead, ResponseFraming, ResponseHead, parse_request,
    parse_response,
};

const REQUESTS: &str = include_str!("verdicts/requests.txt");
const RESPONSES: &str = include_str!("verdicts/responses.txt");

/// One line of a table.
struct Row {
    verdict: &'static str,
    name: &'static str,
    input: Vec<u8>,
}

fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.splitn(3, " | ");
            let mut part = || parts.next().unwrap_or_else(|| panic!("not a row: {line}"));
            Row { verdict: part(), name: part(), input: unescape(part()) }
        })
        .collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (byte, used) = match rest {
            [b'r', ..] => (b'\r', 1),
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("digits");
                (u8::from_str_radix(digits, 16).expect("digits"), 3)
            }
            _ => panic!("unknown escape in {text}"),
        };
        out.push(byte);
        rest = &rest[used..];
    }
    out
}

/// Small enough that a row can exceed each of them.
const LIMITS: HeadLimits = HeadLimits { request_line: 100, headers: 200, header_count: 6 };

fn rejected(reject: Reject) -> String {
    format!("{} {}", reject.status(), reject.slug())
}

fn request_verdict(input: &[u8]) -> String {
    match parse_request(input, &LIMITS, &mut Vec::new()) {
        Ok(None) => "more".to_owned(),
        Ok(Some(head)) => describe_request(&head, input),
        Err(reject) => rejected(reject),
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
        Err(reject) => rejected(reject),
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

/// Checks the result for the whole, with anything after it, and for every prefix.
fn check(name: &str, input: &[u8], expected: &str, verdict: impl Fn(&[u8]) -> String) {
    assert_eq!(verdict(input), expected, "{name}");
    let rejected = Reject::ALL.iter().any(|&reject| rejected(reject) == expected);
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
    let rows = rows(REQUESTS);
    assert!(rows.len() >= 80, "only {} rows", rows.len());
    for row in rows {
        check(row.name, &row.input, row.verdict, request_verdict);
    }
}

#[test]
fn responses() {
    let rows = rows(RESPONSES);
    assert!(rows.len() >= 40, "only {} rows", rows.len());
    for row in rows {
        let to_head = row.name.starts_with("HEAD");
        check(row.name, &row.input, row.verdict, |input| response_verdict(input, to_head));
    }
}

#[test]
fn fields_are_returned_in_order_with_their_positions() {
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
fn default_limits_reject_without_waiting_for_the_end() {
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
