//! What lies between the two sides of a session: a queue of messages each way, and the waiters.
//!
//! The same rules as between the sides of an exchange (see `channel.rs`): one mutex, held
//! for a push or a pop; a waker is taken when it is used; a waiter for space is woken when half of
//! the queue is free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Accepted, Closed, Message, Received};
use crate::channel::remember;
use crate::wake_batch::wake;
use crate::{Limits, ReceiverDropped};

pub(super) struct Line {
    state: Mutex<SessionState>,
    limits: Limits,
}

#[derive(Default)]
struct SessionState {
    accepted: Option<Accepted>,
    /// To the other side.
    inward: DirectionQueue,
    /// To the client.
    outward: DirectionQueue,
    /// How the session has ended; received after the content of `inward`.
    ended: Option<Closed>,
    /// The other side's close, sent once after the content of `outward`.
    goodbye: Option<Closed>,
    /// The other side has closed or was dropped: it sends nothing more.
    left: bool,
    /// True if the worker waits for space in `inward`.
    stalled: bool,
    worker: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
struct DirectionQueue {
    messages: VecDeque<Message>,
    bytes: u64,
}

impl DirectionQueue {
    fn push(&mut self, message: Message) {
        self.bytes += message.data().len() as u64;
        self.messages.push_back(message);
    }

    fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.data().len() as u64;
        Some(message)
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.messages.len() >= limits.chunks.max(1) || self.bytes >= limits.bytes.max(1)
    }

    fn is_half_free(&self, limits: &Limits) -> bool {
        self.messages.len() <= limits.chunks / 2 && self.bytes <= limits.bytes / 2
    }
}

impl Line {
    pub(super) fn new(limits: Limits) -> Arc<Line> {
        Arc::new(Line { state: Mutex::default(), limits })
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The worker's side.

    pub(super) fn poll_accepted(&self, cx: &Context<'_>) -> Poll<Accepted> {
        let mut state = self.state();
        match state.accepted.take() {
            Some(accepted) => Poll::Ready(accepted),
            None => {
                remember(&mut state.worker, cx);
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.left || !state.inward.is_full(&self.limits) {
            return Poll::Ready(());
        }
        state.stalled = true;
        remember(&mut state.worker, cx);
        Poll::Pending
    }

    pub(super) fn give(&self, message: Message) {
        let mut state = self.state();
        if state.left || state.ended.is_some() {
            return;
        }
        state.inward.push(message);
        let waker = state.reader.take();
        drop(state);
        wake(waker);
    }

    pub(super) fn poll_outward(&self, cx: &Context<'_>) -> Poll<Received> {
        let mut state = self.state();
        let Some(message) = state.outward.pop() else {
            if let Some(goodbye) = state.goodbye.take() {
                return Poll::Ready(Received::Closed(goodbye));
            }
            remember(&mut state.worker, cx);
            return Poll::Pending;
        };
        let waker = match state.outward.is_half_free(&self.limits) {
            true => state.writer.take(),
            false => None,
        };
        drop(state);
        wake(waker);
        Poll::Ready(Received::Message(message))
    }

    /// The session has ended: the first one to say how is believed.
    pub(super) fn end(&self, closed: Closed) {
        let mut state = self.state();
        state.ended.get_or_insert(closed);
        let unsent = std::mem::take(&mut state.outward);
        let (reader, writer) = (state.reader.take(), state.writer.take());
        drop(state);
        drop(unsent);
        wake(reader);
        wake(writer);
    }

    // Methods of the other side.

    pub(super) fn accept(&self, accepted: Accepted) -> Result<(), ReceiverDropped> {
        let mut state = self.state();
        if state.ended.is_some() {
            return Err(ReceiverDropped);
        }
        state.accepted = Some(accepted);
        let waker = state.worker.take();
        drop(state);
        wake(waker);
        Ok(())
    }

    pub(super) fn poll_inward(&self, cx: &Context<'_>) -> Poll<Received> {
        let mut state = self.state();
        let Some(message) = state.inward.pop() else {
            if let Some(closed) = &state.ended {
                return Poll::Ready(Received::Closed(closed.clone()));
            }
            remember(&mut state.reader, cx);
            return Poll::Pending;
        };
        let waker = match state.stalled && state.inward.is_half_free(&self.limits) {
            true => {
                state.stalled = false;
                state.worker.take()
            }
            false => None,
        };
        drop(state);
        wake(waker);
        Poll::Ready(Received::Message(message))
    }

    pub(super) fn poll_writable(&self, cx: &Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        let mut state = self.state();
        if state.left || state.ended.is_some() {
            return Poll::Ready(Err(ReceiverDropped));
        }
        if !state.outward.is_full(&self.limits) {
            return Poll::Ready(Ok(()));
        }
        remember(&mut state.writer, cx);
        Poll::Pending
    }

    pub(super) fn send(&self, message: Message) -> Result<(), ReceiverDropped> {
        let mut state = self.state();
        if state.left || state.ended.is_some() {
            return Err(ReceiverDropped);
        }
        state.outward.push(message);
        let waker = state.worker.take();
        drop(state);
        wake(waker);
        Ok(())
    }

    pub(super) fn close(&self, closed: Closed) -> Result<(), ReceiverDropped> {
        let mut state = self.state();
        if state.left || state.ended.is_some() {
            return Err(ReceiverDropped);
        }
        state.left = true;
        state.goodbye = Some(closed.clone());
        // A side that has closed the session receives nothing more.
        state.ended = Some(closed);
        let unread = std::mem::take(&mut state.inward);
        let (worker, reader) = (state.worker.take(), state.reader.take());
        drop(state);
        drop(unread);
        wake(worker);
        wake(reader);
        Ok(())
    }

    pub(super) fn leave_other(&self) {
        let closed = Closed::new(Closed::INTERNAL, "");
        // The session may be closed already, or the client may have disconnected.
        let _ = self.close(closed);
        let mut state = self.state();
        state.left = true;
        let unread = std::mem::take(&mut state.inward);
        (state.reader, state.writer) = (None, None);
        let waker = if state.stalled { state.worker.take() } else { None };
        drop(state);
        drop(unread);
        wake(waker);
    }

    pub(super) fn is_gone(&self) -> bool {
        let state = self.state();
        state.left || state.ended.is_some()
    }
}
