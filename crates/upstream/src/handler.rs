//! The handler `upstream`: picks a server, sends the request, and retries where that is safe.
//!
//! A request is retried only if nothing of it was sent or its method is idempotent (RFC 9110
//! 9.2.2); only with its complete body; only on another server; only within the budget; and never
//! after the client was sent any part of a response. A pooled connection that was closed is
//! not a failure of the server: the same server gets the request again on a new one.
//!
//! A connection is acquired when there is something to send: a client that announces a body and
//! sends none occupies no server, unless both sides speak HTTP/2. While every server is at its
//! `max_connections`, requests wait in order of arrival, up to `timeouts.queue`.

use std::rc::Rc;
use std::sync::Arc;

use http_client::{Call, Lease, Pool, PoolPermit, Upgrade, send_request};
use message::{Fault, FaultKind, HandlerResult, Request, Retry, Side};
use net::clock;
use plugin::{Handler, HandlerKind, HandlerPlan, KeyOwners, MaybeFuture, WorkerContext};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned};
use telemetry::class_index;
use wire::Version;

use crate::balance::{Choice, Chosen};
use crate::grpc::{self, GrpcStatus};
use crate::limits::CONNECTION_ATTEMPTS;
use crate::local::LocalCluster;
use crate::max_forwards;
use crate::proxy_header::proxy_header;
use crate::replay::Replay;
use crate::traces;
use crate::upstreams::Upstreams;
use crate::view::{CLASS_ERROR, Peer, View, connect_within};

/// `handler: { upstream: NAME }`.
pub static KIND: HandlerKind = HandlerKind { name: "upstream", schema, read };

fn schema(builder: &mut SchemaBuilder) -> Schema {
    String::schema(builder)
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let upstream = Spanned::<String>::read(node, reader)?;
    Some(Arc::new(UpstreamPlan { upstream }))
}

struct UpstreamPlan {
    upstream: Spanned<String>,
}

impl HandlerPlan for UpstreamPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        handler(&self.upstream, worker)
    }

    fn describe(&self) -> String {
        self.upstream.value.clone()
    }

    fn upstream(&self) -> Option<&Spanned<String>> {
        Some(&self.upstream)
    }
}

/// The handler of the upstream of that name, also for requests without a route.
pub fn handler(upstream: &str, worker: &WorkerContext) -> Rc<dyn Handler> {
    // `config` has checked the name and `server` has applied the upstreams of this plan.
    let cluster = Upstreams::of(&worker.shared).get(upstream);
    Rc::new(UpstreamHandler { local: cluster.map(|cluster| LocalCluster::of(worker, &cluster)) })
}

pub(crate) struct UpstreamHandler {
    pub(crate) local: Option<Rc<LocalCluster>>,
}

impl Handler for UpstreamHandler {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        match &self.local {
            Some(local) => match grpc::remaining_of_translated(request) {
                None => MaybeFuture::of(forward(local, request)),
                Some(span) => MaybeFuture::of(grpc::within(span, forward(local, request))),
            },
            None => Err(Fault::internal("the upstream does not exist")).into(),
        }
    }

    fn key_owners(&self) -> Option<&dyn KeyOwners> {
        Some(self)
    }
}

