//! Where there is no such call: read and send, no affinity.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Bytes of a file sent at a time.
const STEP: usize = 64 * 1024;

pub(crate) const MSG_MORE: libc::c_int = 0;

/// recv(2).
///
/// # Safety
/// `room` must be writable for `length` bytes.
pub(crate) unsafe fn receive(socket: RawFd, room: *mut u8, length: usize) -> isize {
    // SAFETY: promised by the caller.
    unsafe { libc::recv(socket, room.cast(), length, 0) }
}

/// send(2), without SIGPIPE.
///
/// # Safety
/// `bytes` must be readable for `length` bytes.
pub(crate) unsafe fn send(socket: RawFd, bytes: *const u8, length: usize) -> isize {
    // SAFETY: promised by the caller.
    unsafe { libc::send(socket, bytes.cast(), length, libc::MSG_NOSIGNAL) }
}

/// sendmsg(2).
///
/// # Safety
/// `message` and all it points to must be valid, and readable for the lengths it says.
pub(crate) unsafe fn send_message(
    socket: RawFd,
    message: *const libc::msghdr,
    flags: libc::c_int,
) -> isize {
    // SAFETY: promised by the caller.
    unsafe { libc::sendmsg(socket, message, flags) }
}

/// A stream socket to connect with, non-blocking.
pub(crate) fn socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The next connection of a listener, non-blocking, and its peer's address.
pub(crate) fn accept(listener: RawFd) -> io::Result<(OwnedFd, SockAddr)> {
    // SAFETY: the caller's listener is open for the call.
    let listener = unsafe { BorrowedFd::borrow_raw(listener) };
    let (socket, address) = SockRef::from(&listener).accept()?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), address))
}

/// As many cores as this process may use.
pub(crate) fn allowed_cores() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Threads stay where the scheduler puts them.
pub(crate) fn pin_to_core(_core: usize) {}

/// Elsewhere the file is changed once it is there.
pub(crate) fn bind_restricted(socket: &Socket, path: &Path, mode: u32) -> io::Result<()> {
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Not told.
pub(crate) fn unacknowledged(_socket: RawFd) -> usize {
    0
}

/// Sends from a file as much as the socket takes; 0 at the end of the file.
pub(crate) fn send_file(
    socket: RawFd,
    file: &File,
    offset: u64,
    at_most: usize,
) -> io::Result<usize> {
    let mut bytes = vec![0; at_most.min(STEP)];
    let length = file.read_at(&mut bytes, offset)?;
    if length == 0 {
        return Ok(0);
    }
    // SAFETY: pointer and length describe the part of `bytes` that was read; the call only reads
    // it.
    let taken = unsafe { libc::send(socket, bytes.as_ptr().cast(), length, libc::MSG_NOSIGNAL) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Nothing tells of the end of a child process.
pub(crate) fn process_descriptor(_process: u32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A child notices that its control socket has ended.
pub(crate) fn end_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}

/// There is none: processes count for themselves.
pub(crate) fn shared_memory(_bytes: usize) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Lets no child inherit it from now on.
pub(crate) fn keep_to_us(_descriptor: &OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
