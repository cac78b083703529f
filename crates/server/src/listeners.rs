//! The listening sockets of the process, across Plans.
//!
//! A socket is known by its address and not by its listener's name, so that a listener that is
//! renamed keeps its socket. Sockets that a new Plan does not name are closed by the workers that
//! hold them; those that it keeps are never touched. The file of a Unix socket goes when the socket
//! does, unless another process has replaced it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use config::{ListenerPlan, ServerPlan};
use net::{Bind, BoundSocket, Inherited, Listening};

use crate::connection_limiter::ConnectionLimiter;
use crate::options::Bound;

/// One open socket (on each worker).
struct OpenSocket {
    local: Bind,
    limiter: Arc<ConnectionLimiter>,
    file: Option<SocketFile>,
}

/// The file of a Unix socket that we made; removed with this.
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
            // What cannot be removed is found stale by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// All of them, by [`key`].
#[derive(Default)]
pub(crate) struct Listeners {
    open: BTreeMap<String, OpenSocket>,
    /// Sockets that the process was started with and no listener has asked for yet (extension point
    /// 12).
    inherited: RefCell<Vec<Inherited>>,
}

/// Why a reload cannot widen an address: the old socket must not be closed before there is another.
const OURS: &str = " (by this server: a reload opens new sockets before it closes old ones, so \
                    this needs a restart)";

/// What a socket is known by. Any free port is another one for each listener that asks for it.
pub(crate) fn key(listener: &ListenerPlan) -> String {
    let protocol = if listener.options.datagrams { "udp:" } else { "" };
    match &listener.bind {
        Bind::Tcp(address) if address.port() == 0 => {
            format!("{protocol}{address}#{}", listener.name)
        }
        bind => format!("{protocol}{bind}"),
    }
}

/// Sockets that a Plan needs and that were not open: bound, but not yet given to a worker.
pub(crate) struct NewSockets {
    bound: BTreeMap<String, (Listening, Option<SocketFile>)>,
}

/// What is known of fresh sockets while the workers take them. Dropped, their files go.
pub(crate) struct OpenedSockets(BTreeMap<String, OpenSocket>);

impl NewSockets {
    /// Each worker's share of the sockets.
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
    /// With the sockets that systemd or a parent process handed over.
    pub(crate) fn inheriting(inherited: Vec<Inherited>) -> Listeners {
        Listeners { open: BTreeMap::new(), inherited: RefCell::new(inherited) }
    }

    /// Inherited sockets that no listener of the configuration asked for.
    pub(crate) fn unclaimed(&self) -> Vec<String> {
        let inherited = self.inherited.borrow();
        inherited.iter().map(|one| format!("{} ({})", one.name(), one.local())).collect()
    }

    /// The inherited socket that has the listener's name or listens where it wants to.
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
        // Only listening sockets are inherited, and UDP has none.
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
                let ours = if in_use && self.overlaps(&listener.bind) { OURS } else { "" };
                format!("listener {}: {error}{ours}", listener.name)
            })?;
        let file = SocketFile::of(listening.local());
        Ok((listening, file))
    }

    /// Whether one of our own sockets already covers the address.
    fn overlaps(&self, wanted: &Bind) -> bool {
        self.open.values().any(|open| match (&open.local, wanted) {
            (Bind::Tcp(ours), Bind::Tcp(wanted)) => {
                let any = ours.ip().is_unspecified() || wanted.ip().is_unspecified();
                ours.port() == wanted.port() && (any || ours.ip() == wanted.ip())
            }
            _ => false,
        })
    }

    /// Binds what the Plan names and is not open. On failure everything stays as it was.
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

    /// Takes over what the workers have, and forgets what the Plan does not name.
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

    /// Every listener of the Plan with its real address.
    pub(crate) fn bound(&self, plan: &ServerPlan) -> Vec<Bound> {
        let bound = plan.sockets().filter_map(|listener| {
            let open = self.open.get(&key(listener))?;
            Some(Bound { name: listener.name.to_string(), address: open.local.clone() })
        });
        bound.collect()
    }
}
