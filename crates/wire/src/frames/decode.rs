//! Decoding of frames from arbitrarily split input.
//!
//! A frame that was received whole is parsed in place; only a split one is copied together. DATA is
//! never copied: it is returned in the pieces in which it was received.

use super::{
    BINARY, FRAME_HEAD_BYTES, FrameHead, HEAD_BYTES_MAX, INLINE_BYTES_MAX, Kind, Malformed,
    VERSION, WINDOW_MAX, WINDOW_MIN, cost,
};

/// Buffer capacity for split frames that is reused for the next one.
const BUFFER_REUSED_MAX: usize = 64 * 1024;

/// A frame, or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame of each end. `program` need not be text.
    Hello {
        window: u32,
        program: &'a [u8],
    },
    /// With a body, or with `end`, nothing follows.
    Request {
        stream: u32,
        end: bool,
        head: &'a [u8],
        body: &'a [u8],
    },
    Response {
        stream: u32,
        end: bool,
        head: &'a [u8],
        body: &'a [u8],
    },
    Data(Data<'a>),
    /// One of [`Kind::Inform`], [`Kind::Trailers`], [`Kind::Fault`], [`Kind::Session`],
    /// [`Kind::Accept`], with a payload that is parsed elsewhere.
    Plain {
        kind: Kind,
        stream: u32,
        payload: &'a [u8],
    },
    Window {
        stream: u32,
        credit: u32,
    },
    Stop {
        stream: u32,
    },
    Cancel {
        stream: u32,
    },
    /// A message, or a piece of one unless `end` marks the last.
    Message {
        stream: u32,
        binary: bool,
        end: bool,
        bytes: &'a [u8],
    },
    Close {
        stream: u32,
        code: u16,
        reason: &'a [u8],
    },
    GoAway,
    Ping(u64),
    Pong(u64),
    /// A part of a file, at least one byte, whose end is a valid offset.
    File {
        stream: u32,
        offset: u64,
        length: u64,
    },
}

/// A piece of DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    pub stream: u32,
    pub bytes: &'a [u8],
    /// Credit it costs; the first piece pays for its frame.
    pub cost: u32,
    /// Nothing follows.
    pub end: bool,
}

/// The decoder of one direction of a connection.
#[derive(Debug, Default)]
pub struct Decoder {
    state: DecoderState,
    /// The first bytes of the item that the state waits for.
    pub(super) buffered: Vec<u8>,
    /// `buffered` was returned, and is cleared before the next frame.
    is_returned: bool,
    greeted: bool,
}

#[derive(Debug, Default)]
enum DecoderState {
    /// Waits for a frame header.
    #[default]
    Head,
    /// Waits for its payload.
    Payload(FrameHead),
    /// Waits for more of DATA.
    Data(Rest),
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    stream: u32,
    left: usize,
    end: bool,
    /// Credit that the next piece costs in addition to its bytes.
    cost: u32,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Returns the next frame from the front of `input`; `None` once all of it is consumed. After
    /// an error there is no next frame.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, Malformed> {
        if std::mem::take(&mut self.is_returned) {
            self.buffered.clear();
            self.buffered.shrink_to(BUFFER_REUSED_MAX);
        }
        loop {
            match self.state {
                DecoderState::Data(rest) => return Ok(self.piece(rest, input)),
                DecoderState::Payload(head) => return self.payload(head, input),
                DecoderState::Head => {
                    let Some(head) = self.head(input)? else { return Ok(None) };
                    self.check_hello(head.kind)?;
                    self.state = match head.kind {
                        Kind::Data => DecoderState::Data(Rest {
                            stream: head.stream,
                            left: head.length,
                            end: head.is_end(),
                            cost: cost(head.length) - head.length as u32,
                        }),
                        _ => DecoderState::Payload(head),
                    };
                }
            }
        }
    }

    /// True if `input`, which is what follows, begins with so many bytes of one DATA: a caller that
    /// has them in its own chunk need not copy them.
    pub fn is_long_piece(&self, input: &[u8], bytes: usize) -> bool {
        let (left, there) = match &self.state {
            DecoderState::Data(rest) => (rest.left, input.len()),
            DecoderState::Head if self.buffered.is_empty() => {
                match input.first_chunk().map(FrameHead::parse) {
                    Some(Ok(head)) if head.kind == Kind::Data => {
                        (head.length, input.len() - FRAME_HEAD_BYTES)
                    }
                    _ => return false,
                }
            }
            _ => return false,
        };
        left.min(there) >= bytes
    }

    /// HELLO comes first and only once.
    fn check_hello(&mut self, kind: Kind) -> Result<(), Malformed> {
        let was_greeted = std::mem::replace(&mut self.greeted, true);
        if was_greeted == (kind == Kind::Hello) { Err(Malformed::Hello) } else { Ok(()) }
    }

    fn head(&mut self, input: &mut &[u8]) -> Result<Option<FrameHead>, Malformed> {
        if self.buffered.is_empty()
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return FrameHead::parse(head).map(Some);
        }
        self.fill(input, FRAME_HEAD_BYTES);
        let Some(head) = self.buffered.first_chunk() else { return Ok(None) };
        let head = FrameHead::parse(head)?;
        self.buffered.clear();
        Ok(Some(head))
    }

    fn payload<'a, 'i: 'a>(
        &'a mut self,
        head: FrameHead,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, Malformed> {
        if self.buffered.is_empty()
            && let Some((payload, rest)) = input.split_at_checked(head.length)
        {
            *input = rest;
            self.state = DecoderState::Head;
            return read(head, payload).map(Some);
        }
        self.fill(input, head.length);
        if self.buffered.len() < head.length {
            return Ok(None);
        }
        self.is_returned = true;
        self.state = DecoderState::Head;
        read(head, &self.buffered).map(Some)
    }

    /// Buffers bytes until there are `length` of them.
    fn fill(&mut self, input: &mut &[u8], length: usize) {
        let (taken, rest) =
            input.split_at(length.saturating_sub(self.buffered.len()).min(input.len()));
        self.buffered.extend_from_slice(taken);
        *input = rest;
    }

    fn piece<'a>(&mut self, mut rest: Rest, input: &mut &'a [u8]) -> Option<Frame<'a>> {
        if input.is_empty() && rest.left > 0 {
            return None;
        }
        let (bytes, after) = input.split_at(rest.left.min(input.len()));
        *input = after;
        rest.left -= bytes.len();
        // A piece is part of a frame, whose length is bounded.
        let cost = bytes.len() as u32 + std::mem::take(&mut rest.cost);
        let last = rest.left == 0;
        self.state = if last { DecoderState::Head } else { DecoderState::Data(rest) };
        let Rest { stream, end, .. } = rest;
        Some(Frame::Data(Data { stream, bytes, cost, end: last && end }))
    }
}

