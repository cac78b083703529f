//! Assembly of messages from frames (RFC 6455 5.4 to 5.6, 7.4, 8.1).

use super::{FrameHead, HEAD_BYTES_MAX, Opcode, Violation, is_close_code, parse_head, unmask};

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The code and the reason, if there is one.
    Close(Option<u16>, Vec<u8>),
}

/// Decompresses messages (RFC 7692), each of at most `limit` bytes.
pub trait Inflate {
    fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<Vec<u8>, Violation>;
}

/// Most memory allocated for a frame before its payload arrives: its declared length is not
/// trusted.
const INITIAL_BYTES_MAX: usize = 64 * 1024;

/// Assembles messages from the bytes of a connection.
pub struct Decoder {
    /// True if the peer must mask its frames: a client must, a server must not (section 5.1).
    masked: bool,
    limit: usize,
    inflate: Option<Box<dyn Inflate>>,
    /// An incomplete frame header, and how many bytes of it have arrived.
    begun: ([u8; HEAD_BYTES_MAX], usize),
    /// The current frame, and how many bytes of its payload have arrived.
    frame: Option<(FrameHead, usize)>,
    /// The kind of the current message, and whether it is compressed.
    kind: Option<(Opcode, bool)>,
    pieces: Vec<u8>,
    control: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder; `limit` bounds one message.
    pub fn new(masked: bool, limit: usize) -> Decoder {
        Decoder {
            masked,
            limit,
            inflate: None,
            begun: Default::default(),
            frame: None,
            kind: None,
            pieces: Vec::new(),
            control: Vec::new(),
        }
    }

    /// Allows the peer to compress its messages: `limit` bounds them before and after.
    pub fn inflating(self, inflate: Box<dyn Inflate>) -> Decoder {
        Decoder { inflate: Some(inflate), ..self }
    }

