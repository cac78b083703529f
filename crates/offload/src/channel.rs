//! The channel between the two sides of an offloaded exchange: a queue each way, and the waiters.
//!
//! One mutex for all of it: the two sides take turns, hold it for a push or a pop, and wake each
//! other after it is released. Each waker is taken when it is used, so that a side is woken once
//! however much happens before it looks. A side that waits for room is woken when half of the queue
//! is free, or a long body would cost a wake-up for each piece.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

pub(super) use crate::wake_batch::wake;
use crate::{Limits, dropped};
use message::{Fault, Frame, Headers};

/// Interim responses, status and fields, in their order.
type Interim = Vec<(u16, Headers)>;

/// Interim responses of one exchange. Each costs the client memory and time; ours takes no more
/// from an upstream (`http-client`).
const INTERIM_MAX: u32 = 16;

pub(super) struct ExchangeChannel {
    state: Mutex<ChannelState>,
    /// The response is not needed any more. Written with the lock, and read without it as well.
    gone: AtomicBool,
    limits: Limits,
}

#[derive(Default)]
struct ChannelState {
    /// The request's body, to the other side.
    inward: DirectionQueue,
    /// The response's body, to the worker.
    outward: DirectionQueue,
    answer: Option<Result<OffloadedResponse, Fault>>,
    /// Interim responses that are to go before it.
    interim: Interim,
    interim_count: u32,
    /// The other side waits for the body: a client may be sent 100 Continue.
    asked: bool,
    /// The other side has dropped its end of the body.
    unwanted: bool,
    /// True if the worker waits for space in `inward`.
    stalled: bool,
    worker: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The head of the response, and its body if that is there.
pub(super) struct OffloadedResponse {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) reason: Option<Box<[u8]>>,
    pub(super) body: Content,
}

pub(super) enum Content {
    Whole(Bytes),
    /// The body comes through the queue and has this length, if it is known.
    Stream(Option<u64>),
}

/// A queue one way.
#[derive(Default)]
struct DirectionQueue {
    frames: VecDeque<Frame>,
    bytes: u64,
    end: End,
}

#[derive(Default)]
enum End {
    #[default]
    Open,
    Whole,
    Broken(Fault),
}

impl DirectionQueue {
    fn push(&mut self, frame: Frame) {
        self.bytes += weight(&frame);
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= weight(&frame);
        Some(frame)
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.frames.len() >= limits.chunks.max(1) || self.bytes >= limits.bytes.max(1)
    }

    fn is_half_free(&self, limits: &Limits) -> bool {
        self.frames.len() <= limits.chunks / 2 && self.bytes <= limits.bytes / 2
    }

    fn is_open(&self) -> bool {
        matches!(self.end, End::Open)
    }

    /// Takes the next frame; a fault is returned once.
    fn take(&mut self) -> Poll<Option<Result<Frame, Fault>>> {
        if let Some(frame) = self.pop() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match std::mem::replace(&mut self.end, End::Whole) {
            End::Open => {
                self.end = End::Open;
                Poll::Pending
            }
            End::Whole => Poll::Ready(None),
            End::Broken(fault) => Poll::Ready(Some(Err(fault))),
        }
    }
}

fn weight(frame: &Frame) -> u64 {
    match frame {
        Frame::Data(data) => data.len() as u64,
        Frame::File(_) | Frame::Trailers(_) => 0,
    }
}

/// Whether the worker may pass on more of the body.
pub(super) enum Room {
    Free,
    /// Not now; the worker is woken when there is space.
    Stalled,
    /// The response is not needed.
    Unwanted,
}

/// Which of the other side's ends waits; they may lie with two tasks.
pub(super) enum Watcher {
    Reader,
    Writer,
}

pub(super) fn remember(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(known) if known.will_wake(cx.waker()) => {}
        _ => *place = Some(cx.waker().clone()),
    }
}

impl ExchangeChannel {
    pub(super) fn new(limits: Limits, asked: bool, no_body: bool) -> Arc<ExchangeChannel> {
        let mut state = ChannelState { asked, ..ChannelState::default() };
        if no_body {
            state.inward.end = End::Whole;
        }
        Arc::new(ExchangeChannel { state: Mutex::new(state), gone: AtomicBool::new(false), limits })
    }

    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The worker's side.

    pub(super) fn room(&self, cx: &Context<'_>) -> Room {
        let mut state = self.state();
        if state.unwanted {
            return Room::Unwanted;
        }
        if state.asked && !state.inward.is_full(&self.limits) {
            return Room::Free;
        }
        state.stalled = true;
        remember(&mut state.worker, cx);
        Room::Stalled
    }

    pub(super) fn give(&self, frame: Frame) {
        let mut state = self.state();
        state.inward.push(frame);
        let waker = state.reader.take();
        drop(state);
        wake(waker);
    }

    pub(super) fn end_inward(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.inward.end = fault.map_or(End::Whole, End::Broken);
        let waker = state.reader.take();
        drop(state);
        wake(waker);
    }

