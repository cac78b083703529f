//! The connections one worker keeps to one peer.
//!
//! Last in, first out, so that a quiet hour lets the rest go. Bounded in number (a share of the
//! process's), idle time (jittered: servers and proxies that were started together must not close
//! together), age and requests. A connection on which the event loop has seen anything since it was
//! put back is dead. Outlives Plans: asked for by identity.

mod connect;
mod metrics;
mod permit;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::clock::{self, Moment};
use telemetry::{CachePadded, Gauge, LimitHit, WorkerMetrics};
use wire::h1::HeadLimits;

use crate::connection::{Connection, Endpoint};
use crate::h2::{Http2Connection, SharedConnections};
use crate::idle_sweeper::{IdleSweeper, SweptPool};
use crate::limits::PARK_AFTER;
use crate::parking::{ParkedConnection, Parking};
use crate::room::RoomSignal;
use crate::slow::SlowClients;
use crate::upgrade::Upgrade;
use metrics::Metrics;
pub use permit::PoolPermit;
use plugin::WorkerContext;

/// The limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Idle connections to one peer, over all workers.
    pub max_idle: usize,
    /// Longest idle time.
    pub idle: Duration,
    /// A connection is not used again after this time.
    pub max_age: Duration,
    /// Requests one connection carries.
    pub max_requests: u32,
    /// Connections in use that may wait for slow clients, over all workers.
    pub max_slow: Option<usize>,
    /// Limits of headers over HTTP/2; each request has those of HTTP/1.1.
    pub head: HeadLimits,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            max_idle: 1024,
            idle: Duration::from_secs(60),
            max_age: Duration::from_secs(3600),
            max_requests: u32::MAX,
            max_slow: None,
            head: HeadLimits::default(),
        }
    }
}

/// Sizes of one peer's pools, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Requests in flight; each has a connection of HTTP/1.1, or a stream.
    pub active: i64,
    pub streams: i64,
    pub idle: i64,
    pub parked: usize,
    /// Connections of HTTP/2, in use or idle.
    pub shared: i64,
}

/// One worker's connections to one peer.
pub struct Pool {
    endpoint: Endpoint,
    limits: Cell<PoolLimits>,
    /// The most recently used last, so `idle_since` grows along the list.
    #[expect(clippy::vec_box, reason = "a lease takes the box and gives it back: no copying")]
    idle: RefCell<Vec<Box<Connection>>>,
    shared: SharedConnections,
    parking: Arc<Parking>,
    room: Arc<RoomSignal>,
    sweeper: Rc<IdleSweeper>,
    worker: usize,
    workers: usize,
    metrics: Metrics,
    rng: RefCell<fastrand::Rng>,
}

/// The key of a pool in a worker's state, and of its parking places in the process's.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    upstream: String,
    endpoint: Endpoint,
}

impl Pool {
    /// Returns this worker's pool to `endpoint` on behalf of `upstream`, with the connections it
    /// has.
    pub fn of(
        context: &WorkerContext,
        upstream: &str,
        endpoint: &Endpoint,
        limits: PoolLimits,
    ) -> Rc<Pool> {
        let key = PoolKey { upstream: upstream.to_owned(), endpoint: endpoint.clone() };
        let sweeper = context.local.get((), IdleSweeper::default);
        let mut made = false;
        let pool = context.local.get(key.clone(), || {
            made = true;
            Pool {
                endpoint: endpoint.clone(),
                limits: Cell::new(limits),
                idle: RefCell::default(),
                shared: SharedConnections::default(),
                parking: Pool::parking(&context.shared, key, context.workers),
                room: RoomSignal::of(&context.shared, upstream),
                sweeper: sweeper.clone(),
                worker: context.index.min(context.workers.saturating_sub(1)),
                workers: context.workers.max(1),
                metrics: Metrics::of(context, upstream),
                rng: RefCell::new(fastrand::Rng::with_seed(context.index as u64)),
            }
        });
        if made {
            sweeper.add(pool.clone());
        }
        pool.limits.set(limits);
        pool
    }

    fn parking(shared: &plugin::Shared, key: PoolKey, workers: usize) -> Arc<Parking> {
        shared.get(key, || Parking::new(workers))
    }

    /// Returns the number of connections of all workers to that peer.
    pub fn state(
        shared: &plugin::Shared,
        upstream: &str,
        endpoint: &Endpoint,
        workers: usize,
    ) -> PoolState {
        let key = PoolKey { upstream: upstream.to_owned(), endpoint: endpoint.clone() };
        let parking = Pool::parking(shared, key, workers);
        let sum = |lanes: &[CachePadded<Gauge>]| lanes.iter().map(|lane| lane.get()).sum();
        PoolState {
            active: sum(&parking.active),
            idle: sum(&parking.idle),
            parked: parking.len(),
            streams: sum(&parking.streams),
            shared: sum(&parking.shared),
        }
    }

