//! Finds the frames in the bytes of one direction (section 5.2), without reading their payloads.

use super::{FrameHead, HEAD_BYTES_MAX, parse_head};

/// Where one direction of a connection is within its frames. After bytes that are not a frame it
/// finds none: the endpoints end such a connection.
#[derive(Debug, Default)]
pub struct FrameCounter {
    /// The incomplete header that the last bytes ended with.
    head: [u8; HEAD_BYTES_MAX],
    head_len: usize,
    /// Bytes of the payload that have not arrived.
    payload_left: u64,
    is_lost: bool,
}

impl FrameCounter {
    /// Takes the next bytes and calls `each` with every header that they complete.
    pub fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(&FrameHead)) {
        while !bytes.is_empty() {
            let taken = self.take_frame(bytes, &mut each);
            bytes = &bytes[taken..];
        }
    }

    /// Takes the next bytes up to the end of their first frame and returns how many these are;
    /// calls `each` with the header if they complete it.
    pub fn take_frame(&mut self, bytes: &[u8], each: impl FnOnce(&FrameHead)) -> usize {
        if self.is_lost {
            return bytes.len();
        }
        let mut read = 0;
        if self.payload_left == 0 {
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
                    read = head.size - held;
                    self.head_len = 0;
                    self.payload_left = head.length;
                    each(&head);
                }
                // The longest header would be complete: all bytes are taken.
                Ok(None) => {
                    self.head[held..held + taken].copy_from_slice(bytes);
                    self.head_len = held + taken;
                    return taken;
                }
                Err(_) => {
                    self.is_lost = true;
                    return bytes.len();
                }
            }
        }
        let payload = self.payload_left.min((bytes.len() - read) as u64);
        self.payload_left -= payload;
        read + payload as usize
    }

    /// True if there were bytes that are not a frame.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// True if the bytes so far end where a frame does, so that another one may follow.
    pub fn is_between_frames(&self) -> bool {
        !self.is_lost && self.payload_left == 0 && self.head_len == 0
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
    fn a_frame_ends_with_its_payload() {
        let (text, ping) = (frame(Opcode::Text, 3, false, Some([1; 4])), [0x89, 0]);
        let bytes = [&text[..], &ping, &text].concat();
        let mut counter = FrameCounter::default();
        assert!(counter.is_between_frames());
        for end in 1..text.len() {
            assert_eq!(counter.take_frame(&bytes[end - 1..end], |_| ()), 1);
            assert!(!counter.is_between_frames(), "{end}");
        }
        // The rest of a frame, a frame without payload, and a whole one.
        let mut rest = &bytes[text.len() - 1..];
        for size in [1, ping.len(), text.len()] {
            assert_eq!(counter.take_frame(rest, |_| ()), size);
            assert!(counter.is_between_frames(), "{size}");
            rest = &rest[size..];
        }
    }

    #[test]
    fn nothing_is_found_after_bytes_that_are_not_a_frame() {
        let text = frame(Opcode::Text, 1, true, None);
        assert_eq!(found([&text[..], b"\x83\x01a", &text]), [(Opcode::Text, 1)]);
        let mut counter = FrameCounter::default();
        counter.take(b"\x83\x00", |_| ());
        assert!(counter.is_lost() && !counter.is_between_frames());
    }
}
