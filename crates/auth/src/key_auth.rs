//! `key_auth`: allows requests that carry a known API key.
//!
//! Promises that a key is stored and compared only as its SHA-256, in constant time; that neither
//! log nor `explain` shows one; that a key is forwarded only if configured.

use std::rc::Rc;
use std::sync::Arc;

use message::{Consumer, Request};
use plugin::{CredentialPlace, FilterKind, FilterPlan, HeaderName, WorkerContext};
use settings::{Node, OneOrMany, Reader, Secret, Setting};
use wire::Known;
use wire::authorization::bearer;
use wire::target::{QueryPair, query_pairs};

use crate::auth_plan::AuthPlan;
use crate::credential::{ByCredential, CredentialId, CredentialKind, Fingerprint, digest};
use crate::credential_forms::{check_key_form, check_listed_name, check_own_list};
use crate::method::{AuthResult, Identity, Method, MethodPlan, check_realm, only};
use crate::registry::Directory;

pub(crate) const KIND: FilterKind = FilterKind { name: "key_auth", schema: KeyAuth::schema, read };

/// Allows only requests that carry a known API key.
///
/// The key's owner becomes the request's `consumer`, shown by the log and the variable
/// `{consumer}`. Other requests get 401 with `WWW-Authenticate`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct KeyAuth {
    /// The accepted keys, each as its SHA-256 (`printf %s "$KEY" | sha256sum`) or as a secret.
    /// Without any, the keys of all `consumers` are accepted.
    #[setting(default = [])]
    keys: Vec<KnownKey>,
    /// Where the key is looked for, in this order: `{ header: NAME }`, `bearer` (the
    /// `Authorization` header), `{ query: NAME }`.
    #[setting(default = { "header": "x-api-key" }, example = ["bearer", { "query": "key" }])]
    from: OneOrMany<KeySource>,
    /// Removes the key from the request before it is forwarded, so that no upstream and no log sees
    /// it.
    #[setting(default = true)]
    hide: bool,
    /// What `WWW-Authenticate` calls the protected space.
    #[setting(default = "tidegate")]
    realm: String,
}

/// A key and its owner. Exactly one of `sha256` and `key` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_known_key)]
struct KnownKey {
    /// The owner. Several keys can have one owner, which allows key rotation without a gap.
    consumer: String,
    /// The SHA-256 of the key in 64 hexadecimal digits, perhaps after `sha256:`.
    sha256: Option<Fingerprint>,
    /// The key itself, from the environment or a file.
    key: Option<Secret>,
}

/// Where a key is looked for.
#[derive(Clone, Debug, PartialEq, Setting)]
enum KeySource {
    /// In a header of this name.
    Header(HeaderName),
    /// In `Authorization: Bearer KEY` (RFC 6750).
    Bearer,
    /// In the query, under this name. Prefer a header: queries end up in logs and histories.
    Query(String),
}

fn check_known_key(key: &KnownKey, node: &Node, reader: &mut Reader<'_>) {
    check_key_form(node, reader);
    check_listed_name(&key.consumer, node, reader);
}

impl KnownKey {
    fn id(&self) -> Option<CredentialId> {
        let of_key = || self.key.as_ref().map(|key| digest(key.expose()));
        self.sha256.as_ref().map(|known| known.0).or_else(of_key).map(CredentialId::of_key)
    }
}

