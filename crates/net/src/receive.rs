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

use bytes::{Buf, Bytes, BytesMut};

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
pub struct RecvChunk {
    /// How many bytes were read; none is the end of the stream.
    pub length: usize,
    /// Those that the borrower was not done with.
    pub rest: Bytes,
    /// The read took less than it was offered: the socket has no more for now, and asking again
    /// would only be told so.
    pub drained: bool,
}

/// Reads once from a socket into the worker's block, and lends `borrower` the bytes, which says how
/// many from the front it is done with. Where that is all of them, nothing is counted and nothing
/// is kept: the next read finds the block as this one did.
pub(crate) fn lend(
    socket: RawFd,
    at_most: usize,
    borrower: impl FnOnce(&[u8]) -> usize,
) -> io::Result<RecvChunk> {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        // Where panics unwind, a borrower may have left what it was lent.
        room.clear();
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
        let drained = 0 < taken && taken < offered;
        let done = borrower(&room);
        if done >= taken {
            room.clear();
            return Ok(RecvChunk { length: taken, rest: Bytes::new(), drained });
        }
        let mut rest = room.split().freeze();
        rest.advance(done);
        Ok(RecvChunk { length: taken, rest, drained })
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

#[cfg(test)]
mod tests {
    use crate::Outgoing;
    use crate::stream::Stream;
    use crate::worker::block_on_local;

    #[test]
    fn what_a_borrower_that_panics_leaves_is_nobody_elses() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            for text in ["secret", "x"] {
                let mut outgoing = Outgoing::default();
                outgoing.push(bytes::Bytes::from(text));
                other.send_all(&mut outgoing).await.unwrap();
                std::future::poll_fn(|cx| one.poll_readable(cx)).await.unwrap();
                if text == "secret" {
                    let lending =
                        std::panic::AssertUnwindSafe(|| one.try_receive_with(|_| panic!("a bug")));
                    assert!(std::panic::catch_unwind(lending).is_err());
                } else {
                    assert_eq!(one.receive().await.unwrap(), text);
                }
            }
        });
    }
}
