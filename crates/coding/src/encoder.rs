//! Compression of bodies.
//!
//! Output is appended to the caller's buffer. A stream uses memory for its window only; the window
//! is smaller if the body is known to be small.

use crate::Coding;
use crate::limits::{
    BROTLI_WINDOW_BITS, GZIP_WINDOW_BITS, LEAST_WINDOW_BITS, OUTPUT_STEP_BYTES, ZSTD_WINDOW_BITS,
};
use flate2::{Compress, Compression, FlushCompress, Status};
use std::fmt;
use std::io::Write;
use zstd::stream::raw::{CParameter, InBuffer, Operation, OutBuffer};

/// The library failed, which with these settings means that it could not allocate.
#[derive(Debug)]
pub struct EncodeError(Coding);

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} encoder failed", self.0.token())
    }
}

impl std::error::Error for EncodeError {}

/// A compressing stream.
pub struct Encoder {
    stream: Stream,
    coding: Coding,
}

enum Stream {
    Gzip(Compress),
    Br(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::raw::Encoder<'static>),
    Finished,
}

impl Encoder {
    /// Creates an encoder; `level` is clamped to `coding.levels()`.
    pub fn new(coding: Coding, level: u32) -> Result<Self, EncodeError> {
        Self::sized(coding, level, None)
    }

    /// Like `new`, for a body of known size: a small one gets a small window.
    pub fn sized(coding: Coding, level: u32, size: Option<u64>) -> Result<Self, EncodeError> {
        let level = level.clamp(*coding.levels().start(), *coding.levels().end());
        let stream = match coding {
            Coding::Gzip => {
                Stream::Gzip(Compress::new_gzip(Compression::new(level), GZIP_WINDOW_BITS))
            }
            Coding::Br => {
                let window = window_bits(size, BROTLI_WINDOW_BITS);
                let step = OUTPUT_STEP_BYTES;
                let writer = brotli::CompressorWriter::new(Vec::new(), step, level, window);
                Stream::Br(Box::new(writer))
            }
            Coding::Zstd => {
                Stream::Zstd(zstd_stream(level, size).map_err(|_| EncodeError(coding))?)
            }
        };
        Ok(Self { stream, coding })
    }

    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Consumes input and appends the output so far, which is often empty.
    pub fn encode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let coding = self.coding;
        let done = match &mut self.stream {
            Stream::Gzip(stream) => gzip_encode(stream, input, out),
            Stream::Br(stream) => br_into(stream, out, |stream| stream.write_all(input).ok()),
            Stream::Zstd(stream) => zstd_encode(stream, input, out),
            Stream::Finished => None,
        };
        done.ok_or(EncodeError(coding))
    }

    /// Flushes everything consumed so far, so that the receiver can decode it now.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let coding = self.coding;
        let done = match &mut self.stream {
            Stream::Gzip(stream) => gzip_drain(stream, FlushCompress::Sync, out),
            Stream::Br(stream) => br_into(stream, out, |stream| stream.flush().ok()),
            Stream::Zstd(stream) => zstd_drain(out, |buffer| stream.flush(buffer)),
            Stream::Finished => None,
        };
        done.ok_or(EncodeError(coding))
    }

    /// Ends the stream; nothing may be encoded afterwards.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let done = match std::mem::replace(&mut self.stream, Stream::Finished) {
            Stream::Gzip(mut stream) => gzip_drain(&mut stream, FlushCompress::Finish, out),
            Stream::Br(mut stream) => {
                std::mem::swap(stream.get_mut(), out);
                *out = stream.into_inner();
                Some(())
            }
            Stream::Zstd(mut stream) => zstd_drain(out, |buffer| stream.finish(buffer, true)),
            Stream::Finished => None,
        };
        done.ok_or(EncodeError(self.coding))
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("coding", &self.coding).finish_non_exhaustive()
    }
}

/// Compresses a whole body.
pub fn encode_all(coding: Coding, level: u32, input: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::sized(coding, level, Some(input.len() as u64))?;
    let mut out = Vec::with_capacity(input.len() / 3 + 64);
    encoder.encode(input, &mut out)?;
    encoder.finish(&mut out)?;
    Ok(out)
}

/// Returns the smallest window that holds a body of this size.
fn window_bits(size: Option<u64>, most: u32) -> u32 {
    let Some(size) = size else { return most };
    let needed = u64::BITS - size.saturating_sub(1).leading_zeros();
    needed.clamp(LEAST_WINDOW_BITS, most)
}

fn zstd_stream(
    level: u32,
    size: Option<u64>,
) -> std::io::Result<zstd::stream::raw::Encoder<'static>> {
    let mut stream = zstd::stream::raw::Encoder::new(level as i32)?;
    stream.set_parameter(CParameter::WindowLog(window_bits(size, ZSTD_WINDOW_BITS)))?;
    Ok(stream)
}

fn gzip_encode(stream: &mut Compress, mut input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    while !input.is_empty() {
        out.reserve(OUTPUT_STEP_BYTES);
        let before = stream.total_in();
        stream.compress_vec(input, out, FlushCompress::None).ok()?;
        input = &input[(stream.total_in() - before) as usize..];
    }
    Some(())
}

fn gzip_drain(stream: &mut Compress, how: FlushCompress, out: &mut Vec<u8>) -> Option<()> {
    loop {
        out.reserve(OUTPUT_STEP_BYTES);
        let status = stream.compress_vec(&[], out, how).ok()?;
        // Unused capacity means that no output is pending (zlib's manual, deflate()).
        let drained = out.len() < out.capacity();
        match how {
            FlushCompress::Finish if status == Status::StreamEnd => return Some(()),
            FlushCompress::Finish if drained => return None,
            FlushCompress::Finish => {}
            _ if drained => return Some(()),
            _ => {}
        }
    }
}

/// Lends the caller's buffer to the brotli writer, which owns its output.
fn br_into<S>(
    stream: &mut brotli::CompressorWriter<Vec<u8>>,
    out: &mut Vec<u8>,
    step: impl FnOnce(&mut brotli::CompressorWriter<Vec<u8>>) -> Option<S>,
) -> Option<S> {
    std::mem::swap(stream.get_mut(), out);
    let done = step(stream);
    std::mem::swap(stream.get_mut(), out);
    done
}

fn zstd_encode(
    stream: &mut zstd::stream::raw::Encoder<'static>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut source = InBuffer::around(input);
    while source.pos() < input.len() {
        out.reserve(OUTPUT_STEP_BYTES);
        let start = out.len();
        stream.run(&mut source, &mut OutBuffer::around_pos(out, start)).ok()?;
    }
    Some(())
}

fn zstd_drain(
    out: &mut Vec<u8>,
    mut step: impl FnMut(&mut OutBuffer<'_, Vec<u8>>) -> std::io::Result<usize>,
) -> Option<()> {
    loop {
        out.reserve(OUTPUT_STEP_BYTES);
        let start = out.len();
        if step(&mut OutBuffer::around_pos(out, start)).ok()? == 0 {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests;
