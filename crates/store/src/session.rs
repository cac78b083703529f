//! Per-connection state of a store: the channels it is subscribed to.
//!
//! Unsubscribes from all of them when it is dropped.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::database::Database;
use crate::limits::CONNECTION_QUEUE_BYTES;
use crate::subscriber_queue::{QueueClosed, SubscriberQueue};

#[derive(Debug)]
pub(crate) struct Session {
    database: Arc<Database>,
    pub(crate) queue: Arc<SubscriberQueue>,
    pub(crate) channels: HashSet<Bytes>,
    /// The client has quit or closed its side.
    pub(crate) closing: bool,
}

impl Session {
    pub(crate) fn new(database: &Arc<Database>) -> Session {
        let queue = SubscriberQueue::new(CONNECTION_QUEUE_BYTES);
        Session { database: database.clone(), queue, channels: HashSet::new(), closing: false }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        !self.channels.is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.channels.is_empty() {
            let mut state = self.database.lock();
            for channel in &self.channels {
                state.pubsub.unsubscribe(channel, &self.queue);
            }
            self.database.expire_some(&mut state, Database::now_ms());
        }
        self.queue.close(QueueClosed::Left);
    }
}
