//! Invariants for any input. The fuzz targets call these functions with the fuzzer's input; here
//! they are called with reproducible mutations of known messages.

use bytes::Bytes;
use wire::h1::{
    ChunkDecoder, ChunkEvent, FieldSpan, HeadLimits, RequestHead, ResponseHead, Span, chunk_head,
    parse_request, parse_response,
};
use wire::resp::reply::{Item, Limits, Reader};
use wire::websocket::{Decoder, Message, Opcode, Violation, write_frame};
use wire::{Reject, Version, frames, target, token};

const SMALL: HeadLimits = HeadLimits { request_line: 40, headers: 60, header_count: 3 };

/// A result without its spans: the length of the head, and the rest as text to compare.
type ParseResult = Result<Option<(usize, String)>, Reject>;

/// Any bytes as a request head.
pub fn request_head(data: &[u8]) {
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
pub fn response_head(data: &[u8]) {
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

/// Every split of a short message, some of a long one.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by((len / 64).max(1)).chain(len.saturating_sub(4)..len)
}

/// Any bytes as a chunked body, split anywhere; then the same bytes as the data of a body.
pub fn chunked(data: &[u8]) {
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

/// Any bytes as WebSocket frames, split anywhere; then the same bytes as a message.
pub fn websocket(data: &[u8]) {
    for masked in [false, true] {
        let whole = messages(masked, &[data]);
        let single: Vec<&[u8]> = data.chunks(1).collect();
        assert_eq!(messages(masked, &single), whole, "byte by byte");
        for cut in cuts(data.len()) {
            let (left, right) = data.split_at(cut);
            assert_eq!(messages(masked, &[left, right]), whole, "cut at {cut}");
        }
    }
    let mask = data.first_chunk().copied();
    let mut frames = Vec::new();
    let (first, rest) = data.split_at(data.len() / 2);
    write_frame(&mut frames, Opcode::Binary, false, first, mask);
    write_frame(&mut frames, Opcode::Continuation, true, rest, mask);
    let sent = (vec![Message::Binary(data.to_vec())], None);
    if data.len() <= MESSAGE_BYTES_MAX {
        assert_eq!(messages(mask.is_some(), &[&frames]), sent, "round trip");
    }
}

const MESSAGE_BYTES_MAX: usize = 100;

/// Any bytes as frames between gateway and application, split anywhere, alone and after HELLO; then
/// the same bytes as the body of a message.
pub fn frames(data: &[u8]) {
    let mut greeted = Vec::new();
    frames::hello(&mut greeted, frames::WINDOW_MIN, "1");
    let greeting = greeted.len();
    greeted.extend_from_slice(data);
    for input in [data, &greeted] {
        let whole = framed(&[input]);
        let single: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(framed(&single), whole, "byte by byte");
        for cut in cuts(input.len()) {
            let (left, right) = input.split_at(cut);
            assert_eq!(framed(&[left, right]), whole, "cut at {cut}");
        }
    }
    if !data.is_empty() && data.len() <= frames::DATA_BYTES_MAX {
        greeted.truncate(greeting);
        frames::data_head(&mut greeted, 1, data.len(), false);
        greeted.extend_from_slice(data);
        let (seen, bytes, verdict) = framed(&[&greeted]);
        assert_eq!((seen.len(), &*bytes, verdict), (1, data, None), "round trip");
    }
}

/// The frames so far without the bytes of data, those bytes with their cost, and the error.
fn framed(pieces: &[&[u8]]) -> (Vec<String>, Vec<u8>, Option<frames::Malformed>) {
    let mut decoder = frames::Decoder::new();
    let (mut seen, mut bytes) = (Vec::new(), Vec::new());
    let mut cost = 0;
    for piece in pieces {
        let mut input = *piece;
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Err(malformed) => return (seen, bytes, Some(malformed)),
                Ok(Some(frames::Frame::Data(data))) => {
                    assert!(data.bytes.len() <= data.cost as usize);
                    bytes.extend_from_slice(data.bytes);
                    cost += data.cost;
                    if data.end {
                        seen.push(format!("{} ends, {cost} in all", data.stream));
                    }
                }
                Ok(Some(frame)) => seen.push(format!("{frame:?}")),
            }
        }
        assert!(input.is_empty(), "bytes were left");
    }
    (seen, bytes, None)
}

