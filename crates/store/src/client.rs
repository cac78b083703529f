//! The client of a store, for calls from any thread: to a database in this process, to a server
//! behind a Unix socket, or to a Redis server.
//!
//! The process has one connection, driven by a thread of its own, which sends queued calls and
//! returns replies; calls of many threads are sent together and do not wait for each other's
//! replies. Promises that every call completes with a reply or an error, and that a call that was
//! sent and not answered is never sent again. A subscriber learns when it may have missed messages.

mod call_queue;
mod driver;
mod endpoint;
mod pending_reply;
mod reply;
mod subscription;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::worker;

use crate::client::call_queue::{CallQueue, Completion};
use crate::client::endpoint::{Endpoint, RedisServer};
use crate::commands::execute;
use crate::connection::LIMITS;
use crate::database::Database;
use crate::limits::REPLY_TIMEOUT;
use crate::redis_url::RedisUrl;
use crate::reply_writer::ReplyWriter;
use crate::session::Session;

pub use pending_reply::PendingReply;
pub use reply::{Reply, Request, decode};
pub use subscription::Subscription;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The store accepts no connections, or not this client; a sentence.
    Unreachable(String),
    /// The connection ended before the reply; the command may have been executed.
    Lost,
    /// No reply came in time; the command may have been executed.
    Late,
    /// The call queue is full.
    Full,
    /// The reply is not valid.
    Malformed(&'static str),
    /// The command exceeds a limit.
    Refused(&'static str),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unreachable(why) => f.write_str(why),
            StoreError::Lost => f.write_str("the connection to the shared store was lost"),
            StoreError::Late => f.write_str("the shared store did not reply in time"),
            StoreError::Full => f.write_str("too many calls wait for the shared store"),
            StoreError::Malformed(why) => {
                write!(f, "the shared store sent a malformed reply: {why}")
            }
            StoreError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

/// The replies to the commands of one request, in order.
pub type CallResult = Result<Vec<Reply>, StoreError>;

#[derive(Clone)]
enum Transport {
    InProcess(Arc<Database>),
    Connection(Arc<CallQueue>),
}

/// A handle to a store.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.transport {
            Transport::InProcess(_) => "Client(in process)",
            Transport::Connection(_) => "Client(connection)",
        })
    }
}

impl Client {
    /// A client of a database in this process.
    pub fn in_process(database: Arc<Database>) -> Client {
        Client { transport: Transport::InProcess(database) }
    }

    /// A client of the store that listens at `path`. Connects at the first call, and again after
    /// the connection was lost.
    pub fn unix(path: &Path) -> io::Result<Client> {
        Client::with_timeout(path, REPLY_TIMEOUT)
    }

    /// Like [`Client::unix`], with another reply time-out.
    fn with_timeout(path: &Path, reply_timeout: Duration) -> io::Result<Client> {
        Client::connecting(Endpoint::Store(path.to_owned()), reply_timeout)
    }

    /// A client of a Redis server, with the commands and replies of Redis. Connects as
    /// [`Client::unix`] does.
    pub fn redis(url: RedisUrl) -> io::Result<Client> {
        let server = RedisServer::new(url).map_err(io::Error::other)?;
        Client::connecting(Endpoint::Redis(Box::new(server)), REPLY_TIMEOUT)
    }

    fn connecting(endpoint: Endpoint, reply_timeout: Duration) -> io::Result<Client> {
        let queue = CallQueue::new(endpoint, reply_timeout);
        let driven = queue.clone();
        // The thread lives as long as the process, as clients do.
        drop(worker::spawn("store".to_owned(), None, move || driver::driver(driven))?);
        Ok(Client { transport: Transport::Connection(queue) })
    }

    /// True if the database is in this process: replies are complete when a call returns.
    pub fn is_in_process(&self) -> bool {
        matches!(self.transport, Transport::InProcess(_))
    }

    /// Sends commands; `done` gets their replies on the thread that receives them, and must not
    /// block.
    pub fn submit(&self, request: Request, done: impl FnOnce(CallResult) + Send + 'static) {
        if let Some(failure) = request.refusal() {
            return done(Err(failure));
        }
        match &self.transport {
            Transport::InProcess(database) => done(run(database, &request)),
            Transport::Connection(queue) => queue.submit(request, Completion::new(done)),
        }
    }

    /// Sends commands and returns a handle that waits for the replies.
    pub fn start(&self, request: Request) -> PendingReply {
        let (pending_reply, done) = PendingReply::new();
        self.submit(request, done);
        pending_reply
    }

    /// Subscribes to channels. `done` is called when the subscription is active or has failed;
    /// earlier messages are not delivered.
    pub fn subscribe(
        &self,
        channels: &[Vec<u8>],
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Subscription {
        let subscription = Subscription::new(self.transport.clone(), channels);
        subscription.begin(Completion::new(move |outcome: CallResult| done(outcome.map(drop))));
        subscription
    }

    /// Like [`Client::subscribe`], with a handle that waits until the subscription is active.
    pub fn start_subscribe(&self, channels: &[Vec<u8>]) -> (Subscription, PendingReply) {
        let (pending_reply, done) = PendingReply::new();
        let done = move |active: Result<(), StoreError>| done(active.map(|()| Vec::new()));
        (self.subscribe(channels, done), pending_reply)
    }
}

/// Executes a request on a database in this process.
fn run(database: &Arc<Database>, request: &Request) -> CallResult {
    let (mut session, mut out) = (Session::in_process(database), ReplyWriter::in_process());
    let (mut rest, mut ranges) = (request.bytes(), Vec::new());
    while let Ok(Some(length)) = wire::resp::parse_command(rest, &LIMITS, &mut ranges) {
        execute(database, &rest[..length], &ranges, &mut session, &mut out);
        rest = &rest[length..];
    }
    reply::read_all(out.contiguous().unwrap_or_default(), request.commands())
}
