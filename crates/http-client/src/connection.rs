//! A connection to a server between exchanges, and its endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use net::clock::Moment;
use net::tls::{CertificateName, ClientTls};
use net::{Outgoing, Stream, Timer};
use wire::proxy_protocol::{Endpoints, Version};

/// The address of a server, with names resolved.
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
    /// HTTP/2 is spoken in the clear, by prior knowledge (RFC 9113 3.3). Under TLS, ALPN decides.
    pub prior_knowledge: bool,
}

/// The name that a server must prove, and what is demanded and presented in the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    pub tls: ClientTls,
    pub name: CertificateName,
}

impl Endpoint {
    /// True if its connections may carry HTTP/2.
    pub fn may_be_http2(&self) -> bool {
        self.prior_knowledge || self.tls.as_ref().is_some_and(|tls| tls.tls.offers(b"h2"))
    }

    /// True if a new connection carries HTTP/2.
    pub fn is_http2(&self, stream: &Stream) -> bool {
        let protocol = stream.tls().and_then(|info| info.protocol.as_deref());
        self.prior_knowledge || protocol == Some("h2")
    }

    /// Returns the same server with HTTP/1.1 only, if ALPN may choose it.
    pub(super) fn over_http1(&self) -> Option<Endpoint> {
        let offered = self.tls.as_ref().is_some_and(|identity| identity.tls.offers(b"http/1.1"));
        offered.then(|| self.with_protocols(&[b"http/1.1"]))
    }

    /// Returns the same server with these protocols in ALPN; without any, ALPN is not used.
    pub(super) fn with_protocols(&self, protocols: &[&[u8]]) -> Endpoint {
        let tls = self.tls.as_ref().map(|identity| TlsIdentity {
            tls: identity.tls.with_protocols(protocols),
            name: identity.name.clone(),
        });
        Endpoint { tls, ..self.clone() }
    }

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

/// An endpoint without TLS.
impl From<Destination> for Endpoint {
    fn from(destination: Destination) -> Endpoint {
        Endpoint { destination, tls: None, prior_knowledge: false }
    }
}

/// The PROXY header that a connection begins with. It names a client, so such a connection is never
/// used for another.
#[derive(Clone, Copy, Debug)]
pub struct ProxyHeader {
    pub version: Version,
    /// `None` if the server is its own endpoint.
    pub endpoints: Option<Endpoints>,
}

/// A connection with the buffers that it keeps between exchanges, so that an exchange does not
/// allocate them.
pub(super) struct Connection {
    pub(super) stream: Stream,
    /// Time-outs of the exchange in flight.
    pub(super) timer: Timer,
    /// Data that the socket has not taken yet.
    pub(super) outgoing: Outgoing,
    /// When the connection is too old to be used again.
    pub(super) retires: Moment,
    /// The PROXY header contained a client's address: the connection is never used for another
    /// client.
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
