//! Streams of UDP: the datagrams of one client are a session with one server.
//!
//! A session has a socket of its own, connected to its server, so that a reply is the client's
//! without looking into it. It has no end but silence. Datagrams that a socket does not take at
//! once are dropped, as a network would drop them, and counted; nothing is queued here.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use net::{Bind, Datagram, Peer, Timer};
use telemetry::{CloseReason, LimitHit};
use upstream::DatagramServer;

use crate::service::{Connection, StreamService};

/// How long sessions wait for replies once the socket accepts no more datagrams.
const CLOSING: Duration = Duration::from_secs(1);

/// A socket of UDP on one worker, and its sessions.
pub struct Sessions {
    socket: Datagram,
    local: Rc<Bind>,
    open: RefCell<HashMap<SocketAddr, Rc<Session>>>,
    is_closing: Cell<bool>,
}

struct Session {
    /// Of the plan that the session began under.
    service: Rc<StreamService>,
    client: SocketAddr,
    server: DatagramServer,
    to_server: Datagram,
    timer: Timer,
    idle: Duration,
    /// A datagram came back as undeliverable when the next one was sent.
    is_refused: Cell<bool>,
    connection: Connection,
}

impl Sessions {
    pub fn new(socket: Datagram) -> Rc<Sessions> {
        let local = Rc::new(Bind::Tcp(socket.local()));
        Rc::new(Sessions { socket, local, open: RefCell::default(), is_closing: Cell::new(false) })
    }

    /// Returns the next datagram of a client. Dropping this future loses nothing.
    pub async fn receive(&self) -> io::Result<(Bytes, SocketAddr)> {
        self.socket.receive_from().await
    }

    /// Lets the sessions end soon: their clients' datagrams do not arrive any more.
    pub fn close(&self) {
        self.is_closing.set(true);
        for session in self.open.borrow().values() {
            session.timer.set(session.idle.min(CLOSING));
            session.timer.wake_handle().wake();
        }
    }
}

impl StreamService {
    /// Passes a datagram to the server of its session, or begins one; `acquire` gives what it holds
    /// until its end.
    pub fn pass_datagram<P: Any>(
        self: &Rc<Self>,
        sessions: &Rc<Sessions>,
        datagram: &[u8],
        client: SocketAddr,
        acquire: impl FnOnce() -> Option<P>,
    ) {
        let open = sessions.open.borrow().get(&client).cloned();
        let session = match open {
            Some(session) => session,
            None => match self.begin_session(sessions, client, acquire) {
                Ok(session) => session,
                Err(reason) => {
                    self.metrics.datagrams_dropped.inc();
                    return self.metrics.closed(reason);
                }
            },
        };
        session.forward(datagram);
    }

    fn begin_session<P: Any>(
        self: &Rc<Self>,
        sessions: &Rc<Sessions>,
        client: SocketAddr,
        acquire: impl FnOnce() -> Option<P>,
    ) -> Result<Rc<Session>, CloseReason> {
        let connection = self.connection(Peer::Tcp(client), &sessions.local);
        let client_permit = self.admit_client(connection.facts.peer_ip())?;
        let Some(permit) = acquire() else {
            self.metrics.worker.hit(LimitHit::Connections);
            return Err(CloseReason::ConnectionLimit);
        };
        let upstream = self.only_upstream().ok_or(CloseReason::InternalError)?;
        let mut request = connection.as_request();
        let server = upstream.choose(&mut request);
        connection.note_server(request);
        let server = server.map_err(|fault| self.unconnected(&connection, &fault))?;
        let to_server = Datagram::connect(server.address()).map_err(|_| {
            server.refused();
            CloseReason::StreamUnconnected
        })?;
        let session = Rc::new(Session {
            service: self.clone(),
            client,
            idle: self.idle(upstream),
            server,
            to_server,
            timer: Timer::new(),
            is_refused: Cell::new(false),
            connection,
        });
        sessions.open.borrow_mut().insert(client, session.clone());
        self.began();
        let (running, sessions) = (session.clone(), sessions.clone());
        net::task::spawn_local(async move {
            let began_us = net::clock::now_us();
            let reason = running.run(&sessions).await;
            sessions.open.borrow_mut().remove(&running.client);
            running.service.ended(&running.connection, reason, began_us);
            drop((permit, client_permit));
        });
        Ok(session)
    }
}

impl Session {
    /// Sends a datagram of the client to the server.
    fn forward(&self, datagram: &[u8]) {
        let metrics = &self.service.metrics;
        match self.to_server.try_send(datagram) {
            Ok(()) => {
                self.timer.set(self.idle);
                metrics.datagrams_received.inc();
                self.connection.traffic.count_received(datagram.len() as u64, metrics);
            }
            Err(error) => {
                metrics.datagrams_dropped.inc();
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.is_refused.set(true);
                    self.timer.wake_handle().wake();
                }
            }
        }
    }

    /// Passes replies to the client until none was sent or received for too long.
    async fn run(&self, sessions: &Sessions) -> CloseReason {
        self.timer.set(self.idle);
        let metrics = &self.service.metrics;
        loop {
            let mut receiving = pin!(self.to_server.receive_from());
            let received = poll_fn(|cx| {
                if self.is_refused.get() {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionRefused.into())));
                }
                if let Poll::Ready(received) = receiving.as_mut().poll(cx) {
                    return Poll::Ready(Some(received));
                }
                self.timer.poll(cx).map(|()| None)
            });
            match received.await {
                None => return CloseReason::TunnelIdle,
                Some(Err(_)) => {
                    self.server.refused();
                    return CloseReason::StreamBroken;
                }
                Some(Ok((datagram, _))) => {
                    self.server.responded();
                    let closing = sessions.is_closing.get();
                    self.timer.set(if closing { self.idle.min(CLOSING) } else { self.idle });
                    match sessions.socket.try_send_to(&datagram, self.client) {
                        Ok(()) => {
                            metrics.datagrams_sent.inc();
                            self.connection.traffic.count_sent(datagram.len() as u64, metrics);
                        }
                        Err(_) => metrics.datagrams_dropped.inc(),
                    }
                }
            }
        }
    }
}
