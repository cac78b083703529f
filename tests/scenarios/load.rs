//! Clients that keep sending while the server is disturbed, each a thread with a connection it
//! keeps.
//!
//! What counts as failed is decided strictly: every request that was sent must be answered whole
//! and with 200. A connection may end only after a response that said `Connection: close`; that a
//! kept-alive connection may be closed while a request is on its way (RFC 9112 9.3.1) is not an
//! excuse, unless a busy machine held up its client for longer than the server waits for it.

use scenarios::Connection;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A connection that was active this short a time ago has one more request when the server drains
/// (`DRAIN_GRACE` of crates/http-server).
const DRAIN_GRACE: Duration = Duration::from_millis(500);

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
    /// Requests without a response.
    pub(crate) lost: usize,
    /// Connections that the server could close because their client was held up for too long.
    pub(crate) held_up: usize,
}

/// What a client does when a response has said close.
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
        let began = Instant::now();
        // Connected before anything begins, so that none finds the listener closed.
        let connections: Vec<_> = (0..count).map(|_| Connection::to(address)).collect();
        let clients = connections.into_iter().enumerate().map(|(number, connection)| {
            let (request, shared) = (request.to_owned(), Arc::clone(&shared));
            // Different rates, so that some connection is in every phase of an exchange.
            let think = think * (number as u32 % 10) / 10;
            let client =
                move || drive(connection, began, address, &request, think, after_close, &shared);
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
            let tally = client.join().expect("a response that was whole and right");
            sum.answered += tally.answered;
            sum.last += tally.last;
            sum.lost += tally.lost;
            sum.held_up += tally.held_up;
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
    began: Instant,
    address: SocketAddr,
    request: &str,
    think: Duration,
    after_close: AfterClose,
    shared: &Shared,
) -> Tally {
    let mut tally = Tally::default();
    let mut sent_before = began;
    while !shared.over.load(Ordering::Relaxed) {
        let sending = Instant::now();
        let is_sent = connection.try_send(request);
        // The connection was idle for less than this.
        let pause = sent_before.elapsed();
        sent_before = sending;
        if !is_sent || connection.at_end() {
            *(if pause < DRAIN_GRACE { &mut tally.lost } else { &mut tally.held_up }) += 1;
            return tally;
        }
        let response = connection.read_response();
        assert_eq!(response.status, 200, "{response:?}");
        tally.answered += 1;
        shared.answered.fetch_add(1, Ordering::Relaxed);
        if response.header("connection") == Some("close") {
            tally.last += 1;
            connection.expect_closed();
            match after_close {
                AfterClose::Stop => return tally,
                AfterClose::Reconnect => connection = Connection::to(address),
            }
        }
        if !think.is_zero() {
            // The pauses of a client are a part of the load.
            std::thread::sleep(think);
        }
    }
    tally
}