    pub(super) fn max_slow(&self) -> Option<usize> {
        self.limits.get().max_slow
    }

    pub(super) fn slow_clients(&self) -> &SlowClients {
        &self.parking.slow
    }

    /// Takes the bounds of a new plan.
    pub fn set_limits(&self, limits: PoolLimits) {
        self.limits.set(limits);
    }

    /// Announces the end of each request to those that wait for one ([`RoomSignal`]).
    pub fn announce_room(&self) {
        self.room.enable();
    }

    /// A stored connection, of this worker or parked by another; or one of HTTP/2 that takes one
    /// more request.
    pub fn take(self: &Rc<Self>, upgrade: Upgrade) -> Option<Lease> {
        self.take_http1().or_else(|| {
            let is_http1 = upgrade == Upgrade::Other && !self.endpoint.prior_knowledge;
            if is_http1 || self.shared.is_awaited() {
                return None;
            }
            let connection = self.shared.find(upgrade, self.limits.get().max_requests)?;
            self.metrics.reuses.inc();
            let mut lease = self.lease(None);
            lease.set_http2(connection);
            Some(lease)
        })
    }

    /// True if the server has refused a request because it demands HTTP/1.1, which new connections
    /// therefore carry.
    pub fn demands_http1(&self) -> bool {
        self.shared.http1_demand.holds()
    }

    fn take_http1(self: &Rc<Self>) -> Option<Lease> {
        let now = clock::now();
        loop {
            let Some(connection) = self.pop() else { break };
            if connection.stream.is_idle()
                && now < connection.idle_until
                && now < connection.retires
            {
                self.metrics.reuses.inc();
                return Some(self.lease(Some(connection)));
            }
        }
        while let Some(parked) = self.parking.take() {
            self.metrics.parked.dec();
            let usable = now < parked.idle_until && now < parked.retires;
            if usable
                && parked.socket.is_idle()
                && let Ok(stream) = parked.socket.adopt()
            {
                self.metrics.reuses.inc();
                let mut connection = Box::new(Connection::new(stream, parked.retires));
                connection.requests = parked.requests;
                return Some(self.lease(Some(connection)));
            }
        }
        None
    }

    fn pop(&self) -> Option<Box<Connection>> {
        let connection = self.idle.borrow_mut().pop()?;
        self.count_idle(-1);
        Some(connection)
    }

    fn count_idle(&self, change: i64) {
        self.metrics.idle.add(change);
        self.parking.idle[self.worker].add(change);
    }

    fn count_request(&self, change: i64) {
        self.metrics.active.add(change);
        self.metrics.in_flight.add(change);
        self.parking.active[self.worker].add(change);
    }

    /// A request that was counted has a stream, and no connection of its own.
    fn count_stream(&self, change: i64) {
        self.metrics.active.add(-change);
        self.metrics.streams.add(change);
        self.parking.streams[self.worker].add(change);
    }

    fn lease(self: &Rc<Self>, connection: Option<Box<Connection>>) -> Lease {
        self.count_request(1);
        let permit = PoolPermit::default();
        Lease { connection, http2: None, pool: self.clone(), permit }
    }

    /// Requests of this worker in flight, those that wait for a connection included.
    pub fn active(&self) -> i64 {
        self.parking.active[self.worker].get()
    }

    /// The same for all workers.
    pub fn active_everywhere(&self) -> i64 {
        self.parking.active.iter().map(|lane| lane.get()).sum()
    }

    /// Counts as a connection in use until it is dropped: for what is not a connection, such as
    /// datagrams.
    pub fn reserve(self: &Rc<Self>, permit: PoolPermit) -> Reservation {
        let mut lease = self.lease(None);
        lease.set_permit(permit);
        Reservation { _lease: lease }
    }

    /// Keeps a connection for the next request.
    fn keep(&self, mut connection: Box<Connection>) {
        let limits = self.limits.get();
        connection.requests += 1;
        let is_spent = connection.requests >= limits.max_requests;
        if is_spent || limits.max_idle == 0 || connection.for_one_client {
            return;
        }
        connection.timer.clear();
        let now = clock::now();
        connection.idle_since = now;
        connection.idle_until = now.after(self.jittered(limits.idle));
        // At least one, and at most this worker's share; computed without a division.
        let kept = self.idle.borrow().len();
        if kept == 0 || (kept + 1) * self.workers <= limits.max_idle {
            self.idle.borrow_mut().push(connection);
            self.count_idle(1);
        } else if self.workers > 1 {
            self.park(*connection, now);
        }
        self.sweeper.arm();
    }

    fn park(&self, connection: Connection, now: Moment) {
        let Connection { stream, retires, requests, idle_until, .. } = connection;
        // A connection that cannot leave the event loop is closed.
        if let Ok(socket) = stream.park() {
            let parked = ParkedConnection { socket, retires, requests, idle_until, looked_at: now };
            self.metrics.parked.add(self.parking.park(parked, self.limits.get().max_idle));
        }
    }

