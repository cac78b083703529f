//! The fields of a packet, read one after the other.

use super::Fault;

/// The unread bytes of a packet.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Fault::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// An unsigned little-endian number of `N` bytes, at most 8.
    fn number<const N: usize>(&mut self) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(self.take(N)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.number::<1>()? as u8)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        Ok(self.number::<2>()? as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        Ok(self.number::<4>()? as u32)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.number::<8>()
    }

    /// A number of one to nine bytes, whose first byte says how many follow.
    pub(super) fn length(&mut self) -> Result<u64, Fault> {
        match self.u8()? {
            small @ 0..=0xFA => Ok(small.into()),
            0xFC => self.number::<2>(),
            0xFD => self.number::<3>(),
            0xFE => self.u64(),
            _ => Err(Fault::Malformed),
        }
    }

    /// Bytes after their length.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.length()?).map_err(|_| Fault::Malformed)?;
        self.take(length)
    }

    /// Bytes before a zero, which is taken too, or before the end of the packet.
    pub(super) fn until_zero(&mut self) -> &'a [u8] {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest.get(1..).unwrap_or_default();
        taken
    }
}

/// Writes a number as [`Cursor::length`] reads it.
pub(super) fn put_length(length: usize, out: &mut Vec<u8>) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=0xFA => out.push(bytes[0]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Writes bytes after their length.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put_length(text.len(), out);
    out.extend_from_slice(text);
}
