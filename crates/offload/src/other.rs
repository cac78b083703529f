//! The side of an offloaded request on another thread.

use std::cell::OnceCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;

use crate::channel::{Content, ExchangeChannel, OffloadedResponse, Watcher};
use crate::head::Head;
use message::{BodyStream, Fault, Frame, Headers};

/// A request as plain data, to be served on any thread. Dropping it without a response sends 500.
pub struct OffloadedRequest {
    pub head: Head,
    pub body: Incoming,
    pub answer: Responder,
}

impl OffloadedRequest {
    pub(super) fn new(head: Head, link: Arc<ExchangeChannel>) -> OffloadedRequest {
        let body = Incoming { link: link.clone(), left: head.body_length, kept: None };
        OffloadedRequest { head, body, answer: Responder::new(link) }
    }
}

/// The request's body. Dropping it tells the worker to discard the rest.
pub struct Incoming {
    link: Arc<ExchangeChannel>,
    left: Option<u64>,
    /// Comes before anything else.
    kept: Option<Frame>,
}

impl Incoming {
    /// Returns the next frame; `None` at the end. A fault is returned once.
    pub async fn frame(&mut self) -> Option<Result<Frame, Fault>> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Returns true if the whole body has arrived.
    pub fn is_whole(&self) -> bool {
        self.left == Some(0) || self.kept.is_some() || self.link.is_inward_whole(self.left)
    }

    /// Returns all of the body, as one piece, for its next reader.
    pub fn put_back(&mut self, frame: Frame) {
        self.left = match &frame {
            Frame::Data(data) => Some(data.len() as u64),
            Frame::File(range) => Some(range.length),
            Frame::Trailers(_) => self.left,
        };
        self.kept = Some(frame);
    }

    /// Waits until the response is not needed any more: for a task that has read the body and
    /// watches the client while another task responds.
    pub async fn unwanted(&mut self) {
        poll_fn(|cx| self.poll_unwanted(cx)).await;
    }

    /// Ready when the response is not needed any more.
    pub fn poll_unwanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_gone(cx, Watcher::Reader)
    }
}

/// Another worker can use it as the body of its own request.
impl BodyStream for Incoming {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let polled = match self.kept.take() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => self.link.poll_inward(cx),
        };
        if let Poll::Ready(Some(Ok(Frame::Data(data)))) = &polled {
            self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.left
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.link.leave_inward();
    }
}

/// The right to answer, once.
pub struct Responder {
    link: Option<Arc<ExchangeChannel>>,
    reason: Option<Box<[u8]>>,
}

impl Responder {
    pub(super) fn new(link: Arc<ExchangeChannel>) -> Responder {
        Responder { link: Some(link), reason: None }
    }

    /// Gives up the right to respond: the request needs no response any more.
    pub(super) fn let_be(mut self) {
        self.link = None;
    }

    /// Sets the reason phrase of the status: see [`message::Response::reason`].
    pub fn set_reason(&mut self, reason: Option<Box<[u8]>>) {
        self.reason = reason;
    }

    /// Answers with a body that is there: one message, one wake-up.
    pub fn respond(mut self, status: u16, headers: Headers, body: impl Into<Bytes>) {
        let (body, reason) = (Content::Whole(body.into()), self.reason.take());
        self.give(Ok(OffloadedResponse { status, headers, reason, body }));
    }

    /// Answers with a body that is sent piece by piece, of a length that may be known.
    pub fn stream(mut self, status: u16, headers: Headers, length: Option<u64>) -> Sending {
        let (body, reason) = (Content::Stream(length), self.reason.take());
        let link = self.link.take();
        if let Some(link) = &link {
            link.answer(Ok(OffloadedResponse { status, headers, reason, body }));
        }
        Sending(link)
    }

    /// Sends an interim response (1xx, RFC 9110 15.2) before the response.
    pub fn inform(&self, status: u16, headers: Headers) {
        if let Some(link) = &self.link {
            link.inform(status, headers);
        }
    }

    /// Fails.
    pub fn fail(self, fault: Fault) {
        self.give(Err(fault));
    }

    /// Returns true if the response is no longer needed: further work is wasted.
    pub fn is_unwanted(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.is_gone())
    }

    /// Waits until the response is not needed any more.
    pub async fn unwanted(&mut self) {
        poll_fn(|cx| self.poll_unwanted(cx)).await;
    }

    /// Ready when the response is not needed any more.
    pub fn poll_unwanted(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(link) = &self.link else { return Poll::Ready(()) };
        link.poll_gone(cx, Watcher::Writer)
    }

    fn give(mut self, answer: Result<OffloadedResponse, Fault>) {
        if let Some(link) = self.link.take() {
            link.answer(answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.answer(Err(crate::dropped()));
        }
    }
}

/// The response is not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverDropped;

/// The body of a response in flight. Dropping it before its end aborts the response.
pub struct Sending(Option<Arc<ExchangeChannel>>);

impl Sending {
    /// Ready when there is room for a piece.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        let Some(link) = &self.0 else { return Poll::Ready(Err(ReceiverDropped)) };
        link.poll_writable(cx).map(|waits| if waits { Ok(()) } else { Err(ReceiverDropped) })
    }

    /// Takes a piece, whether there is room or not: ask [`Sending::poll_ready`] first.
    pub fn push(&mut self, frame: Frame) {
        if let Some(link) = &self.0 {
            link.send(frame);
        }
    }

    /// Waits for room, and sends a piece.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<(), ReceiverDropped> {
        poll_fn(|cx| self.poll_ready(cx)).await?;
        self.push(Frame::Data(data.into()));
        Ok(())
    }

    /// Ends the body.
    pub fn finish(mut self, trailers: Option<Headers>) {
        if let Some(link) = self.0.take() {
            if let Some(trailers) = trailers {
                link.send(Frame::Trailers(trailers));
            }
            link.end_outward(Some(Ok(())));
        }
    }

    /// Breaks the body off.
    pub fn fail(mut self, fault: Fault) {
        if let Some(link) = self.0.take() {
            link.end_outward(Some(Err(fault)));
        }
    }

    /// Ready when the response is not needed any more; shares its waker with
    /// [`Sending::poll_ready`].
    pub fn poll_unwanted(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(link) = &self.0 else { return Poll::Ready(()) };
        link.poll_gone(cx, Watcher::Writer)
    }

    /// Returns true if the response is no longer needed.
    pub fn is_unwanted(&self) -> bool {
        self.0.as_ref().is_none_or(|link| link.is_gone())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.end_outward(None);
        }
    }
}

/// Wakes a thread that blocks in [`wait`].
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a future of this module is ready: for threads that have no event loop.
/// Never to be called on a worker.
pub fn wait<F: Future>(future: F) -> F::Output {
    thread_local! {
        static WAKER: OnceCell<Waker> = const { OnceCell::new() };
    }
    let make = || Waker::from(Arc::new(Parked(std::thread::current())));
    let waker = WAKER.with(|waker| waker.get_or_init(make).clone());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