    /// A span shortened by up to an eighth.
    fn jittered(&self, span: Duration) -> Duration {
        // In whole milliseconds: dividing a `Duration` would cost more than everything else here,
        // at every use.
        let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> 8);
        let jitter = u64::from(self.rng.borrow_mut().u8(..));
        Duration::from_millis(span_ms - span_ms * jitter / 2048)
    }
}

impl SweptPool for Pool {
    fn idle_since(&self) -> Option<Moment> {
        let idle = self.idle.borrow().first().map(|connection| connection.idle_since);
        idle.into_iter().chain(self.shared.idle_since()).min()
    }

    fn close_longest_idle(&self) {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            self.shared.close_longest_idle();
        } else {
            idle.remove(0);
            self.count_idle(-1);
        }
    }

    fn close_parked(&self) -> bool {
        let closed = self.parking.close_oldest();
        self.metrics.parked.add(-i64::from(closed));
        closed
    }

    fn sweep(&self, now: Moment) -> bool {
        let mut idle = self.idle.take();
        let before = idle.len();
        idle.retain(|connection| {
            now < connection.idle_until && now < connection.retires && connection.stream.is_idle()
        });
        let stale = if self.workers > 1 {
            idle.partition_point(|connection| now.since(connection.idle_since) >= PARK_AFTER)
        } else {
            // No other worker could take it over, and here the event loop watches it.
            0
        };
        let leaving: Vec<Box<Connection>> = idle.drain(..stale).collect();
        let left = idle.len();
        self.count_idle(left as i64 - before as i64);
        self.idle.replace(idle);
        for connection in leaving {
            self.park(*connection, now);
        }
        let closed = self.parking.sweep(now);
        self.metrics.parked.add(-(closed as i64));
        left > 0 || self.parking.len() > 0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().len();
        self.count_idle(-(idle as i64));
    }
}

#[cfg(test)]
impl Pool {
    pub(super) fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Ready when the event loop has seen something on the connection that would be taken next.
    pub(super) fn peek_readable(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        match self.idle.borrow().last() {
            Some(connection) => connection.stream.poll_readable(cx).map(|_| ()),
            None => std::task::Poll::Ready(()),
        }
    }
}

/// Closes idle connections of this worker's pools because there are no descriptors left. How many.
pub fn close_idle(context: &WorkerContext) -> usize {
    context.local.get((), IdleSweeper::default).close_idle()
}

/// Counts as a connection in use.
pub struct Reservation {
    _lease: Lease,
}

/// A connection in use, or a request on one of HTTP/2. Dropping it closes a connection of HTTP/1.1.
pub struct Lease {
    connection: Option<Box<Connection>>,
    http2: Option<Rc<Http2Connection>>,
    pool: Rc<Pool>,
    /// Given back with the lease.
    permit: PoolPermit,
}

impl Lease {
    /// Takes the permit for its request, where the server has a limit.
    pub fn set_permit(&mut self, permit: PoolPermit) {
        self.permit = permit;
    }

    /// Uses this connection, which it had to wait for.
    fn set_connection(&mut self, connection: Box<Connection>) {
        self.connection = Some(connection);
    }

    /// Uses a connection of HTTP/2 together with other requests.
    fn set_http2(&mut self, connection: Rc<Http2Connection>) {
        self.pool.count_stream(1);
        self.http2 = Some(connection);
    }

    pub(super) fn http2(&self) -> Option<&Rc<Http2Connection>> {
        self.http2.as_ref()
    }

    /// Returns true if the connection carried a request before: the server may be closing it.
    pub fn is_reused(&self) -> bool {
        match &self.http2 {
            Some(connection) => connection.is_reused(),
            None => self.connection().requests > 0,
        }
    }

    /// Returns true if the request shares the connection: the server may refuse it because of the
    /// others.
    pub fn is_shared(&self) -> bool {
        self.http2.is_some()
    }

    pub(super) fn connection(&self) -> &Connection {
        self.connection.as_deref().expect("a lease holds its connection until it is given back")
    }

    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        self.connection.as_deref_mut().expect("a lease holds its connection until it is given back")
    }

    /// Counts a server that paused for too long within its response. Failures before the response
    /// are counted by the sender of the request; those of its body are known only here.
    pub(super) fn paused_for_too_long(&self) {
        self.pool.metrics.worker.hit(LimitHit::SlowUpstream);
    }

    pub(super) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    pub(super) fn worker_metrics(&self) -> Arc<WorkerMetrics> {
        self.pool.metrics.worker.clone()
    }

    /// Gives the connection back for the next request.
    pub(super) fn give_back(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.keep(connection);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.http2.is_some() {
            self.pool.count_stream(-1);
            self.pool.shared.request_ended();
        }
        self.pool.count_request(-1);
        self.pool.room.request_ended();
    }
}
