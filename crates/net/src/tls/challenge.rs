//! Certificates of the ACME challenge `tls-alpn-01` (RFC 8737): presented only to a certificate
//! authority that validates a name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustls::sign::CertifiedKey;

use super::TlsInfo;
use super::certificate::{read_chain, signing_key};

/// The protocol of ALPN that the certificate authority asks for.
pub(super) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

type Table = HashMap<Box<str>, Arc<CertifiedKey>>;

/// Certificates by name, of all listeners: whichever is connected to, the name is proven.
static PRESENTED: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn presented() -> MutexGuard<'static, Table> {
    PRESENTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a client with these protocols is a certificate authority that validates a name: it
/// offers the protocol of the challenge alone, which no other client does (RFC 8737 3).
pub(super) fn is_challenge<'a>(mut protocols: impl Iterator<Item = &'a [u8]>) -> bool {
    protocols.next() == Some(CHALLENGE_PROTOCOL) && protocols.next().is_none()
}

/// Returns the certificate for a name in lower case.
pub(super) fn certificate(name: &str) -> Option<Arc<CertifiedKey>> {
    presented().get(name).cloned()
}

/// Presents a certificate for a name until it is dropped.
#[derive(Debug)]
pub struct ChallengeCertificate {
    name: Box<str>,
}

impl ChallengeCertificate {
    /// `name` is in lower case; the certificate and its key are PEM. They are not checked like
    /// those that clients see: the certificate has a critical extension, which verifiers reject.
    pub fn present(
        name: &str,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<ChallengeCertificate, String> {
        let (chain, key) = (read_chain(certificate)?, signing_key(key)?);
        presented().insert(name.into(), Arc::new(CertifiedKey::new(chain, key)));
        Ok(ChallengeCertificate { name: name.into() })
    }
}

impl Drop for ChallengeCertificate {
    fn drop(&mut self) {
        presented().remove(&self.name);
    }
}

impl TlsInfo {
    /// True if the connection was a validation, which ends with its handshake.
    pub fn is_challenge(&self) -> bool {
        self.protocol.as_deref().is_some_and(|name| name.as_bytes() == CHALLENGE_PROTOCOL)
    }
}
