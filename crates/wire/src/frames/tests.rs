//! Every kind round-trips, split at every byte; invalid frames are rejected.

use super::*;

fn every_kind() -> Vec<u8> {
    let mut out = Vec::new();
    hello(&mut out, 256 * 1024, "1.2.3");
    headed(&mut out, Kind::Request, 1, true, 4, |out| out.extend_from_slice(b"head")).unwrap();
    out.extend_from_slice(b"body");
    headed(&mut out, Kind::Request, 2, false, 0, |out| out.push(7)).unwrap();
    data_head(&mut out, 2, 3, false);
    out.extend_from_slice(b"one");
    data_head(&mut out, 2, 0, true);
    headed(&mut out, Kind::Response, 1, false, 0, |_| ()).unwrap();
    for kind in [Kind::Inform, Kind::Trailers, Kind::Session, Kind::Accept] {
        plain(&mut out, kind, 3, |out| out.extend_from_slice(b"fields")).unwrap();
    }
    fault(&mut out, 4, b"why");
    window(&mut out, 5, 1000);
    bare(&mut out, Kind::Stop, 6);
    bare(&mut out, Kind::Cancel, 7);
    message_head(&mut out, 8, 2, false, false);
    out.extend_from_slice(b"te");
    message_head(&mut out, 8, 2, false, true);
    out.extend_from_slice(b"xt");
    message_head(&mut out, 8, 0, true, true);
    close(&mut out, 8, 1000, "bye");
    bare(&mut out, Kind::GoAway, 0);
    ping(&mut out, Kind::Ping, 5);
    ping(&mut out, Kind::Pong, u64::MAX);
    file(&mut out, 9, 7, u64::from(u32::MAX) + 1);
    out
}

/// The frames of the pieces as text, with adjacent pieces of data joined; then the error.
fn frames(pieces: &[&[u8]]) -> (Vec<String>, Option<Malformed>) {
    let mut decoder = Decoder::new();
    let mut seen = Vec::new();
    let mut data = (Vec::new(), 0);
    for piece in pieces {
        let mut input = *piece;
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Err(malformed) => return (seen, Some(malformed)),
                Ok(Some(Frame::Data(piece))) => {
                    data.0.extend_from_slice(piece.bytes);
                    data.1 += piece.cost;
                    if piece.end {
                        let data = std::mem::take(&mut data);
                        seen.push(format!("{} {:?} {}", piece.stream, data.0, data.1));
                    }
                }
                Ok(Some(frame)) => seen.push(format!("{frame:?}")),
            }
        }
        assert!(input.is_empty());
    }
    (seen, None)
}

#[test]
fn every_kind_round_trips_however_it_is_split() {
    let bytes = every_kind();
    let whole = frames(&[&bytes]);
    assert_eq!((whole.0.len(), whole.1), (21, None));
    assert_eq!(whole.0[0], format!("{:?}", Frame::Hello { window: 256 * 1024, program: b"1.2.3" }));
    let request = Frame::Request { stream: 1, end: true, head: b"head", body: b"body" };
    assert_eq!(whole.0[1], format!("{request:?}"));
    assert_eq!(whole.0[3], format!("2 {:?} {}", b"one", 3 + FRAME_COST));
    let bye = Frame::Close { stream: 8, code: 1000, reason: b"bye" };
    assert_eq!(whole.0[16], format!("{bye:?}"));
    for cut in 0..bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(frames(&[left, right]), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(frames(&single), whole);
}

#[test]
fn data_is_returned_as_received_and_not_buffered() {
    let mut bytes = Vec::new();
    hello(&mut bytes, WINDOW_MIN, "");
    data_head(&mut bytes, 9, DATA_BYTES_MAX, true);
    let mut decoder = Decoder::new();
    let mut input = &bytes[..];
    assert!(matches!(decoder.next(&mut input), Ok(Some(Frame::Hello { .. }))));
    assert_eq!(decoder.next(&mut input), Ok(None));
    let half = vec![1; DATA_BYTES_MAX / 2];
    for (end, cost) in [(false, cost(half.len())), (true, half.len() as u32)] {
        let mut input = &half[..];
        assert!(decoder.is_long_piece(input, half.len()));
        let piece = Data { stream: 9, bytes: &half, cost, end };
        assert_eq!(decoder.next(&mut input), Ok(Some(Frame::Data(piece))));
    }
    assert_eq!(decoder.buffered.capacity(), 0);
}

fn frame(length: u32, kind: u8, flags: u8, zero: u8, stream: u32) -> Vec<u8> {
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[kind, flags, zero, 0]);
    bytes.extend_from_slice(&stream.to_le_bytes());
    bytes
}

