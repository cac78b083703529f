//! Bytes that a connection has received and its script has not read.
//!
//! Bytes that arrive at an empty connection stay in the receive buffer, which all connections of
//! the VM share, and are copied only if they are still unread at the end of the turn: so an idle
//! connection holds no buffer and most bytes are never copied. Promises that no byte is searched
//! twice for a delimiter, however the bytes are split.

use crate::limits::KEPT_INPUT_BYTES;

/// How much a read requests. `D` is its delimiter: borrowed from Lua, or that of a read that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadRequest<D = Delimiter> {
    /// This many bytes.
    Bytes(usize),
    /// Everything up to and with a delimiter.
    Delimiter(D),
    /// At least one byte, at most so many.
    Some(usize),
    /// More than so many bytes in the buffer; takes none.
    More(usize),
}

impl ReadRequest<&[u8]> {
    pub(crate) fn into_owned(self) -> ReadRequest {
        match self {
            ReadRequest::Bytes(count) => ReadRequest::Bytes(count),
            ReadRequest::Delimiter(bytes) => ReadRequest::Delimiter(Delimiter::new(bytes)),
            ReadRequest::Some(at_most) => ReadRequest::Some(at_most),
            ReadRequest::More(count) => ReadRequest::More(count),
        }
    }
}

/// A delimiter of any length; short ones take no memory of their own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    Short([u8; 8], u8),
    Long(Box<[u8]>),
}

impl Delimiter {
    pub(crate) fn new(bytes: &[u8]) -> Delimiter {
        let mut short = [0; 8];
        match (bytes, short.get_mut(..bytes.len())) {
            // Nearly all are of one byte or two, which are stored without a call of `memcpy`.
            ([one], _) => short[0] = *one,
            ([one, two], _) => short[..2].copy_from_slice(&[*one, *two]),
            (_, Some(room)) => room.copy_from_slice(bytes),
            (_, None) => return Delimiter::Long(bytes.into()),
        }
        Delimiter::Short(short, bytes.len() as u8)
    }
}

