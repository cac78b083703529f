//! Messages out of frames (RFC 6455 5.4 to 5.6, 7.4, 8.1).

use super::{FrameHead, Opcode, Violation, is_close_code, parse_head, unmask};

/// What the other side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The code and the reason, where there is one.
    Close(Option<u16>, Vec<u8>),
}

/// Puts messages together from the bytes of a connection.
pub struct Decoder {
    /// Whether the other side must mask its frames: a client must, a server must not (section 5.1).
    masked: bool,
    limit: usize,
    received: Vec<u8>,
    /// Bytes of `received` that are dealt with.
    read: usize,
    /// The message under way.
    kind: Option<Opcode>,
    pieces: Vec<u8>,
}

impl Decoder {
    /// `limit` bounds one message.
    pub fn new(masked: bool, limit: usize) -> Decoder {
        Decoder { masked, limit, received: Vec::new(), read: 0, kind: None, pieces: Vec::new() }
    }

    /// Takes bytes as they came. [`Decoder::message`] is called until it gives nothing before there
    /// are more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.received.drain(..self.read);
        self.read = 0;
        self.received.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub fn message(&mut self) -> Result<Option<Message>, Violation> {
        loop {
            let Some(head) = parse_head(&self.received[self.read..])? else { return Ok(None) };
            self.check(&head)?;
            // Not beyond the limit, so it fits.
            let (start, length) = (self.read + head.size, head.length as usize);
            let Some(payload) = self.received.get_mut(start..start + length) else {
                return Ok(None);
            };
            if let Some(mask) = head.mask {
                unmask(payload, mask);
            }
            self.read = start + length;
            if head.opcode.is_control() {
                return control(head.opcode, payload.to_vec()).map(Some);
            }
            self.pieces.extend_from_slice(payload);
            if head.opcode != Opcode::Continuation {
                self.kind = Some(head.opcode);
            }
            if head.last {
                return self.whole().map(Some);
            }
        }
    }

    fn check(&self, head: &FrameHead) -> Result<(), Violation> {
        if head.mask.is_some() != self.masked {
            return Err(Violation::protocol("a mask where none may be, or none where one must"));
        }
        if head.opcode.is_control() {
            return Ok(());
        }
        if (head.opcode == Opcode::Continuation) != self.kind.is_some() {
            return Err(Violation::protocol("a continuation of nothing, or none where one is due"));
        }
        if head.length > (self.limit - self.pieces.len()) as u64 {
            return Err(Violation { code: 1009, text: "the message is larger than allowed" });
        }
        Ok(())
    }

    fn whole(&mut self) -> Result<Message, Violation> {
        let payload = std::mem::take(&mut self.pieces);
        if self.kind.take() == Some(Opcode::Text) {
            return match std::str::from_utf8(&payload) {
                Ok(_) => Ok(Message::Text(payload)),
                Err(_) => Err(Violation { code: 1007, text: "text that is no UTF-8" }),
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
        (_, [_]) => Err(Violation::protocol("half a close code")),
        (_, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            if !is_close_code(code) {
                return Err(Violation::protocol("a close code that nobody may send"));
            }
            if std::str::from_utf8(reason).is_err() {
                return Err(Violation { code: 1007, text: "a reason that is no UTF-8" });
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

    /// Messages of a stream that is fed in pieces, and the code it failed with.
    fn decode(bytes: &[u8], piece: usize, limit: usize) -> (Vec<Message>, Option<u16>) {
        let mut decoder = Decoder::new(true, limit);
        let mut messages = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.feed(piece);
            loop {
                match decoder.message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(violation) => return (messages, Some(violation.code)),
                }
            }
        }
        (messages, None)
    }

    #[test]
    fn pieces_and_pings_among_them() {
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
    fn what_a_receiver_must_refuse() {
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
