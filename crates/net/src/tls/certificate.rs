//! Certificates: a chain with its key, checked as a whole, and the names and dates in a
//! certificate.
//!
//! Owns parsing. Trust is decided by rustls' verifiers, never here.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, InconsistentKeys, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectAltName};

use super::ocsp::Staple;
use crate::clock;

/// The names, the fingerprint and the validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateDetails {
    /// The subject as RFC 4514 writes it: `CN=a,O=b`.
    pub subject: Box<str>,
    /// Subject alternative names: DNS names, addresses, e-mail addresses and URIs.
    pub names: Vec<AlternativeName>,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: Box<str>,
    /// The validity, in seconds since 1970.
    pub not_before: u64,
    pub not_after: u64,
}

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// In lower case.
    Dns(Box<str>),
    Ip(Box<str>),
    Email(Box<str>),
    Uri(Box<str>),
}

impl AlternativeName {
    /// The name without its kind.
    pub fn as_str(&self) -> &str {
        match self {
            AlternativeName::Dns(name)
            | AlternativeName::Ip(name)
            | AlternativeName::Email(name)
            | AlternativeName::Uri(name) => name,
        }
    }
}

impl CertificateDetails {
    /// Reads a certificate in DER.
    pub fn parse(certificate: &[u8]) -> Result<CertificateDetails, String> {
        let parsed = Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let content = parsed.tbs_certificate();
        let names = content.get_extension::<SubjectAltName>().map_err(|error| error.to_string())?;
        let names = names.map_or(Vec::new(), |(_, names)| names.0);
        let validity = content.validity();
        Ok(CertificateDetails {
            subject: content.subject().to_string().into(),
            names: names.iter().filter_map(alternative_name).collect(),
            fingerprint: fingerprint(certificate),
            not_before: validity.not_before.to_unix_duration().as_secs(),
            not_after: validity.not_after.to_unix_duration().as_secs(),
        })
    }

    /// The data of a certificate that was verified but cannot be parsed here.
    pub(super) fn unreadable(certificate: &[u8]) -> CertificateDetails {
        CertificateDetails {
            subject: Box::default(),
            names: Vec::new(),
            fingerprint: fingerprint(certificate),
            not_before: 0,
            not_after: 0,
        }
    }

    /// The DNS names, where there are any.
    pub fn dns_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| match name {
            AlternativeName::Dns(name) => Some(&**name),
            _ => None,
        })
    }
}

/// Encodes a certificate in DER as PEM.
pub fn pem(certificate: &[u8]) -> String {
    // Too long for a `String` is the only error.
    encode_string("CERTIFICATE", LineEnding::LF, certificate).unwrap_or_default()
}

fn fingerprint(certificate: &[u8]) -> Box<str> {
    let digest = digest(&SHA256, certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn alternative_name(name: &GeneralName) -> Option<AlternativeName> {
    Some(match name {
        GeneralName::DnsName(name) => {
            AlternativeName::Dns(name.as_str().to_ascii_lowercase().into())
        }
        GeneralName::Rfc822Name(name) => AlternativeName::Email(name.as_str().into()),
        GeneralName::UniformResourceIdentifier(name) => AlternativeName::Uri(name.as_str().into()),
        GeneralName::IpAddress(address) => {
            let bytes = address.as_bytes();
            let text = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
                (Ok(four), _) => Ipv4Addr::from(four).to_string(),
                (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_string(),
                _ => return None,
            };
            AlternativeName::Ip(text.into())
        }
        _ => return None,
    })
}

/// A certificate chain with its private key.
#[derive(Clone)]
pub struct CertificateKey {
    pub(super) certified: Arc<CertifiedKey>,
    staple: Option<Staple>,
    /// Of the first certificate.
    pub details: CertificateDetails,
}

impl fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CertificateKey").field(&self.details).finish()
    }
}

/// Two keys are equal if they present the same certificate and the same revocation status.
impl PartialEq for CertificateKey {
    fn eq(&self, other: &Self) -> bool {
        let ocsp = |one: &CertificateKey| one.staple.as_ref()?.certified.ocsp.clone();
        self.certified.cert == other.certified.cert && ocsp(self) == ocsp(other)
    }
}

impl Eq for CertificateKey {}

impl Hash for CertificateKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.details.fingerprint.hash(state);
    }
}

/// Why a certificate, its key and its revocation status cannot be used together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairError {
    Certificate(String),
    Key(String),
    Ocsp(String),
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PairError::Certificate(why) | PairError::Key(why) | PairError::Ocsp(why)) = self;
        f.write_str(why)
    }
}

