//! A connection to a server between exchanges, and its endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use net::clock::Moment;
use net::tls::{CertificateName, ClientTls};
use net::{Outgoing, Stream, Timer};
use wire::proxy_protocol::{Endpoints, Version};

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

/// A server: where it is, and how it proves its identity. A connection to one endpoint is never
/// used for another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub destination: Destination,
    /// `None` in the clear.
    pub tls: Option<TlsIdentity>,
}

/// The name that a server must prove, and what is demanded and presented in the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    pub tls: ClientTls,
    pub name: CertificateName,
}

impl Endpoint {
    /// A new connection, after the PROXY header, if there is one, and the handshake. The caller
    /// sets a time-out.
    pub async fn connect(&self, header: Option<&ProxyHeader>) -> io::Result<Stream> {
        let stream = match &self.destination {
            Destination::Tcp(address) => Stream::connect_tcp(*address).await?,
            Destination::Unix(path) => Stream::connect_unix(path).await?,
        };
        if let Some(header) = header {
            stream.send_proxy_header(header.version, header.endpoints).await?;
        }
        match &self.tls {
            // Boxed: the future of every connection would be as large.
            Some(identity) => Box::pin(stream.connect_tls(&identity.tls, &identity.name)).await,
            None => Ok(stream),
        }
    }
}

/// Without TLS.
impl From<Destination> for Endpoint {
    fn from(destination: Destination) -> Endpoint {
        Endpoint { destination, tls: None }
    }
}

/// The PROXY header that a connection begins with. It names a client, so such a connection is never
/// used for another.
#[derive(Clone, Copy, Debug)]
pub struct ProxyHeader {
    pub version: Version,
    /// `None` if the server speaks for itself.
    pub endpoints: Option<Endpoints>,
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
    /// It began with the name of a client, and is never used for another.
    pub(super) for_one_client: bool,
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
            for_one_client: false,
            requests: 0,
            idle_since: Moment::NEVER,
            idle_until: Moment::NEVER,
        }
    }
}
