//! The send queue of one stream: owned chunks and file ranges, in order.
//!
//! Neighbouring chunks are sent with one `writev` and files with `sendfile`, so that a response
//! head and its body leave together.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

use crate::platform::{MSG_MORE, send_file};

/// Chunks passed to the kernel in one call.
const BATCH: usize = 32;
/// Chunks whose total is at most this are copied into one: a vectored send costs the kernel more
/// than the copy.
const JOINED_MAX: usize = 4096;
/// Most bytes of one `sendfile` call, so that a reader with a fast link does not starve others.
const FILE_STEP: u64 = 512 * 1024;

/// Where content begins in a buffer from or to which rustls copies records. Its own copies begin a
/// page, as large allocations do, behind 5 bytes of header. glibc copies with `rep movsb`, which
/// takes 30 times as long on AMD's Zen if the target begins up to 63 bytes further into its page
/// than the source (https://sourceware.org/bugzilla/show_bug.cgi?id=30994).
pub(crate) const COPY_OFFSET: usize = 64;

/// True for a source from which rustls would copy slowly, see `COPY_OFFSET`.
fn begins_page(chunk: &[u8]) -> bool {
    chunk.as_ptr().addr().is_multiple_of(4096)
}

/// A part of an open file.
#[derive(Clone, Debug)]
pub struct FileRange {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: u64,
}

#[derive(Debug)]
enum Piece {
    Chunk(Bytes),
    File(FileRange),
}

/// The send queue.
#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Piece>,
    length: u64,
}

