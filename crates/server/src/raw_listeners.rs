//! Listeners whose connections are not HTTP, on one worker, across plans: those of streams and of
//! raw TCP programs.
//!
//! A socket that a new plan keeps is not touched: its next connection goes to the new handler, open
//! connections stay with their handler. It may pass from one kind of handler to another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use lua_host::RawProgram;
use net::{Accepted, Bind, BoundSocket, Datagram, Listener, is_exhausted};
use streams::{Sessions, StreamService};
use telemetry::log::Level;
use telemetry::{event, event_limited};

use crate::accept::{EXHAUSTED_PAUSE, StopSignal};
use crate::connection_limiter::{ConnectionLimiter, Permit};
use crate::descriptors::IdleCloser;

/// A socket on the worker's event loop.
pub(crate) enum AdoptedSocket {
    Listener(Rc<Listener>),
    Datagram(Datagram),
}

impl AdoptedSocket {
    pub(crate) fn adopt(socket: BoundSocket) -> std::io::Result<AdoptedSocket> {
        match socket.is_datagram()? {
            true => socket.adopt_datagram().map(AdoptedSocket::Datagram),
            false => socket.adopt().map(Rc::new).map(AdoptedSocket::Listener),
        }
    }
}

/// Reports that a socket of the plan is not there.
pub(crate) fn report_missing(key: &str) {
    event!(
        Level::Error,
        "an address is not served: its socket is missing",
        event = "socket_missing",
        address = key,
        advice = "restart the server"
    );
}

/// The permits of a connection: of its listener and of the whole server.
pub(crate) type Permits = (Permit, Permit);

/// Serves the connections of a socket.
pub(crate) trait RawHandler {
    /// Serves a connection; `permits` are dropped when it ends.
    fn admit(self: &Rc<Self>, accepted: Accepted, local: &Rc<Bind>, permits: Permits);

    /// Forwards a datagram; `acquire` provides the permits of a new session.
    fn pass_datagram(
        self: &Rc<Self>,
        _: &Rc<Sessions>,
        _: (Bytes, SocketAddr),
        _: impl FnOnce() -> Option<Permits>,
    ) {
    }

    /// Returns the number of open connections.
    fn connections(&self) -> usize;

    /// Counts a connection that is closed because of a limit.
    fn count_refused(&self) {}
}

impl RawHandler for RawProgram {
    fn admit(self: &Rc<Self>, accepted: Accepted, _: &Rc<Bind>, permits: Permits) {
        RawProgram::admit(self, accepted, permits);
    }

    fn connections(&self) -> usize {
        RawProgram::connections(self)
    }
}

impl RawHandler for StreamService {
    fn admit(self: &Rc<Self>, accepted: Accepted, local: &Rc<Bind>, permits: Permits) {
        StreamService::admit(self, accepted, local, permits);
    }

    fn pass_datagram(
        self: &Rc<Self>,
        sessions: &Rc<Sessions>,
        (datagram, client): (Bytes, SocketAddr),
        acquire: impl FnOnce() -> Option<Permits>,
    ) {
        StreamService::pass_datagram(self, sessions, &datagram, client, acquire);
    }

    fn connections(&self) -> usize {
        StreamService::connections(self)
    }

    fn count_refused(&self) {
        StreamService::count_refused(self);
    }
}

/// A worker's listeners for one kind of handler, by the key of their sockets.
pub(crate) struct RawListeners<H> {
    open: BTreeMap<String, Rc<OpenSocket<H>>>,
    /// Replaced handlers with open connections.
    closing: RefCell<Vec<Rc<H>>>,
}

impl<H> Default for RawListeners<H> {
    fn default() -> Self {
        RawListeners { open: BTreeMap::new(), closing: RefCell::default() }
    }
}

struct OpenSocket<H> {
    handler: RefCell<Rc<H>>,
    /// Of TCP and Unix sockets; owned by the accept loop.
    listener: Weak<Listener>,
    limiters: [Arc<ConnectionLimiter>; 2],
    idle_closer: Rc<IdleCloser>,
    stop: StopSignal,
}

