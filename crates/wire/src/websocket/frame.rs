//! Frames (RFC 6455 5.2).

use bytes::BufMut;

use super::{CONTROL_BYTES_MAX, Violation};

/// The longest frame header: two bytes, a length of eight, a mask.
pub const HEAD_BYTES_MAX: usize = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    pub fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub last: bool,
    /// The first reserved bit: the message is compressed (RFC 7692 6).
    pub compressed: bool,
    pub opcode: Opcode,
    pub mask: Option<[u8; 4]>,
    /// Bytes of the payload.
    pub length: u64,
    /// Bytes of this header.
    pub size: usize,
}

impl FrameHead {
    /// The header of an unfragmented message that is neither compressed nor masked.
    pub fn new(opcode: Opcode, length: usize) -> FrameHead {
        let size = 2 + extended(length as u64);
        FrameHead { last: true, compressed: false, opcode, mask: None, length: length as u64, size }
    }

    /// Appends the header.
    pub fn write(&self, out: &mut impl BufMut) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.put_u8(flag(self.last, LAST) | flag(self.compressed, COMPRESSED) | self.opcode as u8);
        let masked = flag(self.mask.is_some(), MASKED);
        match extended(self.length) {
            0 => out.put_u8(masked | self.length as u8),
            2 => {
                out.put_u8(masked | 126);
                out.put_u16(self.length as u16);
            }
            _ => {
                out.put_u8(masked | 127);
                out.put_u64(self.length);
            }
        }
        out.put_slice(self.mask.as_ref().map_or(&[], |mask| mask));
    }
}

const LAST: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Bytes of the extended length.
fn extended(length: u64) -> usize {
    match length {
        0..=125 => 0,
        126..=0xffff => 2,
        _ => 8,
    }
}

/// Parses a frame header; `None` if it is incomplete. `compression` tells whether messages may be
/// compressed, which their first frame declares (RFC 7692 6.1).
pub fn parse_head(bytes: &[u8], compression: bool) -> Result<Option<FrameHead>, Violation> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let opcode = Opcode::of(first & 0x0f).ok_or(Violation::protocol("a reserved opcode"))?;
    let compressed = compression
        && first & RESERVED == COMPRESSED
        && matches!(opcode, Opcode::Text | Opcode::Binary);
    if first & RESERVED != 0 && !compressed {
        return Err(Violation::protocol("a reserved bit is set"));
    }
    let last = first & LAST != 0;
    let short = second & 0x7f;
    if opcode.is_control() && (!last || usize::from(short) > CONTROL_BYTES_MAX) {
        return Err(Violation::protocol("a control frame is too long or fragmented"));
    }
    let (length, read) = match short {
        126 => match rest.first_chunk() {
            Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 8),
            None => return Ok(None),
        },
        short => (u64::from(short), 0),
    };
    if length >> 63 != 0 {
        return Err(Violation::protocol("a length above 63 bits"));
    }
    let masked = second & MASKED != 0;
    let mask = match (masked, rest[read..].first_chunk()) {
        (false, _) => None,
        (true, Some(mask)) => Some(*mask),
        (true, None) => return Ok(None),
    };
    let size = 2 + read + if masked { 4 } else { 0 };
    Ok(Some(FrameHead { last, compressed, opcode, mask, length, size }))
}

/// Applies or removes a mask (section 5.3).
pub fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let word = u64::from(u32::from_ne_bytes(mask));
    let word = word << 32 | word;
    let (words, rest) = payload.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Appends a whole frame.
pub fn write_frame(
    out: &mut Vec<u8>,
    opcode: Opcode,
    last: bool,
    payload: &[u8],
    mask: Option<[u8; 4]>,
) {
    out.reserve(HEAD_BYTES_MAX + payload.len());
    FrameHead { last, mask, ..FrameHead::new(opcode, payload.len()) }.write(out);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        unmask(&mut out[start..], mask);
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameHead, Opcode, parse_head, unmask, write_frame};

    #[test]
    fn lengths_are_written_in_their_shortest_form_and_parsed() {
        for (length, size) in [(0, 2), (125, 2), (126, 4), (65535, 4), (65536, 10)] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
                let mut out = Vec::new();
                write_frame(&mut out, Opcode::Binary, true, &payload, mask);
                let size = size + mask.map_or(0, |_| 4);
                let opcode = Opcode::Binary;
                let head = FrameHead { mask, size, ..FrameHead::new(opcode, length) };
                assert_eq!(parse_head(&out, false), Ok(Some(head)));
                for end in 0..size {
                    assert_eq!(parse_head(&out[..end], false), Ok(None));
                }
                let body = &mut out[size..];
                if let Some(mask) = mask {
                    unmask(body, mask);
                }
                assert!(body == payload);
            }
        }
    }

    #[test]
    fn frames_forbidden_by_section_5_2_are_rejected() {
        // Reserved bits and opcodes; fragmented or long control frames; a length above 63 bits.
        for bytes in [
            &[0xc1, 0][..],
            &[0xa1, 0],
            &[0x91, 0],
            &[0x83, 0],
            &[0x87, 0],
            &[0x8b, 0],
            &[0x8f, 0],
            &[0x09, 0],
            &[0x08, 0],
            &[0x89, 126, 0, 126],
            &[0x88, 126, 0, 126],
            &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let refused = parse_head(bytes, false).map_err(|violation| violation.code);
            assert_eq!(refused, Err(1002), "{bytes:x?}");
        }
    }

    #[test]
    fn only_the_first_frame_of_a_message_may_be_marked_compressed() {
        for (first, allowed) in
            [(0xc1, true), (0x42, true), (0xc0, false), (0xc9, false), (0xe1, false), (0xd1, false)]
        {
            let head = parse_head(&[first, 0], true);
            assert_eq!(head.is_ok_and(|head| head.unwrap().compressed), allowed, "{first:x}");
        }
    }
}
