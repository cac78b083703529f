//! The settings of a serving loop: a snapshot of the current plan, and the state that outlives it.
//!
//! A connection belongs to a [`Service`], which lives as long as its listener on this worker. The
//! plan's part is the [`ListenerSnapshot`]; an exchange takes the current one when it begins and
//! keeps it to its end.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use net::WakeHandle;
use net::clock::Moment;
use net::tls::ClientAuth;
use slab::Slab;
use telemetry::WorkerMetrics;
use wire::h1::HeadLimits;

use crate::AccessLog;
use crate::h1::ConnectionIo;
use crate::proxy_protocol::ProxyProtocol;
use crate::secure::ListenerTls;
use crate::tracer::Tracer;
use crate::trusted_proxies::TrustedProxies;
use message::{Bounds, CountryDatabase};
use plugin::Dispatch;
use plugin::problem::ErrorPages;

/// Time-outs of a connection; those of an exchange are [`Bounds`].
#[derive(Clone, Debug)]
pub struct ConnectionTimeouts {
    /// To the first byte of a new connection.
    pub handshake: Duration,
    /// Maximum time from the first byte of the headers to the last.
    pub head: Duration,
    /// Maximum time between requests.
    pub idle: Duration,
}

/// The settings of a listener's connections under the current plan.
pub struct ListenerSnapshot {
    /// Proxies in front of the listener; `None` where clients connect themselves.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// TLS of new connections; `None` serves in the clear.
    pub tls: Option<ListenerTls>,
    pub dispatch: Rc<dyn Dispatch>,
    /// HTTP/1.1 is served.
    pub http1: bool,
    /// HTTP/2 is served, with these limits.
    pub http2: Option<wire::h2::Config>,
    pub head_limits: HeadLimits,
    pub timeouts: ConnectionTimeouts,
    /// Bounds of exchanges that find no route.
    pub bounds: Bounds,
    /// A client that has finished sending still gets its response.
    pub half_close: bool,
    pub trusted_proxies: TrustedProxies,
    /// The database for the countries of clients.
    pub countries: Option<Rc<dyn CountryDatabase>>,
    pub pages: Arc<ErrorPages>,
    pub access: Option<Rc<AccessLog>>,
    /// Traces requests, if the configuration asks for it, and records those that a client of the
    /// live log watches.
    pub tracer: Option<Rc<Tracer>>,
}

impl ListenerSnapshot {
    /// True if it demands the same of clients' certificates: their connections may stay.
    pub fn has_client_auth_of(&self, other: &ListenerSnapshot) -> bool {
        self.client_auth() == other.client_auth()
    }

    fn client_auth(&self) -> Option<&ClientAuth> {
        self.tls.as_ref()?.server.options().client_auth.as_ref()
    }
}

/// The state that the connections of one listener on one worker share.
pub struct Service {
    snapshot: RefCell<Rc<ListenerSnapshot>>,
    pub metrics: Arc<WorkerMetrics>,
    draining: Cell<bool>,
    connections: RefCell<Slab<(WakeHandle, Weak<ConnectionIo>)>>,
    /// Connections whose PROXY header or TLS handshake is in progress.
    handshakes: Cell<usize>,
}

impl Service {
    pub fn new(snapshot: Rc<ListenerSnapshot>, metrics: Arc<WorkerMetrics>) -> Rc<Service> {
        Rc::new(Service {
            snapshot: RefCell::new(snapshot),
            metrics,
            draining: Cell::new(false),
            connections: RefCell::default(),
            handshakes: Cell::new(0),
        })
    }

    /// The snapshot an exchange that begins now works with.
    pub fn snapshot(&self) -> Rc<ListenerSnapshot> {
        self.snapshot.borrow().clone()
    }

    /// Sets the snapshot of a new plan; exchanges in flight finish on theirs.
    pub fn replace_snapshot(&self, snapshot: Rc<ListenerSnapshot>) {
        *self.snapshot.borrow_mut() = snapshot;
    }

    /// Connections now open.
    pub fn open_connections(&self) -> usize {
        self.connections.borrow().len() + self.handshakes.get()
    }

    /// Counts a connection as open until its handshake has ended.
    pub(crate) fn begin_handshake(self: &Rc<Self>) -> HandshakeGuard {
        self.handshakes.set(self.handshakes.get() + 1);
        HandshakeGuard(self.clone())
    }

    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Lets every connection end after its exchange; idle ones at once.
    pub fn drain(&self) {
        self.draining.set(true);
        for (_, (connection, _)) in self.connections.borrow().iter() {
            connection.wake();
        }
    }

    pub(super) fn enter(self: &Rc<Self>, io: &Rc<ConnectionIo>) -> ConnectionGuard {
        let entry = (io.read_timer.wake_handle(), Rc::downgrade(io));
        let key = self.connections.borrow_mut().insert(entry);
        self.metrics.connections_active.add(1);
        ConnectionGuard { service: self.clone(), key }
    }
}

/// Closes the connections that have waited longest for a request, at least `idle_for`. Closes a
/// fraction of them, so that the next calls do not search in vain. Returns their number.
pub fn close_longest_idle(services: &[Rc<Service>], idle_for: Duration) -> usize {
    /// The fraction of idle connections that is closed.
    const SHARE: usize = 32;
    let now = net::clock::now();
    let mut idle: Vec<(Moment, WakeHandle, Rc<ConnectionIo>)> = Vec::new();
    for service in services {
        for (_, (wake, io)) in service.connections.borrow().iter() {
            let Some(io) = io.upgrade().filter(|io| !io.is_shed.get()) else { continue };
            if let Some(since) = io.idle_since.get().filter(|since| now.since(*since) >= idle_for) {
                idle.push((since, wake.clone(), io));
            }
        }
    }
    idle.sort_unstable_by_key(|(since, ..)| *since);
    idle.truncate(idle.len().div_ceil(SHARE));
    for (_, wake, io) in &idle {
        io.is_shed.set(true);
        wake.wake();
    }
    idle.len()
}

/// A handshake in progress.
pub(crate) struct HandshakeGuard(Rc<Service>);

impl Drop for HandshakeGuard {
    fn drop(&mut self) {
        self.0.handshakes.set(self.0.handshakes.get() - 1);
    }
}

/// A connection's place in its service.
pub(super) struct ConnectionGuard {
    service: Rc<Service>,
    key: usize,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.service.connections.borrow_mut().remove(self.key);
        self.service.metrics.connections_active.add(-1);
    }
}