impl Outgoing {
    /// Returns the number of bytes still to be sent.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.length += chunk.len() as u64;
            self.pieces.push_back(Piece::Chunk(chunk));
        }
    }

    pub fn push_file(&mut self, range: FileRange) {
        if range.length > 0 {
            self.length += range.length;
            self.pieces.push_back(Piece::File(range));
        }
    }

    /// Appends the pieces of another queue.
    pub fn append(&mut self, other: Outgoing) {
        self.length += other.length;
        self.pieces.extend(other.pieces);
    }

    /// Discards the queue: the stream is about to be closed.
    pub fn clear(&mut self) {
        // The queue of an idle connection keeps little memory, however long it once was.
        if self.pieces.capacity() > BATCH {
            self.pieces = VecDeque::new();
        }
        self.pieces.clear();
        self.length = 0;
    }

    /// Sends once, as much as the socket takes.
    pub(crate) fn send_once(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        match self.pieces.front() {
            None => Ok(Sent { taken: 0, full: false }),
            Some(Piece::Chunk(_)) => self.send_chunks(socket),
            Some(Piece::File(_)) => self.send_file(socket),
        }
    }

    fn send_chunks(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        if let (1, Some(Piece::Chunk(chunk))) = (self.pieces.len(), self.pieces.front()) {
            // The common case: a short response without a vector for the kernel to copy and check.
            let taken = send(socket, chunk, SendFlags::NOSIGNAL)?;
            let full = taken < chunk.len();
            self.consume(taken);
            return Ok(Sent { taken, full });
        }
        if self.length <= JOINED_MAX as u64
            && let Some(taken) = self.send_joined(socket)
        {
            let taken = taken?;
            let full = (taken as u64) < self.length;
            self.consume(taken);
            return Ok(Sent { taken, full });
        }
        // Most vectors have two or three parts: the rest of the array stays uninitialised.
        let mut parts = [const { MaybeUninit::<IoSlice<'_>>::uninit() }; BATCH];
        let mut count = 0;
        let mut offered = 0;
        for (piece, part) in self.pieces.iter().zip(&mut parts) {
            let Piece::Chunk(chunk) = piece else { break };
            part.write(IoSlice::new(chunk));
            offered += chunk.len();
            count += 1;
        }
        // A file follows: let the kernel hold the last short packet until its first bytes.
        let more = if count < self.pieces.len() { MSG_MORE } else { SendFlags::empty() };
        // SAFETY: the first `count` parts were written above.
        let parts = unsafe { parts[..count].assume_init_ref() };
        let nothing = &mut SendAncillaryBuffer::default();
        let taken = sendmsg(socket, parts, nothing, SendFlags::NOSIGNAL | more)?;
        self.consume(taken);
        Ok(Sent { taken, full: taken < offered })
    }

    /// Sends the whole queue, at most [`JOINED_MAX`] bytes, as one copy. Returns `None` if the
    /// queue is longer or contains a file.
    fn send_joined(&self, socket: BorrowedFd<'_>) -> Option<io::Result<usize>> {
        let mut joined = [const { MaybeUninit::<u8>::uninit() }; JOINED_MAX];
        let mut end = 0;
        for piece in &self.pieces {
            let Piece::Chunk(chunk) = piece else { return None };
            joined.get_mut(end..end + chunk.len())?.write_copy_of_slice(chunk);
            end += chunk.len();
        }
        // SAFETY: the first `end` bytes were written above.
        let joined = unsafe { joined[..end].assume_init_ref() };
        Some(send(socket, joined, SendFlags::NOSIGNAL).map_err(io::Error::from))
    }

    /// Returns up to `at_most` bytes from the front, for a stream that has to change them before
    /// they are sent: from a long chunk itself, or as a copy in `buffer`, behind `COPY_OFFSET`.
    pub(crate) fn front<'a>(
        &'a self,
        buffer: &'a mut Vec<u8>,
        at_most: usize,
    ) -> io::Result<&'a [u8]> {
        if let Some(Piece::Chunk(chunk)) = self.pieces.front()
            && (chunk.len() >= at_most || self.pieces.len() == 1)
            && !begins_page(chunk)
        {
            return Ok(&chunk[..chunk.len().min(at_most)]);
        }
        let length = self.length.min(at_most as u64) as usize;
        if buffer.len() < COPY_OFFSET + length {
            // The buffer is never shortened: it would be filled with zeros for each file range.
            buffer.resize(COPY_OFFSET + length, 0);
        }
        let copy = &mut buffer[COPY_OFFSET..][..length];
        let mut free = &mut *copy;
        for piece in &self.pieces {
            let part = match piece {
                Piece::Chunk(chunk) => {
                    let part = chunk.len().min(free.len());
                    free[..part].copy_from_slice(&chunk[..part]);
                    part
                }
                Piece::File(range) => {
                    let part = range.length.min(free.len() as u64) as usize;
                    range.file.read_exact_at(&mut free[..part], range.offset).map_err(|error| {
                        match error.kind() {
                            io::ErrorKind::UnexpectedEof => truncated(),
                            _ => error,
                        }
                    })?;
                    part
                }
            };
            free = &mut free[part..];
            if free.is_empty() {
                break;
            }
        }
        let unfilled = free.len();
        Ok(&copy[..length - unfilled])
    }

    /// Removes bytes from the front.
    pub(crate) fn consume(&mut self, mut taken: usize) {
        if taken as u64 == self.length {
            self.clear();
            return;
        }
        self.length -= taken as u64;
        while taken > 0 {
            let is_whole = match self.pieces.front_mut() {
                None => return,
                Some(Piece::Chunk(chunk)) => {
                    let part = taken.min(chunk.len());
                    chunk.advance(part);
                    taken -= part;
                    chunk.is_empty()
                }
                Some(Piece::File(range)) => {
                    let part = (taken as u64).min(range.length);
                    range.offset += part;
                    range.length -= part;
                    taken -= part as usize;
                    range.length == 0
                }
            };
            if is_whole {
                self.pieces.pop_front();
            }
        }
    }

    fn send_file(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        let Some(Piece::File(range)) = self.pieces.front_mut() else {
            return Ok(Sent { taken: 0, full: false });
        };
        let offered = range.length.min(FILE_STEP);
        let taken = send_file(socket, &range.file, range.offset, offered as usize)?;
        if taken == 0 {
            return Err(truncated());
        }
        self.consume(taken);
        // Short because the socket is full or the file ended: only the next call tells.
        Ok(Sent { taken, full: false })
    }
}

/// The file is shorter than the response head declared.
fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated")
}

pub(crate) struct Sent {
    pub(crate) taken: usize,
    pub(crate) full: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    #[test]
    fn a_queue_that_was_long_releases_its_memory_once_empty() {
        crate::worker::block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let mut outgoing = Outgoing::default();
            for _ in 0..1000 {
                outgoing.push(Bytes::from_static(b"x"));
            }
            one.send_all(&mut outgoing).await.unwrap();
            assert!(outgoing.pieces.capacity() <= BATCH);
            drop(other);
        });
    }
}
