//! Linux: sched_setaffinity(2), sendfile(2), MSG_MORE.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Lets the kernel hold the last short packet until what follows.
pub(crate) const MSG_MORE: libc::c_int = libc::MSG_MORE;

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
