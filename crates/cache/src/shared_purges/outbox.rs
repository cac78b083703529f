//! Purges by the method PURGE, on their way from a worker to the thread that shares purges.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::PurgeEntry;
use crate::limits::PURGES_OUTGOING_MAX;

/// A purge that a client has requested, and where its result is expected.
pub struct OutgoingPurge {
    pub entry: PurgeEntry,
    pub done: oneshot::Sender<Option<PurgeReceipt>>,
}

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeReceipt {
    /// The responses that this server has purged.
    pub purged: u64,
    /// The number of the purge, if the others know of it.
    pub number: Option<u64>,
}

/// The queue to the thread that shares purges; closed if none are shared.
#[derive(Default)]
pub(crate) struct PurgeOutbox(Mutex<Option<mpsc::Sender<OutgoingPurge>>>);

impl PurgeOutbox {
    // Locked by the method PURGE and by reloads.
    fn sender(&self) -> MutexGuard<'_, Option<mpsc::Sender<OutgoingPurge>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self) -> mpsc::Receiver<OutgoingPurge> {
        let (sender, receiver) = mpsc::channel(PURGES_OUTGOING_MAX);
        *self.sender() = Some(sender);
        receiver
    }

    pub(crate) fn close(&self) {
        *self.sender() = None;
    }

    /// Queues a purge. `None` if none are shared; otherwise the result will be `None` if nothing
    /// was purged, and an error if the queue is full or its thread ends.
    pub(crate) fn send(
        &self,
        entry: impl FnOnce() -> PurgeEntry,
    ) -> Option<oneshot::Receiver<Option<PurgeReceipt>>> {
        let sender = self.sender();
        let sender = sender.as_ref()?;
        let (done, receipt) = oneshot::channel();
        // Without room `done` is dropped, which the receiver notices.
        let _ = sender.try_send(OutgoingPurge { entry: entry(), done });
        Some(receipt)
    }
}
