//! New connections of a pool, and the version of HTTP that they carry.

use std::rc::Rc;
use std::time::Duration;

use message::Fault;
use net::clock::{self, Moment};
use net::{Stream, timer};
use telemetry::LimitHit;

use super::{Lease, Pool};
use crate::connection::{Connection, Endpoint, ProxyHeader};
use crate::faults;
use crate::h2::{ConnectionCount, Http2Connection};
use crate::upgrade::Upgrade;

impl Pool {
    /// A new connection for a request; or, of a server that speaks HTTP/2, one that another request
    /// has made in the meantime. One that begins with a PROXY header carries no other request.
    pub async fn connect(
        self: &Rc<Self>,
        within: Duration,
        header: Option<&ProxyHeader>,
        upgrade: Upgrade,
    ) -> Result<Lease, Fault> {
        let mut lease = self.lease(None);
        if !self.endpoint.may_be_http2() {
            self.connect_http1(&mut lease, &self.endpoint, within, header).await?;
            return Ok(lease);
        }
        let connecting = self.connect_either(&mut lease, within, header, upgrade);
        match timer::within(within, Box::pin(connecting)).await {
            Some(connected) => connected.map(|()| lease),
            None => Err(faults::connect_timeout()),
        }
    }

    /// A new connection for a stream of layer 4, on which the server may speak first. It offers no
    /// protocol in ALPN, because the gateway does not know which one the stream carries.
    pub async fn open(
        self: &Rc<Self>,
        within: Duration,
        header: Option<&ProxyHeader>,
    ) -> Result<Lease, Fault> {
        let mut lease = self.lease(None);
        let endpoint = self.endpoint.with_protocols(&[]);
        let stream = self.establish(&endpoint, within, header, |_| None).await?;
        lease.set_connection(Box::new(self.connection(stream, header)));
        Ok(lease)
    }

    /// Connects to a server that may speak HTTP/2.
    async fn connect_either(
        self: &Rc<Self>,
        lease: &mut Lease,
        within: Duration,
        header: Option<&ProxyHeader>,
        upgrade: Upgrade,
    ) -> Result<(), Fault> {
        let demands_http1 = self.demands_http1();
        let may_be_http1 = demands_http1 || upgrade != Upgrade::None;
        let http1 = if may_be_http1 { self.endpoint.over_http1() } else { None };
        let is_http1 = demands_http1 || upgrade == Upgrade::Other;
        if let Some(endpoint) = &http1
            && (is_http1 || self.shared.lacks_extended_connect())
        {
            return self.connect_http1(lease, endpoint, within, header).await;
        }
        let may_share = header.is_none() && !self.shared.is_http1.get();
        let turn = if may_share {
            match self.shared.wait(upgrade, self.limits.get().max_requests).await {
                Ok(connection) => {
                    lease.set_http2(connection);
                    return Ok(());
                }
                Err(turn) => Some(turn),
            }
        } else {
            None
        };
        // The settings of the server come first, unasked.
        let is_http2 = |stream: &Stream| self.endpoint.is_http2(stream);
        let early = |stream: &Stream| match is_http2(stream) {
            true => None,
            false => faults::early(stream.has_bytes()),
        };
        let stream = self.establish(&self.endpoint, within, header, early).await?;
        self.shared.is_http1.set(!is_http2(&stream));
        if !is_http2(&stream) {
            lease.set_connection(Box::new(self.connection(stream, header)));
            return Ok(());
        }
        let connection = self.start_http2(stream, header.is_some());
        if header.is_none() {
            self.shared.add(connection.clone());
        }
        drop(turn);
        if upgrade == Upgrade::WebSocket && !connection.supports_extended_connect().await {
            return match http1 {
                Some(endpoint) => self.connect_http1(lease, &endpoint, within, header).await,
                None => Err(faults::no_websocket()),
            };
        }
        lease.set_http2(connection);
        Ok(())
    }

    async fn connect_http1(
        &self,
        lease: &mut Lease,
        endpoint: &Endpoint,
        within: Duration,
        header: Option<&ProxyHeader>,
    ) -> Result<(), Fault> {
        let early = |stream: &Stream| faults::early(stream.has_bytes());
        let stream = self.establish(endpoint, within, header, early).await?;
        lease.set_connection(Box::new(self.connection(stream, header)));
        Ok(())
    }

    async fn establish(
        &self,
        endpoint: &Endpoint,
        within: Duration,
        header: Option<&ProxyHeader>,
        is_unusable: impl FnOnce(&Stream) -> Option<Fault>,
    ) -> Result<Stream, Fault> {
        let connecting = async {
            match endpoint.connect(header).await {
                // Idle connections are worth less than one that a request waits for.
                Err(error) if net::is_exhausted(&error) => {
                    self.metrics.worker.hit(LimitHit::Descriptors);
                    match self.sweeper.close_idle() {
                        0 => Err(error),
                        _ => endpoint.connect(header).await,
                    }
                }
                outcome => outcome,
            }
        };
        let outcome = match timer::within(within, connecting).await {
            None => Err(faults::connect_timeout()),
            Some(Err(error)) => Err(faults::connect(&error, endpoint)),
            Some(Ok(stream)) => match is_unusable(&stream) {
                None => Ok(stream),
                Some(fault) => Err(fault),
            },
        };
        self.metrics.connected(outcome.as_ref().map(|_| ()));
        outcome
    }

    fn connection(&self, stream: Stream, header: Option<&ProxyHeader>) -> Connection {
        let mut connection = Connection::new(stream, self.retires());
        connection.for_one_client = header.is_some();
        connection
    }

    fn start_http2(&self, stream: Stream, for_one_client: bool) -> Rc<Http2Connection> {
        let limits = self.limits.get();
        let worker = self.metrics.worker.clone();
        let count = ConnectionCount::new(&self.metrics.shared, &self.parking, self.worker);
        // Without idle connections it ends with its last exchange.
        let idle = (limits.max_idle > 0 && !for_one_client).then(|| self.jittered(limits.idle));
        let may_be_http1 = self.endpoint.over_http1().is_some();
        let demand = may_be_http1.then(|| self.shared.http1_demand.clone());
        Http2Connection::start(stream, limits.head, self.retires(), idle, demand, count, worker)
    }

    fn retires(&self) -> Moment {
        clock::now().after(self.jittered(self.limits.get().max_age))
    }
}