fn after_hello(bytes: &[u8]) -> Option<Malformed> {
    let mut all = Vec::new();
    hello(&mut all, WINDOW_MAX, "1");
    all.extend_from_slice(bytes);
    frames(&[&all]).1
}

#[test]
fn invalid_frames_are_malformed() {
    let cases = [
        (frame(0, 0, 0, 0, 1), Malformed::Kind),
        (frame(0, 19, 0, 0, 1), Malformed::Kind),
        (frame(0, 10, 1, 0, 1), Malformed::Flags),
        (frame(0, 10, 0, 1, 1), Malformed::Reserved),
        (frame(0, 10, 0, 0, 0), Malformed::Stream),
        (frame(0, 15, 0, 0, 1), Malformed::Stream),
        (frame(1, 10, 0, 0, 1), Malformed::Length),
        (frame(0, 5, 0, 0, 1), Malformed::Length),
        (frame(DATA_BYTES_MAX as u32 + 1, 5, 0, 0, 1), Malformed::Length),
        (frame(u32::MAX, 2, 0, 0, 1), Malformed::Length),
        (frame(8, 18, 0, 0, 1), Malformed::Length),
        (frame(4, 8, 0, 0, 1), Malformed::Credit),
        (frame(8, 1, 0, 0, 0), Malformed::Hello),
        // A head longer than its frame, and a body although more follows.
        (frame(4, 2, 1, 0, 1), Malformed::Payload),
        (frame(5, 2, 0, 0, 1), Malformed::Payload),
    ];
    for (mut bytes, malformed) in cases {
        let head = [[1, 0, 0, 0], [0; 4]][usize::from(bytes[0] == 5 || bytes[4] == 8)];
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(after_hello(&bytes), Some(malformed), "{bytes:?}");
    }
    assert_eq!(frames(&[&frame(0, 15, 0, 0, 0)]).1, Some(Malformed::Hello));
    for (offset, length) in [(0, 0), (u64::MAX, 1_u64), (i64::MAX as u64, 1)] {
        let payload = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        let bytes = [frame(16, 18, 0, 0, 1), payload].concat();
        assert_eq!(after_hello(&bytes), Some(Malformed::Payload), "{offset} {length}");
    }
    let greet = |payload: [u8; 8]| {
        let bytes = [&frame(8, 1, 0, 0, 0)[..], &payload].concat();
        frames(&[&bytes]).1
    };
    assert_eq!(greet([1, 0, 0, 0, 0, 0, 4, 0]), Some(Malformed::Version));
    assert_eq!(greet([2, 0, 1, 0, 0, 0, 4, 0]), Some(Malformed::Payload));
    assert_eq!(greet([2, 0, 0, 0, 1, 0, 0, 0]), Some(Malformed::Payload));
    assert_eq!(greet([2, 0, 0, 0, 0, 0, 4, 0]), None);
}

#[test]
fn content_that_is_too_long_is_not_written() {
    let mut out = vec![1, 2, 3];
    let long = |out: &mut Vec<u8>| out.resize(out.len() + HEAD_BYTES_MAX + 1, 0);
    assert_eq!(headed(&mut out, Kind::Request, 1, true, 0, long), Err(TooLong));
    let body = INLINE_BYTES_MAX + 1;
    assert_eq!(headed(&mut out, Kind::Response, 1, true, body, |_| ()), Err(TooLong));
    assert_eq!(plain(&mut out, Kind::Trailers, 1, long), Err(TooLong));
    assert_eq!(out, [1, 2, 3]);
    // A reason ends with a whole character.
    close(&mut out, 1, 1001, &"é".repeat(100));
    assert_eq!(out.len(), 3 + FRAME_HEAD_BYTES + 2 + REASON_BYTES_MAX - 1);
}
