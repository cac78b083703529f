//! The settings of credentials, in `consumers` and in filters that list their own.

use serde_json::{Value as Json, json};
use settings::{Node, Reader, Secret, Setting};

use crate::credential::{CredentialId, CredentialKind, Fingerprint, digest};

/// The tokens of a consumer.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct TokenForm {
    /// The value of the claim that identifies it, `sub` unless `jwt` names another.
    pub(crate) subject: String,
}

/// A key. Exactly one of `sha256` and `key` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_key)]
pub(crate) struct KeyForm {
    /// The SHA-256 of the key in 64 hexadecimal digits, perhaps after `sha256:`.
    pub(crate) sha256: Option<Fingerprint>,
    /// The key itself, from the environment or a file.
    pub(crate) key: Option<Secret>,
}

impl KeyForm {
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        let of_key = || self.key.as_ref().map(|key| Fingerprint(digest(key.expose())));
        self.sha256.clone().or_else(of_key)
    }
}

fn check_key(_: &KeyForm, node: &Node, reader: &mut Reader<'_>) {
    check_key_form(node, reader);
}

/// Checks that a key is written in one form.
pub(crate) fn check_key_form(node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    if node.get("sha256").is_some() == node.get("key").is_some() {
        reader.error(node.span, "a key has either sha256 or key");
    }
}

/// Reports an empty list of a filter's own credentials. Left out, it means those of `consumers`:
/// whether the author means these or none is not known.
pub(crate) fn check_own_list(node: &Node, key: &str, reader: &mut Reader<'_>) {
    let is_empty = |list: &&Node| list.list().is_some_and(<[Node]>::is_empty);
    if let Some(list) = node.get(key).filter(is_empty) {
        reader
            .error(list.span, format!("an empty list of {key}"))
            .help(format!("remove `{key}` to accept those of all consumers"));
    }
}

/// Checks the name of a consumer where a filter lists it.
pub(crate) fn check_listed_name(name: &str, node: &Node, reader: &mut Reader<'_>) {
    if name.is_empty() || name.chars().any(char::is_control) {
        reader.error(node.span, "the consumer needs a name without control characters");
    }
}

/// Certificates of a consumer. Exactly one of `fingerprint`, `name` and `subject` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_form)]
pub(crate) struct CertificateForm {
    /// The SHA-256 of one certificate in hexadecimal digits, with or without colons
    /// (`openssl x509 -noout -fingerprint -sha256 -in FILE`). It wins over `name` and `subject`.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// A subject alternative name: a DNS name, an address, an e-mail address or a URI. It wins over
    /// `subject`.
    pub(crate) name: Option<String>,
    /// The whole subject as RFC 4514 writes it
    /// (`openssl x509 -noout -subject -nameopt RFC2253 -in FILE`).
    #[setting(example = "CN=alice,O=example")]
    pub(crate) subject: Option<String>,
}

impl CertificateForm {
    /// The identity of these certificates; a fingerprint is identified by its digits.
    pub(crate) fn id(&self) -> Option<CredentialId> {
        let fingerprint = self.fingerprint.as_ref().map(|fingerprint| {
            CredentialId::of(
                CredentialKind::CertificateFingerprint,
                fingerprint.to_hex().as_bytes(),
            )
        });
        let text = |kind, text: &String| CredentialId::of(kind, text.as_bytes());
        let name = || Some(text(CredentialKind::CertificateName, self.name.as_ref()?));
        let subject = || Some(text(CredentialKind::CertificateSubject, self.subject.as_ref()?));
        fingerprint.or_else(name).or_else(subject)
    }

    pub(crate) fn to_json(&self) -> Json {
        match (&self.fingerprint, &self.name) {
            (Some(fingerprint), _) => json!({ "fingerprint": fingerprint.to_hex() }),
            (None, Some(name)) => json!({ "name": name }),
            (None, None) => json!({ "subject": self.subject }),
        }
    }
}

pub(crate) fn check_form(form: &CertificateForm, node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    let forms = ["fingerprint", "name", "subject"];
    if forms.iter().filter(|form| node.get(form).is_some()).count() != 1 {
        reader.error(node.span, "a certificate has either fingerprint, name or subject");
    }
    let empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
    if empty(&form.name) || empty(&form.subject) {
        reader.error(node.span, "an empty name or subject is not an owner");
    }
}
