//! The unread rest of a request's body, as its connection knows it.

use wire::h1::ChunkDecoder;

/// The unread rest of a request's body.
#[derive(Debug, Default)]
pub(crate) enum Remainder {
    /// Nothing: the next byte belongs to the next request.
    #[default]
    None,
    Bytes(u64),
    Chunks(ChunkDecoder),
    /// It cannot be known where the next request begins.
    Lost,
    /// The body is still in use.
    Held,
}
