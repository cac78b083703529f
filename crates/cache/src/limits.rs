//! Every bound of this crate, by name.

/// Longest key; a request whose key would be longer is not cached.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Longest stored head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
