//! Who listens to which channel, and how a message reaches them.
//!
//! A message is not copied for each of them. Promises that a listener gets the messages of a
//! channel in the order in which they were published, and that one which is too slow is let go and
//! counted, and holds up nobody.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::mailbox::{Mailbox, Message};

#[derive(Debug, Default)]
pub struct Hub {
    channels: HashMap<Bytes, BTreeMap<u64, Arc<Mailbox>>>,
    listeners: usize,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Listeners that have it.
    pub reached: usize,
    /// Listeners that were let go over it.
    pub dropped: usize,
}

impl Hub {
    /// Whether this listener is a new one of the channel.
    pub fn subscribe(&mut self, channel: &[u8], mailbox: &Arc<Mailbox>) -> bool {
        if !self.channels.contains_key(channel) {
            self.channels.insert(Bytes::copy_from_slice(channel), BTreeMap::new());
        }
        let Some(listeners) = self.channels.get_mut(channel) else { return false };
        let new = listeners.insert(mailbox.number(), mailbox.clone()).is_none();
        self.listeners += usize::from(new);
        new
    }

    /// Whether this listener was one of the channel.
    pub fn unsubscribe(&mut self, channel: &[u8], mailbox: &Mailbox) -> bool {
        let Some(listeners) = self.channels.get_mut(channel) else { return false };
        let found = listeners.remove(&mailbox.number()).is_some();
        self.listeners -= usize::from(found);
        if listeners.is_empty() {
            self.channels.remove(channel);
        }
        found
    }

    /// Whether anybody listens to the channel.
    pub fn is_heard(&self, channel: &[u8]) -> bool {
        self.channels.contains_key(channel)
    }

    /// Pairs of a listener and a channel.
    pub fn listeners(&self) -> usize {
        self.listeners
    }

    pub fn publish(&mut self, channel: &[u8], payload: Bytes, text: bool) -> Delivered {
        let mut delivered = Delivered::default();
        let Some((channel, _)) = self.channels.get_key_value(channel) else { return delivered };
        let channel = channel.clone();
        let Some(listeners) = self.channels.get_mut(&channel) else { return delivered };
        listeners.retain(|_, mailbox| {
            let message = Message { channel: channel.clone(), payload: payload.clone(), text };
            let reached = mailbox.leave(message);
            delivered.reached += usize::from(reached);
            delivered.dropped += usize::from(!reached);
            reached
        });
        self.listeners -= delivered.dropped;
        if listeners.is_empty() {
            self.channels.remove(&channel);
        }
        delivered
    }

    /// Everyone who listens to anything, who then no longer does.
    pub fn dismiss(&mut self) -> Vec<Arc<Mailbox>> {
        self.listeners = 0;
        let channels = std::mem::take(&mut self.channels);
        channels.into_values().flat_map(BTreeMap::into_values).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivered, Hub};
    use crate::mailbox::{Mailbox, Shut};
    use bytes::Bytes;

    #[test]
    fn messages_reach_those_who_listen_and_a_slow_one_is_let_go() {
        let mut hub = Hub::default();
        let (quick, slow) = (Mailbox::new(1 << 20), Mailbox::new(70));
        assert!(hub.subscribe(b"a", &quick) && hub.subscribe(b"a", &slow));
        assert!(!hub.subscribe(b"a", &quick) && hub.subscribe(b"b", &quick));
        assert_eq!(hub.listeners(), 3);
        let mut publish = |channel: &[u8], text: &'static [u8]| {
            let Delivered { reached, dropped } =
                hub.publish(channel, Bytes::from_static(text), false);
            (reached, dropped)
        };
        assert_eq!(publish(b"a", b"one"), (2, 0));
        assert_eq!(publish(b"none", b"x"), (0, 0));
        assert_eq!(publish(b"a", b"two"), (1, 1));
        assert_eq!(publish(b"a", b"three"), (1, 0));
        assert_eq!(publish(b"b", b"four"), (1, 0));
        let mut got = Vec::new();
        while let Ok(Some(message)) = quick.take() {
            got.push(message.payload);
        }
        assert_eq!(got, ["one", "two", "three", "four"]);
        assert_eq!(slow.take().map(|message| message.map(|m| m.payload)), Ok(Some("one".into())));
        assert_eq!(slow.take(), Err(Shut::TooSlow));
        assert_eq!(hub.listeners(), 2);
        assert!(hub.unsubscribe(b"a", &quick) && !hub.unsubscribe(b"a", &quick));
        assert!(!hub.is_heard(b"a") && hub.is_heard(b"b"));
        assert_eq!((hub.dismiss().len(), hub.listeners()), (1, 0));
    }
}
