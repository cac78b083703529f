//! The queue between the threads of a process and the driver of its connection.
//!
//! Owns the queued calls, their bounds, and the subscriptions. One lock, held for a push or a look;
//! no callback runs while it is held. A channel is subscribed to once for all subscribers of the
//! process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use crate::client::endpoint::Endpoint;
use crate::client::{CallResult, Reply, Request, StoreError};
use crate::limits::{CHANNELS_PER_CONNECTION, QUEUED_BYTES, QUEUED_CALLS};
use crate::pubsub::PubSub;
use crate::subscriber_queue::{QueueClosed, SubscriberQueue};

/// A completion callback; called exactly once, also when it is dropped.
pub(super) struct Completion(Option<Box<dyn FnOnce(CallResult) + Send>>);

impl Completion {
    pub(super) fn new(done: impl FnOnce(CallResult) + Send + 'static) -> Completion {
        Completion(Some(Box::new(done)))
    }

    pub(super) fn complete(mut self, outcome: CallResult) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::Lost));
        }
    }
}

/// The receiver of the replies of a call.
pub(super) enum ReplyTarget {
    Caller(Completion),
    /// Confirms a change of a subscription.
    Channel(Bytes),
    /// A command that begins the session.
    Session,
}

/// A call that is queued or waits for its replies.
pub(super) struct Call {
    pub(super) bytes: Bytes,
    pub(super) missing: usize,
    pub(super) replies: Vec<Reply>,
    pub(super) target: ReplyTarget,
}

/// The subscription of the process to one channel.
#[derive(Default)]
struct Channel {
    /// The last request: subscribed or not.
    wanted: bool,
    /// Changes that the store has not confirmed.
    changes: usize,
}

#[derive(Default)]
struct CallQueueState {
    waiting: VecDeque<Call>,
    /// Calls that are not complete.
    calls: usize,
    bytes: usize,
    waker: Option<Waker>,
    pubsub: PubSub,
    channels: HashMap<Bytes, Channel>,
    /// Why calls fail at the moment.
    down: Option<StoreError>,
}

pub(super) struct CallQueue {
    pub(super) endpoint: Endpoint,
    /// Longest wait for a reply.
    pub(super) reply_timeout: Duration,
    state: Mutex<CallQueueState>,
}

impl CallQueueState {
    fn push(&mut self, bytes: Vec<u8>, missing: usize, target: ReplyTarget) {
        self.calls += 1;
        self.bytes += bytes.len();
        let replies = Vec::with_capacity(missing);
        self.waiting.push_back(Call { bytes: bytes.into(), missing, replies, target });
    }

    fn change(&mut self, channel: &Bytes, subscribe: bool) {
        let entry = self.channels.entry(channel.clone()).or_default();
        if entry.wanted != subscribe {
            entry.wanted = subscribe;
            entry.changes += 1;
            let name: &[u8] = if subscribe { b"SUBSCRIBE" } else { b"UNSUBSCRIBE" };
            let bytes = Request::of(&[name, channel]).into_bytes();
            self.push(bytes, 1, ReplyTarget::Channel(channel.clone()));
        }
    }

    fn rejection(&self) -> Option<StoreError> {
        let full = self.calls >= QUEUED_CALLS || self.bytes >= QUEUED_BYTES;
        self.down.clone().or(full.then_some(StoreError::Full))
    }
}

