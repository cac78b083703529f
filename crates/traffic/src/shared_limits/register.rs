//! The shared limits of a process.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use message::LocalFuture;

use super::batches::BatchSender;
use super::sharing::Sharing;

/// The keys of a limit that were settled; an error if nothing could be sent.
pub(crate) type SettledKeys = std::io::Result<usize>;

/// A limit that is settled with Redis.
pub(crate) trait Settled: Send + Sync {
    /// Exchanges the next batch of changed keys.
    fn settle<'a>(&'a self, sender: &'a BatchSender) -> LocalFuture<'a, SettledKeys>;
}

/// The shared limits of a process: there is one such register, under the key `()` of
/// `plugin::Shared`.
#[derive(Default)]
pub struct SharedLimits {
    sharing: Arc<Sharing>,
    limits: Mutex<Vec<Weak<dyn Settled>>>,
}

impl SharedLimits {
    /// What all limits know about the other servers.
    pub(crate) fn sharing(&self) -> Arc<Sharing> {
        self.sharing.clone()
    }

    /// Settles this limit from now on, as long as it is used.
    pub(crate) fn settle(&self, limit: Arc<dyn Settled>) {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|known| known.strong_count() > 0);
        let known =
            |known: &Weak<dyn Settled>| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(&limit));
        if !limits.iter().any(known) {
            limits.push(Arc::downgrade(&limit));
        }
    }

    /// The limits that are in use.
    pub(super) fn living(&self) -> Vec<Arc<dyn Settled>> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.iter().filter_map(Weak::upgrade).collect()
    }
}
