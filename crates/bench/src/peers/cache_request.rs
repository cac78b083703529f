//! What a cache is asked for.

/// The first of [`DOCUMENTS`] documents that differ in their number.
pub const NUMBERED_PATH: &str = "/document/000000";
/// Ten times what fits into the memory of a cache with a disk, at 64 KiB each.
pub const DOCUMENTS: u32 = 2560;

/// The request to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// A large document, by a client that takes gzip.
    Gzip,
    /// The same by a client that takes no coding.
    Plain,
    /// A small one, by a client that takes no coding.
    Small,
    /// One of [`DOCUMENTS`], which are stored on disk, by a client that takes no coding.
    Many,
}
