//! `cert_auth`: allows requests of clients whose certificate belongs to a known consumer.
//!
//! The certificate was verified in the handshake (`tls.client_auth` of the listener); this filter
//! decides only whose it is. Nothing here is secret, as certificates are public: the handshake has
//! proven that the client has the key.

use std::rc::Rc;
use std::sync::Arc;

use message::{Consumer, Request};
use net::tls::CertificateDetails;
use plugin::{FilterKind, FilterPlan, WorkerContext};
use settings::{Node, Reader, Setting};

use crate::auth_plan::AuthPlan;
use crate::credential::{ByCredential, CredentialId, CredentialKind, Fingerprint};
use crate::credential_forms::{CertificateForm, check_form, check_listed_name, check_own_list};
use crate::method::{AuthResult, Identity, Method, MethodPlan};
use crate::registry::Directory;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "cert_auth", schema: CertAuth::schema, read };

/// Allows only requests of clients whose certificate is known.
///
/// The certificate's owner becomes the request's `consumer`, shown by the log and the variable
/// `{consumer}`. Other requests get 403. The listener must ask for certificates with
/// `tls.client_auth`. A subject and a name are as trustworthy as the authorities of that listener:
/// any of them can issue a certificate with it.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct CertAuth {
    /// The accepted certificates. Without any, the certificates of all `consumers` are accepted.
    #[setting(default = [], example = [{ "consumer": "alice", "name": "alice.example.com" }])]
    certificates: Vec<KnownCertificate>,
}

/// Certificates and their owner. Exactly one of `fingerprint`, `name` and `subject` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_known)]
struct KnownCertificate {
    /// The owner. Several certificates can have one owner, which allows renewal without a gap.
    consumer: String,
    /// The SHA-256 of one certificate in hexadecimal digits, with or without colons
    /// (`openssl x509 -noout -fingerprint -sha256 -in FILE`). It wins over `name` and `subject`.
    fingerprint: Option<Fingerprint>,
    /// A subject alternative name: a DNS name, an address, an e-mail address or a URI. It wins over
    /// `subject`.
    name: Option<String>,
    /// The whole subject as RFC 4514 writes it
    /// (`openssl x509 -noout -subject -nameopt RFC2253 -in FILE`).
    #[setting(example = "CN=alice,O=example")]
    subject: Option<String>,
}

impl KnownCertificate {
    fn form(&self) -> CertificateForm {
        CertificateForm {
            fingerprint: self.fingerprint.clone(),
            name: self.name.clone(),
            subject: self.subject.clone(),
        }
    }
}

fn check_known(known: &KnownCertificate, node: &Node, reader: &mut Reader<'_>) {
    check_form(&known.form(), node, reader);
    check_listed_name(&known.consumer, node, reader);
}

