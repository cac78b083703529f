//! Requests to servers that are named by a URL and not by an upstream of the configuration.
//!
//! Owns the pools, one for each address of a server. Promises that a pooled connection that the
//! server has closed costs a new connection and no error, for requests that may be retried; that
//! the addresses of a name are tried one after the other; that a redirect is a response like any
//! other; and that no proxy is used. It runs on the worker that built it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use message::{Body, Fault, FaultKind, Request, Response, Retry};
use net::Resolver;
use net::tls::{CertificateName, ClientTls};
use plugin::WorkerContext;

use crate::limits::CLIENT_POOLS;
use crate::{
    Call, ClientOptions, Destination, Endpoint, HostField, Lease, Pool, PoolLimits, TlsIdentity,
    Upgrade, Url, send_request,
};

/// The settings that the requests of a client share.
pub struct ClientSettings {
    /// The name of the client, in the place of an upstream's name in the metrics of connections.
    pub name: String,
    /// Verification of servers; `None` if the client uses no TLS.
    pub tls: Option<ClientTls>,
    /// The name that their certificates must have; the host of each URL unless set.
    pub server_name: Option<CertificateName>,
    /// Longest time for a connection to one address.
    pub connect: Duration,
    pub limits: PoolLimits,
    pub options: Rc<ClientOptions>,
}

/// Sends requests to the servers of URLs.
pub struct Client {
    context: WorkerContext,
    settings: ClientSettings,
    /// True if servers without TLS speak HTTP/2 by prior knowledge (RFC 9113 3.3).
    prior_knowledge: bool,
    /// Stored here, because a pool that is dropped closes its connections.
    pools: RefCell<HashMap<ServerKey, Rc<Pool>>>,
}

/// An address, and the name that the server must prove.
type ServerKey = (SocketAddr, Option<CertificateName>);

/// A connection to the server of a URL.
pub struct ClientConnection {
    lease: Lease,
    pool: Rc<Pool>,
    address: SocketAddr,
}

impl ClientConnection {
    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn is_http2(&self) -> bool {
        self.lease.is_shared()
    }

    /// How long nothing has arrived on a connection of HTTP/2.
    pub fn silent_for(&self) -> Duration {
        self.lease.http2().map_or(Duration::ZERO, |connection| connection.silent_for())
    }

    /// Lets a connection of HTTP/2 end with its last request; further ones get another.
    pub fn retire(self) {
        if let Some(connection) = self.lease.http2() {
            connection.close_when_unused();
        }
    }
}

impl Client {
    pub fn new(context: &WorkerContext, settings: ClientSettings) -> Client {
        let pools = RefCell::default();
        Client { context: context.clone(), settings, prior_knowledge: false, pools }
    }

    /// Speaks HTTP/2 without TLS too. Under TLS, ALPN decides.
    #[must_use]
    pub fn with_prior_knowledge(self) -> Client {
        Client { prior_knowledge: true, ..self }
    }

    fn pool(&self, address: SocketAddr, tls: Option<&TlsIdentity>) -> Rc<Pool> {
        let make = || {
            let prior_knowledge = self.prior_knowledge && tls.is_none();
            let destination = Destination::Tcp(address);
            let endpoint = Endpoint { tls: tls.cloned(), prior_knowledge, destination };
            Pool::of(&self.context, &self.settings.name, &endpoint, self.settings.limits)
        };
        let key = (address, tls.map(|tls| tls.name.clone()));
        let mut pools = self.pools.borrow_mut();
        if pools.len() >= CLIENT_POOLS && !pools.contains_key(&key) {
            // Pools in use stay; the others are dropped with their idle connections.
            pools.retain(|_, pool| Rc::strong_count(pool) > 1);
        }
        pools.entry(key).or_insert_with(make).clone()
    }

