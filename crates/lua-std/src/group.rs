//! The VMs of one program: their shared listening addresses, and messages between them.
//!
//! Promises that each VM that listens on an address has its own socket (SO_REUSEPORT), that no
//! socket listens for a VM that does not, that an address used by another process is an error in
//! every VM, and that a full mailbox rejects messages instead of growing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use net::{Bind, BindError, BoundSocket, ListenOptions, Listening};
use telemetry::{LogWriter, Scripted};
use tokio::sync::{mpsc, oneshot};

use crate::limits::MAILBOX_MESSAGES;
use crate::profiler::WorkerProfile;
use crate::shared_table::SharedTable;
use lua_vm::profile::ProfileKind;
use lua_vm::vm_message::Message;

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

/// A profile that a VM is to record, for how long, and where it goes.
pub(crate) type ProfileRequest = (ProfileKind, Duration, oneshot::Sender<WorkerProfile>);

/// An address that VMs listen on together.
enum SharedAddress {
    /// The bound address, and the VMs that have requested it.
    Tcp(SocketAddr, Vec<bool>),
    /// Handles on the one socket, for VMs that have not requested it yet: they accept from one
    /// queue.
    Unix(Vec<Option<BoundSocket>>),
}

impl SharedAddress {
    /// True if a VM has not requested it yet.
    fn is_awaited(&self) -> bool {
        match self {
            SharedAddress::Tcp(_, bound_by) => bound_by.contains(&false),
            SharedAddress::Unix(handles) => handles.iter().any(Option::is_some),
        }
    }
}

/// Addresses of one request that wait for other VMs.
const ADDRESSES_MAX: usize = 64;

pub struct WorkerGroup {
    workers: usize,
    /// By the requested address: several for port 0, which VMs request in the same order.
    bound: Mutex<HashMap<Bind, Vec<SharedAddress>>>,
    mailboxes: Vec<mpsc::Sender<WorkerMessage>>,
    readers: Mutex<Vec<Option<mpsc::Receiver<WorkerMessage>>>>,
    /// The VMs that record profiles.
    recorders: Mutex<Vec<mpsc::UnboundedSender<ProfileRequest>>>,
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
        let (bound, recorders) = (Mutex::default(), Mutex::default());
        WorkerGroup { workers, bound, mailboxes, readers, recorders, table, metrics }
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
        let shared = bound.entry(bind.clone()).or_default();
        for address in shared.iter_mut() {
            match address {
                SharedAddress::Tcp(local, bound_by) if !bound_by[index] => {
                    bound_by[index] = true;
                    return Listening::bind_additional(*local, options).map(Some);
                }
                SharedAddress::Unix(handles) if handles[index].is_some() => {
                    return Ok(handles[index].take());
                }
                _ => {}
            }
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
        shared.retain(SharedAddress::is_awaited);
        if self.workers > 1 {
            // A VM may listen again and again on an address that others never request.
            if shared.len() == ADDRESSES_MAX {
                shared.remove(0);
            }
            shared.push(group);
        }
        Ok(own)
    }

    /// Sends a message; false if there is no such VM, or its mailbox is full.
    pub(crate) fn send(&self, to: usize, letter: WorkerMessage) -> bool {
        self.mailboxes.get(to).is_some_and(|mailbox| mailbox.try_send(letter).is_ok())
    }

    /// Adds a VM that records profiles.
    pub(crate) fn add_recorder(&self, recorder: mpsc::UnboundedSender<ProfileRequest>) {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner).push(recorder);
    }

    /// Has the VMs that record profiles do so at the same time.
    pub(crate) fn profile(
        &self,
        kind: ProfileKind,
        span: Duration,
    ) -> Vec<oneshot::Receiver<WorkerProfile>> {
        let recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = |recorder: &mpsc::UnboundedSender<ProfileRequest>| {
            let (done, answer) = oneshot::channel();
            // The receiver of a VM that has ended reports it.
            let _ = recorder.send((kind, span, done));
            answer
        };
        recorders.iter().map(ask).collect()
    }

    /// Takes the mailbox of a VM; `None` the second time.
    pub(crate) fn take_receiver(&self, index: usize) -> Option<mpsc::Receiver<WorkerMessage>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_on_free_ports_are_shared_in_their_order() {
        let group = WorkerGroup::new(2);
        let bind = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listen =
            |index| group.socket(index, &bind, &ListenOptions::default()).unwrap().unwrap();
        let awaited = || -> Vec<u16> {
            let bound = group.bound.lock().unwrap();
            let port = |address: &SharedAddress| match address {
                SharedAddress::Tcp(local, bound_by) if bound_by.contains(&false) => {
                    Some(local.port())
                }
                _ => None,
            };
            bound[&bind].iter().filter_map(port).collect()
        };
        let sockets = [listen(0), listen(0)];
        let ports = awaited();
        assert!(ports.len() == 2 && ports[0] != ports[1], "{ports:?}");
        let _third = listen(1);
        assert_eq!(awaited(), ports[1..]);
        let _fourth = listen(1);
        assert!(awaited().is_empty());
        drop(sockets);
        for _ in 0..2 * ADDRESSES_MAX {
            drop(listen(0));
        }
        assert_eq!(awaited().len(), ADDRESSES_MAX);
    }
}
