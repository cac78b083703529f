//! Memory for content: a buffer if it is short, an anonymous file (memfd) if it is long.
//!
//! The kernel sends a page of such a file by reference, where it would copy a buffer for each
//! client. Below [`MEMORY_FILE_BYTES_MIN`] one call with a copy costs less than two without.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use net::FileRange;

use crate::Content;
use crate::limits::MEMORY_FILE_BYTES_MIN;

/// Stores content of `length` bytes that `write` writes. `write` may be called twice.
pub(crate) fn store_content(
    length: u64,
    mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<Content> {
    if length >= MEMORY_FILE_BYTES_MIN
        && let Ok(file) = net::memory_file(|file| write(file))
    {
        return Ok(Content::MemoryFile(FileRange { file: Arc::new(file), offset: 0, length }));
    }
    // No descriptors are left, or the system has no anonymous files.
    let room = BytesMut::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    let mut whole = room.writer();
    write(&mut whole)?;
    Ok(Content::Memory(whole.into_inner().freeze()))
}

/// Stores the content of a buffer.
pub(crate) fn store_bytes(bytes: Bytes) -> Content {
    if (bytes.len() as u64) < MEMORY_FILE_BYTES_MIN {
        return Content::Memory(bytes);
    }
    let held = store_content(bytes.len() as u64, |out| out.write_all(&bytes));
    held.unwrap_or(Content::Memory(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_content_is_a_file_that_is_memory() {
        let long = Bytes::from(vec![b'x'; MEMORY_FILE_BYTES_MIN as usize]);
        let Content::MemoryFile(range) = store_bytes(long.clone()) else { panic!("no file") };
        assert_eq!((range.offset, range.length), (0, MEMORY_FILE_BYTES_MIN));
        assert!(matches!(store_bytes(long.slice(1..)), Content::Memory(_)));
        let pieces = [long.slice(..100), long.slice(100..)];
        let write = |out: &mut dyn Write| pieces.iter().try_for_each(|piece| out.write_all(piece));
        let held = store_content(MEMORY_FILE_BYTES_MIN, write).unwrap();
        assert!(matches!(held, Content::MemoryFile(range) if range.length == long.len() as u64));
        assert!(store_content(9, |_| Err(io::Error::other("cut off"))).is_err());
    }
}
