//! The unread rest of a request's body, as its connection knows it.

use wire::h1::ChunkDecoder;

/// The unread rest of a request's body.
#[derive(Debug, Default)]
pub(crate) enum UnreadBody {
    /// Nothing: the next byte belongs to the next request.
    #[default]
    None,
    Bytes(u64),
    Chunks(ChunkDecoder),
    /// The start of the next request cannot be determined.
    Lost,
    /// The body is still in use.
    Held,
}
