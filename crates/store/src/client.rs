//! Calls to a store, from any thread, wherever it is: in this process, or behind a Unix socket.
//!
//! One connection for the whole process, with a thread of its own that sends what others leave and
//! hands answers back; calls of many threads go out together and do not wait for each other's
//! answers. Promises that every call ends, with an answer or with a sentence that says why not, and
//! that what was sent and not answered is never sent again. A listener learns when it may have
//! missed something.

mod answer;
mod drive;
mod link;
mod subscription;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::worker;

use crate::client::link::{Done, Link};
use crate::commands::execute;
use crate::connection::LIMITS;
use crate::limits::ANSWER_WITHIN;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::space::Space;

pub use answer::{Answer, Request};
pub use subscription::Subscription;
pub use waiting::Waiting;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens where the store should be.
    Unreachable(String),
    /// The connection ended before the answer; what was asked for may have been done.
    Lost,
    /// No answer came in time; what was asked for may have been done.
    Late,
    /// More waits to be sent than there is room for.
    Full,
    /// What arrived is no answer of a store.
    Malformed(&'static str),
    /// What was asked for cannot be sent at all.
    Refused(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable(why) => write!(f, "the shared store cannot be reached: {why}"),
            Failure::Lost => f.write_str("the connection to the shared store was lost"),
            Failure::Late => f.write_str("the shared store did not answer in time"),
            Failure::Full => f.write_str("too many calls wait for the shared store"),
            Failure::Malformed(why) => write!(f, "the shared store cannot be understood: {why}"),
            Failure::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}

/// The answers to the commands of one request, in order.
pub type Outcome = Result<Vec<Answer>, Failure>;

#[derive(Clone)]
enum Way {
    Here(Arc<Space>),
    There(Arc<Link>),
}

/// A store, as one who uses it sees it.
#[derive(Clone)]
pub struct Client {
    way: Way,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.way {
            Way::Here(_) => "Client(here)",
            Way::There(_) => "Client(there)",
        })
    }
}

impl Client {
    /// A store in this process.
    pub fn here(space: Arc<Space>) -> Client {
        Client { way: Way::Here(space) }
    }

    /// The store that listens at `path`. Connects when there is something to say, and again when
    /// the connection was lost.
    pub fn there(path: &Path) -> io::Result<Client> {
        Client::patient(path, ANSWER_WITHIN)
    }

    /// The same, with another patience.
    fn patient(path: &Path, answer_within: Duration) -> io::Result<Client> {
        let link = Link::new(path, answer_within);
        let driven = link.clone();
        // It lives as long as the process: whoever has a client keeps it for good.
        drop(worker::spawn("store".to_owned(), None, move || drive::drive(driven))?);
        Ok(Client { way: Way::There(link) })
    }

    /// Whether the store is in this process: its answers are there when a call returns.
    pub fn is_here(&self) -> bool {
        matches!(self.way, Way::Here(_))
    }

    /// Sends commands; `done` gets their answers, on whatever thread they arrive. It must not wait.
    pub fn submit(&self, request: Request, done: impl FnOnce(Outcome) + Send + 'static) {
        if let Some(failure) = request.refusal() {
            return done(Err(failure));
        }
        match &self.way {
            Way::Here(space) => done(run(space, &request)),
            Way::There(link) => link.submit(request, Done::new(done)),
        }
    }

    /// Sends commands; the answers can be waited for.
    pub fn start(&self, request: Request) -> Waiting {
        let (waiting, done) = Waiting::new();
        self.submit(request, done);
        waiting
    }

    /// Listens to channels. `done` is told when whatever is published from then on will be heard,
    /// or why that is not so; nothing is heard before.
    pub fn subscribe(
        &self,
        channels: &[Vec<u8>],
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Subscription {
        let subscription = Subscription::new(self.way.clone(), channels);
        subscription.begin(Done::new(move |outcome: Outcome| done(outcome.map(drop))));
        subscription
    }

    /// The same; the beginning can be waited for.
    pub fn listen(&self, channels: &[Vec<u8>]) -> (Subscription, Waiting) {
        let (waiting, done) = Waiting::new();
        let done = move |begun: Result<(), Failure>| done(begun.map(|()| Vec::new()));
        (self.subscribe(channels, done), waiting)
    }
}

/// Executes a request on a store in this process.
fn run(space: &Arc<Space>, request: &Request) -> Outcome {
    let (mut session, mut out) = (Session::new(space), Outlet::whole());
    let (mut rest, mut places) = (request.bytes(), Vec::new());
    while let Ok(Some(length)) = wire::resp::parse_command(rest, &LIMITS, &mut places) {
        execute(space, &rest[..length], &places, &mut session, &mut out);
        rest = &rest[length..];
    }
    answer::read_all(out.piece().unwrap_or_default(), request.commands())
}
