//! What the process may do: its descriptors, its user.

/// Raises the limit on open descriptors to what the process may have: every connection is one, and
/// distributions start programs with 1024.
pub fn raise_descriptor_limit() {
    // SAFETY: both calls take a plain struct that lives across them.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            // A failure leaves the limit as it was, which is no reason not to start.
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// How many descriptors the process may have open.
pub fn descriptor_limit() -> u64 {
    // SAFETY: the call fills a plain struct that lives across it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        match libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) {
            0 => limit.rlim_cur,
            _ => 0,
        }
    }
}

/// The limit on the addresses that the process may use (RLIMIT_AS), if there is one.
pub fn address_space_limit() -> Option<u64> {
    // SAFETY: the call fills a plain struct that lives across it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        let known = libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0;
        (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }
}

/// The addresses that the process uses, where the system says so.
pub fn address_space_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    Some(pages * page_bytes())
}

/// How many descriptors the process has open; where the system does not tell, a guess that is
/// rather too high.
pub fn open_descriptors() -> u64 {
    const GUESS: u64 = 128;
    // The folder being read is one of them.
    std::fs::read_dir("/dev/fd").map_or(GUESS, |open| open.count() as u64 - 1)
}

/// The number of the user the process acts for.
pub fn user_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Bytes of a page of memory.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}
