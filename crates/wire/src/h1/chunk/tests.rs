//! Bodies whole, split anywhere and byte by byte give the same result.

use bytes::Bytes;

use super::{
    CHUNK_END, ChunkDecoder, ChunkEvent, LAST_CHUNK, LAST_CHUNK_LINE, MAX_EXTENSION_BYTES,
    Trailers, chunk_head, trailer_section,
};
use crate::Reject;

const TRAILER_LIMIT: usize = 64;

/// The body, its trailers and the remaining input; `None` for an incomplete body.
type Decoded = Result<Option<(Vec<u8>, Vec<(String, String)>, Vec<u8>)>, Reject>;

fn decode(pieces: &[&[u8]]) -> Decoded {
    let mut decoder = ChunkDecoder::new(TRAILER_LIMIT);
    let mut body = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match decoder.next(&mut input)? {
                ChunkEvent::Data(data) => {
                    assert!(!data.is_empty());
                    body.extend_from_slice(&data);
                }
                ChunkEvent::NeedMore => {
                    assert!(input.is_empty(), "input left unconsumed");
                    break;
                }
                ChunkEvent::End(trailers) => {
                    assert!(decoder.is_done());
                    let mut rest = input.to_vec();
                    pieces[at + 1..].iter().for_each(|piece| rest.extend_from_slice(piece));
                    return Ok(Some((body, named(&trailers), rest)));
                }
            }
        }
    }
    Ok(None)
}

fn named(trailers: &Trailers) -> Vec<(String, String)> {
    let text = |span: crate::h1::Span| String::from_utf8(span.of(&trailers.raw).to_vec()).unwrap();
    trailers.fields.iter().map(|field| (text(field.name()), text(field.value()))).collect()
}

/// Decodes whole, in two pieces split anywhere, and byte by byte.
fn decode_every_way(input: &[u8]) -> Decoded {
    let whole = decode(&[input]);
    for cut in 0..=input.len() {
        let (left, right) = input.split_at(cut);
        assert_eq!(decode(&[left, right]), whole, "{:?} cut at {cut}", input.escape_ascii());
    }
    let single: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(decode(&single), whole, "{:?} byte by byte", input.escape_ascii());
    whole
}

#[rustfmt::skip]
const BODIES: &[(&str, &str, &str)] = &[
    ("0\r\n\r\n", "", ""),
    ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /", "hello world", "GET /"),
    ("a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789", ""),
    ("0000000000000001\r\nx\r\n0\r\n\r\n", "x", ""),
    ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""),
    ("1;a\r\nx\r\n0;b=c;d=\"e\\\"; \r\"\r\n\r\n", "", "invalid_chunk_extension"),
    ("1;a\r\nx\r\n0;b=c;d=\"e\\\";\"\r\n\r\n", "x", ""),
    ("1; a=b\r\nx\r\n0\r\n\r\n", "x", ""),
    ("1;\t a\r\nx\r\n0\r\n\r\n", "x", ""),
];

#[rustfmt::skip]
const MALFORMED: &[(&str, Reject)] = &[
    ("\r\n", Reject::InvalidChunkSize),
    ("\n", Reject::InvalidChunkSize),
    ("g\r\n", Reject::InvalidChunkSize),
    ("0x5\r\n", Reject::InvalidChunkSize),
    ("+5\r\n", Reject::InvalidChunkSize),
    ("-5\r\n", Reject::InvalidChunkSize),
    (" 5\r\n", Reject::InvalidChunkSize),
    ("5 \r\n", Reject::InvalidChunkSize),
    ("5 ;a\r\n", Reject::InvalidChunkSize),
    ("5_0\r\n", Reject::InvalidChunkSize),
    (";a\r\n", Reject::InvalidChunkSize),
    ("5\n", Reject::BareLf),
    ("5\rx", Reject::BareCr),
    ("5\r\r\n", Reject::BareCr),
    ("8000000000000000\r\n", Reject::ChunkTooLarge),
    ("ffffffffffffffff\r\n", Reject::ChunkTooLarge),
    ("10000000000000000\r\n", Reject::ChunkTooLarge),
    ("00000000000000001\r\n", Reject::ChunkTooLarge),
    ("5\r\nhelloX", Reject::InvalidChunkEnd),
    ("5\r\nhello\n", Reject::InvalidChunkEnd),
    ("5\r\nhello\rX", Reject::InvalidChunkEnd),
    ("5\r\nhello!\r\n", Reject::InvalidChunkEnd),
    ("1;\r\n", Reject::InvalidChunkExtension),
    ("1;a=\r\n", Reject::InvalidChunkExtension),
    ("1;a =b\r\n", Reject::InvalidChunkExtension),
    ("1;a b\r\n", Reject::InvalidChunkExtension),
    ("1;a=\"b\"c\r\n", Reject::InvalidChunkExtension),
    ("1;a=\"b\r\n", Reject::InvalidChunkExtension),
    ("1;a=\"\0\"\r\n", Reject::InvalidChunkExtension),
    ("1;a\n", Reject::BareLf),
    ("1;a=\"\n", Reject::BareLf),
    ("1;a\rx", Reject::BareCr),
    ("0\r\nX: a\n\r\n", Reject::BareLf),
    ("0\r\n\n", Reject::BareLf),
    ("0\r\n X: a\r\n\r\n", Reject::SpaceBeforeFirstField),
    ("0\r\nX: a\r\n b\r\n\r\n", Reject::ObsoleteFolding),
    ("0\r\nX : a\r\n\r\n", Reject::SpaceInFieldName),
    ("0\r\nX: a\rb\r\n\r\n", Reject::BareCr),
    ("0\r\nX: \0\r\n\r\n", Reject::InvalidFieldValue),
    ("0\r\nGET / HTTP/1.1\r\n\r\n", Reject::SpaceInFieldName),
    ("0\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n",
        Reject::TrailersTooLarge),
];