impl<H: RawHandler + 'static> RawListeners<H> {
    /// Stops the listeners that have no handler any more, and returns their sockets, each for
    /// another kind of handler.
    pub(crate) fn close_others(
        &mut self,
        handlers: &[(String, Rc<H>)],
    ) -> Vec<(String, AdoptedSocket)> {
        let is_wanted = |key: &String| handlers.iter().any(|(wanted, _)| wanted == key);
        let gone: Vec<String> = self.open.keys().filter(|key| !is_wanted(key)).cloned().collect();
        let close = |key: String| Some((key.clone(), self.close_one(&key)?));
        gone.into_iter().filter_map(close).collect()
    }

    /// Opens and replaces listeners as the plan says; `take` returns the adopted socket of a key.
    pub(crate) fn follow(
        &mut self,
        handlers: Vec<(String, Rc<H>)>,
        idle_closer: &Rc<IdleCloser>,
        mut take: impl FnMut(&str) -> (Option<AdoptedSocket>, [Arc<ConnectionLimiter>; 2]),
    ) {
        for (key, handler) in handlers {
            if let Some(open) = self.open.get(&key) {
                let before = open.handler.replace(handler);
                self.closing.borrow_mut().push(before);
                continue;
            }
            let (Some(socket), limiters) = take(&key) else {
                report_missing(&key);
                continue;
            };
            let listener = match &socket {
                AdoptedSocket::Listener(listener) => Rc::downgrade(listener),
                AdoptedSocket::Datagram(_) => Weak::new(),
            };
            let open = Rc::new(OpenSocket {
                handler: RefCell::new(handler),
                listener,
                limiters,
                idle_closer: idle_closer.clone(),
                stop: StopSignal::default(),
            });
            match socket {
                AdoptedSocket::Listener(listener) => {
                    net::task::spawn_local(accept(listener, open.clone()));
                }
                AdoptedSocket::Datagram(socket) => {
                    net::task::spawn_local(receive(socket, open.clone()));
                }
            }
            self.open.insert(key, open);
        }
        self.closing.borrow_mut().retain(|handler| handler.connections() > 0);
    }

    fn close_one(&mut self, key: &str) -> Option<AdoptedSocket> {
        let open = self.open.remove(key)?;
        open.stop.stop();
        self.closing.borrow_mut().push(open.handler.borrow().clone());
        open.listener.upgrade().map(AdoptedSocket::Listener)
    }

    /// Stops accepting.
    pub(crate) fn close(&mut self) {
        let keys: Vec<String> = self.open.keys().cloned().collect();
        for key in keys {
            self.close_one(&key);
        }
    }

    /// Returns the number of connections of replaced handlers.
    pub(crate) fn connections(&self) -> usize {
        self.closing.borrow().iter().map(|handler| handler.connections()).sum()
    }
}

impl<H: RawHandler> OpenSocket<H> {
    fn admit(&self, accepted: Accepted, local: &Rc<Bind>) {
        let handler = self.handler.borrow().clone();
        match self.acquire() {
            Some(permits) => handler.admit(accepted, local, permits),
            // The protocol is unknown, so there is no way to report an error.
            None => handler.count_refused(),
        }
    }

    fn acquire(&self) -> Option<Permits> {
        let [own, all] = &self.limiters;
        Some((own.acquire()?, self.idle_closer.acquire(all)?))
    }
}

/// Accepts until the loop is stopped; then accepts what is queued, unless another loop does.
async fn accept<H: RawHandler>(listener: Rc<Listener>, open: Rc<OpenSocket<H>>) {
    let local = Rc::new(listener.local().clone());
    loop {
        let accepted = poll_fn(|cx| {
            if open.stop.is_stopped(cx.waker()) {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        })
        .await;
        match accepted {
            None => break,
            Some(Ok(accepted)) => open.admit(accepted, &local),
            Some(Err(error)) => {
                event_limited!(1, Level::Warn, "accepting a connection failed", error = error);
                if is_exhausted(&error) {
                    open.idle_closer.exhausted(&open.limiters[1]);
                    net::timer::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
    let Some(listener) = Rc::into_inner(listener) else { return };
    for accepted in listener.drain().into_iter().flatten() {
        open.admit(accepted, &local);
    }
}

/// Receives datagrams until the loop is stopped.
async fn receive<H: RawHandler>(socket: Datagram, open: Rc<OpenSocket<H>>) {
    let sessions = Sessions::new(socket);
    loop {
        let mut receiving = pin!(sessions.receive());
        let received = poll_fn(|cx| {
            if open.stop.is_stopped(cx.waker()) {
                return Poll::Ready(None);
            }
            receiving.as_mut().poll(cx).map(Some)
        })
        .await;
        match received {
            None => break,
            Some(Ok(datagram)) => {
                let handler = open.handler.borrow().clone();
                handler.pass_datagram(&sessions, datagram, || open.acquire());
            }
            Some(Err(error)) => {
                event_limited!(1, Level::Warn, "receiving a datagram failed", error = error);
                net::timer::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
    sessions.close();
}