/// The messages so far, and the violation that ended them.
fn messages(masked: bool, pieces: &[&[u8]]) -> (Vec<Message>, Option<Violation>) {
    let mut decoder = Decoder::new(masked, MESSAGE_BYTES_MAX);
    let mut messages = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        loop {
            match decoder.message(&mut piece) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(violation) => return (messages, Some(violation)),
            }
        }
    }
    (messages, None)
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

/// Any bytes as replies of Redis. A reader that gets them one by one returns the same as one that
/// gets all at once.
pub fn reply(data: &[u8]) {
    let small = Limits { line: 12, bytes: 40, items: 6, depth: 2 };
    for limits in [Limits::default(), small] {
        let mut whole = Reader::default();
        let verdict = whole.read(data, &limits);
        if let Ok(Some(len)) = verdict {
            assert!(
                len <= data.len() && len <= limits.bytes && whole.items().len() <= limits.items
            );
            for item in whole.items() {
                if let Item::Text(range) | Item::Error(range) = item {
                    assert!(range.start <= range.end && range.end < len);
                }
            }
        }
        let mut grown = Reader::default();
        let ends = (0..=data.len()).map(|end| (end, grown.read(&data[..end], &limits)));
        let decided = ends.into_iter().find(|(_, found)| *found != Ok(None));
        assert_eq!(decided.map_or(Ok(None), |(_, found)| found), verdict);
        if verdict.is_ok_and(|len| len.is_some()) {
            // NaN is not equal to itself, so they are compared as text.
            assert_eq!(format!("{:?}", grown.items()), format!("{:?}", whole.items()));
        }
    }
}

/// Any bytes as a path. Its canonical form is stable and stays below the root, and decoding it once
/// gives its normal form, which adds no separator, dot segment or control character.
pub fn path(data: &[u8]) {
    let rooted = [b"/", data].concat();
    let Ok(raw) = target::canonical(&rooted) else {
        assert!(!target::is_plain(&rooted));
        return;
    };
    assert_eq!(raw[0], b'/');
    assert_eq!(target::canonical(&raw).as_deref(), Ok(&*raw), "canonical forms are stable");
    assert!(raw.iter().all(|b| b.is_ascii_graphic() && !b"?#\\\"<>^`{|}[]".contains(b)));
    let normal = target::normal_form(&raw).expect("canonical escapes are escapes");
    let normal = normal.into_owned().into_bytes();
    assert_eq!(target::normalize(&normal).as_deref(), Ok(&*normal), "normal forms are normal");
    let mut again = Vec::new();
    target::encode_path(&normal, &mut again);
    let again = target::canonical(&again).expect("what was canonical is");
    assert_eq!(self::decoded(&again), self::decoded(&raw), "a normal form says all of the path");
    for text in [&raw[..], &normal[..]] {
        let mut segments = text.split(|&b| b == b'/');
        assert!(segments.all(|segment| segment != b"." && segment != b".."));
        assert!(!text.windows(2).any(|pair| pair == b"//"));
        assert!(!text.iter().any(|&b| b == b'\\' || b.is_ascii_control()));
    }
    let decoded = decoded(&raw);
    assert_eq!(decoded, self::decoded(&normal), "decoded once more it is the same");
    assert!(!decoded.iter().any(|&b| b == b'\\' || b.is_ascii_control()));
    let slashes = |text: &[u8]| text.iter().filter(|&&b| b == b'/').count();
    match target::decode_for_files(&normal) {
        Ok(names) => {
            assert_eq!(names, decoded);
            assert_eq!(slashes(&names), slashes(&raw), "an escape became a separator");
        }
        Err(_) => assert!(slashes(&decoded) > slashes(&raw)),
    }
}

