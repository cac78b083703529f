//! Clients that keep sending while the server is disturbed, each a thread with a connection it
//! keeps.
//!
//! What counts as failed is decided strictly: every request that was sent must be answered whole
//! and with 200. A connection may end only after an answer that said `Connection: close`; that a
//! kept-alive connection may be closed while a request is on its way (RFC 9112 9.3.1) is no excuse.

use scenarios::Connection;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections that send until they are told to stop or the server says close.
pub(crate) struct Load {
    clients: Vec<JoinHandle<Tally>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    answered: AtomicUsize,
}

/// What became of a load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) answered: usize,
    /// Answers that said that they were the last of their connection.
    pub(crate) last: usize,
    /// Requests without an answer.
    pub(crate) lost: usize,
}

/// What a client does when an answer has said close.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterClose {
    Stop,
    Reconnect,
}

impl Load {
    /// Starts `count` clients that send `request` again and again, a pause of up to `think`
    /// between.
    pub(crate) fn start(
        address: SocketAddr,
        count: usize,
        request: &str,
        think: Duration,
        after_close: AfterClose,
    ) -> Load {
        let shared = Arc::new(Shared::default());
        // Connected before anything begins, so that none finds the listener closed.
        let connections: Vec<_> = (0..count).map(|_| Connection::to(address)).collect();
        let clients = connections.into_iter().enumerate().map(|(number, connection)| {
            let (request, shared) = (request.to_owned(), Arc::clone(&shared));
            // Different rates, so that some connection is in every phase of an exchange.
            let think = think * (number as u32 % 10) / 10;
            let client = move || drive(connection, address, &request, think, after_close, &shared);
            std::thread::Builder::new().stack_size(256 << 10).spawn(client).expect("a thread")
        });
        Load { clients: clients.collect(), shared }
    }

    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until that many requests more have been answered.
    pub(crate) fn wait_for(&self, more: usize) {
        let until = self.answered() + more;
        scenarios::eventually(&format!("{until} responses"), || self.answered() >= until);
    }

    /// Waits until every client has come to its end.
    pub(crate) fn join(self) -> Tally {
        let mut sum = Tally::default();
        for client in self.clients {
            let tally = client.join().expect("an answer that was whole and right");
            sum.answered += tally.answered;
            sum.last += tally.last;
            sum.lost += tally.lost;
        }
        sum
    }

    /// Lets every client finish its request and end.
    pub(crate) fn stop(self) -> Tally {
        self.shared.over.store(true, Ordering::Relaxed);
        self.join()
    }
}

fn drive(
    mut connection: Connection,
    address: SocketAddr,
    request: &str,
    think: Duration,
    after_close: AfterClose,
    shared: &Shared,
) -> Tally {
    let mut tally = Tally::default();
    while !shared.over.load(Ordering::Relaxed) {
        if !connection.try_send(request) || connection.at_end() {
            tally.lost += 1;
            return tally;
        }
        let answer = connection.answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        tally.answered += 1;
        shared.answered.fetch_add(1, Ordering::Relaxed);
        if answer.header("connection") == Some("close") {
            tally.last += 1;
            connection.expect_closed();
            match after_close {
                AfterClose::Stop => return tally,
                AfterClose::Reconnect => connection = Connection::to(address),
            }
        }
        if !think.is_zero() {
            std::thread::sleep(think);
        }
    }
    tally
}
