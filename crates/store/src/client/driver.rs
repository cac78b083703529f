//! The driver: the task that owns the process's connection to a store.
//!
//! Sends the calls queued since its last turn together, and returns replies in the order of the
//! calls. The connection is closed if no reply comes in time or the server sends something
//! unexpected.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use net::{Outgoing, Stream, Timer, timer};
use wire::resp::reply::Reader;

use crate::client::call_queue::{Call, CallQueue, ReplyTarget};
use crate::client::reply::{self, LIMITS};
use crate::client::{Reply, StoreError};
use crate::limits::{CONNECT_RETRY_PAUSE, CONNECT_TIMEOUT, DOWN_PERIOD, REUSED_BUFFER_BYTES};

/// Serves queued calls as long as the worker lives.
pub(super) async fn driver(queue: Arc<CallQueue>) {
    loop {
        poll_fn(|cx| if queue.has_calls(cx.waker()) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        match connect(&queue).await {
            Ok(stream) => {
                let mut talk = StoreConnection::new(&queue, stream);
                let failure = poll_fn(|cx| talk.poll(cx)).await;
                let is_rejected = matches!(failure, StoreError::Unreachable(_));
                queue.fail(talk.sent, &failure, is_rejected);
                if is_rejected {
                    pause(&queue).await;
                }
            }
            Err(failure) => {
                queue.fail(VecDeque::new(), &failure, true);
                pause(&queue).await;
            }
        }
    }
}

/// Lets calls fail at once for a time.
async fn pause(queue: &CallQueue) {
    timer::sleep(DOWN_PERIOD).await;
    queue.mark_up();
}

/// Connects, with retries: the store may be about to start.
async fn connect(queue: &CallQueue) -> Result<Stream, StoreError> {
    let last = RefCell::new(io::Error::from(io::ErrorKind::TimedOut));
    let connecting = async {
        loop {
            match queue.endpoint.connect().await {
                Ok(stream) => return stream,
                Err(error) => *last.borrow_mut() = error,
            }
            timer::sleep(CONNECT_RETRY_PAUSE).await;
        }
    };
    let connected = timer::within(CONNECT_TIMEOUT, connecting).await;
    connected.ok_or_else(|| {
        StoreError::Unreachable(format!("{} cannot be reached: {}", queue.endpoint, last.borrow()))
    })
}

struct StoreConnection<'a> {
    queue: &'a CallQueue,
    stream: Stream,
    /// Sent calls without their reply, in order.
    sent: VecDeque<Call>,
    outgoing: Outgoing,
    input: Vec<u8>,
    reader: Reader,
    due: Timer,
}

impl<'a> StoreConnection<'a> {
    fn new(queue: &'a CallQueue, stream: Stream) -> StoreConnection<'a> {
        let mut talk = StoreConnection {
            queue,
            stream,
            sent: VecDeque::new(),
            outgoing: Outgoing::default(),
            input: Vec::new(),
            reader: Reader::default(),
            due: Timer::new(),
        };
        let greeting = queue.endpoint.greeting();
        let (missing, replies) = (greeting.commands(), Vec::new());
        let bytes = Bytes::from(greeting.into_bytes());
        talk.outgoing.push(bytes.clone());
        talk.sent.push_back(Call { bytes, missing, replies, target: ReplyTarget::Session });
        talk.due.set(queue.reply_timeout);
        talk
    }

    /// Drives the connection; ready with the reason why it has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<StoreError> {
        loop {
            self.take(cx);
            while !self.outgoing.is_empty() {
                match self.stream.poll_send(cx, &mut self.outgoing) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(StoreError::Lost),
                    Poll::Pending => break,
                }
            }
            match self.stream.poll_receive(cx) {
                Poll::Ready(Ok(chunk)) if !chunk.is_empty() => self.input.extend_from_slice(&chunk),
                Poll::Ready(_) => return Poll::Ready(StoreError::Lost),
                Poll::Pending => break,
            }
            if let Err(failure) = self.read() {
                return Poll::Ready(failure);
            }
            // Each reply restarts the time-out.
            self.due.set(self.queue.reply_timeout);
        }
        if self.sent.is_empty() {
            self.due.clear();
            return Poll::Pending;
        }
        self.due.poll(cx).map(|()| StoreError::Late)
    }

    /// Takes the queued calls.
    fn take(&mut self, cx: &Context<'_>) {
        let (before, idle) = (self.sent.len(), self.sent.is_empty());
        self.queue.take_calls(cx.waker(), &mut self.sent);
        for call in self.sent.iter().skip(before) {
            self.outgoing.push(call.bytes.clone());
        }
        if idle && !self.sent.is_empty() {
            self.due.set(self.queue.reply_timeout);
        }
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let mut at = 0;
        loop {
            let rest = &self.input[at..];
            let read = self.reader.read(rest, &LIMITS);
            let Some(length) = read.map_err(|fault| StoreError::Malformed(fault.text()))? else {
                break;
            };
            let reply = reply::decode(&rest[..length], &self.reader)?;
            at += length;
            match reply {
                Reply::Push(parts) => self.push_received(parts)?,
                reply => self.reply_received(reply)?,
            }
        }
        self.input.drain(..at);
        if self.input.is_empty() && self.input.capacity() > REUSED_BUFFER_BYTES {
            self.input = Vec::new();
        }
        Ok(())
    }

    /// Assigns a reply to the oldest call.
    fn reply_received(&mut self, reply: Reply) -> Result<(), StoreError> {
        let first = self.sent.front_mut().ok_or(StoreError::Malformed("a reply without a call"))?;
        if matches!(first.target, ReplyTarget::Channel(_)) && !matches!(reply, Reply::Push(_)) {
            return Err(StoreError::Malformed("a subscription was rejected"));
        }
        if let (ReplyTarget::Session, Reply::Refused(why)) = (&first.target, &reply) {
            let endpoint = &self.queue.endpoint;
            return Err(StoreError::Unreachable(format!("{endpoint} rejects the client: {why}")));
        }
        first.replies.push(reply);
        first.missing = first.missing.saturating_sub(1);
        if first.missing == 0
            && let Some(call) = self.sent.pop_front()
        {
            self.queue.complete(call);
        }
        Ok(())
    }

    /// Handles a message or the confirmation of a subscription.
    fn push_received(&mut self, parts: Vec<Reply>) -> Result<(), StoreError> {
        let unknown = StoreError::Malformed("a message of an unknown type");
        let (kind, payload) = match &parts[..] {
            [Reply::Bytes(kind), Reply::Bytes(channel), payload] => (kind, (channel, payload)),
            _ => return Err(unknown),
        };
        match (&kind[..], payload) {
            (b"message", (channel, Reply::Text(text))) => {
                self.queue.deliver(channel, text.clone(), true);
            }
            (b"message", (channel, Reply::Bytes(bytes))) => {
                self.queue.deliver(channel, bytes.clone(), false);
            }
            (b"subscribe" | b"unsubscribe", (channel, Reply::Integer(_))) => {
                let first = self.sent.front().map(|call| &call.target);
                if !matches!(first, Some(ReplyTarget::Channel(requested)) if requested == channel) {
                    return Err(StoreError::Malformed("a channel that was not requested"));
                }
                return self.reply_received(Reply::Push(Vec::new()));
            }
            _ => return Err(unknown),
        }
        Ok(())
    }
}
