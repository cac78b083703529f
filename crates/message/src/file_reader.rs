//! The bytes of a part of a file, for a consumer that cannot pass the file on.
//!
//! Promises that no worker waits for a disk, and that a file that has become shorter than its part
//! is a fault.

use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use net::{Blocking, FileRange};

use crate::Fault;

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// Reads a part of a file in pieces, on the blocking pool where it is not in the page cache.
pub struct FileReader {
    rest: FileRange,
    reading: Option<Blocking<io::Result<Bytes>>>,
}

impl FileReader {
    pub fn new(range: FileRange) -> FileReader {
        FileReader { rest: range, reading: None }
    }

    /// Polls for the next piece; `None` at the end. There is none after a fault.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let rest = &mut self.rest;
        let length = rest.length.min(PIECE_BYTES);
        if length == 0 {
            return Poll::Ready(None);
        }
        let read = match &mut self.reading {
            Some(reading) => ready!(Pin::new(reading).poll(cx)).flatten(),
            None if net::files::is_resident(&rest.file, rest.offset, length) => read(rest, length),
            None => {
                let range = rest.clone();
                self.reading = Some(net::blocking(move || read(&range, length)));
                return self.poll_piece(cx);
            }
        };
        self.reading = None;
        rest.offset += length;
        rest.length -= length;
        Poll::Ready(Some(read.map_err(|error| {
            rest.length = 0;
            Fault::internal(format!("a file of the body cannot be read: {error}"))
        })))
    }

    /// Reads all of it into memory, at most `limit` bytes; more is the client's fault (413).
    pub(crate) async fn collect(mut self, limit: u64) -> Result<Bytes, Fault> {
        if self.rest.length > limit {
            return Err(Fault::body_too_large());
        }
        let mut whole = BytesMut::new();
        while let Some(piece) = poll_fn(|cx| self.poll_piece(cx)).await {
            whole.extend_from_slice(&piece?);
        }
        Ok(whole.freeze())
    }
}

fn read(range: &FileRange, length: u64) -> io::Result<Bytes> {
    // At most `PIECE_BYTES`.
    let mut room = vec![0; length as usize];
    range.file.read_exact_at(&mut room, range.offset)?;
    Ok(room.into())
}
