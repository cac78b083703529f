//! What a connection to a server requires: authorities, names, protocols, a certificate of our own.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use super::certificate::CertificateKey;
use super::server::{TlsVersion, roots};

/// Options of [`ClientTls::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// Certificate authorities in PEM; the system's without any.
    pub authorities: Option<Vec<u8>>,
    /// Presented to a server that asks for it.
    pub certificate: Option<CertificateKey>,
    pub min_version: TlsVersion,
    /// Protocols of ALPN, preferred ones first. Without any, ALPN is not negotiated.
    pub protocols: Vec<Vec<u8>>,
}

/// The TLS settings of connections to servers, shared by all workers; sessions are resumed.
#[derive(Clone)]
pub struct ClientTls {
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
        self.options == other.options
    }
}

impl ClientTls {
    pub fn new(options: ClientOptions) -> Result<ClientTls, String> {
        let roots = match &options.authorities {
            Some(authorities) => roots(authorities)?,
            None => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(options.min_version.and_later())
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
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
