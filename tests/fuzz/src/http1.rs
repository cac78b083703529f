//! Heads of HTTP/1 messages and chunked bodies.

use crate::{FuzzTarget, cuts, owned};
use bytes::Bytes;
use wire::h1::{
    ChunkDecoder, ChunkEvent, FieldSpan, HeadLimits, RequestHead, ResponseHead, Span, chunk_head,
    parse_request, parse_response,
};
use wire::{Reject, Version, token};

const DICTIONARY: &[&str] = &[
    "\r\n",
    "\r",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "\"",
    "/",
    "?",
    "#",
    "0",
    "9999999999999999999",
    "chunked",
    "Content-Length: 1\r\n",
    "Host: b\r\n",
    "Transfer-Encoding: chunked\r\n",
    "HTTP/1.1",
];

pub(crate) const REQUEST_HEAD: FuzzTarget = FuzzTarget {
    check: request_head,
    seeds: || {
        owned(&[
            "GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
            "\r\nPOST /a/b?c=d HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\nhello",
            "PUT http://a/b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "OPTIONS * HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\n",
        ])
    },
    dictionary: DICTIONARY,
    cases: 2000,
};

pub(crate) const RESPONSE_HEAD: FuzzTarget = FuzzTarget {
    check: response_head,
    seeds: || {
        owned(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\n\r\nok",
            "HTTP/1.0 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n",
        ])
    },
    dictionary: DICTIONARY,
    cases: 3000,
};

pub(crate) const CHUNKED: FuzzTarget = FuzzTarget {
    check: chunked,
    seeds: || {
        owned(&["5;a=\"b\"\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\nGET", "a\r\n0123456789\r\n0\r\n\r\n"])
    },
    dictionary: DICTIONARY,
    cases: 3500,
};

const SMALL: HeadLimits = HeadLimits { request_line: 40, headers: 60, header_count: 3 };

/// A result without its spans: the length of the head, and the rest as text to compare.
type ParseResult = Result<Option<(usize, String)>, Reject>;

/// Any bytes as a request head.
fn request_head(data: &[u8]) {
    for limits in [HeadLimits::default(), SMALL] {
        let parse = |input: &[u8]| -> ParseResult {
            let mut fields = Vec::new();
            let head = parse_request(input, &limits, &mut fields)?;
            Ok(head.map(|head| {
                let parts = [Some(head.target), Some(head.path), head.query, head.authority];
                check_head(&input[..head.len], parts.into_iter().flatten(), &fields);
                let target = head.target.of(input);
                assert!(target.iter().all(|&b| b > b' ' && b < 0x7f && b != b'#'));
                assert!(!head.path_bytes(input).is_empty());
                agree_on_request(input, &head, &fields);
                (head.len, format!("{head:?} {fields:?}"))
            }))
        };
        check_verdict(data, parse);
    }
}

/// Any bytes as a response head; the first bit of the last byte makes it a response to HEAD.
fn response_head(data: &[u8]) {
    let to_head = data.last().is_some_and(|last| last & 1 == 1);
    for limits in [HeadLimits::default(), SMALL] {
        let parse = |input: &[u8]| -> ParseResult {
            let mut fields = Vec::new();
            let head = parse_response(input, &limits, &mut fields, to_head)?;
            Ok(head.map(|head| {
                assert!((100..600).contains(&head.status));
                check_head(&input[..head.len], [head.reason].into_iter(), &fields);
                agree_on_response(input, &head, &fields);
                (head.len, format!("{head:?} {fields:?}"))
            }))
        };
        check_verdict(data, parse);
    }
}

/// An independent parser understands an accepted head alike. It supports the minor versions 0 and
/// 1.
fn agree_on_request(input: &[u8], head: &RequestHead, fields: &[FieldSpan]) {
    let line_end = input[2..].iter().position(|&b| b == b'\n').expect("a line") + 2;
    if !matches!(input[line_end - 2], b'0' | b'1') {
        return;
    }
    let mut slots = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Request::new(&mut slots);
    assert_eq!(other.parse(input), Ok(httparse::Status::Complete(head.len)));
    assert_eq!(other.method, Some(head.method.as_str()));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target.of(input)));
    assert_eq!(other.version == Some(1), head.version == Version::Http11);
    agree_on_fields(input, fields, other.headers);
}

fn agree_on_response(input: &[u8], head: &ResponseHead, fields: &[FieldSpan]) {
    if !matches!(input[7], b'0' | b'1') {
        return;
    }
    let mut slots = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Response::new(&mut slots);
    assert_eq!(other.parse(input), Ok(httparse::Status::Complete(head.len)));
    assert_eq!(other.code, Some(head.status));
    assert_eq!(other.version == Some(1), head.version == Version::Http11);
    agree_on_fields(input, fields, other.headers);
}

