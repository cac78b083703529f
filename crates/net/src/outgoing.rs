//! What waits to be sent on one stream: owned chunks and file ranges, in order.
//!
//! Sent with one `writev` for neighbouring chunks and `sendfile` for files, so that a response head
//! and its body leave together.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::platform::{self, MSG_MORE, send_file};

/// Chunks handed to the kernel at once.
const BATCH: usize = 32;
/// Chunks that are no longer than this together are copied into one: sending a list costs the
/// kernel more than that copy does.
const JOINED_MAX: usize = 4096;
/// Most bytes one `sendfile` call may take, so that one reader with a fast link leaves room for
/// others.
const FILE_STEP: u64 = 512 * 1024;

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

/// The queue itself.
#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Piece>,
    length: u64,
}

impl Outgoing {
    /// Bytes still to be sent.
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

    /// Forgets what waits: the stream is to be closed.
    pub fn clear(&mut self) {
        // The queue of an idle connection holds hardly any memory, however long it once was.
        if self.pieces.capacity() > BATCH {
            self.pieces = VecDeque::new();
        }
        self.pieces.clear();
        self.length = 0;
    }

    /// Sends once, as much as the socket takes; the number of bytes taken and whether the socket is
    /// full.
    pub(crate) fn send_once(&mut self, socket: RawFd) -> io::Result<Sent> {
        match self.pieces.front() {
            None => Ok(Sent { taken: 0, full: false }),
            Some(Piece::Chunk(_)) => self.send_chunks(socket),
            Some(Piece::File(_)) => self.send_file(socket),
        }
    }

    fn send_chunks(&mut self, socket: RawFd) -> io::Result<Sent> {
        if let (1, Some(Piece::Chunk(chunk))) = (self.pieces.len(), self.pieces.front()) {
            // The common case, a short answer, without a list for the kernel to copy and check.
            // SAFETY: the chunk is owned by the queue and lives across the call, which only reads
            // it.
            let taken = unsafe { platform::send(socket, chunk.as_ptr().cast(), chunk.len()) };
            let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
            let full = taken < chunk.len();
            self.consume(taken);
            return Ok(Sent { taken, full });
        }
        if self.length <= JOINED_MAX as u64
            && let Some(taken) = self.send_joined(socket)
        {
            let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
            let full = (taken as u64) < self.length;
            self.consume(taken);
            return Ok(Sent { taken, full });
        }
        // Most lists have two or three parts: the rest of the array is never touched.
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut count = 0;
        let mut offered = 0;
        for (piece, part) in self.pieces.iter().zip(&mut parts) {
            let Piece::Chunk(chunk) = piece else { break };
            part.write(libc::iovec {
                iov_base: chunk.as_ptr().cast_mut().cast(),
                iov_len: chunk.len(),
            });
            offered += chunk.len();
            count += 1;
        }
        // A file comes next: let the kernel hold the last short packet until its first bytes.
        let more = if count < self.pieces.len() { MSG_MORE } else { 0 };
        // SAFETY: the first `count` parts were written above and point at chunks owned by the
        // queue, which live across the call; the kernel only reads them. A zeroed msghdr is valid.
        let taken = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = parts.as_mut_ptr().cast();
            message.msg_iovlen = count as _;
            platform::send_message(socket, &raw const message, libc::MSG_NOSIGNAL | more)
        };
        let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
        self.consume(taken);
        Ok(Sent { taken, full: taken < offered })
    }

    /// Sends all that waits, at most [`JOINED_MAX`] bytes, in one piece; what the system said.
    /// `None` if a file is among it.
    fn send_joined(&self, socket: RawFd) -> Option<isize> {
        let mut joined = [const { MaybeUninit::<u8>::uninit() }; JOINED_MAX];
        let mut end = 0;
        for piece in &self.pieces {
            let Piece::Chunk(chunk) = piece else { return None };
            joined.get_mut(end..end + chunk.len())?.write_copy_of_slice(chunk);
            end += chunk.len();
        }
        // SAFETY: the first `end` bytes were written above, and the call only reads them.
        Some(unsafe { platform::send(socket, joined.as_ptr().cast(), end) })
    }

    fn consume(&mut self, mut taken: usize) {
        if taken as u64 == self.length {
            self.clear();
            return;
        }
        self.length -= taken as u64;
        while taken > 0 {
            let Some(Piece::Chunk(chunk)) = self.pieces.front_mut() else { break };
            if taken < chunk.len() {
                chunk.advance(taken);
                return;
            }
            taken -= chunk.len();
            self.pieces.pop_front();
        }
    }

    fn send_file(&mut self, socket: RawFd) -> io::Result<Sent> {
        let Some(Piece::File(range)) = self.pieces.front_mut() else {
            return Ok(Sent { taken: 0, full: false });
        };
        let offered = range.length.min(FILE_STEP);
        let taken = send_file(socket, &range.file, range.offset, offered as usize)?;
        if taken == 0 {
            // The file has become shorter than what the head promised.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated"));
        }
        range.offset += taken as u64;
        range.length -= taken as u64;
        self.length -= taken as u64;
        if range.length == 0 {
            self.pieces.pop_front();
        }
        // Short for a full socket, or a file that ends early: only asking again tells.
        Ok(Sent { taken, full: false })
    }
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
    fn a_queue_that_was_long_holds_no_memory_once_it_is_empty() {
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