impl AsRef<[u8]> for Delimiter {
    fn as_ref(&self) -> &[u8] {
        match self {
            Delimiter::Short(bytes, length) => &bytes[..usize::from(*length)],
            Delimiter::Long(bytes) => bytes,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct InputBuffer {
    own: Vec<u8>,
    /// Start of the unread bytes: in `own`, or in the receive buffer while it is lent.
    start: usize,
    /// End of the unread bytes in the receive buffer; zero while it is not lent.
    lent: usize,
    /// Unread bytes that hold no whole delimiter, for the read that waits.
    scanned: usize,
}

impl InputBuffer {
    pub(crate) fn len(&self) -> usize {
        if self.lent > 0 { self.lent - self.start } else { self.own.len() - self.start }
    }

    /// The unread bytes; `room` is the receive buffer.
    pub(crate) fn unread<'a>(&'a self, room: &'a [u8]) -> &'a [u8] {
        if self.lent > 0 { &room[self.start..self.lent] } else { &self.own[self.start..] }
    }

    /// Adds bytes that were received into the receive buffer.
    pub(crate) fn received(&mut self, room: &[u8], count: usize) {
        if self.len() == 0 {
            self.start = 0;
            self.own.clear();
            self.lent = count;
            return;
        }
        self.copy_unread(room);
        self.compact(count);
        self.own.extend_from_slice(&room[..count]);
    }

    /// Copies unread bytes out of the receive buffer, which is used for another connection next.
    pub(crate) fn copy_unread(&mut self, room: &[u8]) {
        if self.lent > 0 {
            self.own.clear();
            self.own.extend_from_slice(&room[self.start..self.lent]);
            self.start = 0;
            self.lent = 0;
        }
        if self.own.len() == self.start {
            self.own.clear();
            self.start = 0;
            if self.own.capacity() > KEPT_INPUT_BYTES {
                self.own = Vec::new();
            }
        }
    }

    /// Moves the unread bytes to the front where that avoids growing.
    fn compact(&mut self, more: usize) {
        if self.start > 0 && self.own.len() + more > self.own.capacity() {
            self.own.drain(..self.start);
            self.start = 0;
        }
    }

    /// Returns how many bytes a read takes now; `None` if it has to wait.
    #[inline]
    pub(crate) fn find<D: AsRef<[u8]>>(
        &mut self,
        want: &ReadRequest<D>,
        room: &[u8],
    ) -> Option<usize> {
        let length = self.len();
        match want {
            ReadRequest::Bytes(count) => (length >= *count).then_some(*count),
            ReadRequest::Some(at_most) => (length > 0).then_some(length.min(*at_most)),
            ReadRequest::More(count) => (length > *count).then_some(0),
            ReadRequest::Delimiter(delimiter) => self.find_delimiter(delimiter.as_ref(), room),
        }
    }

    fn find_delimiter(&mut self, delimiter: &[u8], room: &[u8]) -> Option<usize> {
        let length = self.len();
        // A delimiter may begin at the end of the searched bytes.
        let from = self.scanned.saturating_sub(delimiter.len() - 1);
        let unread = &self.unread(room)[from..];
        let at = match delimiter {
            [byte] => find_byte(*byte, unread),
            [first, last] => find_pair(*first, *last, unread),
            [.., last] => find_by_last(unread, delimiter, *last),
            [] => Some(0),
        };
        match at {
            Some(at) => Some(from + at + delimiter.len()),
            None => {
                self.scanned = length;
                None
            }
        }
    }

    /// Begins a new read: its delimiter has not been searched for.
    pub(crate) fn begin(&mut self) {
        self.scanned = 0;
    }

    /// Marks bytes as read. They stay where they are until the turn ends or more arrive.
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
        self.scanned = 0;
    }

    /// Puts bytes before the unread ones.
    pub(crate) fn put_back(&mut self, bytes: &[u8], room: &[u8]) {
        self.copy_unread(room);
        self.scanned = 0;
        match self.start.checked_sub(bytes.len()) {
            Some(start) => {
                self.own[start..self.start].copy_from_slice(bytes);
                self.start = start;
            }
            None => {
                self.own.splice(..self.start, bytes.iter().copied());
                self.start = 0;
            }
        }
    }
}

/// The first place of two bytes, such as CR LF, of which the last is the rarer one.
#[inline]
fn find_pair(first: u8, last: u8, unread: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        start += find_byte(last, unread.get(start + 1..)?)?;
        if unread[start] == first {
            return Some(start);
        }
        start += 1;
    }
}

/// The last byte of a delimiter is the one that is looked for first.
fn find_by_last(unread: &[u8], delimiter: &[u8], last: u8) -> Option<usize> {
    let mut start = 0;
    loop {
        // The delimiter does not end before the end of its own length.
        let from = start + delimiter.len() - 1;
        start += find_byte(last, unread.get(from..)?)?;
        if unread[start..].iter().zip(delimiter).all(|(byte, wanted)| byte == wanted) {
            return Some(start);
        }
        start += 1;
    }
}

/// The first place of a byte. It is looked for in the first eight bytes without a call, because a
/// line of a protocol is often no longer.
#[inline]
fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let Some((first, rest)) = bytes.split_first_chunk() else {
        return bytes.iter().position(|other| *other == byte);
    };
    // A byte that is equal becomes zero, and of the bytes whose highest bit is set in the end the
    // lowest was zero.
    let different = u64::from_le_bytes(*first) ^ (ONES * u64::from(byte));
    match different.wrapping_sub(ONES) & !different & (ONES << 7) {
        0 => memchr::memchr(byte, rest).map(|at| at + first.len()),
        equal => Some(equal.trailing_zeros() as usize / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::{Delimiter, InputBuffer, ReadRequest, find_byte};

    type Request = ReadRequest;

    fn arrive(input: &mut InputBuffer, bytes: &[u8]) -> Vec<u8> {
        let mut room = vec![0; 64];
        room[..bytes.len()].copy_from_slice(bytes);
        input.received(&room, bytes.len());
        room
    }

    fn delimiter(bytes: &[u8]) -> Request {
        Request::Delimiter(Delimiter::new(bytes))
    }

    #[test]
    fn a_delimiter_is_found_across_pieces() {
        let mut input = InputBuffer::default();
        let want = delimiter(b"--boundary--");
        for piece in [&b"some--boun"[..], b"dary-", b"-rest"] {
            assert_eq!(input.find(&want, &[]), None);
            let room = arrive(&mut input, piece);
            input.copy_unread(&room);
        }
        assert_eq!(input.find(&want, &[]), Some(16));
        input.take(16);
        assert_eq!(input.unread(&[]), b"rest");
    }

    #[test]
    fn what_is_read_within_the_turn_is_not_copied() {
        let mut input = InputBuffer::default();
        let room = arrive(&mut input, b"PING\r\nPI");
        assert_eq!(input.find(&delimiter(b"\r\n"), &room), Some(6));
        input.take(6);
        assert!(input.own.is_empty());
        input.copy_unread(&room);
        assert_eq!(input.unread(&[]), b"PI");
        let room = arrive(&mut input, b"NG\r\n");
        assert_eq!(input.find(&Request::Bytes(6), &room), Some(6));
        assert_eq!(input.find(&Request::Bytes(7), &room), None);
        assert_eq!(input.find(&Request::Some(4), &room), Some(4));
        assert_eq!(input.find(&Request::More(6), &room), None);
    }

    #[test]
    fn put_back_bytes_come_first() {
        let mut input = InputBuffer::default();
        let room = arrive(&mut input, b"abcdef");
        input.take(3);
        input.put_back(b"XYZ", &room);
        assert_eq!(input.unread(&[]), b"XYZdef");
        input.put_back(b"0", &[]);
        assert_eq!(input.unread(&[]), b"0XYZdef");
        input.take(2);
        input.put_back(b"1", &[]);
        assert_eq!(input.unread(&[]), b"1YZdef");
    }

    #[test]
    fn a_false_end_of_a_delimiter_is_skipped() {
        let mut input = InputBuffer::default();
        let room = arrive(&mut input, b"\n\n\rab\r\n");
        assert_eq!(input.find(&delimiter(b"\r\n"), &room), Some(7));
        assert_eq!(input.find(&delimiter(b"b\r\n"), &room), Some(7));
        assert_eq!(input.find(&delimiter(b"\n\n"), &room), Some(2));
        assert_eq!(input.find(&delimiter(b"\n\r"), &room), Some(3));
        assert_eq!(input.find(&delimiter(b"\r\r"), &room), None);
    }

    #[test]
    fn the_first_of_equal_bytes_is_found_wherever_it_is() {
        for length in 0..20 {
            for first in 0..length {
                // Around it bytes that differ in the lowest or the highest bit.
                let mut bytes: Vec<u8> = (0..length).map(|at| [0x0b, 0x8a][at % 2]).collect();
                bytes[first] = b'\n';
                assert_eq!(find_byte(b'\n', &bytes), Some(first), "{bytes:?}");
                bytes[first..].fill(b'\n');
                assert_eq!(find_byte(b'\n', &bytes), Some(first), "{bytes:?}");
                assert_eq!(find_byte(b'\r', &bytes), None);
            }
        }
    }
}
