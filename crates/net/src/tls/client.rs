//! TLS settings of connections to servers: certificate authorities, names, protocols, client
//! certificates.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::CertificateKey;
use super::server::{TlsVersion, roots};

/// Options of [`ClientTls::new`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// Certificate authorities in PEM; the system's without any.
    pub authorities: Option<Vec<u8>>,
    /// Whether the server's certificate must be valid. Without that anyone on the path to the
    /// server can read and change what is sent.
    pub verify: bool,
    /// Presented to a server that asks for it.
    pub certificate: Option<CertificateKey>,
    pub min_version: TlsVersion,
    /// Protocols of ALPN, preferred ones first. Without any, ALPN is not negotiated.
    pub protocols: Vec<Vec<u8>>,
}

/// The TLS settings of connections to servers, shared by all workers; sessions are resumed.
#[derive(Clone)]
pub struct ClientTls {
    /// Its ALPN protocols are the ones in use; they may differ from those of the options.
    pub(super) config: Arc<ClientConfig>,
    options: Arc<ClientOptions>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientTls").field(&self.options.certificate).finish()
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        self.config.alpn_protocols == other.config.alpn_protocols
            && (Arc::ptr_eq(&self.options, &other.options) || self.options == other.options)
    }
}

impl Eq for ClientTls {}

impl Hash for ClientTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.options.hash(state);
    }
}

impl ClientTls {
    pub fn new(options: ClientOptions) -> Result<ClientTls, String> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(options.min_version.and_later())
            .map_err(|error| error.to_string())?;
        let builder = if options.verify {
            let roots = Arc::new(match &options.authorities {
                Some(authorities) => roots(authorities)?,
                None => system_roots()?,
            });
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
            builder.with_webpki_verifier(verifier.map_err(|error| error.to_string())?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate))
        };
        let mut config = match &options.certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(
                pair.certified.clone(),
            ))),
        };
        config.alpn_protocols = options.protocols.clone();
        Ok(ClientTls { config: Arc::new(config), options: Arc::new(options) })
    }
}

impl ClientTls {
    /// True if ALPN offers this protocol.
    pub fn offers(&self, protocol: &[u8]) -> bool {
        self.config.alpn_protocols.iter().any(|offered| offered == protocol)
    }

    /// Returns the same settings with other ALPN protocols. Cheap enough for each connection,
    /// because the certificate authorities are not copied.
    pub fn with_protocols(&self, protocols: &[&[u8]]) -> ClientTls {
        let mut config = (*self.config).clone();
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        ClientTls { config: Arc::new(config), options: self.options.clone() }
    }
}

/// Accepts every certificate. The signatures of the handshake are verified nevertheless.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate authorities that the system's administrator trusts.
fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!("the system has no certificate authorities{why}"));
    }
    Ok(roots)
}

/// The name that a server's certificate must have: a DNS name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateName(pub(super) ServerName<'static>);

impl CertificateName {
    /// Returns `None` for what is neither.
    pub fn new(name: &str) -> Option<CertificateName> {
        ServerName::try_from(name.to_owned()).ok().map(CertificateName)
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_str())
    }
}
