//! A server on this loop; each session is answered by a thread.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use apps::websocket::{self, WebSocketSettings};
use http_server::{ConnectionTimeouts, ListenerSnapshot, Service, TrustedProxies, serve};
use message::{
    Bounds, ConnectionFacts, ConnectionTimes, Fault, HandlerResult, Protocol, Request, Response,
    RouteBounds,
};
use net::{Bind, BoundSocket, ListenOptions, Listening};
use offload::session::{Accepted, Closed, HandedSession, Received, Session};
use offload::wait;
use plugin::{Dispatch, Handler, MaybeFuture, Route};
use telemetry::Telemetry;

type Serve = Arc<dyn Fn(HandedSession) + Send + Sync>;

struct Sessions {
    settings: WebSocketSettings,
    serve: Serve,
}

impl Handler for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        if !websocket::asks(request) {
            return Ok(Response::text(200, "no session")).into();
        }
        let (handed, upgrade) = match websocket::begin(request, &self.settings) {
            Ok(parted) => parted,
            Err(fault) => return Err(fault).into(),
        };
        let serve = self.serve.clone();
        std::thread::spawn(move || serve(handed));
        MaybeFuture::of(upgrade)
    }
}

struct One(Rc<Route>);

impl Dispatch for One {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}

/// Serves on this loop until the test ends.
pub(crate) fn start(
    settings: WebSocketSettings,
    serve: impl Fn(HandedSession) + Send + Sync + 'static,
) -> (SocketAddr, Rc<Service>) {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = ListenOptions::default();
    let listening = Listening::bind(&Bind::Tcp(nowhere), 1, &options).unwrap();
    let Bind::Tcp(address) = *listening.local() else { panic!("an address was bound") };
    let socket = listening.into_sockets().pop().unwrap();
    let telemetry = Telemetry::new();
    let route = Route::new(
        "one",
        RouteBounds::default(),
        telemetry.route(0, "one"),
        Vec::new(),
        Rc::new(Sessions { settings, serve: Arc::new(serve) }),
    );
    let service = Service::new(Rc::new(edge(route)), telemetry.worker(0));
    net::task::spawn_local(accept(socket, address, service.clone()));
    (address, service)
}

async fn accept(socket: BoundSocket, address: SocketAddr, service: Rc<Service>) {
    let listener = socket.adopt().unwrap();
    while let Ok(accepted) = listener.accept().await {
        let facts = ConnectionFacts {
            peer: accepted.peer.clone(),
            local: Rc::new(Bind::Tcp(address)),
            listener: Rc::from("web"),
            protocol: Protocol::Http1,
            tls: None,
            times: ConnectionTimes::default(),
        };
        net::task::spawn_local(serve(accepted, service.clone(), facts));
    }
}

fn edge(route: Route) -> ListenerSnapshot {
    ListenerSnapshot {
        proxy_protocol: None,
        tls: None,
        dispatch: Rc::new(One(Rc::new(route))),
        http1: true,
        http2: Some(wire::h2::Config::default()),
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

/// Reads the next message of a session, or its end.
pub(crate) fn next(session: &mut Session) -> Received {
    wait(poll_fn(|cx| session.poll_receive(cx)))
}

/// Accepts, echoes messages, and returns how the session ended.
pub(crate) fn echo(mut handed: HandedSession) -> Closed {
    let session = &mut handed.session;
    // The client may have gone.
    let _ = session.accept(Accepted::default());
    loop {
        match next(session) {
            Received::Message(message) => {
                let _ = wait(poll_fn(|cx| session.poll_ready(cx)));
                let _ = session.send(message);
            }
            Received::Closed(closed) => return closed,
        }
    }
}

/// An echo server.
pub(crate) fn echoing(settings: WebSocketSettings) -> SocketAddr {
    start(settings, |handed| drop(echo(handed))).0
}
