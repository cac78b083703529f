//! What this server knows about the others: how many there are, and whether Redis is reached.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A factor of one.
pub(crate) const ONE: u32 = 256;
/// While Redis is reached, a server may use so much more than its share before it hears of the
/// others: it can then grow, and what it used in excess is paid back by all.
const GROWTH: u32 = ONE * 4 / 5;

/// Read with every request to a shared limit, written a few times in a process.
#[derive(Debug)]
pub(crate) struct Sharing {
    servers: AtomicU32,
    is_connected: AtomicBool,
    /// What a request costs, relative to its share.
    boost: AtomicU32,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing {
            servers: AtomicU32::new(1),
            is_connected: AtomicBool::new(false),
            boost: AtomicU32::new(ONE),
        }
    }
}

impl Sharing {
    /// The servers that share, at least 1.
    pub(crate) fn servers(&self) -> u32 {
        self.servers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_servers(&self, servers: u32) {
        self.servers.store(servers.max(1), Ordering::Relaxed);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
        self.boost.store(if is_connected { GROWTH } else { ONE }, Ordering::Relaxed);
    }

    pub(crate) fn boost(&self) -> u32 {
        self.boost.load(Ordering::Relaxed)
    }

    /// How many times a request counts in a quota: without Redis the other servers are taken to
    /// make as many.
    pub(crate) fn quota_charge(&self) -> u32 {
        if self.is_connected() { 1 } else { self.servers() }
    }
}