/// Percent-decoding as by any receiver.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut parts = text.split(|&b| b == b'%');
    let mut out = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = std::str::from_utf8(&part[..2]).expect("two digits");
        out.push(u8::from_str_radix(digits, 16).expect("two digits"));
        out.extend_from_slice(&part[2..]);
    }
    out
}

#[cfg(test)]
mod mutations {
    const SEEDS: [&[u8]; 15] = [
        b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x8a\x80\0\0\0\0",
        b"\x01\x03Hel\x89\x01?\x80\x02lo\x88\x05\x03\xe8bye",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
        b"\r\nPOST /a/b?c=d HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\nhello",
        b"PUT http://a/b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\n\r\nok",
        b"HTTP/1.0 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n",
        b"5;a=\"b\"\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\nGET",
        b"/a/%2e%2E//b/./%2F%25%41/../.c/d..",
        b"*3\r\n$3\r\na\r\n\r\n*1\r\n:-1\r\n$-1\r\n+OK\r\n",
        b"%1\r\n=5\r\ntxt:a\r\n|1\r\n+b\r\n,1.5\r\n~2\r\n#t\r\n_\r\n",
        b"\x07\0\0\0\x02\x01\0\0\x01\0\0\0\x01\0\0\0hab\x03\0\0\0\x05\0\0\0\x02\0\0\0abc",
        b"\x04\0\0\0\x08\0\0\0\x01\0\0\0\0\x01\0\0\x02\0\0\0\x06\0\0\0\x01\0\0\0xy",
    ];
    const PIECES: [&[u8]; 26] = [
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"\x7f",
        b"\xff",
        b"0",
        b"9999999999999999999",
        b",",
        b"chunked",
        b"Content-Length: 1\r\n",
        b"Host: b\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"HTTP/1.1",
        b"/",
        b"#",
        b"?",
        b"%2e",
        b"..",
        b";",
        b"\"",
        b"*2\r\n",
        b"$1\r\n",
    ];

    /// SplitMix64: the same sequence in every run.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn below(&mut self, limit: usize) -> usize {
            (self.next() % limit as u64) as usize
        }
    }

    fn mutate(random: &mut Random) -> Vec<u8> {
        let mut data = SEEDS[random.below(SEEDS.len())].to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(data.len() + 1);
            match random.below(5) {
                0 if at < data.len() => data[at] = random.next() as u8,
                1 if at < data.len() => {
                    data.remove(at);
                }
                2 => data.truncate(at),
                3 => {
                    let until = at + random.below(data.len() - at + 1).min(20);
                    let copy = data[at..until].to_vec();
                    data.splice(at..at, copy);
                }
                _ => {
                    let piece = PIECES[random.below(PIECES.len())];
                    data.splice(at..at, piece.iter().copied());
                }
            }
        }
        data
    }

    fn check_mutations(seed: u64, rounds: usize, invariant: fn(&[u8])) {
        let mut random = Random(seed);
        SEEDS.iter().for_each(|seed| invariant(seed));
        for _ in 0..rounds {
            let data = mutate(&mut random);
            let shown = data.escape_ascii().to_string();
            let outcome = std::panic::catch_unwind(|| invariant(&data));
            assert!(outcome.is_ok(), "broken by {shown}");
        }
    }

    #[test]
    fn of_request_heads() {
        check_mutations(1, 15_000, super::request_head);
    }

    #[test]
    fn of_response_heads() {
        check_mutations(2, 15_000, super::response_head);
    }

    #[test]
    fn of_chunked_bodies() {
        check_mutations(3, 15_000, super::chunked);
    }

    #[test]
    fn of_frames() {
        check_mutations(9, 15_000, super::frames);
    }

    #[test]
    fn of_websockets() {
        check_mutations(6, 15_000, super::websocket);
    }

    #[test]
    fn of_replies() {
        check_mutations(5, 20_000, super::reply);
    }

    #[test]
    fn of_paths() {
        check_mutations(4, 20_000, super::path);
    }
}
