//! A connection to a server between exchanges, and its destination.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use net::clock::Moment;
use net::{Outgoing, Stream, Timer};

/// Where a server is, with names resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Tcp(address) => address.fmt(f),
            Destination::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One connection with what it keeps between exchanges, so that an exchange allocates none of it.
pub(super) struct Connection {
    pub(super) stream: Stream,
    /// Time-outs of the exchange in flight.
    pub(super) timer: Timer,
    /// What the socket did not take at once.
    pub(super) outgoing: Outgoing,
    /// When the connection is too old to be used again.
    pub(super) retires: Moment,
    /// Requests it has carried.
    pub(super) requests: u32,
    /// Since when it has been idle.
    pub(super) idle_since: Moment,
    /// Until when it may be idle.
    pub(super) idle_until: Moment,
}

impl Connection {
    pub(super) fn new(stream: Stream, retires: Moment) -> Connection {
        Connection {
            stream,
            timer: Timer::new(),
            outgoing: Outgoing::default(),
            retires,
            requests: 0,
            idle_since: Moment::NEVER,
            idle_until: Moment::NEVER,
        }
    }
}
