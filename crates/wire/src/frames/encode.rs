//! Writing frames: each appends to a buffer of the caller, so that all of a turn leave together.
//!
//! The payload of DATA, and a body beside the head of its message, is the caller's to append: it
//! may be a chunk that is sent from where it lies, or a part of a file.

use super::{
    BINARY, DATA_BYTES_MAX, END, FAULT_BYTES_MAX, FRAME_HEAD_BYTES, HEAD_BYTES_MAX,
    INLINE_BYTES_MAX, Kind, PROGRAM_BYTES_MAX, REASON_BYTES_MAX, VERSION,
};

/// What was to be written has no room in a frame; nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

fn head(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, length: usize) {
    // Every length is bounded by a constant far below 4 GiB.
    let [l0, l1, l2, l3] = (length as u32).to_le_bytes();
    let [s0, s1, s2, s3] = stream.to_le_bytes();
    out.extend_from_slice(&[l0, l1, l2, l3, kind as u8, flags, 0, 0, s0, s1, s2, s3]);
}

fn end_flag(end: bool) -> u8 {
    if end { END } else { 0 }
}

/// HELLO: credit of every stream to begin with, and the version of the program.
pub fn hello(out: &mut Vec<u8>, window: u32, program: &str) {
    let program = program.as_bytes();
    let program = &program[..program.len().min(PROGRAM_BYTES_MAX)];
    head(out, Kind::Hello, 0, 0, 8 + program.len());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&window.to_le_bytes());
    out.extend_from_slice(program);
}

/// REQUEST or RESPONSE with a head that `write` appends. With a body of this length the message
/// ends with it, and the caller appends it; without one, `end` says whether nothing follows.
pub fn headed(
    out: &mut Vec<u8>,
    kind: Kind,
    stream: u32,
    end: bool,
    body: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    debug_assert!(matches!(kind, Kind::Request | Kind::Response) && (end || body == 0));
    let at = out.len();
    head(out, kind, end_flag(end), stream, 0);
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    if length > HEAD_BYTES_MAX || body > INLINE_BYTES_MAX {
        out.truncate(at);
        return Err(TooLong);
    }
    out[at..at + 4].copy_from_slice(&((4 + length + body) as u32).to_le_bytes());
    out[start - 4..start].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// INFORM, TRAILERS, SESSION or ACCEPT with a payload that `write` appends.
pub fn plain(
    out: &mut Vec<u8>,
    kind: Kind,
    stream: u32,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    let at = out.len();
    head(out, kind, 0, stream, 0);
    write(out);
    let length = out.len() - at - FRAME_HEAD_BYTES;
    if length > kind.lengths().1 {
        out.truncate(at);
        return Err(TooLong);
    }
    out[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// The head of DATA; the caller appends `length` bytes, at most [`DATA_BYTES_MAX`] of them.
pub fn data_head(out: &mut Vec<u8>, stream: u32, length: usize, end: bool) {
    debug_assert!(length <= DATA_BYTES_MAX && (end || length > 0));
    head(out, Kind::Data, end_flag(end), stream, length);
}

/// The head of a piece of a MESSAGE; as [`data_head`].
pub fn message_head(out: &mut Vec<u8>, stream: u32, length: usize, binary: bool, end: bool) {
    debug_assert!(length <= DATA_BYTES_MAX && (end || length > 0));
    let flags = end_flag(end) | if binary { BINARY } else { 0 };
    head(out, Kind::Message, flags, stream, length);
}

/// FAULT; a payload that is too long is cut.
pub fn fault(out: &mut Vec<u8>, stream: u32, payload: &[u8]) {
    let payload = &payload[..payload.len().min(FAULT_BYTES_MAX)];
    head(out, Kind::Fault, 0, stream, payload.len());
    out.extend_from_slice(payload);
}

/// WINDOW: so much more credit.
pub fn window(out: &mut Vec<u8>, stream: u32, credit: u32) {
    head(out, Kind::Window, 0, stream, 4);
    out.extend_from_slice(&credit.to_le_bytes());
}

/// CLOSE; a reason that is too long is cut, between two characters.
pub fn close(out: &mut Vec<u8>, stream: u32, code: u16, reason: &str) {
    let reason = reason.as_bytes();
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while end < reason.len() && end > 0 && reason[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    head(out, Kind::Close, 0, stream, 2 + end);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&reason[..end]);
}

/// STOP and CANCEL of a stream, GOAWAY of the connection, which is stream 0.
pub fn bare(out: &mut Vec<u8>, kind: Kind, stream: u32) {
    debug_assert!(kind.lengths() == (0, 0));
    head(out, kind, 0, stream, 0);
}

/// PING, or the PONG to one.
pub fn ping(out: &mut Vec<u8>, kind: Kind, number: u64) {
    debug_assert!(matches!(kind, Kind::Ping | Kind::Pong));
    head(out, kind, 0, 0, 8);
    out.extend_from_slice(&number.to_le_bytes());
}
