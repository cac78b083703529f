//! Decoding of compressed bodies, within limits.
//!
//! Input is untrusted: output stops at the given limit and at a maximal ratio to the input, before
//! the rest of a decompression bomb is unpacked.

use crate::Coding;
use crate::limits::{
    BROTLI_DECODER_BYTES, GZIP_DECODER_BYTES, OUTPUT_STEP_BYTES, RATIO_FREE_BYTES,
    ZSTD_DECODE_WINDOW_BITS,
};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use std::fmt;
use std::io::{self, Write};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Limits on the output of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decode {
    pub output_bytes: u64,
    /// Output per input byte, above the first mebibyte.
    pub ratio: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The output exceeds `output_bytes`.
    TooLarge,
    /// The output per input byte exceeds `ratio`.
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
            Self::TooDense => "the compression ratio of the body is above the limit",
            Self::Corrupt => "the compressed body is damaged",
            Self::Truncated => "the compressed body is truncated",
        })
    }
}

impl std::error::Error for DecodeError {}

/// A decoding stream. After an error it repeats that error, and its output so far is invalid.
pub struct Decoder {
    stream: Stream,
    allowed: Decode,
    input_bytes: u64,
    output_bytes: u64,
    /// The first error: the libraries must not be called after it.
    failed: Option<DecodeError>,
}

/// The result of one call of [`Decoder::decode_some`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were consumed.
    pub consumed: usize,
    /// The output buffer is full: more output may be pending even if the whole input was consumed.
    pub full: bool,
}

enum Stream {
    Gzip(Box<flate2::write::MultiGzDecoder<Sink>>),
    Br(Box<Brotli>),
    Zstd(Zstd),
}

impl Decoder {
    pub fn new(coding: Coding, allowed: Decode) -> Result<Self, DecodeError> {
        let stream = match coding {
            Coding::Gzip => {
                Stream::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Sink::default())))
            }
            Coding::Br => Stream::Br(Box::default()),
            Coding::Zstd => Stream::Zstd(Zstd::new()?),
        };
        Ok(Self { stream, allowed, input_bytes: 0, output_bytes: 0, failed: None })
    }

    /// Decodes input and appends the output.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut at = 0;
        loop {
            // All at once if the buffer's capacity suffices.
            let room = (out.capacity() - out.len()).max(OUTPUT_STEP_BYTES);
            let step = self.decode_some(&input[at..], out, room)?;
            at += step.consumed;
            if !step.full {
                return Ok(());
            }
        }
    }

    /// Consumes input until `room` bytes have been appended to `out`, or the input is used up.
    pub fn decode_some(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<Step, DecodeError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let before = out.len();
        let dense = (self.input_bytes + input.len() as u64)
            .saturating_mul(self.allowed.ratio)
            .max(RATIO_FREE_BYTES);
        let left = self.allowed.output_bytes.min(dense).saturating_sub(self.output_bytes);
        // One byte above the limit tells that there is more.
        let room = room.min(usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1));
        let mut consumed = 0;
        let done = match &mut self.stream {
            Stream::Gzip(stream) => gzip_decode(stream, input, &mut consumed, out, room),
            Stream::Br(stream) => stream.decode(input, &mut consumed, out, room),
            Stream::Zstd(stream) => stream.decode(input, &mut consumed, out, room),
        };
        self.input_bytes += consumed as u64;
        let added = out.len() - before;
        self.output_bytes += added as u64;
        if added as u64 > left {
            out.truncate(before + usize::try_from(left).unwrap_or(usize::MAX));
            let too_large = self.allowed.output_bytes <= dense;
            let over = if too_large { DecodeError::TooLarge } else { DecodeError::TooDense };
            return Err(self.fail(over));
        }
        match done {
            Ok(()) => Ok(Step { consumed, full: added == room }),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Signals the end of the input, which must be the end of the compressed stream too. All output
    /// must have been taken before. No input at all is an empty body: servers send
    /// `Content-Encoding` with responses that have no content, such as a redirect.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if self.input_bytes == 0 {
            return Ok(());
        }
        let is_whole = match &mut self.stream {
            Stream::Gzip(stream) => stream.try_finish().is_ok(),
            Stream::Br(stream) => stream.ended,
            Stream::Zstd(stream) => stream.frame_ended,
        };
        // The only error possible now is a missing part.
        if is_whole { Ok(()) } else { Err(self.fail(DecodeError::Truncated)) }
    }

    /// Returns the memory of the stream: its window and its tables.
    pub fn memory_bytes(&self) -> u64 {
        match &self.stream {
            Stream::Gzip(_) => GZIP_DECODER_BYTES,
            Stream::Br(stream) => {
                BROTLI_DECODER_BYTES + u64::try_from(stream.state.ringbuffer_size).unwrap_or(0)
            }
            Stream::Zstd(stream) => stream.context.sizeof() as u64,
        }
    }

    fn fail(&mut self, error: DecodeError) -> DecodeError {
        *self.failed.insert(error)
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("input_bytes", &self.input_bytes).finish_non_exhaustive()
    }
}

/// Decodes a whole body. If the body declares its decoded size, the buffer has that size from the
/// start, bounded by what the input may unpack to.
pub fn decode_all(coding: Coding, input: &[u8], allowed: Decode) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(coding, allowed)?;
    let dense = (input.len() as u64).saturating_mul(allowed.ratio).max(RATIO_FREE_BYTES);
    let most = allowed.output_bytes.min(dense);
    let size = declared_size(coding, input).filter(|size| *size <= most).unwrap_or(0);
    let mut out = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    decoder.decode(input, &mut out)?;
    decoder.finish()?;
    Ok(out)
}

