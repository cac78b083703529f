//! Frames between the gateway and an application.

use crate::{FuzzTarget, cuts, owned};
use wire::frames;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: frames,
    seeds: || {
        owned(&[
            "\x07\0\0\0\x02\x01\0\0\x01\0\0\0\x01\0\0\0hab\x03\0\0\0\x05\0\0\0\x02\0\0\0abc",
            "\x04\0\0\0\x08\0\0\0\x01\0\0\0\0\x01\0\0\x02\0\0\0\x06\0\0\0\x01\0\0\0xy",
        ])
    },
    dictionary: &["\u{1}\0\0\0", "\u{2}", "\u{5}", "\0\0\0\0"],
    cases: 2500,
};

/// Any bytes as frames between gateway and application, split anywhere, alone and after HELLO; then
/// the same bytes as the body of a message.
fn frames(data: &[u8]) {
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
