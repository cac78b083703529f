//! What the threads of a process leave for the one that talks to the store.
//!
//! Owns the calls that wait, their bounds, and who listens to what. One lock, held for a push or a
//! look; nobody is told anything while it is held. A channel is subscribed to once for all
//! listeners of the process.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use crate::client::{Answer, Failure, Outcome, Request};
use crate::hub::Hub;
use crate::limits::{CHANNELS_PER_CONNECTION, QUEUED_BYTES, QUEUED_CALLS};
use crate::mailbox::{Mailbox, Shut};

/// Who is told of the outcome: exactly once, whatever happens.
pub(super) struct Done(Option<Box<dyn FnOnce(Outcome) + Send>>);

impl Done {
    pub(super) fn new(done: impl FnOnce(Outcome) + Send + 'static) -> Done {
        Done(Some(Box::new(done)))
    }

    pub(super) fn tell(mut self, outcome: Outcome) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Failure::Lost));
        }
    }
}

/// What the answers of a call are for.
pub(super) enum For {
    Caller(Done),
    /// The confirmation of a change of what is listened to.
    Channel(Bytes),
}

/// A call that waits to be sent, or for its answers.
pub(super) struct Call {
    pub(super) bytes: Bytes,
    pub(super) missing: usize,
    pub(super) answers: Vec<Answer>,
    pub(super) for_whom: For,
}

/// A channel, as the store has it.
#[derive(Default)]
struct Channel {
    /// What was asked for last: to listen or not.
    wanted: bool,
    /// Changes the store has not confirmed.
    changes: usize,
}

#[derive(Default)]
struct CommandQueue {
    waiting: VecDeque<Call>,
    /// Of all calls that have not ended.
    calls: usize,
    bytes: usize,
    waker: Option<Waker>,
    hub: Hub,
    channels: HashMap<Bytes, Channel>,
    /// Why nothing is taken at the moment.
    down: Option<Failure>,
}

pub(super) struct Link {
    pub(super) path: PathBuf,
    /// Longest silence with an answer due.
    pub(super) answer_within: Duration,
    queue: Mutex<CommandQueue>,
}

impl CommandQueue {
    fn push(&mut self, bytes: Vec<u8>, missing: usize, for_whom: For) {
        self.calls += 1;
        self.bytes += bytes.len();
        let answers = Vec::with_capacity(missing);
        self.waiting.push_back(Call { bytes: bytes.into(), missing, answers, for_whom });
    }

    fn change(&mut self, channel: &Bytes, listen: bool) {
        let state = self.channels.entry(channel.clone()).or_default();
        if state.wanted != listen {
            state.wanted = listen;
            state.changes += 1;
            let name: &[u8] = if listen { b"SUBSCRIBE" } else { b"UNSUBSCRIBE" };
            let bytes = Request::of(&[name, channel]).into_bytes();
            self.push(bytes, 1, For::Channel(channel.clone()));
        }
    }

    fn refusal(&self) -> Option<Failure> {
        let full = self.calls >= QUEUED_CALLS || self.bytes >= QUEUED_BYTES;
        self.down.clone().or(full.then_some(Failure::Full))
    }
}

impl Link {
    pub(super) fn new(path: &Path, answer_within: Duration) -> Arc<Link> {
        Arc::new(Link { path: path.to_owned(), answer_within, queue: Mutex::default() })
    }

    fn queue(&self) -> MutexGuard<'_, CommandQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who talks to the store, once until it looks again.
    fn ring(mut queue: MutexGuard<'_, CommandQueue>) {
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn submit(&self, request: Request, done: Done) {
        let mut queue = self.queue();
        if let Some(failure) = queue.refusal() {
            drop(queue);
            return done.tell(Err(failure));
        }
        let commands = request.commands();
        queue.push(request.into_bytes(), commands, For::Caller(done));
        Link::ring(queue);
    }

    /// `done` is told when the last of the channels is listened to.
    pub(super) fn subscribe(&self, channels: &[Bytes], mailbox: &Arc<Mailbox>, done: Done) {
        let mut queue = self.queue();
        let crowded = queue.channels.len() + channels.len() > CHANNELS_PER_CONNECTION;
        let crowded = crowded.then_some(Failure::Refused("this process listens to too much"));
        if let Some(failure) = queue.refusal().or(crowded) {
            drop(queue);
            return done.tell(Err(failure));
        }
        for channel in channels {
            queue.hub.subscribe(channel, mailbox);
            queue.change(channel, true);
        }
        // Answers come in order: one to a call that says nothing comes behind all confirmations.
        let pending = channels.iter().filter_map(|channel| queue.channels.get(channel));
        if pending.map(|state| state.changes).sum::<usize>() > 0 {
            queue.push(Request::of(&[b"PING"]).into_bytes(), 1, For::Caller(done));
            Link::ring(queue);
        } else {
            drop(queue);
            done.tell(Ok(Vec::new()));
        }
    }

    pub(super) fn unsubscribe(&self, channels: &[Bytes], mailbox: &Mailbox) {
        let mut queue = self.queue();
        for channel in channels {
            queue.hub.unsubscribe(channel, mailbox);
            if !queue.hub.is_heard(channel) && queue.channels.contains_key(channel) {
                queue.change(channel, false);
            }
        }
        Link::ring(queue);
    }

    /// Moves what waits to `taken`; what is left next wakes `waker`.
    pub(super) fn take(&self, waker: &Waker, taken: &mut VecDeque<Call>) {
        let mut queue = self.queue();
        queue.waker = Some(waker.clone());
        taken.append(&mut queue.waiting);
    }

    /// Whether anything waits; if not, what is left next wakes `waker`.
    pub(super) fn is_wanted(&self, waker: &Waker) -> bool {
        let mut queue = self.queue();
        queue.waker = Some(waker.clone());
        !queue.waiting.is_empty()
    }

    /// A call has all its answers.
    pub(super) fn ended(&self, call: Call) {
        let mut queue = self.queue();
        queue.calls = queue.calls.saturating_sub(1);
        queue.bytes = queue.bytes.saturating_sub(call.bytes.len());
        match call.for_whom {
            For::Caller(done) => {
                drop(queue);
                done.tell(Ok(call.answers));
            }
            For::Channel(channel) => {
                if let Some(state) = queue.channels.get_mut(&channel) {
                    state.changes = state.changes.saturating_sub(1);
                    if state.changes == 0 && !state.wanted {
                        queue.channels.remove(&channel);
                    }
                }
            }
        }
    }

    /// A message for those who listen in this process.
    pub(super) fn deliver(&self, channel: &[u8], payload: Bytes, text: bool) {
        self.queue().hub.publish(channel, payload, text);
    }

    /// Ends all that waits, and all listening; calls fail at once as long as the store is `down`.
    pub(super) fn fail(&self, mut sent: VecDeque<Call>, failure: &Failure, down: bool) {
        let mut queue = self.queue();
        sent.append(&mut queue.waiting);
        (queue.calls, queue.bytes) = (0, 0);
        queue.down = down.then(|| failure.clone());
        queue.channels.clear();
        let listeners = queue.hub.dismiss();
        drop(queue);
        for mailbox in listeners {
            mailbox.shut(Shut::Lost);
        }
        for call in sent {
            if let For::Caller(done) = call.for_whom {
                done.tell(Err(failure.clone()));
            }
        }
    }

    /// Calls may try again.
    pub(super) fn up(&self) {
        self.queue().down = None;
    }
}
