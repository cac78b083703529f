//! A TCP proxy in front of a server: the network between the two, which a test can break.
//!
//! Promises that bytes that wait while nothing passes arrive later, as after a cut of the network;
//! that a connection that was left half-open is never closed by the proxy; and that no thread
//! remains.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const BUFFER_BYTES: usize = 16 * 1024;

pub struct TcpProxy {
    address: SocketAddr,
    network: Arc<Network>,
    acceptor: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

#[derive(Default)]
struct Network {
    conditions: Mutex<Conditions>,
    changed: Condvar,
}

/// What happens to bytes now.
#[derive(Default)]
struct Conditions {
    is_silent: bool,
    refuses: bool,
    delay: Duration,
    /// True when the proxy is dropped.
    is_over: bool,
    connections: Vec<Weak<ProxiedConnection>>,
    /// How many directions have read bytes, or an end, that may not pass.
    held: usize,
}

/// A connection of a client, and the one to the server that belongs to it.
struct ProxiedConnection {
    client: TcpStream,
    server: TcpStream,
    /// Passes nothing any more, and stays open.
    is_half_open: AtomicBool,
    /// Both threads end, and leave the peers with a reset.
    is_reset: AtomicBool,
}

impl TcpProxy {
    /// Starts a proxy in front of a port of 127.0.0.1.
    pub fn start(server: u16) -> TcpProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let network = Arc::new(Network::default());
        let accepting = network.clone();
        let acceptor = thread::spawn(move || {
            let mut threads = Vec::new();
            while let Ok((client, _)) = listener.accept() {
                let mut conditions = accepting.conditions();
                if conditions.is_over {
                    break;
                }
                let server = TcpStream::connect(("127.0.0.1", server));
                let Some(server) = server.ok().filter(|_| !conditions.refuses) else {
                    end_with_reset(&client);
                    continue;
                };
                let connection = Arc::new(ProxiedConnection {
                    client,
                    server,
                    is_half_open: AtomicBool::new(false),
                    is_reset: AtomicBool::new(false),
                });
                conditions.connections.retain(|connection| connection.strong_count() > 0);
                conditions.connections.push(Arc::downgrade(&connection));
                for is_request in [true, false] {
                    let (network, connection) = (accepting.clone(), connection.clone());
                    threads.push(thread::spawn(move || network.copy(&connection, is_request)));
                }
            }
            threads
        });
        TcpProxy { address, network, acceptor: Some(acceptor) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets everything pass again, also what has waited.
    pub fn pass(&self) {
        self.network.change(|conditions| {
            (conditions.is_silent, conditions.refuses) = (false, false);
            conditions.delay = Duration::ZERO;
        });
    }

    /// Passes no byte and no end in any direction; connections stay open, new ones are accepted.
    pub fn silence(&self) {
        self.network.change(|conditions| conditions.is_silent = true);
    }

    /// Leaves the connections of now half-open: nothing passes on them any more, as after a
    /// firewall has forgotten them. New ones are not affected.
    pub fn leave_half_open(&self) {
        self.network.change(|conditions| {
            for connection in conditions.connections() {
                connection.is_half_open.store(true, Ordering::SeqCst);
            }
        });
    }

    /// Resets the connections of now.
    pub fn reset(&self) {
        self.network.change(Conditions::reset);
    }

    /// Resets the connections of now and every new one.
    pub fn refuse(&self) {
        self.network.change(|conditions| {
            conditions.refuses = true;
            conditions.reset();
        });
    }

    /// Passes everything later by this time.
    pub fn delay(&self, time: Duration) {
        self.network.change(|conditions| conditions.delay = time);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.network.change(|conditions| {
            conditions.is_over = true;
            for connection in conditions.connections() {
                connection.shutdown(Shutdown::Both);
            }
        });
        // Wakes the acceptor, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
        let threads = self.acceptor.take().and_then(|thread| thread.join().ok());
        for thread in threads.unwrap_or_default() {
            let _ = thread.join();
        }
    }
}

impl Conditions {
    fn connections(&self) -> impl Iterator<Item = Arc<ProxiedConnection>> {
        self.connections.iter().filter_map(Weak::upgrade)
    }