#[test]
fn bodies_however_they_arrive() {
    for (input, body, rest) in BODIES {
        match decode_every_way(input.as_bytes()) {
            Ok(found) => {
                let (found, trailers, left) = found.unwrap();
                assert_eq!((found, left), (body.as_bytes().to_vec(), rest.as_bytes().to_vec()));
                assert_eq!(trailers, []);
            }
            Err(reject) => assert_eq!(reject.slug(), *rest, "{input:?}"),
        }
    }
}

#[test]
fn malformed_bodies_however_they_arrive() {
    for (input, reject) in MALFORMED {
        assert_eq!(decode_every_way(input.as_bytes()), Err(*reject), "{input:?}");
    }
}

#[test]
fn an_incomplete_body_needs_more_input() {
    let whole = b"5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\n";
    for end in 0..whole.len() {
        assert_eq!(decode(&[&whole[..end]]), Ok(None), "{end}");
    }
}

#[test]
fn forbidden_trailers_are_dropped() {
    let input =
        b"0\r\nX-Sum: 1\r\nContent-Length: 5\r\nhost: b\r\nTransfer-Encoding: chunked\r\n\r\n!";
    let mut decoder = ChunkDecoder::new(1024);
    let mut bytes = Bytes::from_static(input);
    let Ok(ChunkEvent::End(trailers)) = decoder.next(&mut bytes) else {
        panic!("no end");
    };
    assert_eq!(named(&trailers), [("X-Sum".to_owned(), "1".to_owned())]);
    assert_eq!(&bytes[..], b"!");
    assert_eq!(decoder.next(&mut bytes), Ok(ChunkEvent::NeedMore), "nothing after the end");
    assert_eq!(&bytes[..], b"!");
}

#[test]
fn extensions_are_bounded_over_the_whole_body() {
    let chunk = [b"1;".to_vec(), vec![b'a'; 1022], b"\r\nx\r\n".to_vec()].concat();
    let allowed = MAX_EXTENSION_BYTES as usize / 1023;
    let fine = [chunk.repeat(allowed), LAST_CHUNK.to_vec()].concat();
    assert_eq!(decode(&[&fine]).unwrap().unwrap().0.len(), allowed);
    let too_long = [chunk.repeat(allowed + 1), LAST_CHUNK.to_vec()].concat();
    assert_eq!(decode(&[&too_long]), Err(Reject::ChunkExtensionsTooLong));
    let mut endless = b"1;a=\"".to_vec();
    endless.resize(MAX_EXTENSION_BYTES as usize + 9, b'a');
    assert_eq!(decode(&[&endless]), Err(Reject::ChunkExtensionsTooLong));
}

#[test]
fn data_is_a_slice_of_the_input() {
    let mut input = Bytes::from_static(b"5\r\nhello\r\n0\r\n\r\n");
    let origin = input.as_ptr() as usize;
    match ChunkDecoder::new(TRAILER_LIMIT).next(&mut input) {
        Ok(ChunkEvent::Data(data)) => assert_eq!(data.as_ptr() as usize - origin, 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn encoded_bodies_are_decoded() {
    for len in [1, 9, 15, 16, 255, 256, 65_535, 1 << 20] {
        let data = vec![7u8; len];
        let mut out = Vec::new();
        for piece in [&data[..], &data[..1]] {
            chunk_head(piece.len(), &mut out);
            out.extend_from_slice(piece);
            out.extend_from_slice(CHUNK_END);
        }
        out.extend_from_slice(LAST_CHUNK_LINE);
        trailer_section([(&b"X-Sum"[..], &b"abc"[..])].into_iter(), &mut out);
        let (body, trailers, rest) = decode(&[&out]).unwrap().unwrap();
        assert_eq!((body.len(), rest.len()), (len + 1, 0));
        assert_eq!(trailers, [("X-Sum".to_owned(), "abc".to_owned())]);
    }
    let mut head = Vec::new();
    chunk_head(usize::MAX, &mut head);
    assert_eq!(head, b"ffffffffffffffff\r\n");
}
