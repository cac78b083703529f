//! Listening to channels.
//!
//! Ends when it is dropped. What is published is heard in the order in which it was published.

use std::sync::Arc;

use bytes::Bytes;

use crate::client::link::Done;
use crate::client::{Failure, Way};
use crate::limits::{CHANNEL_BYTES, SUBSCRIBER_MAIL_BYTES};
use crate::mailbox::{Mailbox, Shut};

pub struct Subscription {
    way: Way,
    channels: Vec<Bytes>,
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    pub(super) fn new(way: Way, channels: &[Vec<u8>]) -> Subscription {
        let channels = channels.iter().map(|channel| Bytes::copy_from_slice(channel)).collect();
        Subscription { way, channels, mailbox: Mailbox::new(SUBSCRIBER_MAIL_BYTES) }
    }

    pub(super) fn begin(&self, done: Done) {
        if self.channels.iter().any(|name| name.is_empty() || name.len() > CHANNEL_BYTES) {
            let what = "the name of a channel has 1 to 1024 bytes";
            return done.tell(Err(Failure::Refused(what)));
        }
        match &self.way {
            Way::There(link) => link.subscribe(&self.channels, &self.mailbox, done),
            Way::Here(space) => {
                let mut inside = space.enter();
                for channel in &self.channels {
                    inside.hub.subscribe(channel, &self.mailbox);
                }
                drop(inside);
                done.tell(Ok(Vec::new()));
            }
        }
    }

    /// Where messages arrive.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.way {
            Way::There(link) => link.unsubscribe(&self.channels, &self.mailbox),
            Way::Here(space) => {
                let mut inside = space.enter();
                for channel in &self.channels {
                    inside.hub.unsubscribe(channel, &self.mailbox);
                }
            }
        }
        self.mailbox.shut(Shut::Left);
    }
}