    /// Returns the next complete message; `None` once all of the bytes have been consumed.
    pub fn message(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, Violation> {
        loop {
            let (head, come) = match self.frame {
                Some(frame) => frame,
                None => match self.head(bytes)? {
                    Some(head) => (head, 0),
                    None => return Ok(None),
                },
            };
            // Not beyond the limit, so it fits.
            let length = head.length as usize;
            let (piece, rest) = bytes.split_at(bytes.len().min(length - come));
            *bytes = rest;
            self.take(&head, come, piece);
            if come + piece.len() < length {
                self.frame = Some((head, come + piece.len()));
                return Ok(None);
            }
            self.frame = None;
            if head.opcode.is_control() {
                return control(head.opcode, std::mem::take(&mut self.control)).map(Some);
            }
            if head.last {
                return self.finish_message().map(Some);
            }
        }
    }

    /// Returns the next frame header, if it is complete.
    fn head(&mut self, bytes: &mut &[u8]) -> Result<Option<FrameHead>, Violation> {
        let compression = self.inflate.is_some();
        let (begun, before) = &mut self.begun;
        let parsed = if *before == 0 {
            parse_head(bytes, compression)?
        } else {
            let more = bytes.len().min(HEAD_BYTES_MAX - *before);
            begun[*before..*before + more].copy_from_slice(&bytes[..more]);
            parse_head(&begun[..*before + more], compression)?
        };
        let Some(head) = parsed else {
            // Fewer bytes than the longest header.
            begun[*before..*before + bytes.len()].copy_from_slice(bytes);
            *before += bytes.len();
            *bytes = &[];
            return Ok(None);
        };
        *bytes = &bytes[head.size - *before..];
        *before = 0;
        self.check(&head)?;
        if matches!(head.opcode, Opcode::Text | Opcode::Binary) {
            self.kind = Some((head.opcode, head.compressed));
        }
        Ok(Some(head))
    }

    fn check(&self, head: &FrameHead) -> Result<(), Violation> {
        if head.mask.is_some() != self.masked {
            return Err(Violation::protocol(
                "a mask on an unmasked side, or none on a masked side",
            ));
        }
        if head.opcode.is_control() {
            return Ok(());
        }
        if (head.opcode == Opcode::Continuation) != self.kind.is_some() {
            return Err(Violation::protocol(
                "a continuation without a message, or a new message inside another",
            ));
        }
        if head.length > (self.limit - self.pieces.len()) as u64 {
            return Err(Violation::TOO_LARGE);
        }
        Ok(())
    }

    /// Consumes a piece of a frame's payload, of which `come` bytes had arrived before.
    fn take(&mut self, head: &FrameHead, come: usize, piece: &[u8]) {
        let to = if head.opcode.is_control() { &mut self.control } else { &mut self.pieces };
        if come == 0 && head.last && to.is_empty() {
            to.reserve_exact((head.length as usize).min(INITIAL_BYTES_MAX));
        }
        let start = to.len();
        to.extend_from_slice(piece);
        if let Some(mut mask) = head.mask {
            mask.rotate_left(come % 4);
            unmask(&mut to[start..], mask);
        }
    }

    fn finish_message(&mut self) -> Result<Message, Violation> {
        let mut payload = std::mem::take(&mut self.pieces);
        let kind = self.kind.take();
        if let (Some((_, true)), Some(inflate)) = (kind, &mut self.inflate) {
            payload = inflate.inflate(&payload, self.limit)?;
        }
        if kind.is_some_and(|(opcode, _)| opcode == Opcode::Text) {
            return match std::str::from_utf8(&payload) {
                Ok(_) => Ok(Message::Text(payload)),
                Err(_) => Err(Violation { code: 1007, text: "text that is not UTF-8" }),
            };
        }
        Ok(Message::Binary(payload))
    }
}

fn control(opcode: Opcode, payload: Vec<u8>) -> Result<Message, Violation> {
    match (opcode, payload.as_slice()) {
        (Opcode::Ping, _) => Ok(Message::Ping(payload)),
        (Opcode::Pong, _) => Ok(Message::Pong(payload)),
        (_, []) => Ok(Message::Close(None, Vec::new())),
        (_, [_]) => Err(Violation::protocol("an incomplete close code")),
        (_, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            if !is_close_code(code) {
                return Err(Violation::protocol("a close code that must not be sent"));
            }
            if std::str::from_utf8(reason).is_err() {
                return Err(Violation { code: 1007, text: "a reason that is not UTF-8" });
            }
            Ok(Message::Close(Some(code), reason.to_vec()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Opcode, write_frame};
    use super::{Decoder, Message};

    const MASK: Option<[u8; 4]> = Some([9, 8, 7, 6]);

    type Frame<'a> = (Opcode, bool, &'a [u8]);

    fn stream(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (opcode, last, payload) in frames {
            write_frame(&mut out, *opcode, *last, payload, MASK);
        }
        out
    }

    /// Decodes a stream fed in pieces; returns its messages and the code it failed with.
    fn decode(bytes: &[u8], piece: usize, limit: usize) -> (Vec<Message>, Option<u16>) {
        let mut decoder = Decoder::new(true, limit);
        let mut messages = Vec::new();
        for mut piece in bytes.chunks(piece) {
            loop {
                match decoder.message(&mut piece) {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(violation) => return (messages, Some(violation.code)),
                }
            }
        }
        (messages, None)
    }

    #[test]
    fn fragments_and_interleaved_pings_are_assembled() {
        let bytes = stream(&[
            (Opcode::Text, false, "gr\u{fc}".as_bytes()),
            (Opcode::Ping, true, b"there?"),
            (Opcode::Continuation, true, "\u{df}e".as_bytes()),
            (Opcode::Binary, true, b"\xff"),
            (Opcode::Close, true, b"\x03\xe8bye"),
        ]);
        let expected = vec![
            Message::Ping(b"there?".to_vec()),
            Message::Text("gr\u{fc}\u{df}e".as_bytes().to_vec()),
            Message::Binary(b"\xff".to_vec()),
            Message::Close(Some(1000), b"bye".to_vec()),
        ];
        for piece in 1..bytes.len() {
            assert_eq!(decode(&bytes, piece, 100), (expected.clone(), None));
        }
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let table: &[(&[Frame<'_>], u16)] = &[
            (&[(Opcode::Continuation, true, b"a")], 1002),
            (&[(Opcode::Text, false, b"a"), (Opcode::Text, true, b"b")], 1002),
            (&[(Opcode::Text, true, b"\xff")], 1007),
            (&[(Opcode::Close, true, b"\x03")], 1002),
            (&[(Opcode::Close, true, b"\x03\xed")], 1002),
            (&[(Opcode::Close, true, b"\x03\xe8\xff")], 1007),
            (&[(Opcode::Binary, true, b"123456789")], 1009),
            (&[(Opcode::Binary, false, b"12345"), (Opcode::Continuation, true, b"6789")], 1009),
        ];
        for (frames, code) in table {
            let (messages, failed) = decode(&stream(frames), 3, 8);
            assert_eq!((messages, failed), (Vec::new(), Some(*code)));
        }
        let mut plain = Vec::new();
        write_frame(&mut plain, Opcode::Text, true, b"a", None);
        assert_eq!(decode(&plain, 9, 8).1, Some(1002));
    }
}
