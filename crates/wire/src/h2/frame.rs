//! Frame layout (RFC 9113 4.1): the nine bytes before each payload, types and flags.

/// Bytes of a frame header.
pub(super) const HEADER_LEN: usize = 9;

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const PRIORITY: u8 = 0x2;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PUSH_PROMISE: u8 = 0x5;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;
/// RFC 9218 7.1.
pub(super) const PRIORITY_UPDATE: u8 = 0x10;

pub(super) const END_STREAM: u8 = 0x1;
/// Of SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
/// Of HEADERS: five bytes of the deprecated priority scheme follow (RFC 9113 6.2).
pub(super) const HAS_PRIORITY: u8 = 0x20;

/// The header of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEADER_LEN]) -> FrameHeader {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        FrameHeader {
            len: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            // The reserved bit is ignored (RFC 9113 4.1).
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the header of a frame.
#[inline]
pub(super) fn write_header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, l0, l1, l2] = (len as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
}

/// Appends a whole frame.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    write_header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Sets the length of the frame whose header is at `at` and whose payload ends the buffer.
pub(super) fn set_length(out: &mut [u8], at: usize) {
    let len = out.len() - at - HEADER_LEN;
    if let Some(place) = out.get_mut(at..at + 3) {
        place.copy_from_slice(&(len as u32).to_be_bytes()[1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_the_reserved_bit_is_ignored() {
        let mut out = Vec::new();
        write(&mut out, HEADERS, END_STREAM | END_HEADERS, 0x7fff_ffff, b"");
        out[5] |= 0x80;
        let header = FrameHeader::parse(out.first_chunk().unwrap());
        let expected = FrameHeader { len: 0, kind: HEADERS, flags: 5, stream: 0x7fff_ffff };
        assert_eq!(header, expected);
        out.extend_from_slice(&[0; 300]);
        set_length(&mut out, 0);
        assert_eq!(FrameHeader::parse(out.first_chunk().unwrap()).len, 300);
    }
}
