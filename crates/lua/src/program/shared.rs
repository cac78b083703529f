//! What the VMs of one process share: listening addresses, and messages between them.
//!
//! Promises that each VM which listens on an address has a socket of its own there (SO_REUSEPORT),
//! that an address in use by others is an error for all, and that a full mailbox refuses a message
//! instead of growing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use net::{Bind, BindError, BoundSocket, ListenOptions, Listening};
use telemetry::{LogWriter, Scripted};
use tokio::sync::mpsc;

use crate::limits::MAILBOX_MESSAGES;
use crate::message::Message;
use crate::modules::SharedTable;

/// The place of a VM among those of its process.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    /// Who writes the log, to have its file opened again.
    pub(crate) log: Option<Arc<LogWriter>>,
}

/// What a VM tells another: where from, on which channel, what.
pub(crate) struct Letter {
    pub(crate) from: usize,
    pub(crate) channel: String,
    pub(crate) value: Message,
}

pub(crate) struct Shared {
    workers: usize,
    /// Sockets that were bound for VMs which have not asked for them yet.
    bound: Mutex<HashMap<Bind, Vec<Option<BoundSocket>>>>,
    mailboxes: Vec<mpsc::Sender<Letter>>,
    readers: Mutex<Vec<Option<mpsc::Receiver<Letter>>>>,
    table: Arc<SharedTable>,
    metrics: Arc<Scripted>,
}

impl Shared {
    pub(crate) fn new(workers: usize) -> Shared {
        let (mailboxes, readers) = (0..workers)
            .map(|_| mpsc::channel(MAILBOX_MESSAGES))
            .map(|(sender, receiver)| (sender, Some(receiver)))
            .unzip();
        let readers = Mutex::new(readers);
        let (table, metrics) = (Arc::default(), Arc::default());
        Shared { workers, bound: Mutex::default(), mailboxes, readers, table, metrics }
    }

    /// What `tide.shared` keeps.
    pub(crate) fn table(&self) -> Arc<SharedTable> {
        self.table.clone()
    }

    /// What the program counts.
    pub(crate) fn metrics(&self) -> Arc<Scripted> {
        self.metrics.clone()
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The socket of VM `index` on an address; the first VM to ask binds for all.
    pub(crate) fn socket(
        &self,
        index: usize,
        bind: &Bind,
        options: &ListenOptions,
    ) -> Result<Option<BoundSocket>, BindError> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sockets) = bound.get_mut(bind)
            && let Some(socket) = sockets[index].take()
        {
            return Ok(Some(socket));
        }
        let sockets = Listening::bind(bind, self.workers, options)?.into_sockets();
        let mut sockets: Vec<_> = sockets.into_iter().map(Some).collect();
        let own = sockets[index].take();
        if self.workers > 1 {
            bound.insert(bind.clone(), sockets);
        }
        Ok(own)
    }

    /// Sends a letter; false if there is no such VM, or its mailbox is full.
    pub(crate) fn send(&self, to: usize, letter: Letter) -> bool {
        self.mailboxes.get(to).is_some_and(|mailbox| mailbox.try_send(letter).is_ok())
    }

    /// The mailbox of a VM, once.
    pub(crate) fn mailbox(&self, index: usize) -> Option<mpsc::Receiver<Letter>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)?.take()
    }
}
