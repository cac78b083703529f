//! Frames and messages of WebSocket.

use crate::{FuzzTarget, cuts, owned};
use wire::websocket::{Decoder, Message, Opcode, Violation, write_frame};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: websocket,
    seeds: || {
        let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x8a\x80\0\0\0\0";
        let unmasked = b"\x01\x03Hel\x89\x01?\x80\x02lo\x88\x05\x03\xe8bye";
        owned(&[&masked[..], unmasked])
    },
    dictionary: &["\u{1}", "\u{2}", "\u{8}", "\u{9}", "\u{a}", "~", "\0\0"],
    cases: 10_000,
};

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
