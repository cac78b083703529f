//! Reads the wire format from a slice.

use std::fmt;

use super::WireType;

/// Why bytes are not in the wire format. Positions count from 0, within the slice of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// A varint is longer than ten bytes or breaks off.
    Varint(usize),
    Fixed32(usize),
    Fixed64(usize),
    /// A length is longer than what follows it.
    Length(usize),
    /// A tag has no field number, or a wire type that does not exist.
    Tag(usize),
    /// A group does not end, or one ends that has not begun.
    Group(usize),
    TooDeep,
}

impl WireError {
    /// The error of a slice that begins at `base` of another one.
    pub fn moved(self, base: usize) -> WireError {
        match self {
            WireError::Varint(at) => WireError::Varint(base + at),
            WireError::Fixed32(at) => WireError::Fixed32(base + at),
            WireError::Fixed64(at) => WireError::Fixed64(base + at),
            WireError::Length(at) => WireError::Length(base + at),
            WireError::Tag(at) => WireError::Tag(base + at),
            WireError::Group(at) => WireError::Group(base + at),
            WireError::TooDeep => WireError::TooDeep,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, at) = match self {
            WireError::Varint(at) => ("invalid varint value", at),
            WireError::Fixed32(at) => ("invalid fixed32 value", at),
            WireError::Fixed64(at) => ("invalid fixed64 value", at),
            WireError::Length(at) => ("unfinished bytes", at),
            WireError::Tag(at) => ("invalid tag", at),
            WireError::Group(at) => ("unfinished group", at),
            WireError::TooDeep => return f.write_str("messages are nested more than 100 deep"),
        };
        // As lua-protobuf counts them.
        write!(f, "{what} at offset {}", at + 1)
    }
}

/// A position in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub fn new(data: &'a [u8]) -> Reader<'a> {
        Reader { data, at: 0 }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    #[inline(always)]
    pub fn position(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        match self.data.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for (index, &byte) in self.data[self.at.min(self.data.len())..].iter().take(10).enumerate()
        {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                // The tenth byte has one bit.
                if index == 9 && byte > 1 {
                    break;
                }
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(WireError::Varint(self.at))
    }

    #[inline(always)]
    pub fn fixed32(&mut self) -> Result<u32, WireError> {
        let chunk = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<4>());
        let value = chunk.ok_or(WireError::Fixed32(self.at))?;
        self.at += 4;
        Ok(u32::from_le_bytes(*value))
    }

    #[inline(always)]
    pub fn fixed64(&mut self) -> Result<u64, WireError> {
        let chunk = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>());
        let value = chunk.ok_or(WireError::Fixed64(self.at))?;
        self.at += 8;
        Ok(u64::from_le_bytes(*value))
    }

    /// A length and that many bytes.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let begin = self.at;
        let length = self.varint()?;
        let bytes = usize::try_from(length).ok().and_then(|length| self.take(length));
        bytes.ok_or_else(|| {
            self.at = begin;
            WireError::Length(begin)
        })
    }

    /// The next `count` bytes.
    #[inline(always)]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let bytes = self.data.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    /// A field number and a wire type.
    #[inline(always)]
    pub fn tag(&mut self) -> Result<u32, WireError> {
        let begin = self.at;
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >= 8 && tag & 7 < 6 => Ok(tag),
            _ => Err(WireError::Tag(begin)),
        }
    }

    /// Skips the value of a field that is not known.
    pub fn skip(&mut self, tag: u32, depth_left: usize) -> Result<(), WireError> {
        match WireType::of_tag(tag) {
            Some(WireType::Varint) => self.varint().map(drop),
            Some(WireType::Fixed64) => self.fixed64().map(drop),
            Some(WireType::Bytes) => self.bytes().map(drop),
            Some(WireType::Fixed32) => self.fixed32().map(drop),
            Some(WireType::GroupStart) => self.group(tag, depth_left).map(drop),
            Some(WireType::GroupEnd) | None => Err(WireError::Group(self.at)),
        }
    }

    /// The content of a group, whose tag was read.
    pub fn group(&mut self, start: u32, depth_left: usize) -> Result<&'a [u8], WireError> {
        let depth_left = depth_left.checked_sub(1).ok_or(WireError::TooDeep)?;
        let begin = self.at;
        while !self.is_empty() {
            let end = self.at;
            let tag = self.tag()?;
            if WireType::of_tag(tag) == Some(WireType::GroupEnd) {
                let is_same = tag >> 3 == start >> 3;
                return if is_same {
                    Ok(&self.data[begin..end])
                } else {
                    Err(WireError::Group(end))
                };
            }
            self.skip(tag, depth_left)?;
        }
        Err(WireError::Group(begin))
    }
}