    /// Polls for the response, and for the interim responses that precede it.
    pub(super) fn poll_answer(
        &self,
        cx: &Context<'_>,
    ) -> (Poll<Result<OffloadedResponse, Fault>>, Interim) {
        let mut state = self.state();
        let interim = std::mem::take(&mut state.interim);
        match state.answer.take() {
            Some(answer) => (Poll::Ready(answer), interim),
            None => {
                remember(&mut state.worker, cx);
                (Poll::Pending, interim)
            }
        }
    }

    pub(super) fn poll_outward(&self, cx: &Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let mut state = self.state();
        let taken = state.outward.take();
        if taken.is_pending() {
            remember(&mut state.worker, cx);
            return taken;
        }
        let waker = match state.outward.is_half_free(&self.limits) {
            true => state.writer.take(),
            false => None,
        };
        drop(state);
        wake(waker);
        taken
    }

    /// The worker's side has gone, with whatever was on its way.
    pub(super) fn leave_worker(&self) {
        let mut state = self.state();
        self.gone.store(true, Ordering::Relaxed);
        state.worker = None;
        let frames = (
            std::mem::take(&mut state.inward.frames),
            std::mem::take(&mut state.outward.frames),
            state.answer.take(),
        );
        (state.inward.bytes, state.outward.bytes) = (0, 0);
        let (reader, writer) = (state.reader.take(), state.writer.take());
        drop(state);
        drop(frames);
        wake(reader);
        wake(writer);
    }

    // Methods of the other side.

    pub(super) fn poll_inward(&self, cx: &Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let mut state = self.state();
        if self.is_gone() && state.inward.is_open() {
            state.inward.end = End::Whole;
            return Poll::Ready(Some(Err(Fault::client_gone(
                "the response is not needed any more",
            ))));
        }
        let taken = state.inward.take();
        let mut waker = None;
        if taken.is_pending() {
            remember(&mut state.reader, cx);
        }
        if state.stalled && (!state.asked || state.inward.is_half_free(&self.limits)) {
            state.stalled = false;
            waker = state.worker.take();
        }
        state.asked = true;
        drop(state);
        wake(waker);
        taken
    }

    /// Returns true if the rest of the body has arrived; never for a body that failed.
    pub(super) fn is_inward_whole(&self, left: Option<u64>) -> bool {
        let ChannelState { inward, .. } = &*self.state();
        let is_file = matches!(inward.frames.front(), Some(Frame::File(_)));
        is_file || matches!(inward.end, End::Whole) || left.is_some_and(|left| inward.bytes >= left)
    }

    /// The body has no reader any more.
    pub(super) fn leave_inward(&self) {
        let mut state = self.state();
        state.unwanted = true;
        state.reader = None;
        let frames = std::mem::take(&mut state.inward.frames);
        state.inward.bytes = 0;
        // Makes the worker drop the body and determine how much of it is unread.
        let waker = if state.inward.is_open() { state.worker.take() } else { None };
        drop(state);
        drop(frames);
        wake(waker);
    }

    pub(super) fn answer(&self, answer: Result<OffloadedResponse, Fault>) {
        let mut state = self.state();
        if self.is_gone() {
            return;
        }
        state.answer = Some(answer);
        let waker = state.worker.take();
        drop(state);
        wake(waker);
    }

    /// Sends an interim response; those above the limit are discarded.
    pub(super) fn inform(&self, status: u16, headers: Headers) {
        let mut state = self.state();
        if self.is_gone() || state.interim_count >= INTERIM_MAX {
            return;
        }
        state.interim_count += 1;
        state.interim.push((status, headers));
        let waker = state.worker.take();
        drop(state);
        wake(waker);
    }

    /// Ready with whether there is room; `false` when the response is not needed any more.
    pub(super) fn poll_writable(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state();
        if self.is_gone() {
            return Poll::Ready(false);
        }
        if !state.outward.is_full(&self.limits) {
            return Poll::Ready(true);
        }
        remember(&mut state.writer, cx);
        Poll::Pending
    }

    pub(super) fn send(&self, frame: Frame) {
        let mut state = self.state();
        if self.is_gone() {
            return;
        }
        state.outward.push(frame);
        let waker = state.worker.take();
        drop(state);
        wake(waker);
    }

    /// Ends the response's body; without `end` it was dropped in the middle.
    pub(super) fn end_outward(&self, end: Option<Result<(), Fault>>) {
        let mut state = self.state();
        if !state.outward.is_open() {
            return;
        }
        state.outward.end = match end {
            Some(Ok(())) => End::Whole,
            Some(Err(fault)) => End::Broken(fault),
            None => End::Broken(dropped()),
        };
        let waker = state.worker.take();
        drop(state);
        wake(waker);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn poll_gone(&self, cx: &Context<'_>, watcher: Watcher) -> Poll<()> {
        let mut state = self.state();
        if self.is_gone() {
            return Poll::Ready(());
        }
        let place = match watcher {
            Watcher::Reader => &mut state.reader,
            Watcher::Writer => &mut state.writer,
        };
        remember(place, cx);
        Poll::Pending
    }
}
