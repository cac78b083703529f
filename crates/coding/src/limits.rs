//! Every bound of this crate, by name.

/// Brotli's window as a power of two: 512 KiB. A larger one gains little on dynamic responses.
pub const BROTLI_WINDOW_BITS: u32 = 19;
/// Zstandard's window as a power of two: 512 KiB; browsers decode up to 8 MiB (RFC 9659).
pub const ZSTD_WINDOW_BITS: u32 = 19;
/// The smallest window, for bodies known to be small.
pub const LEAST_WINDOW_BITS: u32 = 10;
/// The largest Zstandard window accepted when decoding (RFC 9659 section 3).
pub const ZSTD_DECODE_WINDOW_BITS: u32 = 23;
/// gzip's window as a power of two: 32 KiB, the maximum of DEFLATE (RFC 1951).
pub const GZIP_WINDOW_BITS: u8 = 15;
/// Growth step of output buffers.
pub const OUTPUT_STEP_BYTES: usize = 8 * 1024;
/// Output allowed at any ratio: a short run of zeros is dense and harmless.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;
/// Memory of a gzip decoder: its window, its tables and its buffer.
pub const GZIP_DECODER_BYTES: u64 = 96 * 1024;
/// Memory of a Brotli decoder in addition to its window, whose size the body declares.
pub const BROTLI_DECODER_BYTES: u64 = 64 * 1024;
