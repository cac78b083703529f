//! Decoding of field blocks (RFC 7541 3.2, 6).

use super::table::Table;
use super::{Class, Name, TABLE_SIZE, huffman, read_integer, static_table};
use BlockError::Malformed;

/// Why a block was not decoded to its end: the connection ends, because the tables of both sides
/// differ from here on (RFC 9113 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The block is not HPACK.
    Malformed,
    /// The fields are larger than allowed.
    TooLarge,
}

/// Most size updates before the first field: the smallest and the last (RFC 7541 4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// A literal name and value, while they are decoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { table: Table::new(TABLE_SIZE), name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Decodes a whole block and passes each field on: its class, name and value. A reference to an
    /// entry of the table takes few bytes and costs its whole text, so the work is bounded: `most`
    /// is the length of all names and values.
    pub fn decode(
        &mut self,
        block: &[u8],
        most: usize,
        mut field: impl FnMut(Class, &[u8], &[u8]),
    ) -> Result<(), BlockError> {
        let mut size = 0;
        let mut field = |class, name: &[u8], value: &[u8]| {
            size += name.len() + value.len();
            field(class, name, value);
            if size > most { Err(BlockError::TooLarge) } else { Ok(()) }
        };
        let mut input = block;
        let mut updates = 0;
        while let Some(&first) = input.first() {
            if first & 0x80 != 0 {
                let index = read_integer(&mut input, 7).ok_or(Malformed)?;
                let (class, name, value) = self.indexed(index)?;
                field(class, name, value)?;
                updates = SIZE_UPDATES_MAX;
            } else if first & 0xe0 == 0x20 {
                // RFC 7541 4.2: only at the beginning of a block, and within the announced size.
                let size = read_integer(&mut input, 5).ok_or(Malformed)?;
                if updates == SIZE_UPDATES_MAX || size > TABLE_SIZE {
                    return Err(Malformed);
                }
                updates += 1;
                self.table.set_max(size);
            } else {
                self.literal(first, &mut input, &mut field)?;
                updates = SIZE_UPDATES_MAX;
            }
        }
        // The room of a very long field is not kept for the next.
        if self.value.capacity() > TABLE_SIZE {
            self.value = Vec::new();
        }
        Ok(())
    }

    #[inline]
    fn indexed(&self, index: usize) -> Result<(Class, &[u8], &[u8]), BlockError> {
        match index.checked_sub(1).ok_or(Malformed)? {
            at if at < static_table::LEN => {
                let (name, meaning, value) = static_table::ROWS[at];
                Ok((Class::of_static(meaning), name.as_bytes(), value.as_bytes()))
            }
            at => self.table.get(at - static_table::LEN).ok_or(Malformed),
        }
    }

    /// Decodes a literal: with indexing (6 bits), without indexing or never indexed (4 bits).
    fn literal(
        &mut self,
        first: u8,
        input: &mut &[u8],
        field: &mut impl FnMut(Class, &[u8], &[u8]) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let indexes = first & 0x40 != 0;
        let index = read_integer(input, if indexes { 6 } else { 4 }).ok_or(Malformed)?;
        self.name.clear();
        let meaning = if index == 0 {
            read_string(input, &mut self.name)?;
            Name::of(&self.name)
        } else {
            // A name of the dynamic table is copied: the entry may be evicted by this one.
            let mut name = std::mem::take(&mut self.name);
            let (class, text, _) = self.indexed(index)?;
            name.extend_from_slice(text);
            self.name = name;
            class.name
        };
        self.value.clear();
        read_string(input, &mut self.value)?;
        let class = Class::of(meaning, &self.name, &self.value);
        if indexes {
            self.table.insert(class, &self.name, &self.value);
        }
        field(class, &self.name, &self.value)
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

/// Reads a string literal (RFC 7541 5.2).
fn read_string(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), BlockError> {
    let is_huffman = input.first().ok_or(Malformed)? & 0x80 != 0;
    let len = read_integer(input, 7).ok_or(Malformed)?;
    let (text, rest) = input.split_at_checked(len).ok_or(Malformed)?;
    *input = rest;
    if is_huffman {
        return huffman::decode(text, out).ok_or(Malformed);
    }
    out.extend_from_slice(text);
    Ok(())
}
