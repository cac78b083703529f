//! The chunked transfer coding (RFC 9112 7.1), decoding and encoding.
//!
//! Owns the state between two pieces of a body. The decoder takes owned bytes and returns slices of
//! them without copying; only trailers are copied. It is strict: a size is hexadecimal digits and
//! nothing else, lines end with CRLF, chunk data is followed by CRLF. Extensions are checked,
//! bounded and dropped. Never buffers body data.

use bytes::{Buf, Bytes, BytesMut};

use super::field::FieldSpan;
use super::strict;
use crate::{Reject, alias, token};

/// The most bytes of all chunk extensions of one body: they are not used, and an endless extension
/// would be a body that no limit counts.
pub const MAX_EXTENSION_BYTES: u32 = 16 << 10;
/// The most digits of a chunk size: sixteen hold every valid one, further leading zeros are
/// rejected.
const MAX_SIZE_DIGITS: u8 = 16;
const MAX_TRAILER_FIELDS: usize = 64;

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// The last chunk; a trailer section and an empty line follow.
pub const LAST_CHUNK_LINE: &[u8] = b"0\r\n";
/// Follows the data of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the line that begins a chunk of `len` bytes; `len` must not be 0, which would be the
/// last chunk.
pub fn chunk_head(len: usize, out: &mut Vec<u8>) {
    debug_assert!(len > 0);
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = [b'\n'; 18];
    let mut at = line.len() - 2;
    line[at] = b'\r';
    let mut rest = len;
    while rest > 0 {
        at -= 1;
        line[at] = DIGITS[rest & 15];
        rest >>= 4;
    }
    out.extend_from_slice(&line[at..]);
}

/// Appends the trailer section and the empty line, after `LAST_CHUNK_LINE`. Names and values must
/// be valid (`token::is_token`, `token::is_field_value`).
pub fn trailer_section<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// The trailer section of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    /// The section as received; `fields` are offsets into it.
    pub raw: Bytes,
    /// The fields that are allowed in a trailer section; others were dropped (RFC 9110 6.5.1).
    pub fields: Vec<FieldSpan>,
}

/// The result of one step of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkEvent {
    /// Body bytes, never empty: a slice of the input.
    Data(Bytes),
    /// The input is used up.
    NeedMore,
    /// The body is complete; the rest of the input belongs to the next message.
    End(Trailers),
}

/// Decodes one chunked body.
#[derive(Debug)]
pub struct ChunkDecoder {
    state: ChunkState,
    /// The size being parsed, then the remaining bytes of the chunk.
    remaining: u64,
    digits: u8,
    extension_bytes: u32,
    trailer_limit: usize,
    trailer: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size,
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    Done,
}

/// The position in `*( ";" BWS name [ "=" ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    Start,
    Name,
    ValueStart,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
}

impl ChunkDecoder {
    /// Creates a decoder whose trailer section may have this many bytes.
    pub fn new(trailer_limit: usize) -> ChunkDecoder {
        ChunkDecoder {
            state: ChunkState::Size,
            remaining: 0,
            digits: 0,
            extension_bytes: 0,
            trailer_limit,
            trailer: BytesMut::new(),
        }
    }

    /// True once the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Consumes the front of `input` and returns what was there. Returns nothing more after `End`
    /// or an error.
    pub fn next(&mut self, input: &mut Bytes) -> Result<ChunkEvent, Reject> {
        loop {
            match self.state {
                ChunkState::Done => return Ok(ChunkEvent::NeedMore),
                ChunkState::Data => {
                    if input.is_empty() {
                        return Ok(ChunkEvent::NeedMore);
                    }
                    return Ok(ChunkEvent::Data(self.take_data(input)));
                }
                ChunkState::Trailer => return self.trailers(input),
                _ => {
                    let used = self.line(input)?;
                    input.advance(used);
                    if input.is_empty()
                        && !matches!(self.state, ChunkState::Data | ChunkState::Trailer)
                    {
                        return Ok(ChunkEvent::NeedMore);
                    }
                }
            }
        }
    }

