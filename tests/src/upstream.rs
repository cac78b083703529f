//! An upstream that does what a script says, byte for byte, a thread a connection.
//!
//! The script is a closure over the accepted [`Connection`]: it reads, sends, closes (by
//! returning), resets or stalls as it likes. Promises that a panic of the script (an expectation
//! that did not hold) fails the test when the upstream is dropped, and that no thread stays.

use crate::{Connection, Http2Peer};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use wire::h2::Config;

pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<Vec<Script>>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    accepted: AtomicUsize,
}

/// One running script. Its connection is held weakly: the script alone decides when it closes.
struct Script {
    thread: JoinHandle<()>,
    stream: Weak<TcpStream>,
}

impl Upstream {
    /// Runs `script` for every connection. [`Connection::number`] tells them apart.
    pub fn start(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        Self::start_owned(move |mut connection| script(&mut connection))
    }

    /// The same with the connection itself, for a script that ends in [`Connection::reset`].
    pub fn start_owned(script: impl Fn(Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let script = Arc::new(script);
        let acceptor = std::thread::spawn(move || {
            let mut scripts = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if accepting.over.load(Ordering::SeqCst) {
                    break;
                }
                let number = accepting.accepted.fetch_add(1, Ordering::SeqCst);
                let connection = Connection::new(Arc::new(stream), number);
                let stream = connection.downgrade();
                let script = Arc::clone(&script);
                let thread = std::thread::spawn(move || script(connection));
                scripts.push(Script { thread, stream });
            }
            scripts
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Runs `script` for every connection, which is one of HTTP/2.
    pub fn http2(
        config: Config,
        script: impl Fn(&mut Http2Peer<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |connection| script(&mut Http2Peer::new(connection, config.clone())))
    }

    /// An upstream that responds to every request without a body with `response`, and keeps alive.
    pub fn responding(response: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::start(move |peer| {
            while !peer.at_end() {
                peer.read_head();
                if !peer.try_send(response.as_ref()) {
                    return;
                }
            }
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
        let scripts = self.acceptor.take().and_then(|thread| thread.join().ok());
        let mut wrong = 0;
        for script in scripts.unwrap_or_default() {
            // A script that still holds its connection is cut short, and what it then misses says
            // nothing about the server. A panic of one that had let go is a finding.
            let cut = script.stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
            if script.thread.join().is_err() && cut.is_none() {
                wrong += 1;
            }
        }
        if wrong > 0 && !std::thread::panicking() {
            panic!("{wrong} connections of the upstream did not go as its script says");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Upstream;
    use crate::Connection;

    #[test]
    fn responses_are_read_one_by_one_in_every_framing() {
        let upstream = Upstream::responding(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\n\
             transfer-encoding: chunked\r\n\r\n3;x\r\nabc\r\n1\r\nd\r\n0\r\nt: u\r\n\r\n",
        );
        let mut client = Connection::to(upstream.address());
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\n\r\n");
            assert_eq!(client.read_response().status, 100);
            let response = client.read_response();
            assert_eq!((response.status, response.text().as_str()), (200, "abcd"));
            assert_eq!(response.all("a"), ["1", "2"]);
            assert_eq!(response.trailers, [("t".to_owned(), "u".to_owned())]);
        }
        assert_eq!(upstream.accepted(), 1);
    }

    #[test]
    fn closing_and_resetting_differ() {
        let upstream = Upstream::start_owned(|mut peer| {
            peer.expect("x");
            if peer.number() == 1 {
                peer.reset();
            }
        });
        let mut first = Connection::to(upstream.address());
        first.send("x");
        first.expect_closed();
        let mut second = Connection::to(upstream.address());
        second.send("x");
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.read_to_end()));
        assert!(read.is_err(), "a reset is not an end");
    }

    #[test]
    fn a_script_that_fails_fails_the_test() {
        let upstream = Upstream::start(|peer| peer.expect("right"));
        let mut client = Connection::to(upstream.address());
        client.send("wrong");
        client.read_until_gone();
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(upstream)));
        assert!(dropped.is_err());
    }
}
