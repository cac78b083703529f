//! Linux: sched_setaffinity(2), accept4(2), sendfile(2), MSG_MORE.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create, sendfile};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{Advice, madvise};
use rustix::net::{SendFlags, SocketFlags, acceptfrom_with};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use socket2::{Domain, SockAddr, Socket, Type};

/// Lets the kernel hold the last short packet until more data is sent.
pub(crate) const MSG_MORE: SendFlags = SendFlags::MORE;

/// Creates a non-blocking stream socket to connect with.
pub(crate) fn socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM.nonblocking(), None)
}

/// Accepts the next connection of a listener, non-blocking, with its peer's address unless it is a
/// Unix socket.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (socket, address) =
        acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    Ok((socket, address.and_then(|address| SocketAddr::try_from(address).ok())))
}

/// Returns the cores this process may run on, in order.
pub(crate) fn allowed_cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Pins this thread to a core.
pub(crate) fn pin_to_core(core: usize) {
    if core < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(core);
        // Fails for a core outside the allowed set: the thread stays unpinned, only slower.
        let _ = sched_setaffinity(None, &set);
    }
}

/// Gives up the pages of this program's code and constants. The kernel maps those that are used
/// again.
pub(crate) fn release_code() {
    extern "C" fn release_in(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        _: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader lends the description of an object and of its segments.
        let (start, segments) = unsafe {
            let segments =
                std::slice::from_raw_parts((*object).dlpi_phdr, (*object).dlpi_phnum.into());
            ((*object).dlpi_addr as usize, segments)
        };
        let addresses = |segment: &libc::Elf64_Phdr| {
            let from = start + segment.p_vaddr as usize;
            from..from + segment.p_memsz as usize
        };
        let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
        let own = release_code as *const () as usize;
        if !loaded().any(|segment| addresses(segment).contains(&own)) {
            return 0;
        }
        // What is never written is in the file as it is in memory.
        for segment in loaded().filter(|segment| segment.p_flags & libc::PF_W == 0) {
            let addresses = addresses(segment);
            let from = addresses.start & !(rustix::param::page_size() - 1);
            let pages = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: the pages are mapped from a file and were not written: what is read from them
            // next is the same. Breakpoints that a debugger has set before are lost.
            let _ = unsafe { madvise(pages, addresses.end - from, Advice::LinuxDontNeed) };
        }
        1
    }
    // SAFETY: the function has the type that is called, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(release_in), std::ptr::null_mut()) };
}

/// Binds a Unix socket whose file is created with this mode (less the umask): Linux takes it from
/// the socket. Changing the mode of the file afterwards would leave a moment in which others may
/// connect.
pub(crate) fn bind_restricted(socket: &Socket, path: &Path, mode: u32) -> io::Result<()> {
    fchmod(socket, Mode::from_raw_mode(mode))?;
    socket.bind(&SockAddr::unix(path)?)
}

/// Returns the bytes sent and not acknowledged by the peer's kernel (SIOCOUTQ, tcp(7)).
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // rustix has no such ioctl. SAFETY: the call writes one integer, to a local.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or_default() } else { 0 }
}

/// Sends from a file as much as the socket takes; 0 at the end of the file.
pub(crate) fn send_file(
    socket: BorrowedFd<'_>,
    file: &File,
    mut offset: u64,
    at_most: usize,
) -> io::Result<usize> {
    Ok(sendfile(socket, file, Some(&mut offset), at_most)?)
}

/// Returns a descriptor that becomes readable when a child process ends (pidfd_open(2)).
pub(crate) fn process_descriptor(process: u32) -> io::Result<OwnedFd> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(process, PidfdFlags::empty())?)
}

/// Sends a signal to the process of a descriptor; fails if it has been waited for.
pub(crate) fn signal_process(process: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    Ok(pidfd_send_signal(process, signal)?)
}

/// Returns the parent of a process; `None` if there is no such process.
pub(crate) fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold spaces; proc_pid_stat(5): state and parent follow it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Runs in a child between fork and exec: the child receives SIGTERM when the thread that started
/// it ends (PR_SET_PDEATHSIG, prctl(2)).
pub(crate) fn end_with_parent(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().is_none_or(|pid| pid.as_raw_pid() as u32 != parent) {
        // The parent ended before the signal was set up, so none would come.
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}

/// Creates shared memory: an anonymous file of fixed length (memfd_create(2)).
pub(crate) fn shared_memory(bytes: usize) -> io::Result<OwnedFd> {
    let descriptor = memfd_create("tidegate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let file = File::from(descriptor);
    file.set_len(bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Sets FD_CLOEXEC: no child inherits the descriptor from now on.
pub(crate) fn close_on_exec(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?)
}