async fn forward(local: &LocalCluster, request: &mut Request) -> HandlerResult {
    if let Some(response) = max_forwards::count_down(request) {
        return Ok(response);
    }
    let mut view = local.view(clock::now().as_ms());
    let is_open_ended = is_open_ended(&view, request);
    let again = view.settings.retries.attempts > 1;
    let mut body = Replay::new(std::mem::take(&mut request.body), again);
    if body.is_awaited() {
        // No body is read from the client while no server can accept it.
        let has_room =
            view.has_room() || view.is_full() && local.wait_for_room(&mut None, &view).await;
        if !has_room {
            return Err(no_server(local, &view));
        }
        if !is_open_ended {
            body.begin().await?;
        }
        view = local.view(clock::now().as_ms());
    }
    local.budget.deposit(view.settings.retries.budget.fraction());
    let mut waiting = None;
    let mut tried: Vec<Rc<Peer>> = Vec::new();
    let mut failed: Option<HandlerResult> = None;
    loop {
        let now_us = clock::now_us();
        let choice = Choice { view: &view, rng: &local.rng, tried: &tried, now_us };
        let is_later = tried.is_empty() && waiting.is_none() && local.has_pending();
        let Some(Chosen { peer, trial, permit }) =
            (if is_later { None } else { choice.server(request) })
        else {
            let may_wait = is_later || tried.is_empty() && view.is_full();
            if may_wait && local.wait_for_room(&mut waiting, &view).await {
                view = local.view(clock::now().as_ms());
                continue;
            }
            return failed.unwrap_or_else(|| Err(no_server(local, &view)));
        };
        waiting = None;
        request.notes.upstream = Some(peer.name.clone());
        request.notes.upstream_attempts += 1;
        grpc::forward_deadline(request);
        let mut outcome = attempt(&view, peer, request, &mut body, &permit).await;
        if outcome.is_err() && grpc::is_over(request) {
            // The server observed the deadline, and is not at fault.
            return Err(Fault::deadline());
        }
        record_result(local, &view, peer, trial.is_some(), now_us, request, &mut outcome);
        drop(trial);
        let last = request.notes.upstream_attempts as u32 >= view.settings.retries.attempts;
        if last || !may_try_again(&view, request, &body, &outcome) {
            body.forget();
            return outcome;
        }
        tried.push(peer.clone());
        // Servers may have come and gone since the request began.
        view = local.view(clock::now().as_ms());
        if !has_untried(&view, &tried) || !local.begin_retry() {
            body.forget();
            return outcome;
        }
        failed = Some(outcome);
    }
}

/// True if a server of the view has not been sent the request yet.
pub(crate) fn has_untried(view: &View, tried: &[Rc<Peer>]) -> bool {
    let is_tried =
        |peer: &Rc<Peer>| tried.iter().any(|tried| tried.member.endpoint == peer.member.endpoint);
    !view.peers.iter().all(is_tried)
}

/// True if the client may wait for a response before it sends content, as clients of gRPC do. A
/// stream without content costs a server of HTTP/2 little.
fn is_open_ended(view: &View, request: &Request) -> bool {
    request.version == Version::Http2
        && request.body.length().is_none()
        && view.peers.iter().all(|peer| peer.member.endpoint.may_be_http2())
}

/// One attempt on one server, a span of the request's trace.
pub(crate) async fn attempt(
    view: &View,
    peer: &Peer,
    request: &mut Request,
    body: &mut Replay,
    permit: &PoolPermit,
) -> HandlerResult {
    let span = traces::begin_attempt(request, peer);
    let outcome = send(view, peer, request, body, permit).await;
    if let Some(span) = span {
        span.end_attempt(&mut request.trace, &outcome);
    }
    outcome
}

/// Sends a request to a server, once more if it closed the pooled connection.
async fn send(
    view: &View,
    peer: &Peer,
    request: &Request,
    body: &mut Replay,
    permit: &PoolPermit,
) -> HandlerResult {
    let call = Call { options: &view.options, host: &peer.host, server: &peer.member.authority };
    let upgrade = Upgrade::of(request);
    // A pooled connection does not name the client.
    let is_pooled = view.settings.send_proxy_protocol.is_none();
    let mut kept = if is_pooled { peer.stats.pool.take(upgrade) } else { None };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut lease = match kept.take() {
            Some(lease) => lease,
            // Boxed: it is large and rare, and the future of every request would be as large.
            None => Box::pin(connect(view, peer, request, upgrade)).await?,
        };
        lease.set_permit(permit.clone());
        let (reused, shared) = (lease.is_reused(), lease.is_shared());
        let outcome = send_request(lease, request, body.play(), &call).await;
        match &outcome {
            Err(fault)
                if (reused || shared && may_repeat(fault, &peer.stats.pool))
                    && attempts < CONNECTION_ATTEMPTS
                    && closed_in_pool(fault, request)
                    && body.is_playable() => {}
            _ => return outcome,
        }
    }
}

