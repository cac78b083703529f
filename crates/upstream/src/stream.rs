//! Connections of streams (layer 4) to the servers of an upstream.
//!
//! The same choice of a server, the same health and the same limits as for requests. A server that
//! does not accept the connection counts as failed, and another one is tried, within the budget;
//! after that the stream belongs to its server.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http_client::{Destination, Lease, Reservation};
use message::{Fault, FaultKind, Request};
use net::clock;
use plugin::WorkerContext;

use crate::balance::{Choice, Chosen};
use crate::handler::{has_untried, no_server, record_failure};
use crate::local::LocalCluster;
use crate::proxy_header::proxy_header;
use crate::upstreams::Upstreams;
use crate::view::{Peer, View, connect_within};

/// An upstream as the streams of one worker use it.
pub struct StreamUpstream {
    local: Rc<LocalCluster>,
}

impl StreamUpstream {
    /// The upstream of that name in the latest plan.
    pub fn of(upstream: &str, worker: &WorkerContext) -> Option<StreamUpstream> {
        let cluster = Upstreams::of(&worker.shared).get(upstream)?;
        Some(StreamUpstream { local: LocalCluster::of(worker, &cluster) })
    }

    /// `timeouts.idle` of the upstream.
    pub fn idle(&self) -> Duration {
        self.local.view(clock::now().as_ms()).settings.timeouts.idle.get()
    }

    /// Chooses a server for the datagrams of a client. It is not waited for: a session that begins
    /// while every server is full has none.
    pub fn choose(&self, client: &mut Request) -> Result<DatagramServer, Fault> {
        let local = &*self.local;
        let view = local.view(clock::now().as_ms());
        let choice = Choice { view: &view, rng: &local.rng, tried: &[], now_us: clock::now_us() };
        // Without a connection there is no end of a trial: the first datagram decides.
        let chosen = choice.server(client).ok_or_else(|| no_server(local, &view))?;
        let (peer, is_trial) = (chosen.peer.clone(), chosen.trial.is_some());
        let Destination::Tcp(address) = peer.member.endpoint.destination else {
            return Err(Fault::internal("a Unix socket takes no datagrams"));
        };
        client.notes.upstream = Some(peer.name.clone());
        Ok(DatagramServer {
            local: self.local.clone(),
            address,
            is_trial: Cell::new(is_trial),
            _active: peer.stats.pool.reserve(chosen.permit),
            view: view.clone(),
            peer,
        })
    }

    /// Connects to a server for a client. The client is given as a request without content: its
    /// address is what a hash may depend on, and its notes name the server.
    pub async fn connect(&self, client: &mut Request) -> Result<Lease, Fault> {
        let local = &*self.local;
        let mut view = local.view(clock::now().as_ms());
        local.budget.deposit(view.settings.retries.budget.fraction());
        let mut waiting = None;
        let mut tried: Vec<Rc<Peer>> = Vec::new();
        let mut failed: Option<Fault> = None;
        loop {
            let now_us = clock::now_us();
            let choice = Choice { view: &view, rng: &local.rng, tried: &tried, now_us };
            let is_later = tried.is_empty() && waiting.is_none() && local.has_pending();
            let Some(Chosen { peer, trial, permit }) =
                (if is_later { None } else { choice.server(client) })
            else {
                let may_wait = is_later || tried.is_empty() && view.is_full();
                if may_wait && local.wait_for_room(&mut waiting, &view).await {
                    view = local.view(clock::now().as_ms());
                    continue;
                }
                return Err(failed.unwrap_or_else(|| no_server(local, &view)));
            };
            waiting = None;
            client.notes.upstream = Some(peer.name.clone());
            client.notes.upstream_attempts += 1;
            match attempt(local, &view, peer, trial.is_some(), client).await {
                Ok(mut lease) => {
                    lease.set_permit(permit);
                    return Ok(lease);
                }
                Err(fault) => failed = Some(fault),
            }
            drop(trial);
            let last = client.notes.upstream_attempts as u32 >= view.settings.retries.attempts;
            tried.push(peer.clone());
            // Servers may have come and gone since the connection began.
            view = local.view(clock::now().as_ms());
            if last || !has_untried(&view, &tried) || !local.begin_retry() {
                return Err(failed.unwrap_or_else(|| no_server(local, &view)));
            }
        }
    }
}

/// The server of a session of datagrams, which counts as one of its connections.
pub struct DatagramServer {
    local: Rc<LocalCluster>,
    view: Rc<View>,
    peer: Rc<Peer>,
    address: SocketAddr,
    /// The session decides whether the server is back after an ejection.
    is_trial: Cell<bool>,
    _active: Reservation,
}

impl DatagramServer {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Records that the server has sent a datagram.
    pub fn responded(&self) {
        let ejection = &self.view.settings.ejection;
        let (member, is_trial) = (&self.peer.member, self.is_trial.take());
        self.local.cluster.succeeded(member, ejection, is_trial, clock::now().as_ms());
    }

    /// Records that a datagram to the server was reported as undeliverable.
    pub fn refused(&self) {
        let mut fault = Fault::new(FaultKind::ConnectionRefused, "the port is unreachable");
        let is_trial = self.is_trial.take();
        record_failure(&self.local, &self.view, &self.peer, is_trial, 0, &mut fault);
    }
}

/// One attempt on one server.
async fn attempt(
    local: &LocalCluster,
    view: &View,
    peer: &Peer,
    is_trial: bool,
    client: &Request,
) -> Result<Lease, Fault> {
    let began_us = clock::now_us();
    let header = proxy_header(view, client);
    let opened = peer.stats.pool.open(connect_within(&view.settings), header.as_ref()).await;
    let latency_us = clock::now_us().saturating_sub(began_us);
    opened
        .inspect(|_| {
            let now_us = clock::now_us();
            peer.stats.measure(latency_us, now_us);
            let ejection = &view.settings.ejection;
            local.cluster.succeeded(&peer.member, ejection, is_trial, now_us / 1000);
        })
        .map_err(|mut fault| {
            record_failure(local, view, peer, is_trial, latency_us, &mut fault);
            fault
        })
}
