//! LZ4 in its frame format, which has its own length and checksum.
//!
//! The library decompresses from a reader and cannot be interrupted within a block. So input is
//! buffered until a whole block is complete.

use super::{Format, StreamCompressor, StreamDecompressor, StreamResult};
use crate::limits;
use lz4_flex::frame::{BlockMode, FrameDecoder, FrameEncoder, FrameInfo};
use std::io::{self, BufRead, Read, Write};

/// The start of a frame (LZ4 frame format, section "General structure").
const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
const DESCRIPTOR_BYTES: usize = 3;
const FLAG_BLOCK_CHECKSUM: u8 = 1 << 4;
const FLAG_CONTENT_SIZE: u8 = 1 << 3;
const FLAG_CONTENT_CHECKSUM: u8 = 1 << 2;
const FLAG_DICTIONARY: u8 = 1;
/// The highest bit of a block's length marks it as uncompressed.
const LENGTH: u32 = u32::MAX >> 1;

pub(super) fn family() -> Format {
    Format { levels: 1..=1, level: 1, pack, unpack, whole: None }
}

fn pack(_: u32) -> Result<Box<dyn StreamCompressor>, String> {
    let info = FrameInfo::new().block_mode(BlockMode::Linked).content_checksum(true);
    Ok(Box::new(FrameEncoder::with_frame_info(info, Vec::new())))
}

fn unpack(limit: usize) -> Result<Box<dyn StreamDecompressor>, String> {
    Ok(Box::new(Frame {
        decoder: FrameDecoder::new(InputBytes::default()),
        waiting: Vec::new(),
        next: Next::Header,
        written: 0,
        limit,
    }))
}

impl StreamCompressor for FrameEncoder<Vec<u8>> {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.write_all(input).map_err(|error| error.to_string())?;
        out.append(self.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> StreamResult {
        Write::flush(self).map_err(|error| error.to_string())?;
        out.append(self.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> StreamResult {
        // An empty input is a frame too.
        self.write_all(&[]).and_then(|()| Write::flush(self)).map_err(|error| error.to_string())?;
        self.try_finish().map_err(|error| error.to_string())?;
        out.append(self.get_mut());
        Ok(())
    }
}

/// Input bytes, read once.
#[derive(Default)]
struct InputBytes {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for InputBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = (&self.bytes[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

/// The kind of the next unit of input.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Header,
    Block {
        flags: u8,
    },
    /// After a frame; another may follow.
    End,
}

struct Frame {
    decoder: FrameDecoder<InputBytes>,
    waiting: Vec<u8>,
    next: Next,
    written: usize,
    limit: usize,
}

impl StreamDecompressor for Frame {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.waiting.extend_from_slice(input);
        let mut at = 0;
        while at < self.waiting.len() {
            let Some((length, next)) = self.unit(&self.waiting[at..])? else { break };
            let fed = self.decoder.get_mut();
            fed.bytes.clear();
            fed.bytes.extend_from_slice(&self.waiting[at..at + length]);
            fed.at = 0;
            at += length;
            self.next = next;
            self.drain(out)?;
        }
        self.waiting.drain(..at);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> StreamResult {
        match self.next {
            Next::End if self.waiting.is_empty() => Ok(()),
            _ => Err("the packed data ends too early".to_owned()),
        }
    }
}

impl Frame {
    /// The length of the next complete unit and what follows it; `None` if it is incomplete.
    fn unit(&self, input: &[u8]) -> Result<Option<(usize, Next)>, String> {
        let (header, flags) = match self.next {
            Next::Block { flags } => (0, flags),
            Next::Header | Next::End => {
                if !input.starts_with(&MAGIC[..input.len().min(MAGIC.len())]) {
                    return Err("no LZ4 frame".to_owned());
                }
                let Some(&flags) = input.get(MAGIC.len()) else { return Ok(None) };
                let extra = usize::from(flags & FLAG_CONTENT_SIZE != 0) * 8
                    + usize::from(flags & FLAG_DICTIONARY != 0) * 4;
                (MAGIC.len() + DESCRIPTOR_BYTES + extra, flags)
            }
        };
        let Some(word) = input.get(header..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(None);
        };
        let length = (u32::from_le_bytes(*word) & LENGTH) as usize;
        if length > limits::LZ4_BLOCK_BYTES {
            return Err("the packed data is damaged".to_owned());
        }
        let (checksum, next) = match length {
            0 => (flags & FLAG_CONTENT_CHECKSUM, Next::End),
            _ => (flags & FLAG_BLOCK_CHECKSUM, Next::Block { flags }),
        };
        let whole = header + word.len() + length + usize::from(checksum != 0) * 4;
        Ok((whole <= input.len()).then_some((whole, next)))
    }

    /// Decompresses all complete input.
    fn drain(&mut self, out: &mut Vec<u8>) -> StreamResult {
        loop {
            let ready = self.decoder.fill_buf().map_err(|error| damaged(&error))?;
            let count = ready.len();
            if count > self.limit - self.written {
                return Err(super::too_large());
            }
            out.extend_from_slice(ready);
            self.decoder.consume(count);
            self.written += count;
            let fed = self.decoder.get_ref();
            if fed.at == fed.bytes.len() {
                return Ok(());
            }
        }
    }
}

fn damaged(error: &io::Error) -> String {
    format!("the packed data is damaged: {error}")
}
