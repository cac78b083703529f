//! Resource limits and identity of the process.

use rustix::process::{Resource, getrlimit, setrlimit};

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
