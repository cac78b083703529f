//! A subscription to channels.
//!
//! Unsubscribes when it is dropped. Messages arrive in the order of publication.

use std::sync::Arc;

use bytes::Bytes;

use crate::client::call_queue::Completion;
use crate::client::{StoreError, Transport};
use crate::limits::{CHANNEL_BYTES, SUBSCRIBER_QUEUE_BYTES};
use crate::subscriber_queue::{QueueClosed, SubscriberQueue};

pub struct Subscription {
    transport: Transport,
    channels: Vec<Bytes>,
    queue: Arc<SubscriberQueue>,
}

impl Subscription {
    pub(super) fn new(transport: Transport, channels: &[Vec<u8>]) -> Subscription {
        let channels = channels.iter().map(|channel| Bytes::copy_from_slice(channel)).collect();
        Subscription { transport, channels, queue: SubscriberQueue::new(SUBSCRIBER_QUEUE_BYTES) }
    }

    pub(super) fn begin(&self, done: Completion) {
        if self.channels.iter().any(|name| name.is_empty() || name.len() > CHANNEL_BYTES) {
            let what = "the name of a channel has 1 to 1024 bytes";
            return done.complete(Err(StoreError::Refused(what)));
        }
        match &self.transport {
            Transport::Connection(queue) => queue.subscribe(&self.channels, &self.queue, done),
            Transport::InProcess(database) => {
                let mut state = database.lock();
                for channel in &self.channels {
                    state.pubsub.subscribe(channel, &self.queue);
                }
                drop(state);
                done.complete(Ok(Vec::new()));
            }
        }
    }

    /// The queue of received messages.
    pub fn queue(&self) -> &Arc<SubscriberQueue> {
        &self.queue
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.transport {
            Transport::Connection(queue) => queue.unsubscribe(&self.channels, &self.queue),
            Transport::InProcess(database) => {
                let mut state = database.lock();
                for channel in &self.channels {
                    state.pubsub.unsubscribe(channel, &self.queue);
                }
            }
        }
        self.queue.close(QueueClosed::Left);
    }
}
