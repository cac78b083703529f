//! The smallest server on the serving loop: one worker, one route, one handler.
//!
//! Shows what `exchange` asks of whoever uses it (a [`Dispatch`] and a [`Service`]) and is what the
//! loop alone costs when it is measured against the floor.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange::serve::{ConnectionTimeouts, Edge, Service, TrustedProxies, serve};
use exchange::{
    Bounds, ConnectionFacts, Dispatch, Fault, Handler, LocalFuture, Outcome, Protocol, Request,
    Response, Route, RouteBounds,
};
use net::{Bind, ListenOptions, Listening};
use telemetry::Telemetry;

struct Hello;

impl Handler for Hello {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn answer(&self, _: &mut Request) -> Option<Outcome> {
        Some(Ok(Response::text(200, "hello")))
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Outcome> {
        Box::pin(std::future::ready(Ok(Response::text(200, "hello"))))
    }
}

struct One(Rc<Route>);

impl Dispatch for One {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let bind = Bind::Tcp(address.parse()?);
    let listening = Listening::bind(&bind, 1, &ListenOptions::default())?;
    eprintln!("listening on {}", listening.local());
    net::worker::block_on_local(async {
        let telemetry = Telemetry::new();
        let local = Rc::new(listening.local().clone());
        let service = Service::new(Rc::new(edge(&telemetry)), telemetry.worker(0));
        let Some(socket) = listening.into_sockets().pop() else { return Ok(()) };
        let listener = socket.adopt()?;
        loop {
            let accepted = listener.accept().await?;
            let facts = ConnectionFacts {
                peer: accepted.peer.clone(),
                local: local.clone(),
                listener: Rc::from("hello"),
                protocol: Protocol::Http1,
                tls: None,
            };
            tokio::task::spawn_local(serve(accepted, service.clone(), facts));
        }
    })
}

fn edge(telemetry: &Telemetry) -> Edge {
    let route = Rc::new(Route {
        name: Rc::from("hello"),
        stages: Vec::new(),
        handler: Rc::new(Hello),
        bounds: RouteBounds::default(),
        metrics: telemetry.route(0, "hello"),
    });
    Edge {
        dispatch: Rc::new(One(route)),
        head_limits: wire::h1::HeadLimits {
            request_line: 8192,
            headers: 32 * 1024,
            header_count: 128,
        },
        timeouts: ConnectionTimeouts {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
        },
        bounds: Bounds::default(),
        half_close: false,
        trusted_proxies: TrustedProxies::default(),
        pages: Arc::default(),
        access: None,
    }
}
