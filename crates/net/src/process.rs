//! Resource limits and identity of the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit, umask};

use crate::allocator::release_free_memory;

/// Raises the limit on open descriptors to the hard limit: every connection needs one, and
/// distributions start programs with 1024.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A failure leaves the limit as it was, which does not prevent the start.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns how many descriptors the process may have open.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the limit on the process's address space (RLIMIT_AS), if there is one.
pub fn address_space_limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Returns the size of the process's address space, if the system reports it.
pub fn address_space_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    Some(pages * page_bytes())
}

/// Returns how many descriptors the process has open; a high estimate if the system does not report
/// it.
pub fn open_descriptors() -> u64 {
    const ESTIMATE: u64 = 128;
    // The directory being read is one of them.
    std::fs::read_dir("/dev/fd").map_or(ESTIMATE, |open| open.count() as u64 - 1)
}

/// Returns the effective user id.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the size of a memory page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Gives up memory that was needed to start: free blocks of this thread, and the pages of code,
/// most of which reads configurations. The kernel maps pages again when they are used.
pub fn release_startup_memory() {
    release_free_memory();
    crate::platform::release_code();
}

/// Sets the permissions that files and Unix sockets of this process and of its children do not get.
pub fn set_umask(mask: u32) {
    umask(Mode::from_raw_mode(mask));
}

/// Shows a title instead of the command line in lists of processes such as that of ps(1). A title
/// longer than the command line is cut. Linux shows the memory in which the program has got its
/// arguments, so those must have been read before.
pub fn set_title(title: &str) -> io::Result<()> {
    let unknown = || io::Error::other("the place of the arguments is not known");
    let status = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold spaces; proc_pid_stat(5) counts it as field 2.
    let (_, fields) = status.rsplit_once(')').ok_or_else(unknown)?;
    let mut fields = fields.split_ascii_whitespace().skip(48 - 3).map(str::parse::<u64>);
    let (Some(Ok(start)), Some(Ok(end))) = (fields.next(), fields.next()) else {
        return Err(unknown());
    };
    let length = usize::try_from(end.saturating_sub(start)).map_err(|_| unknown())?;
    let last = length.checked_sub(1).ok_or_else(unknown)?;
    let mut bytes = title.as_bytes()[..title.floor_char_boundary(last)].to_vec();
    bytes.resize(length, 0);
    File::options().write(true).open("/proc/self/mem")?.write_all_at(&bytes, start)
}
