//! `cert_auth`: allows requests of clients whose certificate belongs to a known consumer.
//!
//! The certificate was verified in the handshake (`tls.client_auth` of the listener); this filter
//! decides only whose it is. Nothing here is secret, as certificates are public: the handshake has
//! proven that the client has the key.

use std::collections::HashMap;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use message::{Fault, FaultKind, Request};
use net::tls::CertificateDetails;
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};
use telemetry::{CachePadded, Counter, families};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "cert_auth", schema: CertAuth::schema, read };

/// Allows only requests of clients whose certificate is listed.
///
/// The certificate's owner becomes the request's `consumer`, shown by the log and the variable
/// `{consumer}`. Other requests get 403. The listener must ask for certificates with
/// `tls.client_auth`. A subject and a name are as trustworthy as the authorities of that listener:
/// any of them can issue a certificate with it.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct CertAuth {
    /// The accepted certificates.
    #[setting(example = [{ "consumer": "alice", "name": "alice.clients.example.com" }])]
    certificates: Vec<KnownCertificate>,
}

/// Certificates and their owner. Exactly one of `fingerprint`, `name` and `subject` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_one_form)]
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

/// A fingerprint in lower-case digits, as [`CertificateDetails`] has it.
#[derive(Clone, Debug, PartialEq)]
struct Fingerprint(Box<str>);

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text).replace(':', "");
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("is not a SHA-256: it has 64 hexadecimal digits");
        }
        Ok(Fingerprint(digits.to_ascii_lowercase().into()))
    }
}

impl Setting for Fingerprint {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("SHA-256", "^(sha256:)?([0-9a-fA-F]{2}:?){31}[0-9a-fA-F]{2}$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "the SHA-256 of a certificate in hexadecimal digits")
    }
}

/// What a certificate is known by: the kind of a text, and the text.
type Identity<'a> = (IdentityKind, &'a str);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum IdentityKind {
    Fingerprint,
    Name,
    Subject,
}

impl KnownCertificate {
    fn identity(&self) -> Option<Identity<'_>> {
        let fingerprint = self.fingerprint.as_ref().map(|one| (IdentityKind::Fingerprint, &*one.0));
        let name = || self.name.as_deref().map(|name| (IdentityKind::Name, name));
        let subject = || self.subject.as_deref().map(|subject| (IdentityKind::Subject, subject));
        fingerprint.or_else(name).or_else(subject)
    }
}

fn check_one_form(known: &KnownCertificate, node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    let forms = ["fingerprint", "name", "subject"];
    if forms.iter().filter(|form| node.get(form).is_some()).count() != 1 {
        reader.error(node.span, "a certificate has either fingerprint, name or subject");
    }
    if known.consumer.is_empty() || known.consumer.chars().any(char::is_control) {
        reader.error(node.span, "the consumer needs a name without control characters");
    }
    let empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
    if empty(&known.name) || empty(&known.subject) {
        reader.error(node.span, "an empty name or subject is no owner");
    }
}

fn check(settings: &CertAuth, node: &Node, reader: &mut Reader<'_>) {
    if settings.certificates.is_empty() {
        reader.error(node.span, "without certificates no request is allowed");
    }
    let mut seen = HashMap::new();
    for known in &settings.certificates {
        if let Some(identity) = known.identity()
            && let Some(before) = seen.insert(identity, &known.consumer)
        {
            let other = &known.consumer;
            reader.error(node.span, format!("{before} and {other} have the same certificate"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(CertAuthPlan(CertAuth::read(node, reader)?)))
}

struct CertAuthPlan(CertAuth);

impl FilterPlan for CertAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let refusals = |reason| {
            let labels = [KIND.name, reason];
            worker.telemetry.worker_counter(worker.index, &families::AUTH_REFUSALS, &labels)
        };
        let mut consumers = Consumers::default();
        for known in &self.0.certificates {
            if let Some((kind, text)) = known.identity() {
                consumers.of(kind).insert(text.into(), Rc::from(&*known.consumer));
            }
        }
        Stage::Filter(Rc::new(CertAuthFilter {
            consumers,
            missing: refusals("missing"),
            invalid: refusals("invalid"),
        }))
    }

    fn describe(&self) -> String {
        let known = self.0.certificates.len();
        format!("{known} certificate{}", if known == 1 { "" } else { "s" })
    }

    fn authenticates(&self) -> bool {
        true
    }
}

type ByText = HashMap<Box<str>, Rc<str>, foldhash::fast::RandomState>;

/// Consumers by what their certificates are known by.
#[derive(Default)]
struct Consumers {
    fingerprints: ByText,
    names: ByText,
    subjects: ByText,
}

impl Consumers {
    fn of(&mut self, kind: IdentityKind) -> &mut ByText {
        match kind {
            IdentityKind::Fingerprint => &mut self.fingerprints,
            IdentityKind::Name => &mut self.names,
            IdentityKind::Subject => &mut self.subjects,
        }
    }

    fn owner(&self, certificate: &CertificateDetails) -> Option<&Rc<str>> {
        let mut names = certificate.names.iter();
        let by_name = || names.find_map(|name| self.names.get(name.as_str()));
        let by_subject = || self.subjects.get(&certificate.subject);
        self.fingerprints.get(&certificate.fingerprint).or_else(by_name).or_else(by_subject)
    }
}

struct CertAuthFilter {
    consumers: Consumers,
    missing: Arc<CachePadded<Counter>>,
    invalid: Arc<CachePadded<Counter>>,
}

impl Filter for CertAuthFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let peer = request.facts.tls.as_ref().and_then(|tls| tls.peer.as_ref());
        let (counter, why) = match peer.map(|peer| self.consumers.owner(&peer.details)) {
            Some(Some(consumer)) => {
                request.consumer = Some(consumer.clone());
                return Step::Continue.into();
            }
            Some(None) => (&self.invalid, "the client's certificate is not listed"),
            None => (&self.missing, "the client has presented no certificate"),
        };
        counter.inc();
        Step::Fail(Fault::new(FaultKind::Forbidden, why)).into()
    }
}

#[cfg(test)]
mod tests {
    use net::tls::{AlternativeName, PeerCertificate, TlsInfo};
    use settings::node;

    use super::*;
    use crate::testing::{errors, filter, get, passed, plan, rendered};

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
            // What one kind of identity says is not looked up as another.
            (request("a.test", &[AlternativeName::Dns("CN=a,O=b".into())], "00"), None),
            (request("", &[], ""), None),
            (get("/", &[]), None),
        ] {
            let passed = passed(filter.on_request(&mut request));
            assert_eq!(request.consumer.as_deref(), consumer);
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
        let context = crate::testing::context();
        let node = node!({ "certificates": [{ "consumer": "a", "subject": "CN=a" }] });
        let filter = crate::testing::filter_in(&KIND, &node, &context);
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
            (node!({ "certificates": [{ "consumer": "a", "subject": "" }] }), "is no owner"),
            (
                node!({ "certificates": [{ "consumer": "a", "fingerprint": "aa:bb" }] }),
                "64 hexadecimal digits",
            ),
        ] {
            let out = errors(&KIND, &one);
            assert!(out.contains(expected), "{out}");
        }
        assert!(errors(&KIND, &node!({ "certificates": [] })).contains("no request is allowed"));
        let twice = node!({ "certificates": [
            { "consumer": "a", "name": "x" }, { "consumer": "b", "name": "x" },
        ] });
        assert!(errors(&KIND, &twice).contains("a and b have the same certificate"));
    }
}
