//! The VMs of one program: their shared listening addresses, and messages between them.
//!
//! Promises that each VM that listens on an address has its own socket (SO_REUSEPORT), that no
//! socket listens for a VM that does not, that an address used by another process is an error in
//! every VM, and that a full mailbox rejects messages instead of growing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use net::{Bind, BindError, BoundSocket, ListenOptions, Listening};
use telemetry::{LogWriter, Scripted};
use tokio::sync::mpsc;

use crate::limits::MAILBOX_MESSAGES;
use crate::shared_table::SharedTable;
use crate::vm_message::Message;

/// The membership of a VM in the group of its program.
#[derive(Clone)]
pub struct GroupMember {
    pub index: usize,
    pub group: Arc<WorkerGroup>,
    /// The writer of the log, which reopens its file.
    pub log: Option<Arc<LogWriter>>,
    /// The writer of the access log of its HTTP listeners.
    pub access: Option<Arc<LogWriter>>,
}

/// A message from one VM to another.
pub(crate) struct WorkerMessage {
    pub from: usize,
    pub channel: String,
    pub value: Message,
}

/// An address that VMs listen on together.
enum SharedAddress {
    /// The bound address, and the VMs that have requested it.
    Tcp(SocketAddr, Vec<bool>),
    /// Handles on the one socket, for VMs that have not requested it yet: they accept from one
    /// queue.
    Unix(Vec<Option<BoundSocket>>),
}

pub struct WorkerGroup {
    workers: usize,
    /// By the requested address.
    bound: Mutex<HashMap<Bind, SharedAddress>>,
    mailboxes: Vec<mpsc::Sender<WorkerMessage>>,
    readers: Mutex<Vec<Option<mpsc::Receiver<WorkerMessage>>>>,
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

    /// The table of `tide.shared`.
    pub fn table(&self) -> Arc<SharedTable> {
        self.table.clone()
    }

    /// The metrics of the program.
    pub(crate) fn metrics(&self) -> Arc<Scripted> {
        self.metrics.clone()
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The socket of VM `index` on an address; the first request binds for all VMs.
    pub(crate) fn socket(
        &self,
        index: usize,
        bind: &Bind,
        options: &ListenOptions,
    ) -> Result<Option<BoundSocket>, BindError> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        match bound.get_mut(bind) {
            Some(SharedAddress::Tcp(local, bound_by)) if !bound_by[index] => {
                bound_by[index] = true;
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
                let bound_by = (0..self.workers).map(|other| other == index).collect();
                (sockets.pop().flatten(), SharedAddress::Tcp(local, bound_by))
            }
            Bind::Unix(_) => (sockets[index].take(), SharedAddress::Unix(sockets)),
        };
        if self.workers > 1 {
            bound.insert(bind.clone(), group);
        }
        Ok(own)
    }

    /// Sends a message; false if there is no such VM, or its mailbox is full.
    pub(crate) fn send(&self, to: usize, letter: WorkerMessage) -> bool {
        self.mailboxes.get(to).is_some_and(|mailbox| mailbox.try_send(letter).is_ok())
    }

    /// Takes the mailbox of a VM; `None` the second time.
    pub(crate) fn take_receiver(&self, index: usize) -> Option<mpsc::Receiver<WorkerMessage>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)?.take()
    }
}
