//! Responses in one piece, split at every offset, and byte by byte: the result is always the same.

use super::super::{Expect, Kind};
use super::{FeedResult, ResponseParser, Rules};
use std::sync::Arc;

fn rules(expect: &Expect) -> Rules {
    Rules::new(b"GET / HTTP/1.1\r\n\r\n", expect)
}

fn pong() -> Expect {
    let body: Arc<[u8]> = Arc::from(&b"pong"[..]);
    Expect { status: 200, length: Some(4), body: Some(body), ..Expect::default() }
}

fn any() -> Expect {
    Expect { status: 200, ..Expect::default() }
}

/// Feeds the whole, then in two pieces at every cut, then byte by byte.
#[track_caller]
fn fed(expect: &Expect, bytes: &[u8]) -> FeedResult {
    let rules = rules(expect);
    let whole = feed_pieces(&rules, &[bytes]);
    for cut in 1..bytes.len() {
        let pieces = [&bytes[..cut], &bytes[cut..]];
        assert_eq!(feed_pieces(&rules, &pieces), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(feed_pieces(&rules, &single), whole, "byte by byte");
    whole
}

/// The first result that is not "more", as a connection would see it. Bytes that are left when
/// the response is whole are extra: a framing error, as if they had come with its last piece.
fn feed_pieces(rules: &Rules, pieces: &[&[u8]]) -> FeedResult {
    let mut answer = ResponseParser::default();
    answer.expect(true);
    for (index, piece) in pieces.iter().enumerate() {
        match answer.feed(rules, piece) {
            FeedResult::More { right: 0 } => {}
            FeedResult::Last { .. } if index + 1 < pieces.len() => {
                return FeedResult::Broken { right: 0, kind: Kind::Framing };
            }
            found => return found,
        }
    }
    FeedResult::More { right: 0 }
}

const RIGHT: FeedResult = FeedResult::Last { right: 1, wrong: None, close: false };
const RIGHT_AND_CLOSE: FeedResult = FeedResult::Last { right: 1, wrong: None, close: true };
const FRAMING: FeedResult = FeedResult::Broken { right: 0, kind: Kind::Framing };
const MORE: FeedResult = FeedResult::More { right: 0 };

fn wrong(kind: Kind) -> FeedResult {
    FeedResult::Last { right: 0, wrong: Some(kind), close: false }
}

#[test]
fn right_answers() {
    let found = fed(&pong(), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong");
    assert_eq!(found, RIGHT);
    let found = fed(&pong(), b"HTTP/1.1 200\r\nx: y\r\ncontent-length:4 \r\n\r\npong");
    assert_eq!(found, RIGHT);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        1\r\np\r\n3;a=b\r\nong\r\n0\r\nx-sum: 1\r\n\r\n";
    assert_eq!(fed(&pong(), chunked), RIGHT);
    let found = fed(&any(), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(found, RIGHT);
    let empty = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n";
    assert_eq!(fed(&any(), empty), RIGHT);
}

#[test]
fn interim_responses_are_passed_over() {
    let bytes = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
        HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong";
    assert_eq!(fed(&pong(), bytes), RIGHT);
    assert_eq!(fed(&pong(), b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), FRAMING);
}

#[test]
fn the_end_of_the_connection_is_announced() {
    let found =
        fed(&pong(), b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 4\r\n\r\npong");
    assert_eq!(found, RIGHT_AND_CLOSE);
    let found = fed(&pong(), b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npong");
    assert_eq!(found, RIGHT_AND_CLOSE);
    let kept = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\npong";
    assert_eq!(fed(&pong(), kept), RIGHT);
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let rules = rules(&pong());
    let mut answer = ResponseParser::default();
    answer.expect(true);
    assert_eq!(answer.feed(&rules, b"HTTP/1.1 200 OK\r\n\r\npo"), MORE);
    assert_eq!(answer.feed(&rules, b"ng"), MORE);
    assert_eq!(answer.ended(&rules), RIGHT_AND_CLOSE);
}

#[test]
fn an_early_end_is_a_read_error() {
    let rules = rules(&pong());
    for bytes in [
        &b"HTTP/1.1 200 OK\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npon",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npong\r\n",
        b"",
    ] {
        let mut answer = ResponseParser::default();
        answer.expect(true);
        answer.feed(&rules, bytes);
        assert_eq!(answer.ended(&rules), FeedResult::Broken { right: 0, kind: Kind::Read });
    }
}

#[test]
fn responses_without_a_body() {
    let no_content = Expect { status: 204, length: Some(0), ..Expect::default() };
    assert_eq!(fed(&no_content, b"HTTP/1.1 204 No Content\r\n\r\n"), RIGHT);
    let not_modified = Expect { status: 304, ..Expect::default() };
    let found = fed(&not_modified, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(found, RIGHT);
    let head = Rules::new(b"HEAD / HTTP/1.1\r\n\r\n", &any());
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(feed_pieces(&head, &[bytes]), RIGHT);
}

#[test]
fn wrong_responses_that_keep_their_framing() {
    let found = fed(&pong(), b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\npong");
    assert_eq!(found, wrong(Kind::Status));
    let found = fed(&pong(), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npung");
    assert_eq!(found, wrong(Kind::Body));
    let found = fed(&pong(), b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\npon");
    assert_eq!(found, wrong(Kind::Length));
    let found = fed(&pong(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npongs");
    assert_eq!(found, wrong(Kind::Length));
    let long = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npongs\r\n0\r\n\r\n";
    assert_eq!(fed(&pong(), long), wrong(Kind::Length));
}

#[test]
fn a_body_is_compared_only_when_it_is_its_turn() {
    let rules = rules(&pong());
    let mut answer = ResponseParser::default();
    answer.expect(false);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npung";
    assert_eq!(answer.feed(&rules, bytes), RIGHT);
    answer.expect(true);
    assert_eq!(answer.feed(&rules, bytes), wrong(Kind::Body));
}

#[test]
fn expected_fields_are_looked_for() {
    let field = ("Content-Encoding".to_owned(), "gzip".to_owned());
    let expect = Expect { headers: vec![field], ..pong() };
    let found =
        fed(&expect, b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\npong");
    assert_eq!(found, RIGHT);
    let found =
        fed(&expect, b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 4\r\n\r\npong");
    assert_eq!(found, wrong(Kind::Header));
    let found = fed(&expect, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong");
    assert_eq!(found, wrong(Kind::Header));
}

#[test]
fn broken_framing() {
    for bytes in [
        // status line
        &b"HTTP/2.0 200 OK\r\ncontent-length: 4\r\n\r\npong"[..],
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"pong\r\n",
        b"\r\n",
        // field lines
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: y\r\n folded: z\r\n\r\n",
        b"HTTP/1.1 200 OK\nx: y\n\n",
        b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
        // lengths
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 4\r\n\r\npong",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4, 4\r\n\r\npong",
        b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\npong",
        b"HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\npong",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\npong",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        // chunks
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n 4\r\npong\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11112222333344445\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\npong\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\npong\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npong\r\n0\r\nbad\r\n\r\n",
        // bytes that belong to no response
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong!",
        b"HTTP/1.1 204 No Content\r\n\r\n!",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npong\r\n0\r\n\r\n!",
    ] {
        assert_eq!(fed(&pong(), bytes), FRAMING, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_head_without_end_is_given_up() {
    let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
    while bytes.len() <= super::HEAD_BYTES_MAX {
        bytes.extend_from_slice(b"x: 0123456789012345678901234567890123456789\r\n");
    }
    let rules = rules(&any());
    assert_eq!(feed_pieces(&rules, &[&bytes[..1000], &bytes[1000..]]), FRAMING);
    assert_eq!(feed_pieces(&rules, &[&bytes[..1000]]), MORE);
}
