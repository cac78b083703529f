//! Fallbacks for systems other than Linux: read and send instead of sendfile, no affinity.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use rustix::net::{SendFlags, send};
use rustix::process::Signal;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Bytes of a file sent per call.
const STEP: usize = 64 * 1024;

pub(crate) const MSG_MORE: SendFlags = SendFlags::empty();

/// Creates a non-blocking stream socket to connect with.
pub(crate) fn socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Accepts the next connection of a listener, non-blocking, with its peer's address unless it is a
/// Unix socket.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (socket, address) = SockRef::from(&listener).accept()?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), address.as_socket()))
}

/// Returns as many cores as this process may use.
pub(crate) fn allowed_cores() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Does nothing: the pages stay in memory.
pub(crate) fn release_code() {}

/// Does nothing: threads stay unpinned.
pub(crate) fn pin_to_core(_core: usize) {}

/// Binds a Unix socket and then sets the mode of its file.
pub(crate) fn bind_restricted(socket: &Socket, path: &Path, mode: u32) -> io::Result<()> {
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Returns zero: not reported.
pub(crate) fn unacknowledged(_socket: BorrowedFd<'_>) -> usize {
    0
}

/// Sends from a file as much as the socket takes; 0 at the end of the file.
pub(crate) fn send_file(
    socket: BorrowedFd<'_>,
    file: &File,
    offset: u64,
    at_most: usize,
) -> io::Result<usize> {
    let mut bytes = vec![0; at_most.min(STEP)];
    let length = file.read_at(&mut bytes, offset)?;
    if length == 0 {
        return Ok(0);
    }
    Ok(send(socket, &bytes[..length], SendFlags::NOSIGNAL)?)
}

/// Fails: the end of a child process is not reported by a descriptor.
pub(crate) fn process_descriptor(_process: u32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: there are no descriptors of processes.
pub(crate) fn signal_process(_process: BorrowedFd<'_>, _signal: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `None`: a process without a descriptor is not adopted.
pub(crate) fn parent_of(_process: u32) -> Option<u32> {
    None
}

/// Does nothing: a child notices that its control socket has ended.
pub(crate) fn end_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}

/// Fails: each process counts for itself.
pub(crate) fn shared_memory(_bytes: usize) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails, as there is no shared memory.
pub(crate) fn close_on_exec(_descriptor: &OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
