//! Frames of servers, split at every offset, and invalid ones.

use super::super::Kind;
use super::{ACCEPT, EchoParser, FeedResult, Rules, frame, greeting};

const ONE: FeedResult = FeedResult::Last { right: 1, wrong: None, close: false };
const MORE: FeedResult = FeedResult::More { right: 0 };

/// An unmasked frame.
fn says(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(length as u8),
        length @ 126..=0xffff => {
            frame.push(126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

/// FeedResult to one that waits for this text, piece after piece, until it is whole or broken.
fn fed(text: &[u8], pieces: &[&[u8]]) -> FeedResult {
    let (rules, mut answer) = (Rules::new(text), EchoParser::default());
    answer.expect();
    let mut found = MORE;
    for piece in pieces {
        found = answer.feed(&rules, piece);
        if found != MORE {
            break;
        }
    }
    found
}

fn broken(kind: Kind) -> FeedResult {
    FeedResult::Broken { right: 0, kind }
}

#[test]
fn a_text_is_masked_as_in_the_rfc() {
    // RFC 6455, section 5.7.
    let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(frame(b"Hello"), hello);
    assert_eq!(frame(&[b'a'; 126])[..4], [0x81, 0xfe, 0, 126]);
    assert_eq!(frame(&[b'a'; 70_000])[..10], [0x81, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
}

#[test]
fn responses_are_whole_wherever_they_are_cut() {
    for text in [&b"Hello"[..], &[b'a'; 300], &[b'b'; 70_000], b""] {
        let whole = says(0x81, text);
        for cut in (1..whole.len().min(20)).chain([whole.len()]) {
            assert_eq!(fed(text, &[&whole[..cut], &whole[cut..]]), ONE, "cut at {cut}");
        }
    }
    let parts = [says(0x01, b"Hel"), says(0x89, b"are you there"), says(0x80, b"lo")].concat();
    for cut in 1..parts.len() {
        assert_eq!(fed(b"Hello", &[&parts[..cut], &parts[cut..]]), ONE, "cut at {cut}");
    }
}

#[test]
fn wrong_replies_are_distinguished() {
    assert_eq!(fed(b"Hello", &[&says(0x81, b"Jello")]), broken(Kind::Body));
    assert_eq!(fed(b"Hello", &[&says(0x81, b"Hell")]), broken(Kind::Length));
    assert_eq!(fed(b"Hello", &[&says(0x81, b"Hello!")]), broken(Kind::Length));
    assert_eq!(fed(b"Hello", &[&says(0x82, b"Hello")]), broken(Kind::Framing), "binary");
    assert_eq!(fed(b"Hello", &[&says(0xc1, b"Hello")]), broken(Kind::Framing), "compressed");
    assert_eq!(fed(b"Hello", &[&frame(b"Hello")]), broken(Kind::Framing), "masked");
    assert_eq!(fed(b"Hello", &[&says(0x88, b"\x03\xe8")]), broken(Kind::Status), "closed");
    let twice = says(0x81, b"Hello").repeat(2);
    assert_eq!(fed(b"Hello", &[&twice]), broken(Kind::Framing), "one too many");
    assert_eq!(fed(b"Hello", &[b"\x81\x7f\0\0\0\x01\0\0\0\0"]), broken(Kind::Length), "endless");
    assert_eq!(fed(b"Hello", &[&says(0x01, b"Hello")]), MORE, "not its last frame");
}

#[test]
fn a_handshake_is_looked_at() {
    let greeted = |answer: &str| {
        let (rules, mut state) = (Rules::new(b"x"), EchoParser::default());
        state.greet();
        state.feed(&rules, answer.as_bytes())
    };
    let right = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {ACCEPT}\r\n\r\n"
    );
    assert_eq!(greeted(&right), ONE);
    assert_eq!(greeted(&right[..right.len() - 2]), MORE);
    assert_eq!(greeted(&right.replace("s3p", "S3P")), broken(Kind::Header));
    assert_eq!(greeted("HTTP/1.1 403 No\r\n\r\n"), broken(Kind::Status));
    assert_eq!(greeted(&(right + "\u{1}")), broken(Kind::Framing));
    assert_eq!(greeted(&"a: b\r\n".repeat(4000)), broken(Kind::Framing));
    let asked = String::from_utf8(greeting("a:1", "/echo")).unwrap();
    assert!(
        asked.starts_with("GET /echo HTTP/1.1\r\nHost: a:1\r\n") && asked.ends_with("\r\n\r\n")
    );
}
