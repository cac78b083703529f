//! What the VMs of one process share: listening addresses, and messages between them.
//!
//! Promises that each VM which listens on an address has a socket of its own there (SO_REUSEPORT),
//! that no socket listens for a VM which does not, that an address in use by others is an error for
//! all, and that a full mailbox refuses a message instead of growing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use net::{Bind, BindError, BoundSocket, ListenOptions, Listening};
use telemetry::{LogWriter, Scripted};
use tokio::sync::mpsc;

use crate::limits::MAILBOX_MESSAGES;
use crate::message::Message;
use crate::shared::SharedTable;

/// The place of a VM among those of its process.
#[derive(Clone)]
pub struct GroupMember {
    pub index: usize,
    pub group: Arc<WorkerGroup>,
    /// Who writes the log, to have its file opened again.
    pub log: Option<Arc<LogWriter>>,
    /// The same of its HTTP listeners' log.
    pub access: Option<Arc<LogWriter>>,
}

/// What a VM tells another: where from, on which channel, what.
pub(crate) struct Letter {
    pub from: usize,
    pub channel: String,
    pub value: Message,
}

/// An address that VMs listen on together.
enum SharedAddress {
    /// Where that is, and which VMs have asked for it.
    Tcp(SocketAddr, Vec<bool>),
    /// Handles on the one socket for VMs which have not asked yet: they accept from one queue.
    Unix(Vec<Option<BoundSocket>>),
}

pub struct WorkerGroup {
    workers: usize,
    /// By the address that was asked for.
    bound: Mutex<HashMap<Bind, SharedAddress>>,
    mailboxes: Vec<mpsc::Sender<Letter>>,
    readers: Mutex<Vec<Option<mpsc::Receiver<Letter>>>>,
    table: Arc<SharedTable>,
    metrics: Arc<Scripted>,
}

impl WorkerGroup {
    pub fn new(workers: usize) -> WorkerGroup {
        let (mailboxes, readers) = (0..workers)
            .map(|_| mpsc::channel(MAILBOX_MESSAGES))
            .map(|(sender, receiver)| (sender, Some(receiver)))
            .unzip();
        let readers = Mutex::new(readers);
        let (table, metrics) = (Arc::default(), Arc::default());
        WorkerGroup { workers, bound: Mutex::default(), mailboxes, readers, table, metrics }
    }

    /// What `tide.shared` keeps.
    pub fn table(&self) -> Arc<SharedTable> {
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
        match bound.get_mut(bind) {
            Some(SharedAddress::Tcp(local, asked)) if !asked[index] => {
                asked[index] = true;
                return Listening::bind_additional(*local, options).map(Some);
            }
            Some(SharedAddress::Unix(handles)) if handles[index].is_some() => {
                return Ok(handles[index].take());
            }
            _ => {}
        }
        let handles = if matches!(bind, Bind::Unix(_)) { self.workers } else { 1 };
        let listening = Listening::bind(bind, handles, options)?;
        let local = listening.local().clone();
        let mut sockets: Vec<_> = listening.into_sockets().into_iter().map(Some).collect();
        let (own, group) = match local {
            Bind::Tcp(local) => {
                let asked = (0..self.workers).map(|other| other == index).collect();
                (sockets.pop().flatten(), SharedAddress::Tcp(local, asked))
            }
            Bind::Unix(_) => (sockets[index].take(), SharedAddress::Unix(sockets)),
        };
        if self.workers > 1 {
            bound.insert(bind.clone(), group);
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
