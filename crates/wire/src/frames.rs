//! Frames: many concurrent exchanges over one connection between a gateway and an application.
//!
//! Owns the syntax: a frame header of twelve bytes (length of the payload, a kind, flags, two zero
//! bytes, a stream number; little-endian), then the payload. Guarantees: a peer can make nothing
//! grow beyond the limits below, the result does not depend on how the bytes were split, and an
//! unknown kind, flag or length is malformed. The content of request and response heads is parsed
//! elsewhere; which frame may follow which is decided by the two ends.
//!
//! Both ends begin with HELLO. The gateway opens a stream by REQUEST or SESSION and numbers it; the
//! stream ends when the other end has ended its response, or the gateway has cancelled it. DATA and
//! MESSAGE are sent against credit: the window of HELLO for each stream and direction, then WINDOW.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{Data, Decoder, Frame};
pub use encode::{
    TooLong, bare, close, data_head, fault, file, headed, hello, message_head, ping, plain, window,
};

/// The version of this syntax: both ends must use the same.
pub const VERSION: u16 = 2;

/// Bytes of a frame header.
pub const FRAME_HEAD_BYTES: usize = 12;
/// Longest payload of DATA and MESSAGE.
pub const DATA_BYTES_MAX: usize = 256 * 1024;
/// Longest head of a request, a response or a session, and longest list of trailers.
pub const HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Longest body that is sent in one frame with the head of its message.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Longest payload of FAULT.
pub const FAULT_BYTES_MAX: usize = 64 * 1024;
/// Longest version string of a program.
pub const PROGRAM_BYTES_MAX: usize = 64;
/// Longest reason of CLOSE: the room in a WebSocket close frame (RFC 6455 5.5.1).
pub const REASON_BYTES_MAX: usize = 123;
/// Credit that a frame costs in addition to its bytes, so that many short frames are bounded as
/// well.
pub const FRAME_COST: u32 = 128;
/// Credit that FILE costs: nothing of the file is in memory, but its descriptor is open.
pub const FILE_COST: u32 = WINDOW_MIN;
/// Bounds of the window in HELLO.
pub const WINDOW_MIN: u32 = 8 * 1024;
pub const WINDOW_MAX: u32 = 16 * 1024 * 1024;

/// The last frame of its direction on this stream; of a MESSAGE, the last piece of the message.
const END: u8 = 1;
/// Of a MESSAGE: binary instead of text.
const BINARY: u8 = 2;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Request,
    Response,
    /// An interim response (1xx).
    Inform,
    Data,
    Trailers,
    Fault,
    Window,
    /// The rest of the request body is not wanted.
    Stop,
    /// The response is no longer awaited.
    Cancel,
    Session,
    Accept,
    Message,
    Close,
    /// The sender accepts no new streams, or opens none.
    GoAway,
    Ping,
    Pong,
    /// A part of a file of the response's body, whose descriptor comes with the frame.
    File,
}

impl Kind {
    pub const ALL: [Kind; 18] = [
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
        Kind::File,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// True if frames of this kind belong to the connection and not to a stream.
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

    /// Least and greatest length of the payload.
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
            Kind::File => (16, 16),
        }
    }
}

/// Credit that DATA or MESSAGE of this length costs; an end without bytes is free, and occurs once.
pub fn cost(length: usize) -> u32 {
    // No payload is longer than `DATA_BYTES_MAX`.
    if length == 0 { 0 } else { FRAME_COST.saturating_add(length as u32) }
}

/// Why a connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    Kind,
    Flags,
    Reserved,
    Length,
    Stream,
    /// The first frame is not HELLO, or a later one is.
    Hello,
    Version,
    Credit,
    /// A payload that is invalid for its kind.
    Payload,
    /// FILE without a descriptor, or a descriptor without FILE.
    Descriptor,
}

impl Malformed {
    pub fn text(self) -> &'static str {
        match self {
            Malformed::Kind => "a frame of an unknown kind",
            Malformed::Flags => "a flag that its kind does not have",
            Malformed::Reserved => "reserved bytes that are not zero",
            Malformed::Length => "a payload too short or too long for its kind",
            Malformed::Stream => "a stream number on a connection frame, or none on a stream frame",
            Malformed::Hello => "HELLO repeated, or missing at the beginning",
            Malformed::Version => "an unsupported version of the frames",
            Malformed::Credit => "more data than credit, or a credit of zero",
            Malformed::Payload => "a malformed payload",
            Malformed::Descriptor => "a file without its descriptor, or a descriptor without one",
        }
    }
}

/// A checked frame header.
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
        // Data without bytes or end carries nothing.
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