    /// Returns the identity that the server of a URL must prove.
    fn identity(&self, url: &Url) -> Result<Option<TlsIdentity>, Fault> {
        if !url.is_secure {
            return Ok(None);
        }
        let set = self.settings.server_name.clone();
        let name = set.or_else(|| CertificateName::new(&url.host));
        let identity = self.settings.tls.clone().zip(name);
        let fail = || Fault::new(FaultKind::TlsProtocolError, "TLS is not possible with this host");
        identity.map(|(tls, name)| Some(TlsIdentity { tls, name })).ok_or_else(fail)
    }

    /// A connection to the server of a URL: a pooled one, or the first address that connects.
    pub async fn connect(&self, names: &Resolver, url: &Url) -> Result<ClientConnection, Fault> {
        let tls = self.identity(url)?;
        let fail = |why: String| Fault::new(FaultKind::DnsError, why);
        let resolved = names.resolve(&url.host, url.port).await;
        let addresses = resolved.map_err(|error| fail(error.to_string()))?.addresses;
        for address in addresses.iter().copied() {
            let pool = self.pool(address, tls.as_ref());
            if let Some(lease) = pool.take(Upgrade::None) {
                return Ok(ClientConnection { lease, pool, address });
            }
        }
        let mut failed = None;
        for address in addresses {
            let pool = self.pool(address, tls.as_ref());
            match pool.connect(self.settings.connect, None, Upgrade::None).await {
                Ok(lease) => return Ok(ClientConnection { lease, pool, address }),
                Err(fault) => failed = Some(fault),
            }
        }
        Err(failed.unwrap_or_else(|| fail(format!("{} has no address", url.host))))
    }

    /// Sends a request and returns the head of its response.
    pub async fn send(
        &self,
        connection: ClientConnection,
        request: &Request,
        body: Body,
    ) -> Result<Response, Fault> {
        let ClientConnection { lease, pool, .. } = connection;
        let again = match &body {
            Body::Empty => Some(Body::Empty),
            Body::Bytes(bytes) => Some(Body::Bytes(bytes.clone())),
            _ => None,
        };
        let reused = lease.is_reused();
        let call = Call { options: &self.settings.options, host: &HostField::Preserve, server: "" };
        match (send_request(lease, request, body, &call).await, again) {
            (Err(fault), Some(again)) if reused && may_repeat(&fault, request) => {
                let lease = pool.connect(self.settings.connect, None, Upgrade::None).await?;
                send_request(lease, request, again, &call).await
            }
            (result, _) => result,
        }
    }

    /// Sends a request and receives the whole response, which has at most `bytes_max` of content,
    /// within `timeout`.
    pub async fn fetch(
        &self,
        names: &Resolver,
        url: &Url,
        request: &Request,
        body: Body,
        timeout: Duration,
        bytes_max: u64,
    ) -> Result<Response, Fault> {
        let exchange = async {
            let connection = self.connect(names, url).await?;
            let mut response = self.send(connection, request, body).await?;
            let content =
                response.body.collect(bytes_max).await.map_err(|fault| match fault.kind {
                    FaultKind::BodyTooLarge => {
                        let detail = format!("the response has more than {bytes_max} bytes");
                        Fault::new(FaultKind::ResponseBodySize, detail)
                    }
                    _ => fault,
                })?;
            response.body = Body::Bytes(content);
            Ok(response)
        };
        let late = || {
            let detail = format!("no whole response within {} ms", timeout.as_millis());
            Err(Fault::new(FaultKind::ResponseTimeout, detail))
        };
        net::timer::within(timeout, exchange).await.unwrap_or_else(late)
    }
}

/// True if the connection may have been closed while the request was sent, and the request may be
/// retried (RFC 9110 9.2.2).
fn may_repeat(fault: &Fault, request: &Request) -> bool {
    fault.kind == FaultKind::ConnectionTerminated
        && match fault.retry {
            Retry::Unsent => true,
            Retry::IfIdempotent => request.method.is_idempotent(),
            Retry::Never => false,
        }
}
