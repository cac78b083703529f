//! One listener and one route on this worker: what the examples and the tests of the contracts
//! serve with.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_server::{ConnectionTimeouts, ListenerSnapshot, Service, TrustedProxies, serve};
use message::{Bounds, ConnectionFacts, ConnectionTimes, Fault, Protocol, Request, RouteBounds};
use net::{Accepted, Bind, BoundSocket, ListenOptions, Listening};
use plugin::{Dispatch, Handler, Route, Stage};
use telemetry::Telemetry;

struct One(Rc<Route>);

impl Dispatch for One {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}

/// A listening socket, and the address it really has.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(SocketAddr, BoundSocket)> {
    let listening = Listening::bind(&Bind::Tcp(address), 1, &ListenOptions::default())
        .map_err(|refused| refused.error)?;
    let bound = match listening.local() {
        Bind::Tcp(bound) => *bound,
        Bind::Unix(_) => address,
    };
    let socket = listening.into_sockets().pop();
    socket.map(|socket| (bound, socket)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Serves every connection with these stages and this handler, for ever.
pub(crate) async fn serve_route(
    (address, socket): (SocketAddr, BoundSocket),
    stages: Vec<Stage>,
    handler: Rc<dyn Handler>,
) -> io::Result<()> {
    let service = service(stages, handler);
    let local = Rc::new(Bind::Tcp(address));
    let listener = socket.adopt()?;
    loop {
        let accepted = listener.accept().await?;
        net::task::spawn_local(serve_one(accepted, service.clone(), local.clone()));
    }
}

/// One route for every request.
pub(crate) fn service(stages: Vec<Stage>, handler: Rc<dyn Handler>) -> Rc<Service> {
    let telemetry = Telemetry::new();
    let route =
        Route::new("one", RouteBounds::default(), telemetry.route(0, "one"), stages, handler);
    Service::new(Rc::new(edge(route)), telemetry.worker(0))
}

/// Serves one connection to its end.
pub(crate) async fn serve_one(accepted: Accepted, service: Rc<Service>, local: Rc<Bind>) {
    let facts = ConnectionFacts {
        peer: accepted.peer.clone(),
        local,
        listener: Rc::from("web"),
        protocol: Protocol::Http1,
        tls: None,
        times: ConnectionTimes::default(),
    };
    serve(accepted, service, facts).await;
}

fn edge(route: Route) -> ListenerSnapshot {
    ListenerSnapshot {
        proxy_protocol: None,
        tls: None,
        dispatch: Rc::new(One(Rc::new(route))),
        http1: true,
        http2: Some(wire::h2::Config { extended_connect: true, ..Default::default() }),
        head_limits: wire::h1::HeadLimits::default(),
        timeouts: ConnectionTimeouts {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
        },
        bounds: Bounds::default(),
        half_close: false,
        trusted_proxies: TrustedProxies::default(),
        countries: None,
        pages: Arc::default(),
        access: None,
        tracer: None,
    }
}
