//! Limits of programs, handlers and filters.

/// How long a program that has exited may take to send its last bytes.
pub(crate) const LAST_BYTES_MS: u64 = 5_000;

/// Requests from within that a VM may have under way.
pub(crate) const SUBREQUESTS: usize = 4096;

/// An answer to one whose length is known and no more than this is received before it is handed
/// over: its connection is free again at once.
pub(crate) const SUBREQUEST_WHOLE_BYTES: u64 = 64 * 1024;

/// What is decoded on the worker; more is decoded off the loop.
pub(crate) const DECODED_HERE_BYTES: usize = 64 * 1024;

/// Output per input byte of a coded answer, above the first mebibyte.
pub(crate) const SUBREQUEST_RATIO: u64 = 1100;

/// Memory that the VM of a server's raw programs may hold.
pub(crate) const PROGRAM_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
