//! Every bound of this crate, by name. They reject a configuration before it exhausts memory.

/// Bytes of one path pattern.
pub const PATTERN_BYTES: usize = 2048;
/// Segments of one path pattern: also the depth of a lookup.
pub const SEGMENTS_MAX: usize = 64;
/// Pairs of a host and a path, over all routes.
pub const ENTRIES_MAX: usize = 1 << 20;
/// Listeners that routes may name: a bit each, and one for all others.
pub const LISTENERS_MAX: usize = 63;
/// Methods that routes may name in addition to those of RFC 9110 and PATCH: a bit each.
pub const METHODS_MAX: usize = 54;
/// Routes in an explanation in addition to the chosen one.
pub const CANDIDATES_SHOWN: usize = 40;
/// The longest host (RFC 1035 2.3.4 with a final dot); IPv6 addresses are shorter.
pub(crate) const HOST_BYTES: usize = 255;
