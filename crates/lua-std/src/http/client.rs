//! Connections of a script's HTTP client.
//!
//! Owns the pools, one for each address of a server. Promises that a pooled connection that the
//! server has closed costs a new connection and no error, for requests that may be retried; and
//! that the addresses of a name are tried one after the other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_client::{
    Call, ClientOptions, Destination, HostField, Lease, Pool, PoolLimits, Upgrade, send_request,
};
use message::{Body, Fault, FaultKind, Request, Response, Retry};
use net::Resolver;
use plugin::{Local, Shared, WorkerContext};
use telemetry::Telemetry;

use super::faults;
use crate::limits::{HTTP_CONNECT_MS, HTTP_POOLS};
use lua_vm::errno;

pub(crate) struct Client {
    context: WorkerContext,
    limits: PoolLimits,
    options: Rc<ClientOptions>,
    /// Stored here, because a pool that is dropped closes its connections.
    pools: RefCell<HashMap<SocketAddr, Rc<Pool>>>,
}

impl Client {
    pub(crate) fn new(limits: PoolLimits, options: ClientOptions) -> Client {
        let context = WorkerContext {
            index: 0,
            workers: 1,
            telemetry: Arc::new(Telemetry::default()),
            shared: Arc::new(Shared::default()),
            local: Rc::new(Local::default()),
        };
        Client { context, limits, options: Rc::new(options), pools: RefCell::default() }
    }

    fn pool(&self, address: SocketAddr) -> Rc<Pool> {
        let make = || {
            let endpoint = Destination::Tcp(address).into();
            Pool::of(&self.context, "lua", &endpoint, self.limits)
        };
        let mut pools = self.pools.borrow_mut();
        if pools.len() >= HTTP_POOLS && !pools.contains_key(&address) {
            // Pools in use stay; the others are dropped with their idle connections.
            pools.retain(|_, pool| Rc::strong_count(pool) > 1);
        }
        pools.entry(address).or_insert_with(make).clone()
    }

    /// A connection to the server: a pooled one, or the first address that connects.
    pub(crate) async fn connect(
        &self,
        names: &Resolver,
        host: &str,
        port: u16,
    ) -> Result<(Lease, Rc<Pool>), String> {
        let addresses = match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => {
                let found = names.resolve(host, port).await;
                found.map_err(|_| errno::RESOLVE.to_owned())?.addresses.to_vec()
            }
        };
        for address in &addresses {
            let pool = self.pool(*address);
            if let Some(lease) = pool.take(Upgrade::None) {
                return Ok((lease, pool));
            }
        }
        let mut failed = errno::RESOLVE.to_owned();
        for address in addresses {
            let pool = self.pool(address);
            match pool.connect(Duration::from_millis(HTTP_CONNECT_MS), None, Upgrade::None).await {
                Ok(lease) => return Ok((lease, pool)),
                Err(fault) => failed = faults::reason(&fault),
            }
        }
        Err(failed)
    }

    /// Sends a request and returns the head of its response.
    pub(crate) async fn send(
        &self,
        (lease, pool): (Lease, Rc<Pool>),
        request: &Request,
        body: Body,
    ) -> Result<Response, Fault> {
        let again = match &body {
            Body::Empty => Some(Body::Empty),
            Body::Bytes(bytes) => Some(Body::Bytes(bytes.clone())),
            _ => None,
        };
        let reused = lease.is_reused();
        let call = Call { options: &self.options, host: &HostField::Preserve, server: "" };
        match (send_request(lease, request, body, &call).await, again) {
            (Err(fault), Some(again)) if reused && may_repeat(&fault, request) => {
                let lease = pool
                    .connect(Duration::from_millis(HTTP_CONNECT_MS), None, Upgrade::None)
                    .await?;
                send_request(lease, request, again, &call).await
            }
            (outcome, _) => outcome,
        }
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
