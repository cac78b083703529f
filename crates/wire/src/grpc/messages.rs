//! Length-prefixed messages: a byte of flags, the length in four bytes, the message.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes before a message.
pub const PREFIX_BYTES: usize = 5;
/// The flag of a compressed message.
pub const COMPRESSED: u8 = 0x01;
/// The flag of the message that holds the trailers (PROTOCOL-WEB.md).
pub const TRAILERS: u8 = 0x80;

/// What stands before a message.
pub fn prefix(flags: u8, length: u32) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = length.to_be_bytes();
    [flags, a, b, c, d]
}

/// Trailers as the content of a message: lines of HTTP/1 with names in lower case.
pub fn trailer_lines<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        out.push(b':');
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// A message is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTooLarge;

/// Collects messages from bytes that arrive in any pieces. Holds one message and what was received
/// after it.
#[derive(Debug)]
pub struct MessageReader {
    received: BytesMut,
    max: usize,
}

impl MessageReader {
    /// A reader of messages of up to `max` bytes.
    pub fn new(max: usize) -> MessageReader {
        MessageReader { received: BytesMut::new(), max }
    }

    pub fn push(&mut self, data: &[u8]) {
        self.received.extend_from_slice(data);
    }

    /// The next message with its flags, once it has arrived as a whole. One that is too long is
    /// rejected by its prefix.
    pub fn next_message(&mut self) -> Result<Option<(u8, Bytes)>, MessageTooLarge> {
        let Some((&[flags, a, b, c, d], rest)) = self.received.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.max {
            return Err(MessageTooLarge);
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.received.advance(PREFIX_BYTES);
        Ok(Some((flags, self.received.split_to(length).freeze())))
    }

    /// True if a message has begun and not ended.
    pub fn is_partial(&self) -> bool {
        !self.received.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_any_pieces() {
        let mut stream = Vec::new();
        for (flags, text) in [(0, "one"), (COMPRESSED, ""), (TRAILERS, "grpc-status:0\r\n")] {
            stream.extend(prefix(flags, text.len() as u32));
            stream.extend_from_slice(text.as_bytes());
        }
        for size in 1..=stream.len() {
            let mut reader = MessageReader::new(15);
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                reader.push(piece);
                while let Some(message) = reader.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert!(!reader.is_partial());
            let expected: [(u8, &[u8]); 3] =
                [(0, b"one"), (COMPRESSED, b""), (TRAILERS, b"grpc-status:0\r\n")];
            assert!(found.iter().map(|(flags, text)| (*flags, &text[..])).eq(expected), "{size}");
        }
    }

    #[test]
    fn a_long_message_is_rejected_by_its_prefix() {
        let mut reader = MessageReader::new(4);
        reader.push(&prefix(0, 5));
        assert_eq!(reader.next_message(), Err(MessageTooLarge));
        let mut reader = MessageReader::new(4);
        reader.push(&prefix(0, 4));
        assert_eq!(reader.next_message(), Ok(None));
        assert!(reader.is_partial());
    }

    #[test]
    fn trailers_are_lines() {
        let mut out = Vec::new();
        trailer_lines([(&b"Grpc-Status"[..], &b"0"[..])].into_iter(), &mut out);
        assert_eq!(out, b"grpc-status:0\r\n");
    }
}