impl CertificateKey {
    /// Checks a chain and its key, both in PEM, the owner's certificate first, and a stapled OCSP
    /// response in DER, which is not sent while it does not fit: see
    /// [`CertificateKey::stapling`]. `now` is in seconds since 1970.
    pub fn load(
        chain: &[u8],
        key: &[u8],
        ocsp: Option<Vec<u8>>,
        now: u64,
    ) -> Result<CertificateKey, PairError> {
        let chain = read_chain(chain).map_err(PairError::Certificate)?;
        let details = CertificateDetails::parse(&chain[0])
            .map_err(|error| PairError::Certificate(format!("not a certificate: {error}")))?;
        check_order(&chain).map_err(PairError::Certificate)?;
        check_time(&details, now).map_err(PairError::Certificate)?;
        let key = signing_key(key).map_err(PairError::Key)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // `Unknown` is for keys without a known public half; no supported kind is one.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(_) => {
                let why = "the private key does not belong to the certificate";
                return Err(PairError::Key(why.to_owned()));
            }
        }
        let staple = ocsp.map(|ocsp| Staple::new(ocsp, &certified)).transpose();
        let staple = staple.map_err(PairError::Ocsp)?;
        Ok(CertificateKey { certified: Arc::new(certified), staple, details })
    }

    pub(super) fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.certified.key.choose_scheme(schemes).is_some()
    }

    /// Returns what is presented to a client now.
    pub(super) fn presented(&self) -> Arc<CertifiedKey> {
        let staple = self.staple.as_ref();
        let staple = staple.filter(|staple| staple.problem(clock::wall_secs()).is_none());
        staple.map_or(&self.certified, |staple| &staple.certified).clone()
    }

    /// Whether the OCSP response is sent at a time, in seconds since 1970, or why not; `None` if
    /// there is no response.
    pub fn stapling(&self, now: u64) -> Option<Result<(), &'static str>> {
        self.staple.as_ref().map(|staple| staple.problem(now).map_or(Ok(()), Err))
    }

    /// The key identifier of the issuer and the serial number, which renewal information is asked
    /// for by (RFC 9773 4.1).
    pub fn renewal_identifier(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let parsed = Certificate::from_der(self.certificate()).ok()?;
        let content = parsed.tbs_certificate();
        let (_, authority) = content.get_extension::<AuthorityKeyIdentifier>().ok()??;
        let authority = authority.key_identifier?.as_bytes().to_vec();
        Some((authority, content.serial_number().as_bytes().to_vec()))
    }

    /// The first certificate, in DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certified.cert[0]
    }
}

/// Reads certificates in PEM; there is at least one.
pub(super) fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = read.map_err(|error| format!("not valid PEM: {error}"))?;
    if chain.is_empty() {
        return Err("no certificate: expected PEM with -----BEGIN CERTIFICATE-----".to_owned());
    }
    Ok(chain)
}

/// Reads a private key in PEM that can sign.
pub(super) fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let key = default_provider().key_provider.load_private_key(read_key(pem)?);
    key.map_err(|error| format!("the private key cannot be used: {error}"))
}

fn read_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    const ENCRYPTED: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        if pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
            "the private key is encrypted: decrypt it with `openssl pkey`".to_owned()
        } else {
            format!("no private key in PEM: {error}")
        }
    })
}

/// Each certificate must be issued by the next one: clients reject other orders (RFC 5246 7.4.2).
fn check_order(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let mut issuer = None;
    for (index, certificate) in chain.iter().enumerate() {
        let number = index + 1;
        let parsed = Certificate::from_der(certificate)
            .map_err(|error| format!("certificate {number} of the chain is invalid: {error}"))?;
        let content = parsed.tbs_certificate();
        if issuer.is_some_and(|issuer| issuer != *content.subject()) {
            return Err(format!(
                "the chain is out of order: certificate {number} is not the issuer of the one \
                 before it"
            ));
        }
        issuer = Some(content.issuer().clone());
    }
    Ok(())
}

fn check_time(details: &CertificateDetails, now: u64) -> Result<(), String> {
    let day = |secs| {
        let span = std::time::Duration::from_secs(secs);
        x509_cert::der::DateTime::from_unix_duration(span)
            .map_or_else(|_| secs.to_string(), |date| date.to_string())
    };
    if now > details.not_after {
        return Err(format!("the certificate expired on {}", day(details.not_after)));
    }
    if now < details.not_before {
        return Err(format!("the certificate is not valid before {}", day(details.not_before)));
    }
    Ok(())
}