impl CallQueue {
    pub(super) fn new(endpoint: Endpoint, reply_timeout: Duration) -> Arc<CallQueue> {
        Arc::new(CallQueue { endpoint, reply_timeout, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, CallQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver, once until it takes calls again.
    fn wake_driver(mut state: MutexGuard<'_, CallQueueState>) {
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn submit(&self, request: Request, done: Completion) {
        let mut state = self.lock();
        if let Some(failure) = state.rejection() {
            drop(state);
            return done.complete(Err(failure));
        }
        let commands = request.commands();
        state.push(request.into_bytes(), commands, ReplyTarget::Caller(done));
        CallQueue::wake_driver(state);
    }

    /// `done` is called when all channels are subscribed to.
    pub(super) fn subscribe(
        &self,
        channels: &[Bytes],
        subscriber: &Arc<SubscriberQueue>,
        done: Completion,
    ) {
        let mut state = self.lock();
        let too_many = state.channels.len() + channels.len() > CHANNELS_PER_CONNECTION;
        let too_many =
            too_many.then_some(StoreError::Refused("this process subscribes to too many channels"));
        if let Some(failure) = state.rejection().or(too_many) {
            drop(state);
            return done.complete(Err(failure));
        }
        for channel in channels {
            state.pubsub.subscribe(channel, subscriber);
            state.change(channel, true);
        }
        // Replies come in order: the reply to a `PING` follows all confirmations.
        let pending = channels.iter().filter_map(|name| state.channels.get(name));
        if pending.map(|channel| channel.changes).sum::<usize>() > 0 {
            state.push(Request::of(&[b"PING"]).into_bytes(), 1, ReplyTarget::Caller(done));
            CallQueue::wake_driver(state);
        } else {
            drop(state);
            done.complete(Ok(Vec::new()));
        }
    }

    pub(super) fn unsubscribe(&self, channels: &[Bytes], subscriber: &SubscriberQueue) {
        let mut state = self.lock();
        for channel in channels {
            state.pubsub.unsubscribe(channel, subscriber);
            if !state.pubsub.has_subscribers(channel) && state.channels.contains_key(channel) {
                state.change(channel, false);
            }
        }
        CallQueue::wake_driver(state);
    }

    /// Moves the queued calls to `taken`; the next call wakes `waker`.
    pub(super) fn take_calls(&self, waker: &Waker, taken: &mut VecDeque<Call>) {
        let mut state = self.lock();
        state.waker = Some(waker.clone());
        taken.append(&mut state.waiting);
    }

    /// True if calls are queued; if not, the next one wakes `waker`.
    pub(super) fn has_calls(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        state.waker = Some(waker.clone());
        !state.waiting.is_empty()
    }

    /// Completes a call that has all its replies.
    pub(super) fn complete(&self, call: Call) {
        if matches!(call.target, ReplyTarget::Session) {
            return;
        }
        let mut state = self.lock();
        state.calls = state.calls.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(call.bytes.len());
        match call.target {
            ReplyTarget::Session => {}
            ReplyTarget::Caller(done) => {
                drop(state);
                done.complete(Ok(call.replies));
            }
            ReplyTarget::Channel(channel) => {
                if let Some(entry) = state.channels.get_mut(&channel) {
                    entry.changes = entry.changes.saturating_sub(1);
                    if entry.changes == 0 && !entry.wanted {
                        state.channels.remove(&channel);
                    }
                }
            }
        }
    }

    /// Delivers a message to the subscribers in this process.
    pub(super) fn deliver(&self, channel: &[u8], payload: Bytes, text: bool) {
        self.lock().pubsub.publish(channel, payload, text);
    }

    /// Fails all calls and subscriptions. While the store is `down`, new calls fail at once.
    pub(super) fn fail(&self, mut sent: VecDeque<Call>, failure: &StoreError, down: bool) {
        let mut state = self.lock();
        sent.append(&mut state.waiting);
        (state.calls, state.bytes) = (0, 0);
        state.down = down.then(|| failure.clone());
        state.channels.clear();
        let queues = state.pubsub.clear();
        drop(state);
        for queue in queues {
            queue.close(QueueClosed::Lost);
        }
        for call in sent {
            if let ReplyTarget::Caller(done) = call.target {
                done.complete(Err(failure.clone()));
            }
        }
    }

    /// Lets calls connect again.
    pub(super) fn mark_up(&self) {
        self.lock().down = None;
    }
}
