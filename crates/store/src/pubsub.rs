//! Publish/subscribe channels: subscribers and delivery.
//!
//! A message is shared, not copied for each subscriber. Promises that a subscriber gets the
//! messages of a channel in the order of publication, and that a subscriber whose queue is full is
//! dropped and counted and delays nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::subscriber_queue::{Message, SubscriberQueue};

#[derive(Debug, Default)]
pub struct PubSub {
    channels: HashMap<Bytes, BTreeMap<u64, Arc<SubscriberQueue>>>,
    subscriptions: usize,
}

/// The number of subscribers a message was delivered to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishCounts {
    /// Subscribers that have it in their queue.
    pub reached: usize,
    /// Subscribers that were dropped because their queue was full.
    pub dropped: usize,
}

impl PubSub {
    /// Returns true if this is a new subscription.
    pub fn subscribe(&mut self, channel: &[u8], queue: &Arc<SubscriberQueue>) -> bool {
        if !self.channels.contains_key(channel) {
            self.channels.insert(Bytes::copy_from_slice(channel), BTreeMap::new());
        }
        let Some(subscriptions) = self.channels.get_mut(channel) else { return false };
        let new = subscriptions.insert(queue.id(), queue.clone()).is_none();
        self.subscriptions += usize::from(new);
        new
    }

    /// Returns true if there was such a subscription.
    pub fn unsubscribe(&mut self, channel: &[u8], queue: &SubscriberQueue) -> bool {
        let Some(subscriptions) = self.channels.get_mut(channel) else { return false };
        let found = subscriptions.remove(&queue.id()).is_some();
        self.subscriptions -= usize::from(found);
        if subscriptions.is_empty() {
            self.channels.remove(channel);
        }
        found
    }

    /// True if the channel has a subscriber.
    pub fn has_subscribers(&self, channel: &[u8]) -> bool {
        self.channels.contains_key(channel)
    }

    /// The number of pairs of a subscriber and a channel.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    pub fn publish(&mut self, channel: &[u8], payload: Bytes, text: bool) -> PublishCounts {
        let mut delivered = PublishCounts::default();
        let Some((channel, _)) = self.channels.get_key_value(channel) else { return delivered };
        let channel = channel.clone();
        let Some(subscriptions) = self.channels.get_mut(&channel) else { return delivered };
        subscriptions.retain(|_, queue| {
            let message = Message { channel: channel.clone(), payload: payload.clone(), text };
            let reached = queue.push(message);
            delivered.reached += usize::from(reached);
            delivered.dropped += usize::from(!reached);
            reached
        });
        self.subscriptions -= delivered.dropped;
        if subscriptions.is_empty() {
            self.channels.remove(&channel);
        }
        delivered
    }

    /// Removes all subscriptions and returns their queues.
    pub fn clear(&mut self) -> Vec<Arc<SubscriberQueue>> {
        self.subscriptions = 0;
        let channels = std::mem::take(&mut self.channels);
        channels.into_values().flat_map(BTreeMap::into_values).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{PubSub, PublishCounts};
    use crate::subscriber_queue::{QueueClosed, SubscriberQueue};
    use bytes::Bytes;

    #[test]
    fn messages_reach_subscribers_and_a_full_queue_is_dropped() {
        let mut pubsub = PubSub::default();
        let (quick, slow) = (SubscriberQueue::new(1 << 20), SubscriberQueue::new(70));
        assert!(pubsub.subscribe(b"a", &quick) && pubsub.subscribe(b"a", &slow));
        assert!(!pubsub.subscribe(b"a", &quick) && pubsub.subscribe(b"b", &quick));
        assert_eq!(pubsub.subscriptions(), 3);
        let mut publish = |channel: &[u8], text: &'static [u8]| {
            let PublishCounts { reached, dropped } =
                pubsub.publish(channel, Bytes::from_static(text), false);
            (reached, dropped)
        };
        assert_eq!(publish(b"a", b"one"), (2, 0));
        assert_eq!(publish(b"none", b"x"), (0, 0));
        assert_eq!(publish(b"a", b"two"), (1, 1));
        assert_eq!(publish(b"a", b"three"), (1, 0));
        assert_eq!(publish(b"b", b"four"), (1, 0));
        let mut got = Vec::new();
        while let Ok(Some(message)) = quick.pop() {
            got.push(message.payload);
        }
        assert_eq!(got, ["one", "two", "three", "four"]);
        assert_eq!(slow.pop().map(|message| message.map(|m| m.payload)), Ok(Some("one".into())));
        assert_eq!(slow.pop(), Err(QueueClosed::TooSlow));
        assert_eq!(pubsub.subscriptions(), 2);
        assert!(pubsub.unsubscribe(b"a", &quick) && !pubsub.unsubscribe(b"a", &quick));
        assert!(!pubsub.has_subscribers(b"a") && pubsub.has_subscribers(b"b"));
        assert_eq!((pubsub.clear().len(), pubsub.subscriptions()), (1, 0));
    }
}
