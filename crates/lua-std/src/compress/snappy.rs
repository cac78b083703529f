//! Snappy: whole strings in its plain format, streams in its framing format.

use super::{Format, OneShotCodec, StreamCompressor, StreamDecompressor, StreamResult};
use snap::raw;
use snap::read::FrameDecoder;
use snap::write::FrameEncoder;
use std::io::{Read, Write};

/// A chunk begins with its type and three bytes of length (framing format, section 1).
const CHUNK_HEADER_BYTES: usize = 4;
/// Every stream begins with this chunk (section 4.1).
const IDENTIFIER: &[u8; 10] = b"\xff\x06\x00\x00sNaPpY";

pub(super) fn family() -> Format {
    let whole = Some(OneShotCodec { compress, decompress });
    Format { levels: 1..=1, level: 1, pack, unpack, whole }
}

fn compress(input: &[u8]) -> Result<Vec<u8>, String> {
    raw::Encoder::new().compress_vec(input).map_err(|error| error.to_string())
}

fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let length = raw::decompress_len(input).map_err(|error| damaged(&error))?;
    if length > limit {
        return Err(super::too_large());
    }
    raw::Decoder::new().decompress_vec(input).map_err(|error| damaged(&error))
}

fn pack(_: u32) -> Result<Box<dyn StreamCompressor>, String> {
    Ok(Box::new(Stream { encoder: FrameEncoder::new(Vec::new()), begun: false }))
}

fn unpack(limit: usize) -> Result<Box<dyn StreamDecompressor>, String> {
    Ok(Box::new(Chunks { waiting: Vec::new(), begun: false, written: 0, limit }))
}

struct Stream {
    encoder: FrameEncoder<Vec<u8>>,
    begun: bool,
}

impl StreamCompressor for Stream {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.encoder.write_all(input).map_err(|error| error.to_string())?;
        self.begun |= !self.encoder.get_ref().is_empty();
        out.append(self.encoder.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> StreamResult {
        self.encoder.flush().map_err(|error| error.to_string())?;
        self.begun |= !self.encoder.get_ref().is_empty();
        out.append(self.encoder.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> StreamResult {
        self.flush(out)?;
        if !self.begun {
            out.extend_from_slice(IDENTIFIER);
        }
        Ok(())
    }
}

/// Decompresses chunk by chunk, each as its own stream: no chunk refers to another.
struct Chunks {
    waiting: Vec<u8>,
    begun: bool,
    written: usize,
    limit: usize,
}

impl StreamDecompressor for Chunks {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.waiting.extend_from_slice(input);
        let mut at = 0;
        while let Some(chunk) = whole_chunk(&self.waiting[at..]) {
            at += chunk.len();
            if chunk == IDENTIFIER {
                self.begun = true;
                continue;
            }
            if !self.begun {
                return Err("not a Snappy stream".to_owned());
            }
            let before = out.len();
            let mut decoder = FrameDecoder::new(IDENTIFIER.chain(chunk));
            // A chunk has at most 64 KiB, so the limit is checked between chunks.
            decoder.read_to_end(out).map_err(|error| damaged(&error))?;
            self.written += out.len() - before;
            if self.written > self.limit {
                return Err(super::too_large());
            }
        }
        self.waiting.drain(..at);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> StreamResult {
        match self.begun && self.waiting.is_empty() {
            true => Ok(()),
            false => Err("the packed data ends too early".to_owned()),
        }
    }
}

fn whole_chunk(input: &[u8]) -> Option<&[u8]> {
    let [_, a, b, c] = *input.first_chunk::<CHUNK_HEADER_BYTES>()?;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    input.get(..CHUNK_HEADER_BYTES + length)
}

fn damaged(error: &dyn std::error::Error) -> String {
    format!("the packed data is damaged: {error}")
}