fn agree_on_fields(input: &[u8], fields: &[FieldSpan], others: &[httparse::Header<'_>]) {
    let ours = fields.iter().map(|field| (field.name().of(input), field.value().of(input)));
    let theirs = others.iter().map(|other| (other.name.as_bytes(), other.value));
    assert!(ours.eq(theirs), "the fields differ");
}

/// Spans lie within the head; CR and LF occur at line ends only, as pairs; names and values are
/// valid.
fn check_head(head: &[u8], spans: impl Iterator<Item = Span>, fields: &[FieldSpan]) {
    assert!(head.ends_with(b"\r\n\r\n") || head.starts_with(b"\r\n"));
    for span in spans {
        assert!(span.range().end <= head.len());
    }
    for (at, byte) in head.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(head.get(at + 1), Some(&b'\n')),
            b'\n' => assert!(at > 0 && head[at - 1] == b'\r'),
            _ => {}
        }
    }
    for field in fields {
        assert!(token::is_token(field.name().of(head)));
        assert!(token::is_field_value(field.value().of(head)));
        assert_eq!(field.known, wire::Known::from_bytes(field.name().of(head)));
    }
}

/// The result depends neither on what follows nor on where the bytes were split, and the fast
/// parser agrees with the strict one, which a later minor version selects.
fn check_verdict(data: &[u8], parse: impl Fn(&[u8]) -> ParseResult) {
    let verdict = parse(data);
    if verdict != Ok(None) {
        let longer = [data, b"\n\0 x"].concat();
        assert_eq!(parse(&longer), verdict, "more bytes change the verdict");
    }
    let end = match &verdict {
        Ok(Some((len, _))) => {
            assert!(*len <= data.len());
            assert_eq!(parse(&data[..*len]), verdict, "the bytes of the head alone");
            *len
        }
        _ => data.len(),
    };
    for cut in cuts(end) {
        match parse(&data[..cut]) {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a head from its first {cut} bytes"),
            Err(reject) => assert_eq!(Err(reject), verdict, "the first {cut} bytes"),
        }
    }
    if let Some(twin) = later_minor(data)
        && let Ok(Some((len, seen))) = &verdict
    {
        assert_eq!(parse(&twin), Ok(Some((*len, seen.clone()))), "the two parsers disagree");
    }
}

/// The same message in HTTP/1.2, which must be understood alike.
fn later_minor(data: &[u8]) -> Option<Vec<u8>> {
    let line = data.strip_prefix(b"\r\n").unwrap_or(data);
    let skipped = data.len() - line.len();
    let end = skipped + line.iter().position(|&b| b == b'\n')?;
    let at = if line.starts_with(b"HTTP/1.1 ") {
        skipped + 7
    } else if data[..end].ends_with(b" HTTP/1.1\r") {
        end - 2
    } else {
        return None;
    };
    let mut twin = data.to_vec();
    twin[at] = b'2';
    Some(twin)
}

/// Any bytes as a chunked body, split anywhere; then the same bytes as the data of a body.
fn chunked(data: &[u8]) {
    let whole = decode(&[data]);
    let single: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(decode(&single), whole, "byte by byte");
    for cut in cuts(data.len()) {
        let (left, right) = data.split_at(cut);
        assert_eq!(decode(&[left, right]), whole, "cut at {cut}");
    }
    if let Ok((body, consumed)) = &whole {
        assert!(body.len() <= data.len() && consumed.is_none_or(|consumed| consumed <= data.len()));
    }
    let mut encoded = Vec::new();
    for piece in data.chunks(7) {
        chunk_head(piece.len(), &mut encoded);
        encoded.extend_from_slice(piece);
        encoded.extend_from_slice(b"\r\n");
    }
    encoded.extend_from_slice(wire::h1::LAST_CHUNK);
    let len = encoded.len();
    assert_eq!(decode(&[&encoded]), Ok((data.to_vec(), Some(len))), "round trip");
}

/// The body so far, and how many bytes it took if it ended.
fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<usize>), Reject> {
    let mut decoder = ChunkDecoder::new(64);
    let (mut body, mut before) = (Vec::new(), 0);
    for piece in pieces {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match decoder.next(&mut input)? {
                ChunkEvent::Data(data) => body.extend_from_slice(&data),
                ChunkEvent::NeedMore => break,
                ChunkEvent::End(trailers) => {
                    for field in &trailers.fields {
                        assert!(token::is_token(field.name().of(&trailers.raw)));
                        assert!(token::is_field_value(field.value().of(&trailers.raw)));
                    }
                    return Ok((body, Some(before + piece.len() - input.len())));
                }
            }
        }
        assert!(input.is_empty());
        before += piece.len();
    }
    Ok((body, None))
}
