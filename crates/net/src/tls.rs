//! TLS on streams: the only module that knows rustls.
//!
//! Owns certificates, the TLS settings of listeners and of connections to servers, and the records
//! between a stream and its socket (`Layer`). Promises: a handshake never blocks a worker, an
//! idle connection holds no buffer, nothing is accepted before TLS 1.2, and no early data, which
//! could be replayed. Decides neither when a handshake has taken too long (its caller does) nor
//! what a client certificate allows.

mod certificate;
mod challenge;
mod client;
mod handshake;
mod layer;
mod ocsp;
mod resolver;
mod server;
mod session;
mod tickets;

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, HandshakeKind};

pub use certificate::{AlternativeName, CertificateDetails, CertificateKey, PairError, pem};
pub use challenge::ChallengeCertificate;
pub use client::{CertificateName, ClientOptions, ClientTls};
pub use handshake::AcceptError;
pub use server::{ClientAuth, ServerOptions, ServerTls, TlsVersion};
pub use tickets::{
    TICKET_KEY_BYTES_MIN, TICKET_LIFETIME_SECS, random_ticket_key, share_ticket_keys,
};

pub(crate) use layer::Layer;
use session::Session;

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

/// True if a connection failed because the peer's certificate is not acceptable.
pub fn is_certificate_error(error: &io::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// True if a connection failed because the peer ended it with an alert of TLS.
pub fn is_alert(error: &io::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::AlertReceived(_)))
}

/// True if a connection failed by the rules of TLS, not of the network below it.
pub fn is_tls_error(error: &io::Error) -> bool {
    tls_error(error).is_some()
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
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
