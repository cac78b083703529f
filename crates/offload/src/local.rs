//! The worker's side of an offloaded request: passes the body on and produces the result.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use net::Timer;

use crate::channel::{Content, ExchangeChannel, OffloadedResponse, Room};
use crate::{Limits, dropped, late};
use message::{
    Body, BodyStream, Fault, FaultKind, Frame, HandlerResult, Inform, Response, detach_small,
};

/// The future result. Dropping it tells the other side that no response is needed.
pub struct Local {
    /// ReceiverDropped once there is an outcome.
    sides: Option<WorkerExchange>,
    informer: Option<Rc<dyn Inform>>,
    limits: Limits,
    passes_whole_files: bool,
}

/// Shared by the result and the response's body: while a response is streamed, the rest of the
/// request's body still has to be passed on.
struct WorkerExchange {
    link: WorkerEnd,
    /// The rest of the request's body.
    body: Option<Body>,
    /// Why the body ended early.
    fault: Option<Fault>,
    timer: Timer,
    /// A time-out is running.
    counting: bool,
}

/// Tells the other side when it is dropped.
struct WorkerEnd(Arc<ExchangeChannel>);

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        self.0.leave_worker();
    }
}

impl Local {
    pub(super) fn new(
        link: Arc<ExchangeChannel>,
        body: Body,
        informer: Option<Rc<dyn Inform>>,
        limits: Limits,
    ) -> Local {
        let body = (!body.is_empty()).then_some(body);
        let timer = Timer::new();
        let sides =
            WorkerExchange { link: WorkerEnd(link), body, fault: None, timer, counting: false };
        Local { sides: Some(sides), informer, limits, passes_whole_files: false }
    }

    /// Passes a file of the response on as it is, for another process to send. Otherwise it is sent
    /// in parts that are in memory, so that `sendfile` does not wait for a disk.
    pub fn with_whole_files(mut self) -> Local {
        self.passes_whole_files = true;
        self
    }

    /// Forwards what has arrived. The task that awaits the result polls again, with its own waker.
    pub(super) fn begin(&mut self) {
        if let Some(sides) = &mut self.sides {
            sides.pass_on(&mut Context::from_waker(Waker::noop()));
        }
    }

    fn respond(&mut self, answer: OffloadedResponse) -> Response {
        let mut response = Response::new(answer.status);
        response.headers = answer.headers;
        response.reason = answer.reason;
        match (answer.body, self.sides.take()) {
            (Content::Whole(bytes), _) => response.body = Body::from(bytes),
            (Content::Stream(length), Some(mut sides)) => {
                sides.counting = false;
                response.body = Body::stream(StreamedResponseBody {
                    sides,
                    left: length,
                    pause: self.limits.pause,
                    passes_whole_files: self.passes_whole_files,
                    file: Body::Empty,
                    ended: false,
                });
            }
            (Content::Stream(_), None) => {}
        }
        response
    }
}

impl Future for Local {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        let within = self.limits.answer;
        let Local { sides: Some(sides), informer, .. } = &mut *self else { return Poll::Pending };
        let client_is_slow = sides.pass_on(cx);
        let (answer, interim) = sides.link.0.poll_answer(cx);
        if let Some(informer) = informer {
            interim.iter().for_each(|(status, headers)| informer.inform(*status, headers));
        }
        let outcome = match answer {
            _ if sides.is_client_gone() => Err(sides.cause(dropped())),
            Poll::Ready(Ok(answer)) => Ok(self.respond(answer)),
            Poll::Ready(Err(fault)) => Err(sides.cause(fault)),
            Poll::Pending => {
                ready!(sides.poll_timer(cx, within, client_is_slow));
                Err(late("the other side did not answer in time"))
            }
        };
        self.sides = None;
        Poll::Ready(outcome)
    }
}

impl WorkerExchange {
    /// Passes the body on as far as there is room; whether more of it waits for the client.
    fn pass_on(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(body) = &mut self.body {
            match self.link.0.room(cx) {
                Room::Free => {}
                Room::Stalled => return false,
                Room::Unwanted => break,
            }
            match body.poll_frame(cx) {
                Poll::Pending => return true,
                Poll::Ready(Some(Ok(frame))) => {
                    self.counting = false;
                    self.link.0.give(owned(frame));
                }
                Poll::Ready(end) => {
                    self.fault = end.and_then(Result::err);
                    self.link.0.end_inward(self.fault.clone());
                    break;
                }
            }
        }
        self.body = None;
        false
    }

    fn is_client_gone(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::ClientGone)
    }

    /// If the body failed, the other side had to give up: returns the fault of the body.
    fn cause(&mut self, fault: Fault) -> Fault {
        if fault.kind == FaultKind::OffloadDropped {
            self.fault.take().unwrap_or(fault)
        } else {
            fault
        }
    }

    /// Ready when the other side has let us wait for `span`; it is not to blame for the client.
    fn poll_timer(&mut self, cx: &mut Context<'_>, span: Duration, slow_client: bool) -> Poll<()> {
        if slow_client {
            self.counting = false;
            return Poll::Pending;
        }
        if !self.counting {
            self.counting = true;
            self.timer.set(span);
        }
        self.timer.poll(cx)
    }
}

/// A frame whose bytes pin no block of the worker.
fn owned(frame: Frame) -> Frame {
    match frame {
        Frame::Data(data) => Frame::Data(detach_small(data)),
        file => file,
    }
}

/// The body of a response that the other side streams.
struct StreamedResponseBody {
    sides: WorkerExchange,
    /// The number of bytes to come, if the other side has announced it.
    left: Option<u64>,
    pause: Duration,
    passes_whole_files: bool,
    /// The rest of a file that is sent in parts.
    file: Body,
    ended: bool,
}

impl BodyStream for StreamedResponseBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let client_is_slow = self.sides.pass_on(cx);
        let next = loop {
            if let Some(part) = ready!(self.file.poll_frame(cx)) {
                break Some(part);
            }
            self.file = Body::Empty;
            match self.sides.link.0.poll_outward(cx) {
                Poll::Ready(Some(Ok(Frame::File(range)))) if !self.passes_whole_files => {
                    self.file = message::Content::File(range).body();
                }
                Poll::Ready(next) => break next,
                Poll::Pending => {
                    ready!(self.sides.poll_timer(cx, self.pause, client_is_slow));
                    break Some(Err(late("the other side paused in its response")));
                }
            }
        };
        self.sides.counting = false;
        match &next {
            Some(Ok(frame)) => {
                let length = match frame {
                    Frame::Data(data) => data.len() as u64,
                    Frame::File(range) => range.length,
                    Frame::Trailers(_) => 0,
                };
                self.left = self.left.map(|left| left.saturating_sub(length));
            }
            Some(Err(_)) | None => self.ended = true,
        }
        Poll::Ready(next)
    }

    fn length(&self) -> Option<u64> {
        self.left
    }
}
