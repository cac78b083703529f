//! Raw DEFLATE (RFC 1951) of single messages, as in permessage-deflate (RFC 7692 7.2): ended by a
//! flush whose last four bytes are omitted.
//!
//! Messages are independent (no context takeover), so one stream serves any number of connections,
//! one message after the other; or each refers to earlier ones of its connection, which then has a
//! stream of its own. Inflating stops at the given limit.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::fmt;
use std::ops::RangeInclusive;

use crate::DecodeError;
use crate::limits::OUTPUT_STEP_BYTES;

/// The end of a flush: an empty block (RFC 7692 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// The largest window, 32 KiB (RFC 1951 2).
const WINDOW_BITS_MAX: u8 = 15;
/// The windows a peer may request; zlib has no raw stream with 8 bits.
pub const DEFLATE_WINDOW_BITS: RangeInclusive<u8> = 9..=WINDOW_BITS_MAX;

/// Compresses messages.
pub struct Deflater {
    stream: Compress,
    keeps_context: bool,
}

impl Deflater {
    /// Creates a deflater; `window_bits` is clamped to [`DEFLATE_WINDOW_BITS`].
    pub fn new(level: u32, window_bits: u8) -> Deflater {
        let bits = window_bits.clamp(*DEFLATE_WINDOW_BITS.start(), *DEFLATE_WINDOW_BITS.end());
        let level = Compression::new(level.min(9));
        let stream = Compress::new_with_window_bits(level, false, bits);
        Deflater { stream, keeps_context: false }
    }

    /// Creates a deflater for the messages of one connection, which refer to earlier ones. After a
    /// failure it must not be used again.
    pub fn with_context(level: u32, window_bits: u8) -> Deflater {
        Deflater { keeps_context: true, ..Deflater::new(level, window_bits) }
    }

    /// Appends the compressed message; `None` if the library fails, which with these settings means
    /// that it could not allocate.
    pub fn message(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if !self.keeps_context {
            self.stream.reset();
        }
        loop {
            out.reserve(OUTPUT_STEP_BYTES);
            let before = self.stream.total_in();
            self.stream.compress_vec(input, out, FlushCompress::Sync).ok()?;
            input = &input[(self.stream.total_in() - before) as usize..];
            // Unused capacity means that no output is pending (zlib's manual, deflate()).
            if input.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        out.truncate(out.strip_suffix(&TAIL)?.len());
        Some(())
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// Decompresses messages.
pub struct Inflater {
    stream: Decompress,
    keeps_context: bool,
}

impl Inflater {
    pub fn new() -> Inflater {
        let stream = Decompress::new_with_window_bits(false, WINDOW_BITS_MAX);
        Inflater { stream, keeps_context: false }
    }

    /// Creates an inflater for the messages of one connection, which refer to earlier ones. After
    /// an error it must not be used again.
    pub fn with_context() -> Inflater {
        Inflater { keeps_context: true, ..Inflater::new() }
    }

    /// Decompresses a message of at most `limit` bytes.
    pub fn message(&mut self, input: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        if !self.keeps_context {
            self.stream.reset(false);
        }
        let mut out = Vec::new();
        self.inflate(input, limit, &mut out)?;
        self.inflate(&TAIL, limit, &mut out)?;
        Ok(out)
    }

    fn inflate(
        &mut self,
        mut input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        loop {
            // Grows to little more than the remaining limit, plus one byte to detect that it is
            // exceeded.
            let step = out.len().max(OUTPUT_STEP_BYTES).min(limit - out.len() + 1);
            out.reserve_exact(step);
            let (before, so_far) = (self.stream.total_in(), out.len());
            let status = self
                .stream
                .decompress_vec(input, out, FlushDecompress::Sync)
                .map_err(|_| DecodeError::Corrupt)?;
            let taken = (self.stream.total_in() - before) as usize;
            input = &input[taken..];
            if out.len() > limit {
                return Err(DecodeError::TooLarge);
            }
            if status == Status::StreamEnd {
                // A final block may end the message or occur in the middle of it (RFC 7692
                // 7.2.3.5). zlib then forgets the window: a message that refers to what precedes a
                // final block is taken for corrupt.
                self.stream.reset(false);
            } else if input.is_empty() && out.len() < out.capacity() {
                return Ok(());
            } else if taken == 0 && out.len() == so_far {
                return Err(DecodeError::Corrupt);
            }
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Inflater::new()
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFLATE_WINDOW_BITS, Deflater, Inflater};
    use crate::DecodeError;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn the_examples_of_rfc_7692_7_2_3() {
        let mut inflater = Inflater::new();
        for coded in [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            // An uncompressed block, one with BFINAL, and two blocks.
            &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
        ] {
            assert_eq!(inflater.message(coded, 5).unwrap(), b"Hello", "{coded:x?}");
        }
        let mut out = Vec::new();
        Deflater::new(5, 15).message(b"Hello", &mut out).unwrap();
        assert_eq!(out, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    }

    #[test]
    fn messages_of_one_stream_round_trip_with_every_window() {
        let mut inflater = Inflater::new();
        for bits in DEFLATE_WINDOW_BITS {
            let mut deflater = Deflater::new(5, bits);
            for message in [vec![], b"x".to_vec(), vec![7; 200_000], noise(100_000)] {
                let mut coded = b"before".to_vec();
                deflater.message(&message, &mut coded).unwrap();
                assert!(inflater.message(&coded[6..], message.len()) == Ok(message));
            }
        }
    }

    #[test]
    fn messages_with_context_refer_to_earlier_ones() {
        let message = noise(5_000);
        for bits in DEFLATE_WINDOW_BITS.skip(4) {
            let (mut deflater, mut inflater) =
                (Deflater::with_context(3, bits), Inflater::with_context());
            let mut lengths = Vec::new();
            for _ in 0..3 {
                let mut coded = Vec::new();
                deflater.message(&message, &mut coded).unwrap();
                lengths.push(coded.len());
                assert!(inflater.message(&coded, message.len()).unwrap() == message);
            }
            assert!(lengths[0] > 4_500 && lengths[1] < 200 && lengths[2] < 200, "{lengths:?}");
            let mut coded = Vec::new();
            deflater.message(&message, &mut coded).unwrap();
            assert_eq!(Inflater::new().message(&coded, message.len()), Err(DecodeError::Corrupt));
        }
    }

    #[test]
    fn a_bomb_is_rejected_before_it_is_unpacked() {
        let mut bomb = Vec::new();
        Deflater::new(9, 15).message(&vec![0; 64 << 20], &mut bomb).unwrap();
        let mut inflater = Inflater::new();
        assert_eq!(inflater.message(&bomb, 100_000), Err(DecodeError::TooLarge));
        assert!(inflater.stream.total_out() < 200_000);
        // The next message is not affected.
        let coded = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(inflater.message(&coded, 4), Err(DecodeError::TooLarge));
        assert_eq!(inflater.message(&coded, 5).unwrap(), b"Hello");
    }

    #[test]
    fn invalid_deflate_data_is_rejected() {
        let mut inflater = Inflater::new();
        for coded in [&[0xff; 9][..], &[0x06], &[0x00, 0x05, 0x00, 0x00, 0x00]] {
            assert_eq!(inflater.message(coded, 1000), Err(DecodeError::Corrupt), "{coded:x?}");
        }
    }
}
