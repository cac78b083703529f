//! The received bytes of a connection, as messages.

use super::Fault;

/// A message has a byte for its kind, then its length, which counts itself.
const HEADER: usize = 5;
/// Capacity of the buffer that is kept between messages.
const KEPT: usize = 64 * 1024;

/// The received bytes of a connection, as messages.
#[derive(Debug)]
pub struct Messages {
    received: Vec<u8>,
    /// Start of the first message that was not read.
    start: usize,
    limit: usize,
}

impl Messages {
    /// A message may have `limit` bytes.
    pub fn new(limit: usize) -> Messages {
        Messages { received: Vec::new(), start: 0, limit }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.received.len() {
            self.received.clear();
            self.received.shrink_to(KEPT);
        } else {
            self.received.drain(..self.start);
        }
        self.start = 0;
        self.received.extend_from_slice(bytes);
    }

    /// The kind and the content of the next message, or `None` if it is not complete.
    pub fn next_message(&mut self) -> Result<Option<(u8, &[u8])>, Fault> {
        let unread = &self.received[self.start..];
        let Some((&[kind, a, b, c, d], after)) = unread.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let length = length.checked_sub(4).ok_or(Fault::Malformed)?;
        if length > self.limit {
            return Err(Fault::TooLarge);
        }
        if after.len() < length {
            return Ok(None);
        }
        let begin = self.start + HEADER;
        self.start = begin + length;
        Ok(Some((kind, &self.received[begin..self.start])))
    }
}
