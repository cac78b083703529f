//! One stream on one worker: from an accepted connection to its end.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_client::{Lease, Upgrade, tunnel};
use http_server::{AccessLog, StreamEntry};
use message::{ConnectionFacts, ConnectionTimes, Ending, Fault, Protocol, Request};
use net::tls::TlsInfo;
use net::{Accepted, Bind, Outgoing, Peer, Stream};
use plugin::WorkerContext;
use telemetry::log::Level;
use telemetry::{CloseReason, LimitHit, event_limited};
use traffic::ClientRate;
use upstream::StreamUpstream;
use wire::client_hello::{ClientHello, HelloReader};

use crate::client_stream::{ClientStream, Traffic};
use crate::clients::{ClientPermit, Clients, network};
use crate::metrics::StreamMetrics;
use crate::stream_plan::{StreamPlan, UpstreamChoice};

/// A stream of a plan on one worker. Connections hold the one that they began with.
pub struct StreamService {
    plan: Arc<StreamPlan>,
    upstreams: BTreeMap<String, StreamUpstream>,
    /// Where the plan limits the connections of a client.
    clients: Arc<Clients>,
    rate: Option<ClientRate>,
    pub(crate) metrics: Rc<StreamMetrics>,
    access: Option<Rc<AccessLog>>,
    connections: Cell<usize>,
}

/// The key of a stream's [`Clients`] in the state of the process: they outlive plans.
#[derive(PartialEq, Eq, Hash)]
struct ClientsKey(String);

/// What is known of a connection or session when it ends.
pub(crate) struct Connection {
    pub(crate) facts: ConnectionFacts,
    pub(crate) traffic: Rc<Traffic>,
    server_name: RefCell<Option<Box<str>>>,
    /// The server that was chosen.
    server: RefCell<Option<Rc<str>>>,
}

impl StreamService {
    pub fn build(
        plan: &Arc<StreamPlan>,
        worker: &WorkerContext,
        access: Option<Rc<AccessLog>>,
    ) -> Rc<StreamService> {
        // `config` has checked the names and `server` has applied the upstreams of this plan.
        let upstream = |name: &str| Some((name.to_owned(), StreamUpstream::of(name, worker)?));
        Rc::new(StreamService {
            upstreams: plan.upstreams().filter_map(upstream).collect(),
            clients: worker.shared.get(ClientsKey(plan.name.clone()), Clients::default),
            rate: plan
                .connection_rate_per_client
                .map(|rate| ClientRate::new(rate, &format!("stream {}", plan.name), worker)),
            metrics: Rc::new(StreamMetrics::of(&plan.name, worker)),
            plan: plan.clone(),
            access,
            connections: Cell::new(0),
        })
    }

    /// Connections that have not ended.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Counts a connection that is closed because there are too many.
    pub fn count_refused(&self) {
        self.metrics.worker.hit(LimitHit::Connections);
        self.metrics.closed(CloseReason::ConnectionLimit);
    }

    /// Serves a connection to its end; `permit` is dropped then.
    pub fn admit(self: &Rc<Self>, accepted: Accepted, local: &Rc<Bind>, permit: impl Any) {
        let mut connection = self.connection(accepted.peer, local);
        let service = self.clone();
        service.began();
        net::task::spawn_local(async move {
            let began_us = net::clock::now_us();
            let reason = service.serve(accepted.stream, &mut connection).await;
            service.ended(&connection, reason, began_us);
            drop(permit);
        });
    }

    pub(crate) fn connection(&self, peer: Peer, local: &Rc<Bind>) -> Connection {
        Connection {
            facts: ConnectionFacts {
                peer,
                local: local.clone(),
                listener: Rc::from(self.plan.name.as_str()),
                protocol: Protocol::Internal,
                tls: None,
                times: ConnectionTimes::default(),
            },
            traffic: Rc::default(),
            server_name: RefCell::default(),
            server: RefCell::default(),
        }
    }