/// Returns the decoded size a body declares: gzip at its end, modulo 2^32 (RFC 1952 2.3.1),
/// Zstandard optionally in its first frame (RFC 8878 3.1.1.1.4), Brotli never.
fn declared_size(coding: Coding, input: &[u8]) -> Option<u64> {
    match coding {
        Coding::Gzip => input.last_chunk().map(|size| u64::from(u32::from_le_bytes(*size))),
        Coding::Zstd => zstd::zstd_safe::get_frame_content_size(input).ok().flatten(),
        Coding::Br => None,
    }
}

/// Decodes gzip until the room or the input is used up. The library holds back output that did not
/// fit, and consumes no input before that is taken.
fn gzip_decode(
    stream: &mut flate2::write::MultiGzDecoder<Sink>,
    input: &[u8],
    consumed: &mut usize,
    out: &mut Vec<u8>,
    room: usize,
) -> Result<(), DecodeError> {
    let sink = stream.get_mut();
    std::mem::swap(&mut sink.out, out);
    sink.room = room;
    let mut write = || {
        while *consumed < input.len() {
            match stream.write(&input[*consumed..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => *consumed += taken,
            }
        }
        stream.flush()
    };
    let done = write();
    std::mem::swap(&mut stream.get_mut().out, out);
    match done {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(DecodeError::Truncated),
        Err(_) => Err(DecodeError::Corrupt),
    }
}

/// The caller's buffer, of which a limited part may be used.
#[derive(Default)]
struct Sink {
    out: Vec<u8>,
    room: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.room -= taken;
        self.out.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets `step` write into the next bytes of `out`, at most `room` in all, until it has no more;
/// `step` is given the buffer and returns how much it wrote, and whether more may follow.
fn fill(
    out: &mut Vec<u8>,
    room: usize,
    mut step: impl FnMut(&mut [u8]) -> Result<(usize, bool), DecodeError>,
) -> Result<(), DecodeError> {
    let end = out.len().saturating_add(room);
    loop {
        let from = out.len();
        let length = (end - from).min((out.capacity() - from).max(OUTPUT_STEP_BYTES));
        if length == 0 {
            return Ok(());
        }
        out.resize(from + length, 0);
        let done = step(&mut out[from..]);
        out.truncate(from + done.map_or(0, |(written, _)| written));
        if !done?.1 {
            return Ok(());
        }
    }
}

struct Brotli {
    state: BrotliState<HeapAlloc<u8>, HeapAlloc<u32>, HeapAlloc<HuffmanCode>>,
    ended: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        // Windows up to 16 MiB, as in RFC 7932: larger ones are not a content coding.
        let state = BrotliState::new_strict(
            HeapAlloc::new(0),
            HeapAlloc::new(0),
            HeapAlloc::new(HuffmanCode::default()),
        );
        Self { state, ended: false }
    }
}

impl Brotli {
    fn decode(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<(), DecodeError> {
        if !self.ended {
            fill(out, room, |buffer| {
                let (mut available, mut written) = (input.len() - *consumed, 0);
                let mut unused = buffer.len();
                let result = BrotliDecompressStream(
                    &mut available,
                    consumed,
                    input,
                    &mut unused,
                    &mut written,
                    buffer,
                    &mut 0,
                    &mut self.state,
                );
                match result {
                    BrotliResult::ResultFailure => Err(DecodeError::Corrupt),
                    BrotliResult::ResultSuccess => {
                        self.ended = true;
                        Ok((written, false))
                    }
                    // The library may request input while output that did not fit is pending.
                    BrotliResult::NeedsMoreInput => Ok((written, unused == 0)),
                    BrotliResult::NeedsMoreOutput => Ok((written, true)),
                }
            })?;
        }
        if self.ended && *consumed < input.len() {
            return Err(DecodeError::Corrupt);
        }
        Ok(())
    }
}

struct Zstd {
    context: DCtx<'static>,
    /// At the end of a frame, where the body may end.
    frame_ended: bool,
    /// The last buffer was filled: the library may hold back more output.
    is_full: bool,
}

impl Zstd {
    fn new() -> Result<Self, DecodeError> {
        let mut context = DCtx::try_create().ok_or(DecodeError::Corrupt)?;
        let window = DParameter::WindowLogMax(ZSTD_DECODE_WINDOW_BITS);
        context.set_parameter(window).map_err(|_| DecodeError::Corrupt)?;
        Ok(Self { context, frame_ended: false, is_full: false })
    }

    fn decode(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<(), DecodeError> {
        fill(out, room, |buffer| {
            // Without either, a call would begin another frame.
            if *consumed == input.len() && !self.is_full {
                return Ok((0, false));
            }
            let length = buffer.len();
            let mut input = InBuffer { src: input, pos: *consumed };
            let mut output = OutBuffer::around(buffer);
            let hint = self.context.decompress_stream(&mut output, &mut input);
            let hint = hint.map_err(|_| DecodeError::Corrupt)?;
            let (taken, written) = (input.pos - *consumed, output.pos());
            *consumed = input.pos;
            self.is_full = written == length;
            if taken + written > 0 {
                self.frame_ended = hint == 0;
            }
            Ok((written, taken + written > 0))
        })
    }
}

#[cfg(test)]
mod tests;
