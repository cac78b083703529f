//! Limits of a request's body while it arrives, over any version of HTTP: its length, and the time
//! that the client may take. Also its step in the live log, and what the exchange holds during that
//! time.

use std::cell::RefCell;
use std::rc::Weak;
use std::task::{Context, Poll};

use bytes::Bytes;
use net::Timer;
use net::clock::{self, Moment};
use telemetry::{LimitHit, WorkerMetrics};

use crate::allowance::Allowance;
use message::{Bounds, Fault, FaultKind, Frame, HeldResource, OpenSpan, Request, RequestTrace};

/// How a body ends.
pub(crate) enum BodyEnd<'f> {
    Whole,
    /// It is dropped before its end.
    Unread,
    Failed(&'f Fault),
}

/// A body that arrives.
pub(crate) struct BodyProgress {
    bytes_max: u64,
    received: u64,
    allowance: Allowance,
    /// When the body has to be whole.
    ends: Moment,
    /// The body in the live log, until it is whole.
    step: Option<Box<OpenSpan>>,
}

impl BodyProgress {
    /// A body that arrives from now on.
    pub(crate) fn new(bounds: &Bounds) -> BodyProgress {
        BodyProgress {
            bytes_max: bounds.body,
            received: 0,
            allowance: Allowance::new(bounds.body_timeout),
            ends: bounds.body_total.map_or(Moment::NEVER, |total| clock::now().after(total)),
            step: None,
        }
    }

    /// The body of a request, which is a step of it.
    pub(crate) fn of(request: &Request, bounds: &Bounds) -> BodyProgress {
        let open = |trace: &RequestTrace| trace.open_step("request body");
        BodyProgress { step: request.trace.as_ref().and_then(open), ..BodyProgress::new(bounds) }
    }

    /// Ends the step of the body, if it is recorded.
    #[inline]
    pub(crate) fn end(&mut self, end: BodyEnd<'_>) {
        if let Some(step) = self.step.take() {
            self.end_step(*step, end);
        }
    }

    #[cold]
    fn end_step(&self, mut step: OpenSpan, end: BodyEnd<'_>) {
        step.set("http.request.body.size", self.received);
        match end {
            BodyEnd::Whole => {}
            BodyEnd::Unread => step.set("tidegate.unread", "true"),
            BodyEnd::Failed(fault) => step.set("error.type", fault.slug()),
        }
        step.end(&mut None, matches!(end, BodyEnd::Failed(_)));
    }

    /// The client has sent so many bytes of the body.
    pub(crate) fn credit(&mut self, bytes: usize) {
        self.allowance.stop();
        self.allowance.credit(bytes as u64);
    }

    /// The bytes of content so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Counts content against the limit.
    pub(crate) fn admit(&mut self, data: Bytes, metrics: &WorkerMetrics) -> Result<Frame, Fault> {
        self.received += data.len() as u64;
        if self.received > self.bytes_max {
            metrics.hit(LimitHit::Body);
            return Err(Fault::body_too_large());
        }
        Ok(Frame::Data(data))
    }

    /// The application waits for the client: ready once that is too slow.
    pub(crate) fn poll_wait(
        &mut self,
        cx: &mut Context<'_>,
        timer: &Timer,
        held: &HeldByExchange,
        metrics: &WorkerMetrics,
    ) -> Poll<Fault> {
        let again = self.allowance.wait();
        if self.allowance.slow_rate().is_some_and(|rate| held.must_give_way(rate, metrics)) {
            let detail = "too many slow clients hold connections of the server";
            return Poll::Ready(Fault::new(FaultKind::SlowClient, detail));
        }
        let too_late = self.ends <= clock::now();
        if too_late || self.allowance.is_over() {
            let (limit, detail) = match too_late {
                true => (LimitHit::BodyTotal, "the request body was not whole in time"),
                false => (LimitHit::SlowBody, "the request body arrived too slowly"),
            };
            metrics.hit(limit);
            return Poll::Ready(Fault::new(FaultKind::BodyTimeout, detail));
        }
        timer.set_at(again.min(self.ends));
        timer.register(cx);
        Poll::Pending
    }
}

/// Resources of an exchange that other requests wait for.
#[derive(Default)]
pub(crate) struct HeldByExchange(RefCell<Option<Weak<dyn HeldResource>>>);

impl HeldByExchange {
    pub(crate) fn set(&self, held: Weak<dyn HeldResource>) {
        *self.0.borrow_mut() = Some(held);
    }

    pub(crate) fn clear(&self) {
        *self.0.borrow_mut() = None;
    }

    /// True if the exchange, which has waited for its client for a while and moved `rate` bytes a
    /// second, has to end so that others get what it holds.
    pub(crate) fn must_give_way(&self, rate: u64, metrics: &WorkerMetrics) -> bool {
        let held = self.0.borrow().as_ref().and_then(Weak::upgrade);
        let must = held.is_some_and(|held| held.must_give_way(rate));
        if must {
            metrics.hit(LimitHit::SlowClients);
        }
        must
    }
}