    pub(crate) fn began(&self) {
        self.connections.set(self.connections.get() + 1);
        self.metrics.began();
    }

    pub(crate) fn ended(&self, connection: &Connection, reason: CloseReason, began_us: u64) {
        self.connections.set(self.connections.get() - 1);
        self.metrics.ended(reason);
        self.log(connection, reason, net::clock::now_us().saturating_sub(began_us));
    }

    /// The permit of a client that may connect, where its connections are limited.
    pub(crate) fn admit_client(&self, client: IpAddr) -> Result<Option<ClientPermit>, CloseReason> {
        if !self.plan.allows(client) {
            return Err(CloseReason::ClientDenied);
        }
        if self.rate.as_ref().is_some_and(|rate| !rate.allows(network(client))) {
            self.metrics.worker.hit(LimitHit::ClientRate);
            return Err(CloseReason::ClientRate);
        }
        let Some(most) = self.plan.connections_per_client else { return Ok(None) };
        let permit = self.clients.acquire(client, most);
        if permit.is_none() {
            self.metrics.worker.hit(LimitHit::ClientConnections);
        }
        permit.map(Some).ok_or(CloseReason::ClientLimit)
    }

    pub(crate) fn idle(&self, upstream: &StreamUpstream) -> Duration {
        self.plan.idle.unwrap_or_else(|| upstream.idle())
    }

    /// The upstream that does not depend on a ClientHello.
    pub(crate) fn only_upstream(&self) -> Option<&StreamUpstream> {
        match &self.plan.choice {
            UpstreamChoice::Always(upstream) => self.upstreams.get(upstream),
            UpstreamChoice::ByHello(_) => None,
        }
    }

    /// Serves a connection; returns why it ended.
    async fn serve(self: &Rc<Self>, stream: Stream, connection: &mut Connection) -> CloseReason {
        let (timeout, worker) = (self.plan.handshake, &self.metrics.worker);
        if let Some(proxies) = &self.plan.proxy_protocol
            && let Err(reason) =
                proxies.receive(&stream, &mut connection.facts, timeout, worker).await
        {
            return reason;
        }
        let _client_permit = match self.admit_client(connection.facts.peer_ip()) {
            Ok(permit) => permit,
            Err(reason) => return reason,
        };
        let (stream, early, upstream) = match self.open(stream, connection).await {
            Ok(opened) => opened,
            Err(reason) => return reason,
        };
        let lease = match self.connect(upstream, connection).await {
            Ok(lease) => lease,
            Err(fault) => {
                stream.reset_on_close();
                return self.unconnected(connection, &fault);
            }
        };
        self.relay(stream, early, lease, upstream, connection).await
    }

    /// Ends TLS, or reads the ClientHello; returns the stream, what was read of it, and
    /// the upstream.
    async fn open(
        &self,
        stream: Stream,
        connection: &mut Connection,
    ) -> Result<(Stream, Bytes, &StreamUpstream), CloseReason> {
        let within = self.plan.handshake;
        let late = || {
            self.metrics.worker.hit(LimitHit::SlowHandshake);
            CloseReason::HandshakeTimeout
        };
        let (stream, early, upstream) = match &self.plan.choice {
            UpstreamChoice::Always(upstream) => {
                let stream = match &self.plan.tls {
                    None => stream,
                    Some(tls) => {
                        let accepted = net::timer::within(within, stream.accept_tls(tls)).await;
                        let stream = accepted.ok_or_else(late)?;
                        let stream = stream.map_err(|_| CloseReason::TlsFailed)?;
                        let is_resumed = stream.tls().is_some_and(|tls| tls.is_resumed);
                        self.metrics.worker.count_handshake(is_resumed);
                        if stream.tls().is_some_and(TlsInfo::is_challenge) {
                            // A certificate authority has seen the challenge certificate.
                            return Err(CloseReason::ClientClosed);
                        }
                        stream
                    }
                };
                let name = stream.tls().and_then(|tls| tls.server_name.clone());
                connection.server_name.replace(name);
                (stream, Bytes::new(), Some(upstream.as_str()))
            }
            UpstreamChoice::ByHello(choice) => {
                let received = net::timer::within(within, read_hello(&stream)).await;
                let (hello, early) = received.ok_or_else(late)??;
                let upstream = choice.find(&hello);
                connection.server_name.replace(hello.server_name);
                (stream, early, upstream)
            }
        };
        let upstream = upstream.ok_or(CloseReason::UnknownServerName)?;
        let upstream = self.upstreams.get(upstream).ok_or(CloseReason::InternalError)?;
        Ok((stream, early, upstream))
    }

