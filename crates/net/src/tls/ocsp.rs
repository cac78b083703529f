//! Stapled OCSP responses (RFC 6960): when one may be sent with a certificate.
//!
//! A response is read for what decides that: its certificate, its status and its time. Its
//! signature is verified by clients. A response that no client would accept is not sent, because
//! clients end the handshake over it, and most accept a certificate without one.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::sign::CertifiedKey;
use x509_cert::Certificate;
use x509_cert::der::asn1::{AnyRef, GeneralizedTime, ObjectIdentifier};
use x509_cert::der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};

const SHA1_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA256_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
/// Clocks may be so far apart: a new response is not of the future.
const CLOCKS_DIFFER_SECS: u64 = 300;

/// A certificate with a response that is stapled to it while the response is valid.
#[derive(Clone, Debug)]
pub(super) struct Staple {
    pub(super) certified: Arc<CertifiedKey>,
    /// Why the response is never sent.
    rejected: Option<&'static str>,
    /// When it is valid, in seconds since 1970.
    this_update: u64,
    next_update: u64,
}

impl Staple {
    /// Reads a response in DER for a certificate. An error means that it is not one.
    pub(super) fn new(response: Vec<u8>, certified: &CertifiedKey) -> Result<Staple, String> {
        let single = SingleResponse::find(&response, &certified.cert[0])?;
        let rejected = match &single {
            None => Some("it is the response of another certificate"),
            Some(single) if !single.is_good => Some("it does not report the certificate as good"),
            Some(_) => None,
        };
        let (this_update, next_update) =
            single.map_or((0, 0), |single| (single.this_update, single.next_update));
        let mut certified = certified.clone();
        certified.ocsp = Some(response);
        Ok(Staple { certified: Arc::new(certified), rejected, this_update, next_update })
    }

    /// Why the response is not sent now.
    pub(super) fn problem(&self, now: u64) -> Option<&'static str> {
        self.rejected.or({
            if now >= self.next_update {
                Some("it has expired")
            } else if now + CLOCKS_DIFFER_SECS < self.this_update {
                Some("it is not valid yet")
            } else {
                None
            }
        })
    }
}

/// The status of one certificate in a response.
struct SingleResponse {
    is_good: bool,
    this_update: u64,
    /// The end of time for a response without it: newer information is always available, which
    /// does not make this one invalid (RFC 6960 4.2.2.1).
    next_update: u64,
}

const MALFORMED: &str = "not an OCSP response in DER";

impl SingleResponse {
    /// Finds the status of a certificate in a response.
    fn find(response: &[u8], certificate: &[u8]) -> Result<Option<SingleResponse>, String> {
        let basic = basic_response(response)?;
        let certificate = Certificate::from_der(certificate).map_err(|_| MALFORMED)?;
        Ok(single_responses(basic).and_then(|all| find(&all, &certificate)).ok_or(MALFORMED)?)
    }
}

/// The content of the BasicOCSPResponse; the status must be `successful` (RFC 6960 4.2.1).
fn basic_response(response: &[u8]) -> Result<&[u8], String> {
    let outer = AnyRef::from_der(response).ok().filter(|outer| outer.tag() == Tag::Sequence);
    let status = outer.ok_or(MALFORMED)?.value();
    match status {
        [0x0a, 1, 0, ..] => {}
        [0x0a, 1, status, ..] => {
            return Err(format!("the OCSP response is an error, status {status}"));
        }
        _ => return Err(MALFORMED.to_owned()),
    }
    let basic = || {
        let bytes = AnyRef::from_der(elements(status)?.get(1)?.value()).ok()?;
        let octets = *elements(bytes.value())?.get(1)?;
        Some(AnyRef::from_der(octets.value()).ok()?.value())
    };
    Ok(basic().ok_or(MALFORMED)?)
}

/// The list `responses` of the ResponseData: the first sequence after the version, the responder
/// and a time.
fn single_responses(basic: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    let data = elements(elements(basic)?.first()?.value())?;
    let list = data.iter().find(|element| element.tag() == Tag::Sequence)?;
    elements(list.value())
}

/// The status of a certificate; the inner `None` if the list has none of it.
fn find(all: &[AnyRef<'_>], certificate: &Certificate) -> Option<Option<SingleResponse>> {
    for single in all {
        let fields = elements(single.value())?;
        let (id, status, this_update) = (fields.first()?, fields.get(1)?, fields.get(2)?);
        if !is_of(&elements(id.value())?, certificate)? {
            continue;
        }
        // `[0]` is `nextUpdate`, `[1]` are extensions.
        let next = fields.get(3).filter(|field| context_number(field) == Some(0));
        let next_update = match next {
            Some(next) => seconds(AnyRef::from_der(next.value()).ok()?)?,
            None => u64::MAX,
        };
        return Some(Some(SingleResponse {
            is_good: context_number(status) == Some(0),
            this_update: seconds(*this_update)?,
            next_update,
        }));
    }
    Some(None)
}

/// True if a CertID names the certificate: by its serial number, and the hash of its issuer's name.
fn is_of(id: &[AnyRef<'_>], certificate: &Certificate) -> Option<bool> {
    let [algorithm, issuer, _, serial] = id else { return None };
    let content = certificate.tbs_certificate();
    if serial.value() != content.serial_number().as_bytes() {
        return Some(false);
    }
    let algorithm = elements(algorithm.value())?.first()?.decode_as::<ObjectIdentifier>().ok()?;
    let algorithm = match algorithm {
        SHA1_OID => &SHA1_FOR_LEGACY_USE_ONLY,
        SHA256_OID => &SHA256,
        // Clients decide.
        _ => return Some(true),
    };
    let name = content.issuer().to_der().ok()?;
    Some(digest(algorithm, &name).as_ref() == issuer.value())
}

fn context_number(element: &AnyRef<'_>) -> Option<u32> {
    match element.tag() {
        Tag::ContextSpecific { number, .. } => Some(number.value()),
        _ => None,
    }
}

fn seconds(time: AnyRef<'_>) -> Option<u64> {
    Some(time.decode_as::<GeneralizedTime>().ok()?.to_unix_duration().as_secs())
}

/// The elements that follow one another in the content of a sequence.
fn elements(content: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(content).ok()?;
    let mut elements = Vec::new();
    while !reader.is_finished() {
        elements.push(AnyRef::decode(&mut reader).ok()?);
    }
    Some(elements)
}