fn check(settings: &CertAuth, node: &Node, reader: &mut Reader<'_>) {
    check_own_list(node, "certificates", reader);
    let mut seen = ByCredential::default();
    for known in &settings.certificates {
        if let Some(id) = known.form().id()
            && let Some(before) = seen.insert(id, &known.consumer)
        {
            let other = &known.consumer;
            reader.error(node.span, format!("{before} and {other} have the same certificate"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(CertAuth::read(node, reader)?.plan()))
}

impl CertAuth {
    pub(crate) fn plan(self) -> CertAuthPlan {
        let listed = self.certificates.iter().filter_map(|known| {
            let owner = CredentialId::of(CredentialKind::Name, known.consumer.as_bytes());
            Some((known.form().id()?, (owner, known.consumer.as_str().into())))
        });
        CertAuthPlan(Arc::new(listed.collect()))
    }
}

/// The owners of the filter's own certificates; shared by the workers.
pub(crate) struct CertAuthPlan(Arc<ByCredential<(CredentialId, Box<str>)>>);

impl MethodPlan for CertAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        Rc::new(CertMethod { directory: Directory::of(worker), listed: self.0.clone() })
    }

    fn describe(&self) -> String {
        match self.0.len() {
            0 => "certificates of consumers".to_owned(),
            1 => "1 certificate".to_owned(),
            known => format!("{known} certificates"),
        }
    }
}

struct CertMethod {
    directory: Rc<Directory>,
    listed: Arc<ByCredential<(CredentialId, Box<str>)>>,
}

impl Method for CertMethod {
    fn authenticate(&self, request: &Request) -> AuthResult {
        let peer = request.facts.tls.as_ref().and_then(|tls| tls.peer.as_ref());
        match peer.map(|peer| self.owner(&peer.details)) {
            Some(Some(consumer)) => AuthResult::Accepted(Identity::of(consumer)),
            Some(None) => AuthResult::Invalid("the client's certificate is not listed"),
            None => AuthResult::Missing("the client has presented no certificate"),
        }
    }
}

impl CertMethod {
    fn owner(&self, certificate: &CertificateDetails) -> Option<Rc<Consumer>> {
        use CredentialKind::{CertificateFingerprint, CertificateName, CertificateSubject};
        let find = |kind, text: &str| {
            let id = CredentialId::of(kind, text.as_bytes());
            if self.listed.is_empty() {
                return self.directory.find(&id);
            }
            let (owner, name) = self.listed.get(&id)?;
            Some(self.directory.named(owner, name))
        };
        let mut names = certificate.names.iter();
        find(CertificateFingerprint, &certificate.fingerprint)
            .or_else(|| names.find_map(|name| find(CertificateName, name.as_str())))
            .or_else(|| find(CertificateSubject, &certificate.subject))
    }
}

#[cfg(test)]
mod tests {
    use net::tls::{AlternativeName, PeerCertificate, TlsInfo};
    use settings::node;

    use telemetry::families;

    use super::*;
    use plugin::testing::{errors, filter, get, passed, plan, rendered};

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn request(subject: &str, names: &[AlternativeName], fingerprint: &str) -> Request {
        let details = CertificateDetails {
            subject: subject.into(),
            names: names.to_vec(),
            fingerprint: fingerprint.into(),
            not_before: 0,
            not_after: u64::MAX,
        };
        let peer = Some(Box::new(PeerCertificate { details, chain: Vec::new() }));
        let mut request = get("/", &[]);
        let mut facts = (*request.facts).clone();
        facts.tls = Some(Rc::new(TlsInfo { peer, ..TlsInfo::default() }));
        request.facts = Rc::new(facts);
        request
    }

    #[test]
    fn a_listed_certificate_names_its_consumer() {
        settings::verify::<CertAuth>().unwrap();
        let colons = DIGEST.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        let colons = colons.collect::<Vec<_>>().join(":").to_uppercase();
        let node = node!({ "certificates": [
            { "consumer": "print", "fingerprint": colons },
            { "consumer": "named", "name": "a.test" },
            { "consumer": "mail", "name": "Me@a.test" },
            { "consumer": "subject", "subject": "CN=a,O=b" },
        ] });
        assert_eq!(plan(&KIND, &node).unwrap().describe(), "4 certificates");
        let filter = filter(&KIND, &node);
        let dns = AlternativeName::Dns("a.test".into());
        let mail = AlternativeName::Email("Me@a.test".into());
        let other = AlternativeName::Uri("https://a.test".into());
        let names: &[AlternativeName] = &[other.clone(), dns.clone()];
        for (mut request, consumer) in [
            (request("CN=a,O=b", std::slice::from_ref(&dns), DIGEST), Some("print")),
            (request("CN=a,O=b", names, "00"), Some("named")),
            (request("", &[mail], "00"), Some("mail")),
            (request("CN=a,O=b", std::slice::from_ref(&other), "00"), Some("subject")),
            (request("CN=a", &[other], "00"), None),
            // A value of one kind of identity is not looked up as another kind.
            (request("a.test", &[AlternativeName::Dns("CN=a,O=b".into())], "00"), None),
            (request("", &[], ""), None),
            (get("/", &[]), None),
        ] {
            let passed = passed(filter.on_request(&mut request));
            assert_eq!(request.consumer_name(), consumer);
            assert_eq!(
                passed.map_err(|fault| rendered(&fault).status),
                match consumer {
                    Some(_) => Ok(()),
                    None => Err(403),
                }
            );
        }
    }

    #[test]
    fn refusals_are_counted_by_their_reason() {
        let context = plugin::testing::context();
        let node = node!({ "certificates": [{ "consumer": "a", "subject": "CN=a" }] });
        let filter = plugin::testing::filter_in(&KIND, &node, &context);
        let _ = filter.on_request(&mut get("/", &[]));
        let _ = filter.on_request(&mut request("CN=b", &[], ""));
        for reason in ["missing", "invalid"] {
            let labels = [KIND.name, reason];
            let counter =
                context.telemetry.worker_counter(context.index, &families::AUTH_REFUSALS, &labels);
            assert_eq!(counter.get(), 1, "{reason}");
        }
    }

    #[test]
    fn what_is_ambiguous_is_an_error() {
        for (one, expected) in [
            (
                node!({ "certificates": [{ "consumer": "a" }] }),
                "either fingerprint, name or subject",
            ),
            (
                node!({ "certificates": [{ "consumer": "a", "name": "a", "subject": "CN=a" }] }),
                "either fingerprint",
            ),
            (
                node!({ "certificates": [{ "consumer": "", "name": "a" }] }),
                "the consumer needs a name",
            ),
            (node!({ "certificates": [{ "consumer": "a", "subject": "" }] }), "is not an owner"),
            (
                node!({ "certificates": [{ "consumer": "a", "fingerprint": "aa:bb" }] }),
                "64 hexadecimal digits",
            ),
        ] {
            let out = errors(&KIND, &one);
            assert!(out.contains(expected), "{out}");
        }
        let twice = node!({ "certificates": [
            { "consumer": "a", "name": "x" }, { "consumer": "b", "name": "x" },
        ] });
        assert!(errors(&KIND, &twice).contains("a and b have the same certificate"));
    }
}
