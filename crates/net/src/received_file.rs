//! A file that another process passes over a Unix socket (SCM_RIGHTS, unix(7)).
//!
//! The kernel joins no bytes behind those that a descriptor came with to them, so one read returns
//! at most one message with a descriptor; this end takes one of each.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// Lets the kernel set FD_CLOEXEC, where it can.
#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: libc::c_int = 0;

/// Room for one descriptor, aligned as a control message is. The kernel closes further ones.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

// SAFETY: computes a size from a size.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;

/// Receives bytes at the front of `room`, and a file that came with them. An error in its place
/// says that this process had no descriptor left for it.
pub(crate) fn receive_with_file(
    socket: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, Option<io::Result<File>>)> {
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = Control([MaybeUninit::uninit(); CONTROL_BYTES]);
    // SAFETY: zeros are a valid header: no name, no parts, no control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header refers to `room` and to local variables, with their lengths.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, CLOSE_ON_EXEC) };
    // Negative after a failure.
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    let is_lost = header.msg_flags & libc::MSG_CTRUNC != 0;
    let file = match descriptor(&header) {
        Some(descriptor) => Some(inherited_by_none(descriptor)),
        None => is_lost.then(|| Err(io::Error::from_raw_os_error(libc::EMFILE))),
    };
    Ok((read, file))
}

/// No child inherits the file: the kernel has seen to that where there is a flag for it.
fn inherited_by_none(descriptor: OwnedFd) -> io::Result<File> {
    if CLOSE_ON_EXEC == 0 {
        fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    }
    Ok(File::from(descriptor))
}

/// The descriptor in a header that the kernel has filled in.
fn descriptor(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the kernel has written whole messages into the control buffer, and their length.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        let is_right = !message.is_null()
            && (*message).cmsg_level == libc::SOL_SOCKET
            && (*message).cmsg_type == libc::SCM_RIGHTS;
        is_right.then(|| {
            let number = libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned();
            OwnedFd::from_raw_fd(number)
        })
    }
}
