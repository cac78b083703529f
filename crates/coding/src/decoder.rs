//! Undoing a coding, within limits.
//!
//! What is decoded was made by somebody else: output stops at the limit given, and at a ratio to
//! the input, before the rest of a bomb is unpacked.

use crate::Coding;
use crate::limits::{OUTPUT_STEP_BYTES, RATIO_FREE_BYTES, ZSTD_DECODE_WINDOW_BITS};
use std::fmt;
use std::io::{self, Write};
use zstd::stream::raw::DParameter;

/// How much may come out of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decode {
    pub output_bytes: u64,
    /// Output per input byte, above the first mebibyte.
    pub ratio: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// More came out than `output_bytes`.
    TooLarge,
    /// More came out per input byte than `ratio`.
    TooDense,
    /// Not this coding, or damaged.
    Corrupt,
    /// The input ended too early.
    Truncated,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the decoded body is larger than allowed",
            Self::TooDense => "the body unpacks to suspiciously much",
            Self::Corrupt => "the coded body is damaged",
            Self::Truncated => "the coded body ends too early",
        })
    }
}

impl std::error::Error for DecodeError {}

/// A stream that undoes a coding. After an error it repeats that error, and what it put out is
/// of no use.
pub struct Decoder {
    stream: Stream,
    allowed: Decode,
    input_bytes: u64,
    /// What went wrong: the libraries must not be asked again.
    failed: Option<DecodeError>,
}

enum Stream {
    Gzip(Box<flate2::write::MultiGzDecoder<Sink>>),
    Br(Box<brotli::DecompressorWriter<Sink>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Sink>>),
}

impl Stream {
    fn sink(&mut self) -> &mut Sink {
        match self {
            Self::Gzip(stream) => stream.get_mut(),
            Self::Br(stream) => stream.get_mut(),
            Self::Zstd(stream) => stream.get_mut(),
        }
    }
}

impl Decoder {
    pub fn new(coding: Coding, allowed: Decode) -> Result<Self, DecodeError> {
        let sink = Sink::default();
        let stream = match coding {
            Coding::Gzip => Stream::Gzip(Box::new(flate2::write::MultiGzDecoder::new(sink))),
            Coding::Br => {
                Stream::Br(Box::new(brotli::DecompressorWriter::new(sink, OUTPUT_STEP_BYTES)))
            }
            Coding::Zstd => {
                let stream = zstd_stream(sink).map_err(|_| DecodeError::Corrupt)?;
                Stream::Zstd(Box::new(stream))
            }
        };
        Ok(Self { stream, allowed, input_bytes: 0, failed: None })
    }

    /// Takes input; what comes out is appended.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        self.input_bytes += input.len() as u64;
        self.through(out, |stream| match stream {
            Stream::Gzip(stream) => stream.write_all(input).and_then(|()| stream.flush()),
            Stream::Br(stream) => br_decode(stream, input),
            Stream::Zstd(stream) => stream.write_all(input).and_then(|()| stream.flush()),
        })
    }

    /// Tells the end of the input, which must be the end of the coding too.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let before = self.failed;
        let done = self.through(out, |stream| match stream {
            Stream::Gzip(stream) => stream.try_finish(),
            Stream::Br(stream) => stream.close(),
            Stream::Zstd(stream) => stream.do_finish(),
        });
        // What is wrong only now is that something is missing.
        if done == Err(DecodeError::Corrupt) && before.is_none() {
            self.failed = Some(DecodeError::Truncated);
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn through(
        &mut self,
        out: &mut Vec<u8>,
        step: impl FnOnce(&mut Stream) -> io::Result<()>,
    ) -> Result<(), DecodeError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let dense = self.input_bytes.saturating_mul(self.allowed.ratio).max(RATIO_FREE_BYTES);
        let sink = self.stream.sink();
        sink.allowed = self.allowed.output_bytes.min(dense);
        std::mem::swap(&mut sink.out, out);
        let done = step(&mut self.stream);
        let sink = self.stream.sink();
        std::mem::swap(&mut sink.out, out);
        let over = sink.over;
        let Err(error) = done else { return Ok(()) };
        let failed = if over && self.allowed.output_bytes <= dense {
            DecodeError::TooLarge
        } else if over {
            DecodeError::TooDense
        } else if error.kind() == io::ErrorKind::UnexpectedEof {
            DecodeError::Truncated
        } else {
            DecodeError::Corrupt
        };
        self.failed = Some(failed);
        Err(failed)
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("input_bytes", &self.input_bytes).finish_non_exhaustive()
    }
}

/// A whole body at once. Where the body says how long it will be, the buffer is of that size from
/// the start: one that lies about it gets no more than it might unpack to.
pub fn decode_all(coding: Coding, input: &[u8], allowed: Decode) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(coding, allowed)?;
    let dense = (input.len() as u64).saturating_mul(allowed.ratio).max(RATIO_FREE_BYTES);
    let most = allowed.output_bytes.min(dense);
    let size = stated_size(coding, input).filter(|size| *size <= most).unwrap_or(0);
    let mut out = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    decoder.decode(input, &mut out)?;
    decoder.finish(&mut out)?;
    Ok(out)
}

/// How long a body says that it is when decoded: gzip at its end, modulo 2^32 (RFC 1952 2.3.1),
/// Zstandard in its first frame, if at all (RFC 8878 3.1.1.1.4), Brotli never.
fn stated_size(coding: Coding, input: &[u8]) -> Option<u64> {
    match coding {
        Coding::Gzip => input.last_chunk().map(|size| u64::from(u32::from_le_bytes(*size))),
        Coding::Zstd => zstd::zstd_safe::get_frame_content_size(input).ok().flatten(),
        Coding::Br => None,
    }
}

/// The library asks for more input while output waits that did not fit its buffer; asking again
/// without input brings it out.
fn br_decode(stream: &mut brotli::DecompressorWriter<Sink>, input: &[u8]) -> io::Result<()> {
    stream.write_all(input)?;
    loop {
        let before = stream.get_ref().written;
        let _none = stream.write(&[])?;
        if stream.get_ref().written == before {
            return Ok(());
        }
    }
}

fn zstd_stream(sink: Sink) -> io::Result<zstd::stream::write::Decoder<'static, Sink>> {
    let mut raw = zstd::stream::raw::Decoder::new()?;
    raw.set_parameter(DParameter::WindowLogMax(ZSTD_DECODE_WINDOW_BITS))?;
    let writer = zstd::stream::zio::Writer::new_with_capacity(sink, raw, OUTPUT_STEP_BYTES);
    Ok(zstd::stream::write::Decoder::with_writer(writer))
}

/// The caller's buffer with a lid: a write past what is allowed fails.
#[derive(Default)]
struct Sink {
    out: Vec<u8>,
    written: u64,
    allowed: u64,
    over: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = self.written + bytes.len() as u64;
        if after > self.allowed {
            self.over = true;
            return Err(io::Error::other("over the limit"));
        }
        self.written = after;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
