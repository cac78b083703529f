//! The backend of an application: a queue in this process, or processes of their own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use message::{BodyStream, Fault, FaultKind};
use offload::{Arrival, OffloadedRequest, RequestQueue};

use crate::buffered_body::buffer;

/// `Retry-After` of a rejected request, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// Takes exchanges for an application.
pub trait AppBackend {
    /// Takes an exchange or session without waiting; only the backend queues it.
    fn offer(&self, arrival: Arrival) -> Result<(), OfferError>;

    /// True if it takes WebSocket sessions.
    fn takes_sessions(&self) -> bool {
        true
    }
}

/// Why a backend did not take an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferError {
    /// The queue is full.
    Full,
    /// No process is ready: the application is starting, or has failed.
    Absent,
}

impl OfferError {
    /// The fault for the client, which may retry.
    pub fn fault(self) -> Fault {
        let (kind, detail) = match self {
            OfferError::Full => {
                (FaultKind::AppFull, "the request queue of the application is full")
            }
            OfferError::Absent => (FaultKind::AppAbsent, "no process of the application is ready"),
        };
        let fault = Fault::new(kind, detail);
        Fault { retry_after_s: Some(RETRY_AFTER_S), ..fault }
    }
}

/// A queue in this process, as one worker uses it.
///
/// The reader is woken when the worker has read all available input: many requests cost one
/// wake-up, while two threads that wake each other for every request would cost more than their
/// work.
///
/// If threads read the queue, bodies are buffered before they are queued, and sessions are not
/// offered.
#[derive(Clone)]
pub struct QueueBackend {
    queue: Arc<RequestQueue>,
    wake_is_due: Rc<Cell<bool>>,
}

impl QueueBackend {
    pub fn new(queue: Arc<RequestQueue>) -> QueueBackend {
        QueueBackend { queue, wake_is_due: Rc::default() }
    }

    fn put(&self, arrival: Arrival) -> Result<(), Arrival> {
        self.queue.put(arrival)?;
        if !self.wake_is_due.replace(true) {
            let (queue, due) = (self.queue.clone(), self.wake_is_due.clone());
            // A tokio task: it runs when the sockets have no more input for now.
            tokio::task::spawn_local(async move {
                due.set(false);
                queue.alert();
            });
        }
        Ok(())
    }

    /// Queues an exchange when its body is complete, and its length is known.
    async fn put_buffered(self, mut handed: Box<OffloadedRequest>) {
        // A body that fails drops the exchange, which reports its own fault.
        if buffer(&mut handed.body).await.is_err() {
            return;
        }
        // An empty body is not put back.
        handed.head.body_length = Some(handed.body.length().unwrap_or_default());
        if let Err(Arrival::Exchange(handed)) = self.put(Arrival::Exchange(handed)) {
            handed.answer.fail(OfferError::Full.fault());
        }
    }
}

/// True if a body has arrived, and a declared length says how long it is.
fn is_complete(handed: &OffloadedRequest) -> bool {
    handed.head.body_length.is_some() && handed.body.is_whole()
}

impl AppBackend for QueueBackend {
    fn offer(&self, arrival: Arrival) -> Result<(), OfferError> {
        match arrival {
            Arrival::Exchange(handed) if self.queue.serves_threads() && !is_complete(&handed) => {
                net::task::spawn_local(self.clone().put_buffered(handed));
                Ok(())
            }
            other => self.put(other).map_err(|_| OfferError::Full),
        }
    }

    fn takes_sessions(&self) -> bool {
        !self.queue.serves_threads()
    }
}
