//! The properties of an exchange's connection (extension point 2): never a socket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use net::tls::TlsInfo;
use net::{Bind, Peer};

/// Whether the connection of the client is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The wire protocol of a connection; one connection may carry several exchanges at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http1,
    Http2,
    /// A copy of a client's request that runs apart from the client.
    Background,
    /// A request without a client: a health check, a warm-up, a test.
    Internal,
}

/// When a connection began, in microseconds on the worker's clock; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTimes {
    pub accepted_us: u64,
    /// The TLS handshake was complete.
    pub secured_us: u64,
}

/// A connection, as its exchanges see it.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    pub peer: Peer,
    pub local: Rc<Bind>,
    /// The name of the listener in the configuration.
    pub listener: Rc<str>,
    pub protocol: Protocol,
    /// The result of the TLS handshake; `None` in the clear.
    pub tls: Option<Rc<TlsInfo>>,
    pub times: ConnectionTimes,
}

impl ConnectionFacts {
    /// The peer's address; a Unix peer counts as this machine.
    pub fn peer_ip(&self) -> IpAddr {
        match self.peer {
            Peer::Tcp(address) => address.ip().to_canonical(),
            Peer::Unix => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Facts of a request that the server makes itself.
    pub fn internal() -> ConnectionFacts {
        let unspecified = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        ConnectionFacts {
            peer: Peer::Tcp(unspecified),
            local: Rc::new(Bind::Tcp(unspecified)),
            listener: Rc::from("internal"),
            protocol: Protocol::Internal,
            tls: None,
            times: ConnectionTimes::default(),
        }
    }
}
