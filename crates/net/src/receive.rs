//! Received bytes as owned chunks from a per-worker pool (seam 1).
//!
//! Every stream of a worker reads into the spare room of one block and takes the part it filled as
//! a [`Bytes`]. The block is used again once all its parts are dropped, so a loaded worker reads
//! into memory that is still in the cache, and an idle connection holds no buffer at all.
//!
//! A part that is kept pins its block. Whoever waits for more bytes copies what it has (see
//! [`detach`]), so that a slow peer costs what it sent, not a block.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use bytes::{Bytes, BytesMut};

use crate::platform;
use socket2::SockRef;

/// Size of a block.
const BLOCK: usize = 64 * 1024;
/// A read is offered at least this much room...
const ROOM_MIN: usize = 8 * 1024;
/// ... and at most this much, so that one peer cannot take a whole block at a time.
pub(crate) const ROOM_MAX: usize = 32 * 1024;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// What one read gave.
pub(crate) struct Received {
    /// The bytes; empty at the end of the stream.
    pub(crate) chunk: Bytes,
    /// The read took less than it was offered: the socket has no more for now, and asking again
    /// would only be told so.
    pub(crate) drained: bool,
}

/// Reads once from a socket into the worker's block.
pub(crate) fn receive(socket: RawFd, at_most: usize) -> io::Result<Received> {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        if room.capacity() < ROOM_MIN {
            room.reserve(BLOCK);
        }
        let spare = room.spare_capacity_mut();
        let offered = spare.len().min(ROOM_MAX).min(at_most.max(1));
        // SAFETY: the pointer and length describe writable spare capacity of the block; the kernel
        // writes at most `offered` bytes into it.
        let taken = unsafe { platform::receive(socket, spare.as_mut_ptr().cast(), offered) };
        let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel has just initialised `taken` bytes after the current length.
        unsafe { room.set_len(taken) };
        Ok(Received { chunk: room.split().freeze(), drained: 0 < taken && taken < offered })
    })
}

/// Reads one datagram into the worker's block. A block is as long as the longest datagram, so none
/// is cut short.
pub(crate) fn receive_from(socket: BorrowedFd<'_>) -> io::Result<(Bytes, SocketAddr)> {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        if room.capacity() < BLOCK {
            room.reserve(BLOCK);
        }
        let (taken, from) = SockRef::from(&socket).recv_from(room.spare_capacity_mut())?;
        // SAFETY: the kernel has just initialised `taken` bytes after the current length.
        unsafe { room.set_len(taken) };
        let chunk = room.split().freeze();
        let from = from.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok((chunk, from))
    })
}

/// A copy that pins no block: for bytes that have to be kept while waiting.
pub fn detach(chunk: &[u8]) -> BytesMut {
    BytesMut::from(chunk)
}