fn check(settings: &KeyAuth, node: &Node, reader: &mut Reader<'_>) {
    if settings.from.is_empty() {
        reader.error(node.span, "there is no place to look for a key");
    }
    check_realm(&settings.realm, node, reader);
    let mut seen = ByCredential::default();
    check_own_list(node, "keys", reader);
    for key in &settings.keys {
        if let Some(before) = key.id().and_then(|id| seen.insert(id, &key.consumer)) {
            let other = &key.consumer;
            reader.error(node.span, format!("{before} and {other} have the same key"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(KeyAuth::read(node, reader)?.plan()))
}

impl KeyAuth {
    pub(crate) fn plan(self) -> KeyAuthPlan {
        let keys = self.keys.iter().filter_map(|key| {
            let owner = CredentialId::of(CredentialKind::Name, key.consumer.as_bytes());
            Some((key.id()?, (owner, key.consumer.as_str().into())))
        });
        let listed = Arc::new(keys.collect::<ListedKeys>());
        KeyAuthPlan { listed, challenge: challenge(&self), settings: self }
    }
}

/// RFC 9110 11.6.1. No scheme is registered for keys in other places; `ApiKey` is common.
fn challenge(settings: &KeyAuth) -> String {
    let bearer = settings.from.contains(&KeySource::Bearer);
    let other = settings.from.iter().any(|place| *place != KeySource::Bearer);
    let schemes = [("Bearer", bearer), ("ApiKey", other)];
    let challenges = schemes.iter().filter(|(_, wanted)| *wanted);
    let challenges = challenges.map(|(scheme, _)| format!("{scheme} realm=\"{}\"", settings.realm));
    challenges.collect::<Vec<_>>().join(", ")
}

/// The owners of the filter's own keys, as the identity of their entry and as their name.
type ListedKeys = ByCredential<(CredentialId, Box<str>)>;

pub(crate) struct KeyAuthPlan {
    settings: KeyAuth,
    /// Shared by the workers.
    listed: Arc<ListedKeys>,
    challenge: String,
}

impl MethodPlan for KeyAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        Rc::new(KeyMethod {
            directory: Directory::of(worker),
            listed: self.listed.clone(),
            places: self.settings.from.0.clone(),
            hide: self.settings.hide,
            challenge: self.challenge.clone(),
        })
    }

    fn describe(&self) -> String {
        let keys = match self.settings.keys.len() {
            0 => "keys of consumers".to_owned(),
            1 => "1 key".to_owned(),
            keys => format!("{keys} keys"),
        };
        let hidden = if self.settings.hide { "" } else { ", passed on" };
        format!("{keys}{hidden}")
    }

    fn places(&self) -> Vec<CredentialPlace> {
        let place = |source: &KeySource| match source {
            KeySource::Header(name) => CredentialPlace::Header(name.to_string()),
            KeySource::Bearer => CredentialPlace::Header("authorization".to_owned()),
            KeySource::Query(name) => CredentialPlace::Query(name.clone()),
        };
        self.settings.from.iter().map(place).collect()
    }

    fn forwards(&self) -> bool {
        !self.settings.hide
    }
}

struct KeyMethod {
    directory: Rc<Directory>,
    listed: Arc<ListedKeys>,
    places: Vec<KeySource>,
    hide: bool,
    challenge: String,
}

impl Method for KeyMethod {
    fn authenticate(&self, request: &Request) -> AuthResult {
        let found = self.places.iter().find_map(|place| {
            place.with_key(request, |key| self.owner(&CredentialId::of(CredentialKind::Key, key)))
        });
        match found {
            Some(Some(consumer)) => AuthResult::Accepted(Identity::of(consumer)),
            Some(None) => AuthResult::Invalid("the key is not known"),
            None => AuthResult::Missing("there is no key"),
        }
    }

    /// Another place may have a key too, which nothing has verified.
    fn prepare(&self, request: &mut Request) {
        if self.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        for place in &self.places {
            place.hide(request);
        }
    }

    fn challenge(&self, _: bool) -> Option<String> {
        Some(self.challenge.clone())
    }
}

impl KeyMethod {
    fn owner(&self, id: &CredentialId) -> Option<Rc<Consumer>> {
        if self.listed.is_empty() {
            return self.directory.find(id);
        }
        let (owner, name) = self.listed.get(id)?;
        Some(self.directory.named(owner, name))
    }
}

impl KeySource {
    /// Calls `look` with the key found here. A repeated key counts as none: which one would the
    /// upstream use?
    fn with_key<R>(&self, request: &Request, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            KeySource::Header(name) => only(request.headers.get_all(name)).map(look),
            KeySource::Bearer => {
                only(request.headers.get_all(Known::Authorization)).and_then(bearer).map(look)
            }
            KeySource::Query(name) => {
                let query = request.target.query()?;
                let named = |(written, _): &QueryPair<'_>| written[..] == *name.as_bytes();
                only(query_pairs(query).filter(named)).map(|(_, key)| look(&key))
            }
        }
    }

    fn hide(&self, request: &mut Request) {
        match self {
            KeySource::Header(name) => {
                request.headers.remove(name);
            }
            KeySource::Bearer => {
                request.headers.remove(Known::Authorization);
            }
            KeySource::Query(name) => {
                let Some(query) = request.target.query() else { return };
                let mut raw = request.target.raw_path().to_vec();
                let others = query.split(|byte| *byte == b'&');
                for other in others.filter(|pair| !is_named(pair, name)) {
                    raw.push(if raw.len() == request.target.raw_path().len() {
                        b'?'
                    } else {
                        b'&'
                    });
                    raw.extend_from_slice(other);
                }
                // The path was parsed before; it cannot fail now.
                let _ = request.target.replace(raw);
            }
        }
    }
}

fn is_named(pair: &[u8], name: &str) -> bool {
    query_pairs(pair).any(|(written, _)| written[..] == *name.as_bytes())
}

#[cfg(test)]
mod tests;
