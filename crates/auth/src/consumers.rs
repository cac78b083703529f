//! The section `consumers`: what one entry says, and the checked set of all.
//!
//! Promises that a set has no name and no credential twice, and that an entry is found by name or
//! credential in one lookup, however many there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use message::{Consumer, ConsumerLimits};
use serde_json::{Value as Json, json};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned, quote};
use sha2::{Digest as _, Sha256};

use crate::credential::{ByCredential, CredentialId, CredentialKind, Fingerprint};
use crate::credential_forms::{CertificateForm, KeyForm, TokenForm};
use crate::decoy::DecoyHashes;
use crate::password::PasswordHash;
use crate::signature_key::{SignatureKey, SignatureKeySettings};

/// The maximum length of a name in characters: it appears in logs and in URLs of the admin API.
const NAME_CHARS: usize = 100;
/// The hexadecimal digits of a version.
const VERSION_DIGITS: usize = 16;

/// A client that authenticates, with its credentials and what applies to it.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct ConsumerSettings {
    /// The name, for logs, the variable `{consumer}` and conditions.
    pub(crate) name: String,
    /// Groups it belongs to, for `allow`, `deny` and conditions.
    #[setting(default = [], example = ["gold"])]
    pub(crate) groups: Vec<String>,
    /// Texts by name, for the variables `{label.NAME}`.
    #[setting(default = {}, example = { "team": "shop" })]
    pub(crate) labels: Labels,
    /// Its keys, for `key_auth`. Several allow rotation without a gap.
    #[setting(default = [])]
    pub(crate) keys: Vec<KeyForm>,
    /// Its certificates, for `cert_auth`. Several allow renewal without a gap.
    #[setting(default = [])]
    pub(crate) certificates: Vec<CertificateForm>,
    /// The hash of its password, for `basic_auth`, where its name is the user's.
    pub(crate) password: Option<PasswordHash>,
    /// Its tokens, for `jwt`.
    pub(crate) jwt: Option<TokenForm>,
    /// The keys that sign its requests, for `hmac_auth`. Several allow rotation without a gap.
    #[setting(default = [])]
    pub(crate) signature_keys: Vec<SignatureKeySettings>,
    /// Limits of its own, for `rate_limit` and `quota` with `consumer_limits`.
    #[setting(example = { "rate": "100/s", "quotas": { "monthly": 100000 } })]
    pub(crate) limits: Option<Box<ConsumerLimits>>,
}

/// Texts by name, in the order of the names. Most consumers have few: a map would reserve room for
/// eleven.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Setting for Labels {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        BTreeMap::<String, String>::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let texts = BTreeMap::<String, String>::read(node, reader)?;
        let boxed = |(name, text): (String, String)| (name.into(), text.into());
        Some(Labels(texts.into_iter().map(boxed).collect()))
    }
}

fn check(settings: &ConsumerSettings, node: &Node, reader: &mut Reader<'_>) {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    let name = &settings.name;
    if name.is_empty() || name.contains(odd) || name.chars().count() > NAME_CHARS {
        reader
            .error(node.span, "this cannot be the name of a consumer")
            .help(format!("a name has 1 to {NAME_CHARS} characters and no spaces"));
    }
    if settings.jwt.as_ref().is_some_and(|jwt| jwt.subject.is_empty()) {
        reader.error(node.span, "the subject of tokens is empty");
    }
    if settings.limits.as_ref().is_some_and(|own| own.rate.is_none() && own.burst.is_some()) {
        let span = node.get("limits").unwrap_or(node).span;
        reader.error(span, "a `burst` needs a `rate`");
    }
    if settings.groups.iter().any(|group| group.is_empty() || group.contains(odd)) {
        reader.error(node.span, "a group has a name without spaces");
    }
}

impl ConsumerSettings {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a request knows of the consumer.
    pub(crate) fn consumer(&self) -> Consumer {
        Consumer {
            name: self.name.as_str().into(),
            groups: self.groups.iter().map(|group| group.as_str().into()).collect(),
            labels: self.labels.0.to_vec(),
            limits: self.limits.clone(),
        }
    }

    /// The identities of its credentials; its name is the first.
    pub(crate) fn credentials(&self) -> Vec<CredentialId> {
        let text = |kind, text: &str| CredentialId::of(kind, text.as_bytes());
        let mut credentials = vec![text(CredentialKind::Name, &self.name)];
        let keys = self.keys.iter().filter_map(KeyForm::fingerprint);
        credentials.extend(keys.map(|key| CredentialId::of_key(key.0)));
        credentials.extend(self.certificates.iter().filter_map(CertificateForm::id));
        let subject = self.jwt.iter().map(|jwt| text(CredentialKind::Subject, &jwt.subject));
        credentials.extend(subject);
        let named = |key: &SignatureKeySettings| text(CredentialKind::SignatureKey, &key.id);
        credentials.extend(self.signature_keys.iter().map(named));
        credentials
    }

    /// The entry with the secrets that [`ConsumerSettings::to_json`] masks; `None` if one of them
    /// is not a text.
    pub(crate) fn to_stored_json(&self) -> Option<Json> {
        let mut json = self.to_json();
        if let Some(password) = &self.password {
            json["password"] = json!(password.expose());
        }
        for (at, key) in self.signature_keys.iter().enumerate() {
            if let Some(secret) = key.secret() {
                json["signature_keys"][at]["secret"] = json!(str::from_utf8(secret).ok()?);
            }
        }
        Some(json)
    }

