//! Received bytes as owned chunks from a per-worker pool.
//!
//! Every stream of a worker reads into the spare capacity of one block and takes the part it filled
//! as a [`Bytes`]. The block is reused once all its parts are dropped, so a loaded worker reads
//! into memory that is still in the cache, and an idle connection holds no buffer.
//!
//! A stored part pins its block. A connection that waits for more bytes copies what it has (see
//! [`detach`]), so that a slow peer costs as much memory as it sent, not a block.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use bytes::{Buf, Bytes, BytesMut};

use rustix::net::{RecvFlags, recv};
use socket2::SockRef;

use crate::received_file::receive_with_file;

/// Size of a block.
const BLOCK: usize = 64 * 1024;
/// Smallest buffer offered to a read.
const ROOM_MIN: usize = 8 * 1024;
/// Largest buffer offered to a read, so that one peer cannot take a whole block.
pub(crate) const ROOM_MAX: usize = 32 * 1024;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The result of one read.
pub struct RecvChunk {
    /// Bytes read; zero is the end of the stream.
    pub length: usize,
    /// The bytes that the borrower has not consumed.
    pub rest: Bytes,
    /// The read returned less than it was offered: the socket is empty, and another read would
    /// return `WouldBlock`.
    pub drained: bool,
}

/// Reads once from a socket into the worker's block and lends the bytes to `borrower`, which
/// returns how many it has consumed from the front. If it consumed all of them, the block stays
/// free and no reference count is touched.
pub(crate) fn lend(
    socket: BorrowedFd<'_>,
    at_most: usize,
    borrower: impl FnOnce(&[u8]) -> usize,
) -> io::Result<RecvChunk> {
    lend_mut(socket, at_most, |bytes| borrower(bytes))
}

/// Like [`lend`], to a borrower that may overwrite the bytes.
#[inline]
pub(crate) fn lend_mut(
    socket: BorrowedFd<'_>,
    at_most: usize,
    borrower: impl FnOnce(&mut [u8]) -> usize,
) -> io::Result<RecvChunk> {
    lend_room(
        at_most,
        |room| {
            let (received, _) = recv(socket, room, RecvFlags::empty())?.0;
            Ok((received.len(), ()))
        },
        |bytes, ()| borrower(bytes),
    )
}

/// Like [`lend`], from a Unix socket, with the file that came with the bytes. An error in its place
/// says that it could not be taken.
pub(crate) fn lend_with_file(
    socket: BorrowedFd<'_>,
    borrower: impl FnOnce(&[u8], Option<io::Result<File>>) -> usize,
) -> io::Result<RecvChunk> {
    let mut has_file = false;
    let mut chunk = lend_room(
        ROOM_MAX,
        |room| receive_with_file(socket, room),
        |bytes, file| {
            has_file = file.is_some();
            borrower(bytes, file)
        },
    )?;
    // The kernel ends a read with a file, whatever waits behind it.
    chunk.drained &= !has_file;
    Ok(chunk)
}

/// Lends the block to `receive`, which returns how many bytes at its front it has initialised; then
/// these bytes to `borrower`.
#[inline]
fn lend_room<T>(
    at_most: usize,
    receive: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
    borrower: impl FnOnce(&mut [u8], T) -> usize,
) -> io::Result<RecvChunk> {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        // A borrower that panicked may have left its bytes behind.
        room.clear();
        if room.capacity() < ROOM_MIN {
            room.reserve(BLOCK);
        }
        let spare = room.spare_capacity_mut();
        let offered = spare.len().min(ROOM_MAX).min(at_most.max(1));
        let (read, with) = receive(&mut spare[..offered])?;
        // SAFETY: `receive` has initialised `read` bytes after the current length.
        unsafe { room.set_len(read) };
        let drained = 0 < read && read < offered;
        let consumed = borrower(&mut room, with);
        if consumed >= read {
            room.clear();
            return Ok(RecvChunk { length: read, rest: Bytes::new(), drained });
        }
        let mut rest = room.split().freeze();
        rest.advance(consumed);
        Ok(RecvChunk { length: read, rest, drained })
    })
}

/// Reads one datagram into the worker's block, which is as long as the longest datagram.
pub(crate) fn receive_from(socket: BorrowedFd<'_>) -> io::Result<(Bytes, SocketAddr)> {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        if room.capacity() < BLOCK {
            room.reserve(BLOCK);
        }
        let (read, from) = SockRef::from(&socket).recv_from(room.spare_capacity_mut())?;
        // SAFETY: the kernel has just initialised `read` bytes after the current length.
        unsafe { room.set_len(read) };
        let chunk = room.split().freeze();
        let from = from.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok((chunk, from))
    })
}

/// Returns a copy that pins no block: for bytes stored while waiting.
pub fn detach(chunk: &[u8]) -> BytesMut {
    BytesMut::from(chunk)
}

#[cfg(test)]
mod tests {
    use crate::Outgoing;
    use crate::stream::Stream;
    use crate::worker::block_on_local;

    #[test]
    fn bytes_left_by_a_panicking_borrower_reach_no_other_stream() {
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
