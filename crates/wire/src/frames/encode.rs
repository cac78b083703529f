//! Encoding of frames: each is appended to a buffer of the caller, so that all frames of a turn are
//! sent together.
//!
//! The payload of DATA, and the body that follows the head of its message, are appended by the
//! caller: they may be a chunk that is sent in place, or a file range.

use super::{
    BINARY, DATA_BYTES_MAX, END, FAULT_BYTES_MAX, FRAME_HEAD_BYTES, HEAD_BYTES_MAX,
    INLINE_BYTES_MAX, Kind, PROGRAM_BYTES_MAX, REASON_BYTES_MAX, VERSION,
};

/// The content does not fit into a frame; nothing was written.
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

/// Appends HELLO: the initial credit of every stream, and the version of the program.
pub fn hello(out: &mut Vec<u8>, window: u32, program: &str) {
    let program = program.as_bytes();
    let program = &program[..program.len().min(PROGRAM_BYTES_MAX)];
    head(out, Kind::Hello, 0, 0, 8 + program.len());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&window.to_le_bytes());
    out.extend_from_slice(program);
}

/// Appends REQUEST or RESPONSE with a head that `write` appends. With a body of the given length
/// the message ends with it, and the caller appends it; without one, `end` tells whether nothing
/// follows.
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

/// Appends INFORM, TRAILERS, SESSION or ACCEPT with a payload that `write` appends.
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

/// Appends the header of DATA; the caller appends `length` bytes, at most [`DATA_BYTES_MAX`].
pub fn data_head(out: &mut Vec<u8>, stream: u32, length: usize, end: bool) {
    debug_assert!(length <= DATA_BYTES_MAX && (end || length > 0));
    head(out, Kind::Data, end_flag(end), stream, length);
}

/// Appends the header of a piece of a MESSAGE, like [`data_head`].
pub fn message_head(out: &mut Vec<u8>, stream: u32, length: usize, binary: bool, end: bool) {
    debug_assert!(length <= DATA_BYTES_MAX && (end || length > 0));
    let flags = end_flag(end) | if binary { BINARY } else { 0 };
    head(out, Kind::Message, flags, stream, length);
}

/// Appends FAULT; a payload that is too long is cut off.
pub fn fault(out: &mut Vec<u8>, stream: u32, payload: &[u8]) {
    let payload = &payload[..payload.len().min(FAULT_BYTES_MAX)];
    head(out, Kind::Fault, 0, stream, payload.len());
    out.extend_from_slice(payload);
}

/// Appends WINDOW: additional credit.
pub fn window(out: &mut Vec<u8>, stream: u32, credit: u32) {
    head(out, Kind::Window, 0, stream, 4);
    out.extend_from_slice(&credit.to_le_bytes());
}

/// Appends FILE. Its descriptor is sent with its first byte.
pub fn file(out: &mut Vec<u8>, stream: u32, offset: u64, length: u64) {
    debug_assert!(length > 0);
    head(out, Kind::File, 0, stream, 16);
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Appends CLOSE; a reason that is too long is cut off between two characters.
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

/// Appends STOP or CANCEL of a stream, or GOAWAY of the connection, which is stream 0.
pub fn bare(out: &mut Vec<u8>, kind: Kind, stream: u32) {
    debug_assert!(kind.lengths() == (0, 0));
    head(out, kind, 0, stream, 0);
}

/// Appends PING, or the PONG that replies to one.
pub fn ping(out: &mut Vec<u8>, kind: Kind, number: u64) {
    debug_assert!(matches!(kind, Kind::Ping | Kind::Pong));
    head(out, kind, 0, 0, 8);
    out.extend_from_slice(&number.to_le_bytes());
}