fn read(head: FrameHead, payload: &[u8]) -> Result<Frame<'_>, Malformed> {
    let FrameHead { kind, stream, flags, .. } = head;
    let end = head.is_end();
    Ok(match kind {
        Kind::Hello => return hello(payload),
        Kind::Request => {
            let (head, body) = head_and_body(payload, end)?;
            Frame::Request { stream, end, head, body }
        }
        Kind::Response => {
            let (head, body) = head_and_body(payload, end)?;
            Frame::Response { stream, end, head, body }
        }
        Kind::Window => match u32::from_le_bytes(fixed(payload)?) {
            0 => return Err(Malformed::Credit),
            credit => Frame::Window { stream, credit },
        },
        Kind::Stop => Frame::Stop { stream },
        Kind::Cancel => Frame::Cancel { stream },
        Kind::Message => {
            Frame::Message { stream, binary: flags & BINARY != 0, end, bytes: payload }
        }
        Kind::Close => {
            let (code, reason) = payload.split_first_chunk().ok_or(Malformed::Payload)?;
            Frame::Close { stream, code: u16::from_le_bytes(*code), reason }
        }
        Kind::GoAway => Frame::GoAway,
        Kind::Ping => Frame::Ping(u64::from_le_bytes(fixed(payload)?)),
        Kind::Pong => Frame::Pong(u64::from_le_bytes(fixed(payload)?)),
        Kind::Inform | Kind::Trailers | Kind::Fault | Kind::Session | Kind::Accept => {
            Frame::Plain { kind, stream, payload }
        }
        Kind::File => {
            let (offset, length) = payload.split_first_chunk().ok_or(Malformed::Payload)?;
            let offset = u64::from_le_bytes(*offset);
            let length = u64::from_le_bytes(fixed(length)?);
            let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
            if length == 0 || end.is_none() {
                return Err(Malformed::Payload);
            }
            Frame::File { stream, offset, length }
        }
        // Returned in pieces.
        Kind::Data => return Err(Malformed::Kind),
    })
}

fn hello(payload: &[u8]) -> Result<Frame<'_>, Malformed> {
    let (fixed, program) = payload.split_first_chunk().ok_or(Malformed::Payload)?;
    let [v0, v1, z0, z1, w0, w1, w2, w3] = *fixed;
    if u16::from_le_bytes([v0, v1]) != VERSION {
        return Err(Malformed::Version);
    }
    let window = u32::from_le_bytes([w0, w1, w2, w3]);
    match (z0 | z1, (WINDOW_MIN..=WINDOW_MAX).contains(&window)) {
        (0, true) => Ok(Frame::Hello { window, program }),
        _ => Err(Malformed::Payload),
    }
}

fn fixed<const N: usize>(payload: &[u8]) -> Result<[u8; N], Malformed> {
    payload.try_into().map_err(|_| Malformed::Payload)
}

/// Splits a payload into the head and the body of a message: a body is included only if it is
/// complete.
fn head_and_body(payload: &[u8], end: bool) -> Result<(&[u8], &[u8]), Malformed> {
    let (length, rest) = payload.split_first_chunk().ok_or(Malformed::Payload)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (head, body) = rest.split_at_checked(length).ok_or(Malformed::Payload)?;
    let allowed = length <= HEAD_BYTES_MAX && body.len() <= INLINE_BYTES_MAX;
    if allowed && (end || body.is_empty()) { Ok((head, body)) } else { Err(Malformed::Payload) }
}
