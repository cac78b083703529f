//! Frames and messages of WebSocket.

use crate::{FuzzTarget, cuts, owned};
use wire::websocket::{Decoder, FrameCounter, FrameHead, Message, Opcode, Violation};
use wire::websocket::{parse_head, write_frame};

pub(crate) const MESSAGES: FuzzTarget =
    FuzzTarget { check: websocket, seeds: || owned(SEEDS), dictionary: DICTIONARY, cases: 3500 };

pub(crate) const FRAMES: FuzzTarget = FuzzTarget {
    check: frames,
    seeds: || {
        let mut seeds = owned(SEEDS);
        // Compressed; lengths of two and of eight bytes; a reserved opcode behind a frame.
        seeds.extend(owned(&[
            &b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\0\x80\0"[..],
            &[b"\x82\x7e\0\x80", &[7; 128][..], b"\x88\0"].concat(),
            b"\x82\x7f\0\0\0\0\0\0\0\x03abc\x82\xff\0\0\0\0\x01\0\0\0maskrest",
            b"\x81\x01a\x83\0\x81\x01a",
        ]));
        seeds
    },
    dictionary: DICTIONARY,
    cases: 4000,
};

const SEEDS: &[&[u8]] = &[
    b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x8a\x80\0\0\0\0",
    b"\x01\x03Hel\x89\x01?\x80\x02lo\x88\x05\x03\xe8bye",
];
const DICTIONARY: &[&str] = &["\u{1}", "\u{2}", "\u{8}", "\u{9}", "\u{a}", "~", "\0\0"];

/// Any bytes as WebSocket frames, split anywhere; then the same bytes as a message.
fn websocket(data: &[u8]) {
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

/// Any bytes as the frames of one direction, split anywhere, against a parser of whole frames.
fn frames(data: &[u8]) {
    let whole = counted(&[data]);
    assert_eq!(whole, parsed(data), "against the parser");
    let single: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(counted(&single), whole, "byte by byte");
    for cut in cuts(data.len()) {
        let (left, right) = data.split_at(cut);
        assert_eq!(counted(&[left, right]), whole, "cut at {cut}");
    }
    // Frame by frame, each from where the one before ended.
    let (mut counter, mut heads, mut rest) = (FrameCounter::default(), Vec::new(), data);
    while !rest.is_empty() {
        let taken = counter.take_frame(rest, |head| heads.push(*head));
        assert!(taken > 0, "bytes are taken");
        assert!(taken == rest.len() || counter.is_between_frames(), "a frame ends at {taken}");
        rest = &rest[taken..];
    }
    assert_eq!((heads, counter.is_between_frames(), counter.is_lost()), whole, "by frames");
}

/// The headers in these pieces, whether the last one ends a frame, and whether one is not a frame.
fn counted(pieces: &[&[u8]]) -> (Vec<FrameHead>, bool, bool) {
    let (mut counter, mut heads) = (FrameCounter::default(), Vec::new());
    for piece in pieces {
        counter.take(piece, |head| heads.push(*head));
    }
    (heads, counter.is_between_frames(), counter.is_lost())
}

/// The same of all bytes at once.
fn parsed(mut data: &[u8]) -> (Vec<FrameHead>, bool, bool) {
    let mut heads = Vec::new();
    while !data.is_empty() {
        match parse_head(data, true) {
            Ok(Some(head)) => {
                heads.push(head);
                let end = (head.size as u64).saturating_add(head.length);
                if end > data.len() as u64 {
                    return (heads, false, false);
                }
                data = &data[end as usize..];
            }
            Ok(None) => return (heads, false, false),
            Err(_) => return (heads, false, true),
        }
    }
    (heads, true, false)
}