    fn take_data(&mut self, input: &mut Bytes) -> Bytes {
        let len = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.len());
        self.remaining -= len as u64;
        if self.remaining == 0 {
            self.state = ChunkState::DataCr;
        }
        input.split_to(len)
    }

    /// Reads size lines and the CRLF after data up to data, trailers or the end of the input;
    /// returns how many bytes that took.
    fn line(&mut self, input: &[u8]) -> Result<usize, Reject> {
        for (at, &byte) in input.iter().enumerate() {
            self.state = match self.state {
                ChunkState::Size => self.size(byte)?,
                ChunkState::Extension(place) => self.extension(place, byte)?,
                ChunkState::SizeLf if byte == b'\n' => self.open(),
                ChunkState::SizeLf => return Err(Reject::BareCr),
                ChunkState::DataCr if byte == b'\r' => ChunkState::DataLf,
                ChunkState::DataLf if byte == b'\n' => ChunkState::Size,
                ChunkState::DataCr | ChunkState::DataLf => return Err(Reject::InvalidChunkEnd),
                ChunkState::Data | ChunkState::Trailer | ChunkState::Done => return Ok(at),
            };
        }
        Ok(input.len())
    }

    /// Parses `chunk-size = 1*HEXDIG`: no sign, no prefix, no space, no overflow.
    fn size(&mut self, byte: u8) -> Result<ChunkState, Reject> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if self.digits > 0 => return Ok(ChunkState::SizeLf),
            b';' if self.digits > 0 => {
                self.count_extension()?;
                return Ok(ChunkState::Extension(Extension::Start));
            }
            b'\n' if self.digits > 0 => return Err(Reject::BareLf),
            _ => return Err(Reject::InvalidChunkSize),
        };
        // Lengths stay within i64, as Content-Length does.
        if self.digits == MAX_SIZE_DIGITS || self.remaining > (i64::MAX as u64 >> 4) {
            return Err(Reject::ChunkTooLarge);
        }
        self.digits += 1;
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(ChunkState::Size)
    }

    /// Handles the end of the size line.
    fn open(&mut self) -> ChunkState {
        self.digits = 0;
        if self.remaining == 0 { ChunkState::Trailer } else { ChunkState::Data }
    }

    fn count_extension(&mut self) -> Result<(), Reject> {
        self.extension_bytes += 1;
        if self.extension_bytes > MAX_EXTENSION_BYTES {
            return Err(Reject::ChunkExtensionsTooLong);
        }
        Ok(())
    }

    /// RFC 9112 7.1.1. White space is tolerated after `;` only, where senders put it.
    fn extension(&mut self, place: Extension, byte: u8) -> Result<ChunkState, Reject> {
        use Extension::{AfterQuoted, Escaped, Name, Quoted, Start, Value, ValueStart};
        if byte != b'\r' && byte != b'\n' {
            self.count_extension()?;
        }
        let next = match (place, byte) {
            (Name | Value | AfterQuoted, b'\r') => return Ok(ChunkState::SizeLf),
            (_, b'\n') => return Err(Reject::BareLf),
            (Name | Value | AfterQuoted, b';') => Start,
            (Start, b' ' | b'\t') => Start,
            (Start | Name, _) if token::is_tchar(byte) => Name,
            (Name, b'=') => ValueStart,
            (ValueStart, b'"') => Quoted,
            (ValueStart | Value, _) if token::is_tchar(byte) => Value,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if token::is_value_byte(byte) => Quoted,
            _ => return Err(Reject::InvalidChunkExtension),
        };
        Ok(ChunkState::Extension(next))
    }

    /// Collects the trailer section line by line, then parses it.
    fn trailers(&mut self, input: &mut Bytes) -> Result<ChunkEvent, Reject> {
        while !input.is_empty() {
            let line_end = memchr::memchr(b'\n', input).map(|at| at + 1);
            let take = line_end.unwrap_or(input.len());
            if self.trailer.len() + take > self.trailer_limit {
                return Err(Reject::TrailersTooLarge);
            }
            self.trailer.extend_from_slice(&input.split_to(take));
            if line_end.is_none() {
                break;
            }
            let whole = &self.trailer[..];
            let Some(lines) = whole.strip_suffix(b"\r\n") else {
                return Err(Reject::BareLf);
            };
            if lines.is_empty() || lines.ends_with(b"\n") {
                return self.finish();
            }
        }
        Ok(ChunkEvent::NeedMore)
    }

    fn finish(&mut self) -> Result<ChunkEvent, Reject> {
        self.state = ChunkState::Done;
        let raw = self.trailer.split().freeze();
        let mut fields = Vec::new();
        // The section is complete, so the strict parser finds its end or an error.
        strict::field_section(&raw, 0, MAX_TRAILER_FIELDS, &mut fields)?;
        fields.retain(|field| alias::may_be_trailer(field.known, field.name().of(&raw)));
        Ok(ChunkEvent::End(Trailers { raw, fields }))
    }
}

#[cfg(test)]
mod tests;
