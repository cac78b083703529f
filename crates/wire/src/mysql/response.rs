//! The packets of responses to commands.

use super::Fault;
use super::cursor::Cursor;

/// The flag of `OkPacket::status` within a transaction.
pub const IN_TRANSACTION: u16 = 1;
/// The flag of `OkPacket::status` if each statement is a transaction of its own.
pub const AUTOCOMMIT: u16 = 2;
/// The flag of `OkPacket::status` if another result follows.
pub const MORE_RESULTS: u16 = 8;
/// An OK packet that ends a result set is shorter than the longest frame: a longer packet that
/// begins with the same byte is a row.
const END_MAX: usize = 0xFF_FFFF;

/// A statement was executed, or a result set is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OkPacket<'a> {
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub status: u16,
    pub warnings: u16,
    pub message: &'a [u8],
}

impl OkPacket<'_> {
    pub fn parse(packet: &[u8]) -> Result<OkPacket<'_>, Fault> {
        let mut cursor = Cursor(packet);
        cursor.u8()?;
        Ok(OkPacket {
            affected_rows: cursor.length()?,
            last_insert_id: cursor.length()?,
            status: cursor.u16()?,
            warnings: cursor.u16()?,
            message: if cursor.0.is_empty() { b"" } else { cursor.text()? },
        })
    }

    /// The status in the last packet of a result set, in either form.
    pub fn end_status(packet: &[u8], no_eof: bool) -> Result<u16, Fault> {
        if no_eof {
            return OkPacket::parse(packet).map(|ok| ok.status);
        }
        let mut cursor = Cursor(packet);
        cursor.take(3)?;
        cursor.u16()
    }
}

/// True if the packet ends columns or rows.
pub fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&0xFE) && packet.len() < END_MAX
}

/// An error of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    pub number: u16,
    pub state: Option<&'a [u8]>,
    pub message: &'a [u8],
}

impl ErrPacket<'_> {
    pub fn parse(packet: &[u8]) -> Result<ErrPacket<'_>, Fault> {
        let mut cursor = Cursor(packet);
        cursor.u8()?;
        let number = cursor.u16()?;
        let state = match cursor.0 {
            [b'#', rest @ ..] if rest.len() >= 5 => {
                cursor.0 = &rest[5..];
                Some(&rest[..5])
            }
            _ => None,
        };
        Ok(ErrPacket { number, state, message: cursor.0 })
    }
}

/// The response to a statement's preparation; `parameters` and then `columns` packets follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub id: u32,
    pub columns: u16,
    pub parameters: u16,
}

impl Prepared {
    pub fn parse(packet: &[u8]) -> Result<Prepared, Fault> {
        let mut cursor = Cursor(packet);
        if cursor.u8()? != 0 {
            return Err(Fault::Malformed);
        }
        Ok(Prepared { id: cursor.u32()?, columns: cursor.u16()?, parameters: cursor.u16()? })
    }
}

/// The number of columns with which a result set begins.
pub fn column_count(packet: &[u8]) -> Result<u64, Fault> {
    let mut cursor = Cursor(packet);
    let count = cursor.length()?;
    if count == 0 || !cursor.0.is_empty() {
        return Err(Fault::Malformed);
    }
    Ok(count)
}

/// The name and type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a [u8],
    pub kind: u8,
    pub is_unsigned: bool,
}

impl Column<'_> {
    pub fn parse(packet: &[u8]) -> Result<Column<'_>, Fault> {
        let mut cursor = Cursor(packet);
        // Catalog, schema, alias of the table, table.
        for _ in 0..4 {
            cursor.text()?;
        }
        let name = cursor.text()?;
        cursor.text()?;
        // The length of what follows, character set, longest value.
        cursor.take(1 + 2 + 4)?;
        let kind = cursor.u8()?;
        Ok(Column { name, kind, is_unsigned: cursor.u16()? & 0x20 != 0 })
    }
}
