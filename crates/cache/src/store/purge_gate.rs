//! Whether a store may be read while this server shares purges with others.
//!
//! A store that shares none is always open, which a lookup finds out by one comparison.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use net::clock;

/// Always.
const ALWAYS: u64 = u64::MAX;

/// How far a store is in following the purges of others.
const ALONE: u8 = 0;
const NEW: u8 = 1;
const JOINING: u8 = 2;
const JOINED: u8 = 3;

/// The gate of a store, closed while purges may be missed.
#[derive(Debug)]
pub struct PurgeGate {
    /// On the clock of [`clock::now`]; [`ALWAYS`] without other servers.
    serves_until_ms: AtomicU64,
    state: AtomicU8,
}

impl Default for PurgeGate {
    fn default() -> PurgeGate {
        PurgeGate { serves_until_ms: AtomicU64::new(ALWAYS), state: AtomicU8::new(ALONE) }
    }
}

impl PurgeGate {
    /// True if nothing may be found.
    pub(in crate::store) fn is_closed(&self) -> bool {
        let until_ms = self.serves_until_ms.load(Ordering::Acquire);
        until_ms != ALWAYS && clock::now().as_ms() >= until_ms
    }

    /// Purges are shared from now on, or not any more.
    pub(crate) fn follow(&self, follows: bool) {
        match follows {
            false => {
                self.state.store(ALONE, Ordering::Release);
                self.serves_until_ms.store(ALWAYS, Ordering::Release);
            }
            true if self.state.load(Ordering::Acquire) == ALONE => self.renew(),
            true => {}
        }
    }

    /// What the store holds may have missed purges.
    fn renew(&self) {
        self.serves_until_ms.store(0, Ordering::Release);
        self.state.store(NEW, Ordering::Release);
    }

    /// The store gets what an earlier process has left on disk.
    pub(in crate::store) fn disk_opened(&self) {
        if self.state.load(Ordering::Acquire) != ALONE {
            self.renew();
        }
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Acquire) == state
    }

    /// True if no purges are shared.
    pub(crate) fn is_alone(&self) -> bool {
        self.is(ALONE)
    }

    /// True if it is not known which purges the store has missed.
    pub fn is_new(&self) -> bool {
        self.is(NEW)
    }

    /// True if the purges that the store has missed are being repeated.
    pub fn is_joining(&self) -> bool {
        self.is(JOINING)
    }

    /// True if the store has missed no purge that this server knows.
    pub fn has_joined(&self) -> bool {
        self.is(JOINED)
    }

    pub fn set_joining(&self) {
        self.change(NEW, JOINING);
    }

    /// Ends joining; true if the store was joining.
    pub fn set_joined(&self) -> bool {
        self.change(JOINING, JOINED)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Opens the gate until then, if the store has missed no purge.
    pub fn serve_until(&self, until_ms: u64) {
        if self.has_joined() {
            self.serves_until_ms.store(until_ms.min(ALWAYS - 1), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PurgeGate;

    #[test]
    fn a_store_that_shares_purges_is_open_when_it_has_missed_none() {
        let gate = PurgeGate::default();
        gate.disk_opened();
        gate.serve_until(0);
        assert!(!gate.is_closed() && !gate.is_new());
        gate.follow(true);
        gate.serve_until(u64::MAX);
        assert!(gate.is_closed() && gate.is_new() && !gate.set_joined());
        gate.set_joining();
        gate.serve_until(u64::MAX);
        assert!(gate.is_closed() && gate.is_joining());
        assert!(gate.set_joined() && !gate.set_joined());
        gate.serve_until(u64::MAX);
        assert!(!gate.is_closed());
        gate.follow(true);
        assert!(gate.has_joined(), "nothing has changed");
        gate.serve_until(0);
        assert!(gate.is_closed());
        gate.disk_opened();
        assert!(gate.is_new());
        gate.follow(false);
        assert!(!gate.is_closed());
    }
}
