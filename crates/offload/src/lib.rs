//! Offload: an exchange leaves its worker as plain `Send` data (extension point 8).
//!
//! [`leave`] splits a request: an [`OffloadedRequest`] goes to another thread, which responds to
//! it; a [`Local`] stays on the worker and becomes the result. Between them is one small record
//! with a bounded queue each way, under a lock that only those two take and that is held for one
//! push or pop. Promises back-pressure both ways, that either side learns when the other one is
//! gone, and that a side is woken once for all events since it last looked. Knows neither the
//! thread nor the language of the other side; [`OffloadHandler`] is the handler for another thread
//! of this process.
//!
//! Small data that leaves is copied out of the worker's memory: it would pin a block of 64 KiB for
//! as long as the other side takes.

mod channel;
pub mod encoding;
mod head;
mod local;
mod offload_handler;
mod other;
mod request_queue;
pub mod session;
pub mod wake_batch;

use std::rc::Rc;
use std::time::Duration;

use wire::Known;

pub use head::Head;
pub use local::Local;
pub use offload_handler::OffloadHandler;
pub use other::{Incoming, OffloadedRequest, ReceiverDropped, Responder, Sending, wait};
pub use request_queue::{Event, RequestQueue};

/// `tests/models` has loom's types under these names.
mod sync {
    pub(crate) use crossbeam_queue::{ArrayQueue, SegQueue};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

use channel::ExchangeChannel;
use message::{Body, Fault, FaultKind, Inform, Request};
use net::clock;
use session::HandedSession;

/// Bounds of one exchange that leaves its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pieces of a body that may be on their way, each way.
    pub chunks: usize,
    /// Bytes that may be on their way, each way. A piece is let in while there are fewer, so the
    /// last one may go beyond.
    pub bytes: u64,
    /// Maximum time from the end of the request to the response headers.
    pub answer: Duration,
    /// Maximum pause while the body of the response arrives.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            chunks: 16,
            bytes: 256 * 1024,
            answer: Duration::from_secs(30),
            pause: Duration::from_secs(60),
        }
    }
}

/// A request that a [`RequestQueue`] or another process has to serve.
pub enum Arrival {
    /// A request.
    Exchange(Box<OffloadedRequest>),
    /// A session of WebSocket.
    Session(Box<HandedSession>),
}

/// Splits a request. Its body is passed to the other side, beginning with what has arrived; the
/// rest of the request stays for the filters of the response and for the log.
pub fn leave(request: &mut Request, limits: Limits) -> (OffloadedRequest, Local) {
    let body = std::mem::take(&mut request.body);
    begin(Head::of(request, body.length()), body, request.informer.clone(), limits)
}

/// As [`leave`], for a request from another process, with its body and the sender of interim
/// responses.
pub fn begin(
    head: Head,
    body: Body,
    informer: Option<Rc<dyn Inform>>,
    limits: Limits,
) -> (OffloadedRequest, Local) {
    // A client that waits for 100 Continue gets it when the other side reads the body (RFC 9110
    // 10.1.1).
    let asked = !matches!(body, Body::Stream(_))
        || !head.headers.lists_token(Known::Expect, "100-continue");
    let link = ExchangeChannel::new(limits, asked, body.is_empty());
    let mut local = Local::new(link.clone(), body, informer, limits);
    local.begin();
    (OffloadedRequest::new(head, link), local)
}

/// The other side was dropped before or during its response.
fn dropped() -> Fault {
    Fault::new(FaultKind::OffloadDropped, "the other side dropped the exchange")
}

/// The other side exceeded a time-out.
fn late(what: &'static str) -> Fault {
    Fault::new(FaultKind::OffloadTimeout, what)
}

#[cfg(test)]
mod tests;
