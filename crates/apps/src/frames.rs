//! The process's end of the way from gateways to the application that it runs.
//!
//! Accepts connections of frames, makes exchanges of what comes, gives them to whoever answers, and
//! sends the answers back. Time-outs and limits of clients are the gateway's. Promises that an
//! exchange whose client, gateway or connection has gone is told so, that what is malformed closes
//! its connection, and that a drain takes nothing new and loses nothing.

mod connection;
mod exchange;
mod feed;
mod talk;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use ::exchange::offload::{Arrival, Limits};
use net::task::{self, JoinHandle};
use net::{Accepted, Listener, is_exhausted, timer};
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::Notify;

use crate::conduit::Ended;
use crate::limits::FRAMES_REST;
use crate::place::Refused;
use connection::Connection;

/// What connections have in common.
struct Service {
    sink: Box<dyn Fn(Arrival) -> Result<(), Refused>>,
    limits: Limits,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    opened: Cell<u64>,
    leaving: Cell<bool>,
    emptied: Notify,
}

/// A process that takes exchanges in frames. Dropped, it takes no new connections; those that are
/// open go on.
pub struct Serving {
    service: Rc<Service>,
    acceptor: JoinHandle<()>,
}

/// Serves connections that gateways make to `listener`; exchanges go to `sink`. To be called on a
/// worker. Of the limits only those of queues count here.
pub fn serve(
    listener: Listener,
    sink: impl Fn(Arrival) -> Result<(), Refused> + 'static,
    limits: Limits,
) -> Serving {
    let service = Rc::new(Service {
        sink: Box::new(sink),
        limits: Limits { answer: Duration::MAX, pause: Duration::MAX, ..limits },
        connections: RefCell::default(),
        opened: Cell::new(0),
        leaving: Cell::new(false),
        emptied: Notify::new(),
    });
    let acceptor = task::spawn_local(accept(listener, service.clone()));
    Serving { service, acceptor }
}

impl Serving {
    /// Exchanges under way.
    pub fn in_flight(&self) -> usize {
        self.service.connections.borrow().values().map(|connection| connection.in_flight()).sum()
    }

    /// Takes no new connections, tells the gateways to send nothing new, and waits until all that
    /// is under way has ended. What the listener has queued is for the next process.
    pub async fn drain(&self) {
        self.acceptor.abort();
        self.service.leaving.set(true);
        let open: Vec<_> = self.service.connections.borrow().values().cloned().collect();
        open.iter().for_each(|connection| connection.leave());
        while !self.service.connections.borrow().is_empty() {
            self.service.emptied.notified().await;
        }
    }
}

impl Drop for Serving {
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
                event!(Level::Warn, "a gateway could not be accepted", error = error);
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
    if service.leaving.get() {
        connection.leave();
    }
    match connection.run(stream).await {
        ended @ Ended::Malformed(_) => {
            event!(Level::Error, "a gateway does not keep to the frames", why = ended);
        }
        ended => event!(Level::Debug, "a gateway's connection has ended", why = ended),
    }
    service.connections.borrow_mut().remove(&number);
    if service.connections.borrow().is_empty() {
        service.emptied.notify_one();
    }
}