    fn reset(&mut self) {
        for connection in self.connections() {
            connection.is_reset.store(true, Ordering::SeqCst);
            end_with_reset(&connection.client);
            end_with_reset(&connection.server);
            // Wakes the threads that read; nothing is sent for it.
            connection.shutdown(Shutdown::Read);
        }
    }
}

impl ProxiedConnection {
    fn shutdown(&self, how: Shutdown) {
        for stream in [&self.client, &self.server] {
            // It may have ended.
            let _ = stream.shutdown(how);
        }
    }
}

impl Network {
    fn conditions(&self) -> MutexGuard<'_, Conditions> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Conditions)) {
        change(&mut self.conditions());
        self.changed.notify_all();
    }

    /// Passes bytes in one direction until the connection ends.
    fn copy(&self, connection: &ProxiedConnection, is_request: bool) {
        let ProxiedConnection { client, server, .. } = connection;
        let (mut from, mut to) = if is_request { (client, server) } else { (server, client) };
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = from.read(&mut buffer);
            if !self.may_pass(connection) {
                return;
            }
            match read {
                Ok(0) => return drop(to.shutdown(Shutdown::Write)),
                Ok(count) if to.write_all(&buffer[..count]).is_ok() => {}
                _ => return connection.shutdown(Shutdown::Both),
            }
        }
    }

    /// Waits until bytes may pass; false if they never will.
    fn may_pass(&self, connection: &ProxiedConnection) -> bool {
        let is_over = |conditions: &Conditions| {
            conditions.is_over || connection.is_reset.load(Ordering::SeqCst)
        };
        let waits = |conditions: &mut Conditions| {
            let is_half_open = connection.is_half_open.load(Ordering::SeqCst);
            !is_over(conditions) && (conditions.is_silent || is_half_open)
        };
        let mut conditions = self.conditions();
        conditions.held += 1;
        let waited = self.changed.wait_while(conditions, waits);
        let mut conditions = waited.unwrap_or_else(PoisonError::into_inner);
        conditions.held -= 1;
        let delay = conditions.delay;
        if !delay.is_zero() {
            let delays = |conditions: &mut Conditions| !is_over(conditions);
            let waited = self.changed.wait_timeout_while(conditions, delay, delays);
            conditions = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !is_over(&conditions)
    }
}

/// Lets the end of a socket be a reset.
fn end_with_reset(stream: &TcpStream) {
    // It may have ended.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::{Connection, PATIENCE, Upstream, eventually};

    /// A server that sends every line back, and a proxy in front of it.
    fn echo() -> (Upstream, TcpProxy) {
        let upstream = Upstream::start(|peer| {
            while !peer.at_end() {
                let line = peer.read_until("\n");
                if !peer.try_send(line) {
                    return;
                }
            }
        });
        let proxy = TcpProxy::start(upstream.address().port());
        (upstream, proxy)
    }

    fn is_passed(connection: &mut Connection) {
        connection.send("line\n");
        connection.expect("line\n");
    }

    /// The proxy has what was sent, and keeps it.
    fn is_held(proxy: &TcpProxy, stream: &mut TcpStream) {
        eventually("the proxy has the line", || proxy.network.conditions().held == 1);
        stream.set_nonblocking(true).expect("an option");
        let read = stream.read(&mut [0; 16]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        stream.set_nonblocking(false).expect("an option");
    }

    #[test]
    fn what_waits_arrives_later_and_a_half_open_connection_stays_open() {
        let (_upstream, proxy) = echo();
        let mut passing = Connection::to(proxy.address);
        is_passed(&mut passing);
        proxy.silence();
        let mut silent = TcpStream::connect(proxy.address).expect("a connection");
        silent.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        silent.write_all(b"two\n").expect("it is open");
        is_held(&proxy, &mut silent);
        proxy.pass();
        assert_eq!(silent.read(&mut [0; 16]).expect("the echo"), 4);
        proxy.delay(Duration::from_millis(20));
        is_passed(&mut passing);
        proxy.pass();
        proxy.leave_half_open();
        silent.write_all(b"two\n").expect("it is open");
        is_held(&proxy, &mut silent);
        is_passed(&mut Connection::to(proxy.address));
    }

    #[test]
    fn connections_are_reset_and_refused() {
        let (_upstream, proxy) = echo();
        let mut first = Connection::to(proxy.address);
        is_passed(&mut first);
        proxy.reset();
        assert!(first.expect_reset().is_empty());
        let mut second = Connection::to(proxy.address);
        is_passed(&mut second);
        proxy.refuse();
        for mut refused in [second, Connection::to(proxy.address)] {
            assert!(refused.expect_reset().is_empty());
        }
        proxy.pass();
        is_passed(&mut Connection::to(proxy.address));
    }
}
