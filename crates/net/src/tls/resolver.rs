//! Chooses the certificate for a server name.
//!
//! Exact names win over wildcards, and wildcards over the default. Among certificates for the same
//! name the first whose key the client can verify is chosen, so that ECDSA and RSA go together.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::CertificateKey;
use super::challenge;

/// The names in the client hello, and the certificate presented for them.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) server_name: Option<Box<str>>,
    pub(super) certificate: Option<Arc<CertifiedKey>>,
}

thread_local! {
    /// The result of the handshake that is being processed on this thread: rustls' unbuffered
    /// connections do not tell it.
    static RESOLVED: RefCell<Option<Resolved>> = const { RefCell::new(None) };
}

/// Returns the result for the client hello that was processed last, once.
pub(super) fn take_resolved() -> Option<Resolved> {
    RESOLVED.take()
}

type Candidates = Vec<Arc<CertificateKey>>;

#[derive(Debug)]
pub(super) struct Resolver {
    exact: HashMap<Box<str>, Candidates>,
    /// By what follows `*.`.
    wildcard: HashMap<Box<str>, Candidates>,
    /// For names that no certificate has, and clients that name none; empty rejects both.
    default: Candidates,
}

impl Resolver {
    pub(super) fn new(certificates: &[CertificateKey], reject_unknown: bool) -> Resolver {
        let mut resolver =
            Resolver { exact: HashMap::new(), wildcard: HashMap::new(), default: Vec::new() };
        let certificates: Vec<_> = certificates.iter().cloned().map(Arc::new).collect();
        for certificate in &certificates {
            for name in certificate.details.dns_names() {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut resolver.wildcard, parent),
                    None => (&mut resolver.exact, name),
                };
                names.entry(name.into()).or_default().push(certificate.clone());
            }
        }
        // The default is the first certificate; others for the same names may have other keys.
        if let Some(first) = certificates.first().filter(|_| !reject_unknown) {
            let names: Vec<&str> = first.details.dns_names().collect();
            let alike = certificates
                .iter()
                .filter(|other| other.details.dns_names().eq(names.iter().copied()));
            resolver.default = alike.cloned().collect();
        }
        resolver
    }

    /// True if one of the certificates for `name` has the name `host`.
    pub(super) fn covers(&self, name: &str, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        let with_host = self.exact.get(host).into_iter();
        let with_wildcard = parent.and_then(|parent| self.wildcard.get(parent)).into_iter();
        let mut covering = with_host.chain(with_wildcard).flatten();
        let presented = self.candidates(name);
        covering.any(|one| presented.iter().any(|other| Arc::ptr_eq(one, other)))
    }

    fn candidates(&self, name: &str) -> &[Arc<CertificateKey>] {
        // A wildcard stands for exactly one label (RFC 9525 6.3).
        let wildcard = || self.wildcard.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(wildcard).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls passes a DNS name without a final dot; its case is the client's.
        let name = hello.server_name().map(|name| name.to_ascii_lowercase().into_boxed_str());
        if challenge::is_challenge(hello.alpn().into_iter().flatten()) {
            return challenge::certificate(&name?);
        }
        let candidates = name.as_deref().map_or(&*self.default, |name| self.candidates(name));
        let schemes = hello.signature_schemes();
        let verifiable = candidates.iter().find(|one| one.can_sign(schemes));
        let certificate = verifiable.map(|one| one.presented());
        RESOLVED.set(Some(Resolved { server_name: name, certificate: certificate.clone() }));
        certificate
    }
}
