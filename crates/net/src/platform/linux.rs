//! Linux: sched_setaffinity(2), accept4(2), sendfile(2), MSG_MORE.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

/// Lets the kernel hold the last short packet until what follows.
pub(crate) const MSG_MORE: libc::c_int = libc::MSG_MORE;

// The three calls of every request go to the kernel directly: glibc's wrappers are cancellation
// points, which costs a threaded process two atomic exchanges a call, and we cancel no threads.

/// recv(2).
///
/// # Safety
/// `room` must be writable for `length` bytes.
pub(crate) unsafe fn receive(socket: RawFd, room: *mut u8, length: usize) -> isize {
    let nobody = std::ptr::null_mut::<u8>();
    // SAFETY: promised by the caller; no address is asked for.
    let taken =
        unsafe { libc::syscall(libc::SYS_recvfrom, socket, room, length, 0, nobody, nobody) };
    taken as isize
}

/// send(2), without SIGPIPE.
///
/// # Safety
/// `bytes` must be readable for `length` bytes.
pub(crate) unsafe fn send(socket: RawFd, bytes: *const u8, length: usize) -> isize {
    let flags = libc::MSG_NOSIGNAL;
    let nobody = std::ptr::null::<u8>();
    // SAFETY: promised by the caller; no address is given.
    let taken = unsafe { libc::syscall(libc::SYS_sendto, socket, bytes, length, flags, nobody, 0) };
    taken as isize
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
    let taken = unsafe { libc::syscall(libc::SYS_sendmsg, socket, message, flags) };
    taken as isize
}

/// A stream socket to connect with, non-blocking.
pub(crate) fn socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM.nonblocking(), None)
}

/// The next connection of a listener, non-blocking, and its peer's address.
pub(crate) fn accept(listener: RawFd) -> io::Result<(OwnedFd, SockAddr)> {
    // SAFETY: the call writes an address of at most `length` bytes to `address` and its length to
    // `length`, both of which live across it; what it returns is a descriptor of our own.
    unsafe {
        SockAddr::try_init(|address, length| {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let accepted = libc::accept4(listener, address.cast(), length, flags);
            if accepted < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedFd::from_raw_fd(accepted))
        })
    }
}

/// Cores this process may run on, in order.
pub(crate) fn allowed_cores() -> Vec<usize> {
    // SAFETY: the set is a plain bit array that the call fills; its size is passed with it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        set
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE, the length of the set.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &set) })
        .collect()
}

/// Keeps this thread on one core.
pub(crate) fn pin_to_core(core: usize) {
    // SAFETY: as above; a core outside the allowed set makes the call fail, which leaves the thread
    // where the scheduler puts it: slower, never wrong.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// Binds a Unix socket whose file has this mode (less the umask) from the first moment: Linux takes
/// it from the socket. To change the file afterwards leaves a moment in which others may connect.
pub(crate) fn bind_restricted(socket: &Socket, path: &Path, mode: u32) -> io::Result<()> {
    // SAFETY: takes numbers only; the descriptor is open.
    if unsafe { libc::fchmod(socket.as_raw_fd(), mode) } != 0 {
        return Err(io::Error::last_os_error());
    }
    socket.bind(&SockAddr::unix(path)?)
}

/// Bytes sent and not confirmed by the peer's kernel (SIOCOUTQ, tcp(7)).
pub(crate) fn unacknowledged(socket: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one integer, to a local.
    let done = unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { usize::try_from(bytes).unwrap_or_default() } else { 0 }
}

/// Sends from a file as much as the socket takes; 0 at the end of the file.
pub(crate) fn send_file(
    socket: RawFd,
    file: &File,
    offset: u64,
    at_most: usize,
) -> io::Result<usize> {
    let mut offset = i64::try_from(offset).unwrap_or(i64::MAX);
    // SAFETY: both descriptors are open for the call, `offset` is a local that the kernel updates.
    let taken = unsafe { libc::sendfile(socket, file.as_raw_fd(), &raw mut offset, at_most) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// A descriptor that is readable once a child process has ended (pidfd_open(2)).
pub(crate) fn process_descriptor(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers; what it returns is a descriptor of our own, closed on exec.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let descriptor = RawFd::try_from(opened).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// In a child between fork and exec: it is told to end (SIGTERM) when the thread that started it
/// does (prctl(2), PR_SET_PDEATHSIG).
pub(crate) fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: both calls take numbers, and neither allocates.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
            return Err(io::Error::last_os_error());
        }
        if u32::try_from(libc::getppid()) != Ok(parent) {
            // It has ended before it could be waited for, and nobody tells it again.
            return Err(io::ErrorKind::NotFound.into());
        }
    }
    Ok(())
}

/// Memory that processes share: a file without a name, of this length for ever (memfd_create(2)).
pub(crate) fn shared_memory(bytes: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant that ends with NUL.
    let descriptor = unsafe { libc::memfd_create(c"tidegate".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given it to us.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    file.set_len(bytes as u64)?;
    let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open, and the command takes a number.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// Lets no child inherit it from now on.
pub(crate) fn keep_to_us(descriptor: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers; the descriptor is open.
    match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
