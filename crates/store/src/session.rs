//! Per-connection state of a store: the channels it is subscribed to, and its background jobs.
//!
//! Unsubscribes from all of them when it is dropped, and gives back the jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::database::Database;
use crate::limits::CONNECTION_QUEUE_BYTES;
use crate::subscriber_queue::{QueueClosed, SubscriberQueue};
use crate::tasks::{Owner, TASKS_CHANNEL};

/// The owner of the jobs of callers in this process, which end with the database.
const IN_PROCESS: Owner = 0;
/// The next owner.
static OWNERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(crate) struct Session {
    database: Arc<Database>,
    pub(crate) queue: Arc<SubscriberQueue>,
    pub(crate) channels: HashSet<Bytes>,
    /// The client has quit or closed its side.
    pub(crate) closing: bool,
    pub(crate) owner: Owner,
}

impl Session {
    pub(crate) fn new(database: &Arc<Database>) -> Session {
        Session::of(database, OWNERS.fetch_add(1, Ordering::Relaxed))
    }

    /// A session for one request of a caller in this process.
    pub(crate) fn in_process(database: &Arc<Database>) -> Session {
        Session::of(database, IN_PROCESS)
    }

    fn of(database: &Arc<Database>, owner: Owner) -> Session {
        let queue = SubscriberQueue::new(CONNECTION_QUEUE_BYTES);
        Session {
            database: database.clone(),
            queue,
            channels: HashSet::new(),
            closing: false,
            owner,
        }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        !self.channels.is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.channels.is_empty() || self.owner != IN_PROCESS {
            let (mut state, now_ms) = (self.database.lock(), Database::now_ms());
            for channel in &self.channels {
                state.pubsub.unsubscribe(channel, &self.queue);
            }
            if self.owner != IN_PROCESS && state.tasks.leave(self.owner, now_ms) {
                state.pubsub.publish(TASKS_CHANNEL, Bytes::new(), false);
            }
            self.database.expire_some(&mut state, now_ms);
        }
        self.queue.close(QueueClosed::Left);
    }
}
