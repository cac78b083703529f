//! The application process's end of the connections from gateways.
//!
//! Accepts connections of frames, turns them into exchanges, passes these to the application, and
//! sends its responses. Time-outs and limits of clients are enforced by the gateway. Promises that
//! an exchange whose client, gateway or connection is gone is cancelled, that malformed input
//! closes its connection, and that draining accepts nothing new and loses nothing.

mod connection;
mod exchange;
mod feed;
mod ws_session;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use net::task::{self, JoinHandle};
use net::{Accepted, Listener, is_exhausted, timer};
use offload::{Arrival, Limits};
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::Notify;

use crate::backend::OfferError;
use crate::limits::FRAMES_REST;
use crate::mux::CloseCause;
use connection::Connection;

/// State shared by the connections.
struct Service {
    sink: Box<dyn Fn(Arrival) -> Result<(), OfferError>>,
    limits: Limits,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    opened: Cell<u64>,
    draining: Cell<bool>,
    emptied: Notify,
}

/// A server of exchanges in frames. Dropped, it accepts no new connections; open ones continue.
pub struct FrameServer {
    service: Rc<Service>,
    acceptor: JoinHandle<()>,
}

/// Serves the connections that gateways open to `listener`; exchanges go to `sink`. Must be called
/// on a worker. Of the limits only those of queues apply here.
pub fn serve(
    listener: Listener,
    sink: impl Fn(Arrival) -> Result<(), OfferError> + 'static,
    limits: Limits,
) -> FrameServer {
    let service = Rc::new(Service {
        sink: Box::new(sink),
        limits: Limits { answer: Duration::MAX, pause: Duration::MAX, ..limits },
        connections: RefCell::default(),
        opened: Cell::new(0),
        draining: Cell::new(false),
        emptied: Notify::new(),
    });
    let acceptor = task::spawn_local(accept(listener, service.clone()));
    FrameServer { service, acceptor }
}

impl FrameServer {
    /// Exchanges in flight.
    pub fn in_flight(&self) -> usize {
        self.service.connections.borrow().values().map(|connection| connection.in_flight()).sum()
    }

    /// Accepts no new connections, tells the gateways to send nothing new, and waits until all
    /// exchanges have ended. Connections in the backlog are left for the next process.
    pub async fn drain(&self) {
        self.acceptor.abort();
        self.service.draining.set(true);
        let open: Vec<_> = self.service.connections.borrow().values().cloned().collect();
        open.iter().for_each(|connection| connection.leave());
        while !self.service.connections.borrow().is_empty() {
            self.service.emptied.notified().await;
        }
    }
}

impl Drop for FrameServer {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(listener: Listener, service: Rc<Service>) {
    loop {
        match listener.accept().await {
            Ok(Accepted { stream, .. }) => {
                drop(task::spawn_local(serve_one(service.clone(), stream)));
            }
            Err(error) => {
                event!(Level::Warn, "cannot accept a connection of a gateway", error = error);
                if is_exhausted(&error) {
                    timer::sleep(FRAMES_REST).await;
                }
            }
        }
    }
}

async fn serve_one(service: Rc<Service>, stream: net::Stream) {
    let number = service.opened.get();
    service.opened.set(number + 1);
    let connection = Connection::new(service.clone());
    service.connections.borrow_mut().insert(number, connection.clone());
    if service.draining.get() {
        connection.leave();
    }
    match connection.run(stream).await {
        ended @ CloseCause::Malformed(_) => {
            event!(
                Level::Error,
                "closed a gateway's connection after malformed frames",
                reason = ended
            );
        }
        ended => event!(Level::Debug, "a gateway's connection has ended", reason = ended),
    }
    service.connections.borrow_mut().remove(&number);
    if service.connections.borrow().is_empty() {
        service.emptied.notify_one();
    }
}
