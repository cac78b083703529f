//! The listening sockets of the process, across plans.
//!
//! A socket is identified by its address and not by its listener's name, so that a renamed listener
//! keeps its socket. Sockets that a new plan does not name are closed by the workers; those that it
//! keeps are not touched. The file of a Unix socket is removed with the socket, unless another
//! process has replaced it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use config::{ListenerPlan, ServerPlan};
use net::{Bind, BoundSocket, Inherited, Listening};

use crate::connection_limiter::ConnectionLimiter;
use crate::options::Bound;

/// An open socket; each worker has a handle of it.
struct OpenSocket {
    local: Bind,
    limiter: Arc<ConnectionLimiter>,
    file: Option<SocketFile>,
}

/// The file of a Unix socket that this process created; removed on drop.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    pub(crate) fn of(local: &Bind) -> Option<SocketFile> {
        let Bind::Unix(path) = local else { return None };
        let made = std::fs::symlink_metadata(path).ok()?;
        Some(SocketFile { path: path.clone(), identity: (made.dev(), made.ino()) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // A file that cannot be removed is recognised as stale by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// All sockets, by [`key`].
#[derive(Default)]
pub(crate) struct Listeners {
    open: BTreeMap<String, OpenSocket>,
    /// Inherited sockets that no listener has claimed yet (extension point 12).
    inherited: RefCell<Vec<Inherited>>,
}

/// Explains why a reload cannot widen an address: the old socket is only closed once there is a new
/// one.
const OURS: &str = " (by this server: a reload opens new sockets before it closes old ones, so \
                    this needs a restart)";

/// Returns the identity of a socket. Port 0 is a socket of its own for each listener.
pub(crate) fn key(listener: &ListenerPlan) -> String {
    let protocol = if listener.options.datagrams { "udp:" } else { "" };
    match &listener.bind {
        Bind::Tcp(address) if address.port() == 0 => {
            format!("{protocol}{address}#{}", listener.name)
        }
        bind => format!("{protocol}{bind}"),
    }
}

/// New sockets of a plan: bound, but not yet given to a worker.
pub(crate) struct NewSockets {
    bound: BTreeMap<String, (Listening, Option<SocketFile>)>,
}

/// The records of new sockets while the workers adopt them. Dropping it removes their files.
pub(crate) struct OpenedSockets(BTreeMap<String, OpenSocket>);

impl NewSockets {
    /// Returns each worker's handles of the sockets.
    pub(crate) fn share(
        self,
        workers: usize,
    ) -> (Vec<BTreeMap<String, BoundSocket>>, OpenedSockets) {
        let mut shares: Vec<BTreeMap<String, BoundSocket>> =
            (0..workers).map(|_| BTreeMap::new()).collect();
        let mut opened = BTreeMap::new();
        for (key, (listening, file)) in self.bound {
            let (local, limiter) = (listening.local().clone(), ConnectionLimiter::new(0));
            opened.insert(key.clone(), OpenSocket { local, limiter, file });
            for (share, socket) in shares.iter_mut().zip(listening.into_sockets()) {
                share.insert(key.clone(), socket);
            }
        }
        (shares, OpenedSockets(opened))
    }
}

impl Listeners {
    /// Starts with the sockets that systemd or a parent process passed.
    pub(crate) fn inheriting(inherited: Vec<Inherited>) -> Listeners {
        Listeners { open: BTreeMap::new(), inherited: RefCell::new(inherited) }
    }

    /// Returns the inherited sockets that no listener of the configuration has claimed.
    pub(crate) fn unclaimed(&self) -> Vec<String> {
        let inherited = self.inherited.borrow();
        inherited.iter().map(|one| format!("{} ({})", one.name(), one.local())).collect()
    }

    /// Returns the inherited socket that has the listener's name or address.
    fn claim(&self, listener: &ListenerPlan) -> Option<Inherited> {
        let mut inherited = self.inherited.borrow_mut();
        let wanted = |one: &Inherited| one.name() == listener.name || *one.local() == listener.bind;
        let place = inherited.iter().position(wanted)?;
        Some(inherited.remove(place))
    }

    fn open_socket(
        &self,
        listener: &ListenerPlan,
        workers: usize,
    ) -> Result<(Listening, Option<SocketFile>), String> {
        // Only listening sockets are inherited; UDP has none.
        let inherited = if listener.options.datagrams { None } else { self.claim(listener) };
        if let Some(inherited) = inherited {
            // The file belongs to the process that created it.
            let listening = inherited.listen(workers).map_err(|error| {
                format!("listener {}: its inherited socket: {error}", listener.name)
            })?;
            return Ok((listening, None));
        }
        let listening =
            Listening::bind(&listener.bind, workers, &listener.options).map_err(|error| {
                let in_use = error.error.kind() == std::io::ErrorKind::AddrInUse;
                let is_open = self.open.values().any(|open| open.local.overlaps(&listener.bind));
                let ours = if in_use && is_open { OURS } else { "" };
                format!("listener {}: {error}{ours}", listener.name)
            })?;
        let file = SocketFile::of(listening.local());
        Ok((listening, file))
    }

    /// Binds the sockets of the plan that are not open. On failure nothing changes.
    pub(crate) fn bind(&self, plan: &ServerPlan, workers: usize) -> Result<NewSockets, String> {
        let mut bound = BTreeMap::new();
        for listener in plan.sockets() {
            let key = key(listener);
            if self.open.contains_key(&key) || bound.contains_key(&key) {
                continue;
            }
            bound.insert(key, self.open_socket(listener, workers)?);
        }
        Ok(NewSockets { bound })
    }

    /// Records the sockets that the workers have adopted, and removes those that the plan does not
    /// name.
    pub(crate) fn take_over(&mut self, plan: &ServerPlan, opened: OpenedSockets) {
        self.open.extend(opened.0);
        let wanted: Vec<String> = plan.sockets().map(key).collect();
        self.open.retain(|key, _| wanted.contains(key));
        for listener in plan.sockets() {
            if let Some(open) = self.open.get(&key(listener)) {
                open.limiter.set_limit(listener.limits.connections as usize);
            }
        }
    }

    pub(crate) fn remove_files(&mut self) {
        for open in self.open.values_mut() {
            open.file = None;
        }
    }

    pub(crate) fn limiters(&self) -> BTreeMap<String, Arc<ConnectionLimiter>> {
        self.open.iter().map(|(key, open)| (key.clone(), open.limiter.clone())).collect()
    }

    /// Returns every listener of the plan with its bound address.
    pub(crate) fn bound(&self, plan: &ServerPlan) -> Vec<Bound> {
        let bound = plan.sockets().filter_map(|listener| {
            let open = self.open.get(&key(listener))?;
            Some(Bound { name: listener.name.to_string(), address: open.local.clone() })
        });
        bound.collect()
    }
}
