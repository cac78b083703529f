//! What a store remembers of one who talks to it: the channels it listens to.
//!
//! Leaves them all when it is dropped.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::limits::CONNECTION_MAIL_BYTES;
use crate::mailbox::{Mailbox, Shut};
use crate::space::Space;

#[derive(Debug)]
pub(crate) struct Session {
    space: Arc<Space>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) channels: HashSet<Bytes>,
    /// The other side has said that it leaves.
    pub(crate) ends: bool,
}

impl Session {
    pub(crate) fn new(space: &Arc<Space>) -> Session {
        let mailbox = Mailbox::new(CONNECTION_MAIL_BYTES);
        Session { space: space.clone(), mailbox, channels: HashSet::new(), ends: false }
    }

    pub(crate) fn is_listening(&self) -> bool {
        !self.channels.is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.channels.is_empty() {
            let mut inside = self.space.enter();
            for channel in &self.channels {
                inside.hub.unsubscribe(channel, &self.mailbox);
            }
            self.space.settle(&mut inside, Space::now_ms());
        }
        self.mailbox.shut(Shut::Left);
    }
}
