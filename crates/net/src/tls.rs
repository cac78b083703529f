//! TLS on streams: the only module that knows rustls.
//!
//! Owns certificates, the TLS settings of listeners and of connections to servers, and the records
//! between a stream and its socket (`Layer`). Promises: a handshake never blocks a worker, an
//! idle connection holds no buffer, nothing is accepted before TLS 1.2, and no early data, which
//! could be replayed. Decides neither when a handshake has taken too long (its caller does) nor
//! what a client certificate allows.

mod certificate;
mod client;
mod layer;
mod resolver;
mod server;
mod session;
mod tickets;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, HandshakeKind};

use crate::readiness::{Side, Source};
use crate::stream::Stream;

pub use certificate::{AlternativeName, CertificateDetails, CertificateKey, PairError, pem};
pub use client::{CertificateName, ClientOptions, ClientTls};
pub use server::{ClientAuth, ServerOptions, ServerTls, TlsVersion};
pub use tickets::TICKET_KEY_BYTES_MIN;

pub(crate) use layer::Layer;
use layer::{flush, read_once};
use session::{Connection, Session, store_all};

/// What a handshake has agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsInfo {
    /// The number of the version: 0x0303 is TLS 1.2.
    pub version: u16,
    /// The IANA number of the cipher suite.
    pub cipher: u16,
    /// The protocol of ALPN.
    pub protocol: Option<Box<str>>,
    /// The name that the client asked for (SNI), in lower case; on the server's side only.
    pub server_name: Option<Box<str>>,
    /// The session is a resumed one.
    pub is_resumed: bool,
    /// The peer's certificate, verified, where it has presented one.
    pub peer: Option<Box<PeerCertificate>>,
    /// The certificate that was presented to the peer; on the server's side only, and in the
    /// process that made the connection.
    pub presented: Option<PresentedCertificate>,
}

/// A certificate of our own that a peer was shown.
#[derive(Clone)]
pub struct PresentedCertificate(Arc<CertifiedKey>);

impl PresentedCertificate {
    /// The certificate in DER, without its issuers.
    pub fn der(&self) -> &[u8] {
        &self.0.cert[0]
    }
}

impl fmt::Debug for PresentedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresentedCertificate")
    }
}

impl PartialEq for PresentedCertificate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.der() == other.der()
    }
}

impl Eq for PresentedCertificate {}

/// A verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    pub details: CertificateDetails,
    /// The certificate, and the issuers that were sent with it, in DER.
    pub chain: Vec<Box<[u8]>>,
}

impl TlsInfo {
    /// The name of the version, such as `TLSv1.3`.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            0x0303 => "TLSv1.2",
            0x0304 => "TLSv1.3",
            _ => "",
        }
    }

    /// The IANA name of the cipher suite.
    pub fn cipher_name(&self) -> &'static str {
        match CipherSuite::from(self.cipher) {
            // rustls names these after their version, IANA does not.
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            other => other.as_str().unwrap_or_default(),
        }
    }
}

/// Why a handshake with a client failed.
#[derive(Debug)]
pub enum AcceptError {
    /// The client speaks plain HTTP: its connection, and what it sent.
    PlainText(Stream, Bytes),
    /// The connection ended, or the client's TLS is unacceptable.
    Failed(io::Error),
}

impl From<io::Error> for AcceptError {
    fn from(error: io::Error) -> Self {
        AcceptError::Failed(error)
    }
}

/// True if a connection failed because the peer's certificate is not acceptable.
pub fn is_certificate_error(error: &io::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// True if a connection failed by the rules of TLS, not of the network below it.
pub fn is_tls_error(error: &io::Error) -> bool {
    tls_error(error).is_some()
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

impl Stream {
    /// Performs the handshake with a client. It takes as long as the client does: the caller sets
    /// a time-out; what the client sends is bounded.
    pub async fn accept_tls(self, tls: &ServerTls) -> Result<Stream, AcceptError> {
        let connection =
            UnbufferedServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        let mut layer = Layer::new(Session::new(Connection::Server(connection)));
        handshake(layer.session(), self.source()).await?;
        if let Some(received) = layer.session().take_plain_text() {
            return Err(AcceptError::PlainText(self, received));
        }
        Ok(self.with_tls(layer.established()))
    }

    /// Performs the handshake with a server whose certificate must have this name. The caller sets
    /// a time-out.
    pub async fn connect_tls(self, tls: &ClientTls, name: &CertificateName) -> io::Result<Stream> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), name.0.clone())
            .map_err(io::Error::other)?;
        let mut layer = Layer::new(Session::new(Connection::Client(connection)));
        layer.session().begin()?;
        handshake(layer.session(), self.source()).await?;
        Ok(self.with_tls(layer.established()))
    }
}

/// Sends and receives until the handshake is complete or the client turns out to speak plain HTTP.
async fn handshake(session: &mut Session, source: &Source) -> io::Result<()> {
    loop {
        while !session.output.is_empty() {
            match flush(session, source) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|cx| source.poll_ready(Side::Write, cx)).await?;
                }
                sent => {
                    sent?;
                }
            }
        }
        if session.has_plain_text() || !session.state().is_handshaking() {
            return Ok(());
        }
        let mut sink = store_all();
        match read_once(session, source, &mut sink) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| source.poll_ready(Side::Read, cx)).await?;
            }
            received => {
                received?;
            }
        }
        // The first request may arrive together with the end of the handshake.
        session.plaintext = sink.rest.freeze();
    }
}

/// What the completed handshake of a session has agreed on.
fn info(session: &Session) -> TlsInfo {
    let state = session.state();
    let resolved = session.resolved.as_ref();
    let chain = state.peer_certificates().unwrap_or_default();
    let protocol = state.alpn_protocol().and_then(|protocol| std::str::from_utf8(protocol).ok());
    TlsInfo {
        version: state.protocol_version().map_or(0, u16::from),
        cipher: state.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        protocol: protocol.map(Box::from),
        server_name: resolved.and_then(|resolved| resolved.server_name.clone()),
        presented: resolved
            .and_then(|resolved| resolved.certificate.clone())
            .map(PresentedCertificate),
        is_resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
        peer: chain.first().map(|first| {
            let details = CertificateDetails::parse(first)
                .unwrap_or_else(|_| CertificateDetails::unreadable(first));
            Box::new(PeerCertificate {
                details,
                chain: chain.iter().map(|one| Box::from(&**one)).collect(),
            })
        }),
    }
}

#[cfg(test)]
mod tests;
