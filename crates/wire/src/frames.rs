//! Frames: many exchanges at a time over one connection between a gateway and an application.
//!
//! Owns the syntax: twelve bytes of head (the length of the payload, a kind, flags, two bytes of
//! zero, the number of a stream; little-endian), then the payload. Promises that a peer can make
//! nothing grow beyond the limits below, that a verdict does not depend on how the bytes were
//! split, and that a kind, flag or length nobody knows is malformed. What a head of a request or an
//! answer says is for others to read; which frame may follow which is for the two ends to know.
//!
//! Both ends begin with HELLO. The gateway opens a stream by REQUEST or SESSION and numbers it; it
//! is over when the other end has ended its answer, or the gateway has cancelled it. DATA and
//! MESSAGE are sent against credit: a window of HELLO for each stream and direction, then WINDOW.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{Data, Decoder, Frame};
pub use encode::{
    TooLong, bare, close, data_head, fault, headed, hello, message_head, ping, plain, window,
};

/// The version of this syntax: both ends have to speak the same.
pub const VERSION: u16 = 1;

/// Bytes of the head of a frame.
pub const FRAME_HEAD_BYTES: usize = 12;
/// Longest payload of DATA and MESSAGE.
pub const DATA_BYTES_MAX: usize = 256 * 1024;
/// Longest head of a request, an answer or a session, and longest list of trailers.
pub const HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Longest body that comes in one frame with the head of its message.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Longest payload of FAULT.
pub const FAULT_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a program's version.
pub const PROGRAM_BYTES_MAX: usize = 64;
/// Longest reason of CLOSE: what a close frame of WebSocket has room for (RFC 6455 5.5.1).
pub const REASON_BYTES_MAX: usize = 123;
/// What a frame costs its sender's credit beside its bytes, so that many short ones are bounded as
/// well.
pub const FRAME_COST: u32 = 128;
/// The window of HELLO is at least this and at most that.
pub const WINDOW_MIN: u32 = 8 * 1024;
pub const WINDOW_MAX: u32 = 16 * 1024 * 1024;

/// The last of its direction on this stream; of a MESSAGE, the last piece of the message.
const END: u8 = 1;
/// Of a MESSAGE: it is binary and no text.
const BINARY: u8 = 2;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Request,
    Response,
    /// An interim answer (1xx).
    Inform,
    Data,
    Trailers,
    Fault,
    Window,
    /// The rest of the request's body is not wanted.
    Stop,
    /// Nobody waits for the answer any more.
    Cancel,
    Session,
    Accept,
    Message,
    Close,
    /// The sender takes no new streams, or opens none.
    GoAway,
    Ping,
    Pong,
}

impl Kind {
    pub const ALL: [Kind; 17] = [
        Kind::Hello,
        Kind::Request,
        Kind::Response,
        Kind::Inform,
        Kind::Data,
        Kind::Trailers,
        Kind::Fault,
        Kind::Window,
        Kind::Stop,
        Kind::Cancel,
        Kind::Session,
        Kind::Accept,
        Kind::Message,
        Kind::Close,
        Kind::GoAway,
        Kind::Ping,
        Kind::Pong,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// Whether it is of the connection and of no stream.
    fn is_of_connection(self) -> bool {
        matches!(self, Kind::Hello | Kind::GoAway | Kind::Ping | Kind::Pong)
    }

    fn flags(self) -> u8 {
        match self {
            Kind::Request | Kind::Response | Kind::Data => END,
            Kind::Message => END | BINARY,
            _ => 0,
        }
    }

    /// How short and how long its payload may be.
    fn lengths(self) -> (usize, usize) {
        match self {
            Kind::Hello => (8, 8 + PROGRAM_BYTES_MAX),
            Kind::Request | Kind::Response => (4, 4 + HEAD_BYTES_MAX + INLINE_BYTES_MAX),
            Kind::Inform | Kind::Trailers | Kind::Session | Kind::Accept => (0, HEAD_BYTES_MAX),
            Kind::Data | Kind::Message => (0, DATA_BYTES_MAX),
            Kind::Fault => (0, FAULT_BYTES_MAX),
            Kind::Window => (4, 4),
            Kind::Close => (2, 2 + REASON_BYTES_MAX),
            Kind::Stop | Kind::Cancel | Kind::GoAway => (0, 0),
            Kind::Ping | Kind::Pong => (8, 8),
        }
    }
}

/// What DATA or MESSAGE of this length costs; an end without bytes is free, and comes once.
pub fn cost(length: usize) -> u32 {
    // No payload is longer than `DATA_BYTES_MAX`.
    if length == 0 { 0 } else { FRAME_COST.saturating_add(length as u32) }
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    Kind,
    Flags,
    Reserved,
    Length,
    Stream,
    /// The first frame is not HELLO, or another one is.
    Hello,
    Version,
    Credit,
    /// A payload that its kind cannot have.
    Payload,
}

impl Malformed {
    pub fn text(self) -> &'static str {
        match self {
            Malformed::Kind => "a frame of an unknown kind",
            Malformed::Flags => "a flag that its kind does not have",
            Malformed::Reserved => "reserved bytes that are not zero",
            Malformed::Length => "a payload too short or too long for its kind",
            Malformed::Stream => "a stream where there can be none, or none where there has to be",
            Malformed::Hello => "a greeting too many, or none at the beginning",
            Malformed::Version => "another version of the frames",
            Malformed::Credit => "more than there was credit for, or credit of nothing",
            Malformed::Payload => "a payload that cannot be read",
        }
    }
}

/// The head of a frame, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHead {
    kind: Kind,
    flags: u8,
    stream: u32,
    length: usize,
}

impl FrameHead {
    fn parse(head: &[u8; FRAME_HEAD_BYTES]) -> Result<FrameHead, Malformed> {
        let [l0, l1, l2, l3, kind, flags, z0, z1, s0, s1, s2, s3] = *head;
        let kind = Kind::from_byte(kind).ok_or(Malformed::Kind)?;
        if flags & !kind.flags() != 0 {
            return Err(Malformed::Flags);
        }
        if z0 | z1 != 0 {
            return Err(Malformed::Reserved);
        }
        let stream = u32::from_le_bytes([s0, s1, s2, s3]);
        if kind.is_of_connection() != (stream == 0) {
            return Err(Malformed::Stream);
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let (shortest, longest) = kind.lengths();
        // Data that is neither bytes nor an end says nothing.
        let nothing = matches!(kind, Kind::Data | Kind::Message) && length == 0 && flags & END == 0;
        if length < shortest || length > longest || nothing {
            return Err(Malformed::Length);
        }
        Ok(FrameHead { kind, flags, stream, length })
    }

    fn is_end(&self) -> bool {
        self.flags & END != 0
    }
}