    /// Identifies what the entry says: the same in every process.
    pub(crate) fn version(&self) -> String {
        let mut hasher = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(self.to_json().to_string().as_bytes());
        // Values that the JSON masks are part of the version.
        self.password.iter().for_each(|hash| add(hash.expose().as_bytes()));
        self.signature_keys.iter().filter_map(|key| key.secret()).for_each(&mut add);
        Fingerprint(hasher.finalize().into()).to_hex()[..VERSION_DIGITS].to_owned()
    }

    /// The entry as the admin API shows it: keys as their digests, other secrets masked.
    pub fn to_json(&self) -> Json {
        let keys = self.keys.iter().filter_map(KeyForm::fingerprint);
        let keys: Vec<Json> = keys.map(|key| json!({ "sha256": key.to_hex() })).collect();
        let certificates: Vec<Json> =
            self.certificates.iter().map(CertificateForm::to_json).collect();
        let mut object = serde_json::Map::new();
        let mut add = |name: &str, value: Json| {
            object.insert(name.to_owned(), value);
        };
        add("name", json!(self.name));
        if !self.groups.is_empty() {
            add("groups", json!(self.groups));
        }
        if !self.labels.0.is_empty() {
            let labels = self.labels.0.iter();
            add("labels", labels.map(|(name, text)| (name.to_string(), json!(text))).collect());
        }
        if !keys.is_empty() {
            add("keys", json!(keys));
        }
        if !certificates.is_empty() {
            add("certificates", json!(certificates));
        }
        if self.password.is_some() {
            add("password", json!("***"));
        }
        if let Some(jwt) = &self.jwt {
            add("jwt", json!({ "subject": jwt.subject }));
        }
        if !self.signature_keys.is_empty() {
            let keys = self.signature_keys.iter().map(SignatureKeySettings::to_json);
            add("signature_keys", keys.collect());
        }
        if let Some(limits) = &self.limits {
            add("limits", limits_to_json(limits));
        }
        Json::Object(object)
    }
}

fn limits_to_json(limits: &ConsumerLimits) -> Json {
    let mut object = serde_json::Map::new();
    if let Some(rate) = limits.rate {
        object.insert("rate".to_owned(), json!(rate.to_string()));
    }
    if let Some(burst) = limits.burst {
        object.insert("burst".to_owned(), json!(burst));
    }
    if !limits.quotas.is_empty() {
        object.insert("quotas".to_owned(), json!(limits.quotas));
    }
    Json::Object(object)
}

/// An entry, ready to be looked up. There may be 100 000: what is needed rarely is not stored.
pub(crate) struct Entry {
    pub(crate) settings: ConsumerSettings,
    signature_keys: Vec<SignatureKey>,
}

impl Entry {
    pub(crate) fn new(settings: ConsumerSettings) -> Entry {
        let keys = settings.signature_keys.iter().filter_map(SignatureKeySettings::key);
        let signature_keys = keys.collect();
        Entry { settings, signature_keys }
    }

    pub(crate) fn signature_key(&self, id: &str) -> Option<&SignatureKey> {
        self.signature_keys.iter().find(|key| *key.id == *id)
    }
}

/// The consumers of a configuration.
#[derive(Default)]
pub struct ConsumerSet {
    /// Each name is a credential.
    pub(crate) by_credential: ByCredential<Arc<Entry>>,
    pub(crate) decoys: DecoyHashes,
}

impl ConsumerSet {
    /// Puts entries together; two with the same name or credential are an error that names both.
    pub fn new(entries: Vec<Spanned<ConsumerSettings>>, reader: &mut Reader<'_>) -> ConsumerSet {
        let mut set = ConsumerSet::default();
        set.by_credential.reserve(entries.len() * 2);
        for written in entries {
            let entry = Arc::new(Entry::new(written.value));
            entry.settings.password.iter().for_each(|hash| set.decoys.add(hash));
            let credentials = entry.settings.credentials();
            for (at, id) in credentials.iter().enumerate() {
                let Some(before) = set.by_credential.insert(*id, entry.clone()) else { continue };
                let (one, other) = (quote(before.settings.name()), quote(entry.settings.name()));
                let why = match id.kind() {
                    CredentialKind::Name => format!("the consumer {other} is declared twice"),
                    _ if credentials[..at].contains(id) => {
                        format!("the consumer {other} has a {} twice", id.kind().noun())
                    }
                    kind => format!("{one} and {other} have the same {}", kind.noun()),
                };
                reader.error(written.span, why);
            }
        }
        set
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_credential.get(&CredentialId::of(CredentialKind::Name, name.as_bytes()))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.by_credential.iter().filter(|(id, _)| id.kind() == CredentialKind::Name);
        named.map(|(_, entry)| entry.settings.name())
    }

    /// The consumers with limits of their own.
    pub fn limits(&self) -> impl Iterator<Item = (&str, &ConsumerLimits)> {
        let named = self.by_credential.iter().filter(|(id, _)| id.kind() == CredentialKind::Name);
        named.filter_map(|(_, entry)| {
            Some((entry.settings.name(), entry.settings.limits.as_deref()?))
        })
    }

    /// The number of consumers.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.by_credential.is_empty()
    }
}