    async fn connect(
        &self,
        upstream: &StreamUpstream,
        connection: &Connection,
    ) -> Result<Lease, Fault> {
        let mut request = connection.as_request();
        let connected = Box::pin(upstream.connect(&mut request)).await;
        connection.note_server(request);
        connected
    }

    /// Logs that no server was found.
    pub(crate) fn unconnected(&self, connection: &Connection, fault: &Fault) -> CloseReason {
        event_limited!(
            1,
            Level::Warn,
            "a stream could not be connected to its upstream",
            stream = self.plan.name,
            client_ip = connection.facts.peer_ip(),
            fault = fault.slug(),
            error = fault.detail
        );
        CloseReason::StreamUnconnected
    }

    async fn relay(
        self: &Rc<Self>,
        stream: Stream,
        early: Bytes,
        lease: Lease,
        upstream: &StreamUpstream,
        connection: &Connection,
    ) -> CloseReason {
        let stream = Rc::new(stream);
        let client = ClientStream {
            stream: stream.clone(),
            early,
            outgoing: Outgoing::default(),
            traffic: connection.traffic.clone(),
            metrics: self.metrics.clone(),
        };
        match tunnel(lease, Bytes::new(), self.idle(upstream), Upgrade::None)(Box::new(client))
            .await
        {
            Ending::Finished => CloseReason::StreamFinished,
            Ending::Idle => CloseReason::TunnelIdle,
            Ending::ClientGone => CloseReason::ClientReset,
            Ending::OtherGone => {
                // An ordinary close would tell the client that it has received everything.
                stream.reset_on_close();
                CloseReason::StreamBroken
            }
        }
    }

    fn log(&self, connection: &Connection, reason: CloseReason, duration_us: u64) {
        let Some(access) = &self.access else { return };
        access.stream_ended(&StreamEntry {
            facts: &connection.facts,
            server_name: connection.server_name.borrow().as_deref(),
            server: connection.server.borrow().as_deref(),
            received: connection.traffic.received.get(),
            sent: connection.traffic.sent.get(),
            duration_us,
            reason,
        });
    }
}

impl Connection {
    /// The client as a request without content, for the choice of a server.
    pub(crate) fn as_request(&self) -> Box<Request> {
        let mut request = Request::blank();
        request.facts = Rc::new(self.facts.clone());
        request.client_ip = self.facts.peer_ip();
        request
    }

    pub(crate) fn note_server(&self, mut request: Box<Request>) {
        self.server.replace(request.notes.upstream.take());
        request.retire();
    }
}

/// Reads the ClientHello; returns it, and everything that was read.
async fn read_hello(stream: &Stream) -> Result<(ClientHello, Bytes), CloseReason> {
    let mut reader = HelloReader::default();
    let mut received = BytesMut::new();
    loop {
        let chunk = stream.receive().await.map_err(|_| CloseReason::ClientReset)?;
        if chunk.is_empty() {
            return Err(CloseReason::ClientClosed);
        }
        received.extend_from_slice(&chunk);
        match reader.feed(&chunk) {
            Ok(None) => {}
            Ok(Some(hello)) => return Ok((hello, received.freeze())),
            Err(malformed) => {
                event_limited!(
                    1,
                    Level::Debug,
                    "a stream does not begin with a ClientHello",
                    error = malformed
                );
                return Err(CloseReason::TlsFailed);
            }
        }
    }
}