/// A new connection to a server; it begins with a PROXY header if the upstream is configured so.
async fn connect(
    view: &View,
    peer: &Peer,
    request: &Request,
    upgrade: Upgrade,
) -> Result<Lease, Fault> {
    let header = proxy_header(view, request);
    peer.stats.pool.connect(connect_within(&view.settings), header.as_ref(), upgrade).await
}

/// True if a shared connection's server takes the same request on another one: it has refused the
/// stream, or demanded HTTP/1.1, which the next connection carries.
fn may_repeat(fault: &Fault, pool: &Pool) -> bool {
    fault.retry == Retry::Unsent || pool.demands_http1()
}

/// The server closed a pooled connection at the moment it was used, or refused the stream.
fn closed_in_pool(fault: &Fault, request: &Request) -> bool {
    fault.kind == FaultKind::ConnectionTerminated && allows(fault.retry, request)
}

fn allows(retry: Retry, request: &Request) -> bool {
    match retry {
        Retry::Never => false,
        Retry::Unsent => true,
        Retry::IfIdempotent => request.method.is_idempotent(),
    }
}

fn may_try_again(view: &View, request: &Request, body: &Replay, outcome: &HandlerResult) -> bool {
    let safe = match outcome {
        Err(fault) => fault.side() == Side::Upstream && allows(fault.retry, request),
        Ok(response) => {
            let retries = &view.settings.retries;
            let code = grpc::trailers_only(request, response);
            code.is_some_and(|code| retries.grpc.contains(&GrpcStatus(code)))
                || request.method.is_idempotent() && retries.statuses.contains(&response.status)
        }
    };
    safe && body.is_playable()
}

/// Records the result of an attempt: latency, health, counters.
#[inline(never)]
pub(crate) fn record_result(
    local: &LocalCluster,
    view: &View,
    peer: &Peer,
    was_trial: bool,
    began_us: u64,
    request: &mut Request,
    outcome: &mut HandlerResult,
) {
    let now_us = clock::now_us();
    let latency_us = now_us.saturating_sub(began_us);
    let earlier_us = request.notes.upstream_us.unwrap_or(0);
    let total_us = earlier_us.saturating_add(u32::try_from(latency_us).unwrap_or(u32::MAX));
    request.notes.upstream_us = Some(total_us);
    let ejection = &view.settings.ejection;
    match outcome {
        Ok(response) => {
            peer.stats.measure(latency_us, now_us);
            let status = grpc::health_status(request, response);
            peer.stats.count(class_index(status));
            local.duration.record_us(latency_us);
            if ejection.statuses.contains(&status) {
                local.cluster.failed(&peer.member, ejection, was_trial, now_us / 1000);
            } else {
                local.cluster.succeeded(&peer.member, ejection, was_trial, now_us / 1000);
            }
        }
        // The client's body or this server failed: the upstream is not at fault.
        Err(fault) if fault.side() != Side::Upstream => {}
        Err(fault) => {
            record_failure(local, view, peer, was_trial, latency_us, fault);
        }
    }
}

/// Records that a server did not accept a connection or did not respond.
pub(crate) fn record_failure(
    local: &LocalCluster,
    view: &View,
    peer: &Peer,
    was_trial: bool,
    latency_us: u64,
    fault: &mut Fault,
) {
    let now_us = clock::now_us();
    peer.stats.measure_failure(latency_us, now_us);
    peer.stats.count(CLASS_ERROR);
    local.cluster.failed(&peer.member, &view.settings.ejection, was_trial, now_us / 1000);
    local.hit(fault.kind);
    // The name of the configuration: the address that failed is for the log, not for clients.
    fault.next_hop = Some(Box::from(&*local.cluster.name));
}

/// No server can be picked.
pub(crate) fn no_server(local: &LocalCluster, view: &View) -> Fault {
    let (kind, detail) = if view.peers.is_empty() {
        (FaultKind::DnsError, "no server of the upstream has an address")
    } else if view.usable.is_empty() {
        (FaultKind::DestinationUnavailable, "no server of the upstream is healthy")
    } else {
        (FaultKind::ConnectionLimit, "every server of the upstream is at its max_connections")
    };
    local.hit(kind);
    Fault::new(kind, detail)
}
