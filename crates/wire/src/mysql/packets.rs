//! Packets and their frames: a packet of 16 MiB or more is sent in several frames.

use super::Fault;

/// The length of a frame that is continued by the next one.
const FRAME_MAX: usize = 0xFF_FFFF;
const HEADER: usize = 4;
/// Capacity of the buffers that is kept between packets.
const KEPT: usize = 64 * 1024;

/// Appends the frames of a packet, the first of which has this sequence number.
pub fn frame(packet: &[u8], mut sequence: u8, out: &mut Vec<u8>) {
    let mut rest = packet;
    loop {
        let (part, after) = rest.split_at(rest.len().min(FRAME_MAX));
        out.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(part);
        if part.len() < FRAME_MAX {
            return;
        }
        sequence = sequence.wrapping_add(1);
        rest = after;
    }
}

/// The received bytes of a connection, as packets.
#[derive(Debug)]
pub struct Packets {
    received: Vec<u8>,
    /// Start of the first frame that was not read.
    start: usize,
    /// The frames of a long packet that have arrived.
    joined: Vec<u8>,
    /// True while `joined` holds the packet that was returned last.
    is_returned: bool,
    limit: usize,
    sequence: u8,
}

impl Packets {
    /// A packet may have `limit` bytes.
    pub fn new(limit: usize) -> Packets {
        Packets {
            received: Vec::new(),
            start: 0,
            joined: Vec::new(),
            is_returned: false,
            limit,
            sequence: 0,
        }
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

    /// The next packet, or `None` if it is not complete.
    pub fn next_packet(&mut self) -> Result<Option<&[u8]>, Fault> {
        if std::mem::take(&mut self.is_returned) {
            self.joined.clear();
            self.joined.shrink_to(KEPT);
        }
        loop {
            let unread = &self.received[self.start..];
            let Some((&[a, b, c, sequence], after)) = unread.split_first_chunk::<HEADER>() else {
                return Ok(None);
            };
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            if self.joined.len() + length > self.limit {
                return Err(Fault::TooLarge);
            }
            if after.len() < length {
                return Ok(None);
            }
            self.sequence = sequence;
            let begin = self.start + HEADER;
            self.start = begin + length;
            let part = begin..self.start;
            if length < FRAME_MAX && self.joined.is_empty() {
                return Ok(Some(&self.received[part]));
            }
            self.joined.extend_from_slice(&self.received[part]);
            if length < FRAME_MAX {
                self.is_returned = true;
                return Ok(Some(&self.joined));
            }
        }
    }

    /// The sequence number of a packet that responds to the last one.
    pub fn next_sequence(&self) -> u8 {
        self.sequence.wrapping_add(1)
    }
}
