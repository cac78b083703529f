//! A handler whose requests are served by another thread.
//!
//! Owns the sending end of a bounded queue. A full queue is 503 at once: waiting would hold the
//! client's request in a second, unbounded queue.

use std::sync::mpsc::{SyncSender, TrySendError};

use crate::{Limits, OffloadedRequest, leave};
use message::{Fault, FaultKind, HandlerResult, Request};
use plugin::{Handler, MaybeFuture};

/// Seconds after which a client may ask again when the queue was full.
const RETRY_AFTER_S: u32 = 1;

/// The handler. A worker has its own; they share the queue, which is the bound on what waits:
/// `std::sync::mpsc::sync_channel(n)`.
pub struct OffloadHandler {
    queue: SyncSender<OffloadedRequest>,
    limits: Limits,
}

impl OffloadHandler {
    pub fn new(queue: SyncSender<OffloadedRequest>, limits: Limits) -> OffloadHandler {
        OffloadHandler { queue, limits }
    }
}

impl Handler for OffloadHandler {
    fn name(&self) -> &'static str {
        "elsewhere"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let (handed, local) = leave(request, self.limits);
        match self.queue.try_send(handed) {
            Ok(()) => MaybeFuture::of(local),
            Err(refused) => Err(refusal(&refused)).into(),
        }
    }
}

fn refusal(refused: &TrySendError<OffloadedRequest>) -> Fault {
    match refused {
        TrySendError::Full(_) => Fault {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Fault::new(FaultKind::OffloadFull, "too many requests wait for their thread")
        },
        TrySendError::Disconnected(_) => {
            Fault::new(FaultKind::OffloadClosed, "the thread that answers has ended")
        }
    }
}
