//! Finds the frames in the bytes of one direction (section 5.2), without a look at their payloads.

use super::{FrameHead, HEAD_BYTES_MAX, parse_head};

/// Where one direction of a connection is within its frames. After bytes that are no frame it finds
/// none: the endpoints end such a connection.
#[derive(Debug, Default)]
pub struct FrameCounter {
    /// The incomplete header that the last bytes ended with.
    head: [u8; HEAD_BYTES_MAX],
    head_len: usize,
    /// Bytes of the payload that have not come.
    payload_left: u64,
    is_lost: bool,
}

impl FrameCounter {
    /// Takes the next bytes and calls `each` with every header that they complete.
    pub fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(&FrameHead)) {
        while !self.is_lost {
            let payload = self.payload_left.min(bytes.len() as u64);
            self.payload_left -= payload;
            bytes = &bytes[payload as usize..];
            if bytes.is_empty() {
                return;
            }
            // Mostly a header is in one piece, and is not copied.
            let held = self.head_len;
            let taken = bytes.len().min(HEAD_BYTES_MAX - held);
            let head = if held == 0 {
                &bytes[..taken]
            } else {
                self.head[held..held + taken].copy_from_slice(&bytes[..taken]);
                &self.head[..held + taken]
            };
            match parse_head(head, true) {
                Ok(Some(head)) => {
                    bytes = &bytes[head.size - held..];
                    self.head_len = 0;
                    self.payload_left = head.length;
                    each(&head);
                }
                // The longest header would be complete: all bytes are taken.
                Ok(None) => {
                    self.head[held..held + taken].copy_from_slice(bytes);
                    self.head_len = held + taken;
                    return;
                }
                Err(_) => self.is_lost = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Opcode;
    use super::*;

    /// The opcodes and lengths of the frames in these pieces.
    fn found<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Opcode, u64)> {
        let (mut counter, mut found) = (FrameCounter::default(), Vec::new());
        for piece in pieces {
            counter.take(piece, |head| found.push((head.opcode, head.length)));
        }
        found
    }

    fn frame(opcode: Opcode, length: usize, last: bool, mask: Option<[u8; 4]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        FrameHead { last, mask, ..FrameHead::new(opcode, length) }.write(&mut bytes);
        bytes.resize(bytes.len() + length, 0x81);
        bytes
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_split() {
        let mask = Some([1, 2, 3, 4]);
        let bytes = [
            frame(Opcode::Text, 3, false, mask),
            frame(Opcode::Ping, 0, true, None),
            frame(Opcode::Continuation, 126, true, mask),
            frame(Opcode::Binary, 70_000, true, mask),
            frame(Opcode::Close, 2, true, None),
        ]
        .concat();
        let expected = [
            (Opcode::Text, 3),
            (Opcode::Ping, 0),
            (Opcode::Continuation, 126),
            (Opcode::Binary, 70_000),
            (Opcode::Close, 2),
        ];
        assert_eq!(found([&bytes[..]]), expected);
        for size in [1, 2, 3, 5, 13, 14, 15, 1000] {
            assert_eq!(found(bytes.chunks(size)), expected, "{size}");
        }
    }

    #[test]
    fn nothing_is_found_after_bytes_that_are_no_frame() {
        let text = frame(Opcode::Text, 1, true, None);
        assert_eq!(found([&text[..], b"\x83\x01a", &text]), [(Opcode::Text, 1)]);
    }
}
