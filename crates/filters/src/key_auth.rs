//! `key_auth`: allows requests that carry a known API key.
//!
//! Promises that a key is stored and compared only as its SHA-256, in constant time; that neither
//! log nor `explain` shows one; that a key is forwarded only if configured. Looking the candidate
//! up by the first bytes of the digest reveals nothing: an attacker cannot choose digests.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use message::{Fault, FaultKind, Request};
use plugin::{Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, OneOrMany, Reader, Schema, SchemaBuilder, Secret, Setting};
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use telemetry::{CachePadded, Counter, families};
use wire::Known;
use wire::authorization::bearer;
use wire::target::{QueryPair, query_pairs};

pub(crate) const KIND: FilterKind = FilterKind { name: "key_auth", schema: KeyAuth::schema, read };

/// Allows only requests that carry a known API key.
///
/// The key's owner becomes the request's `consumer`, shown by the log and the variable
/// `{consumer}`. Other requests get 401 with `WWW-Authenticate`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct KeyAuth {
    /// The accepted keys, each as its SHA-256 (`printf %s "$KEY" | sha256sum`) or as a secret.
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
#[setting(check = check_one_form)]
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

type Hash = [u8; 32];

/// A digest as it is written in the configuration.
#[derive(Clone, PartialEq)]
struct Fingerprint(Hash);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(***)")
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut hash = Hash::default();
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != hash.len() || !rest.is_empty() {
            return Err("is not a SHA-256: it has 64 hexadecimal digits");
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                return Err("is not a SHA-256: it has 64 hexadecimal digits");
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Fingerprint(hash))
    }
}

impl Setting for Fingerprint {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("SHA-256", "^(sha256:)?[0-9a-fA-F]{64}$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "the SHA-256 of a key in hexadecimal digits")
    }
}

impl KnownKey {
    fn hash(&self) -> Option<Hash> {
        let of_key = || self.key.as_ref().map(|key| digest(key.expose()));
        self.sha256.as_ref().map(|fingerprint| fingerprint.0).or_else(of_key)
    }
}

/// The state that SHA-256 begins with (FIPS 180-4 5.3.3).
#[rustfmt::skip]
const BEGIN: [u32; 8] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a,
    0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];
const BLOCK: usize = 64;
/// The longest key that fits into one block with its padding.
const ONE_BLOCK_MAX: usize = BLOCK - 9;

/// The SHA-256 of a key. A key that fits into one block is padded here (FIPS 180-4 5.1.1): hashing
/// through a buffer for input of any length costs nearly twice as much.
fn digest(key: &[u8]) -> Hash {
    if key.len() > ONE_BLOCK_MAX {
        return Sha256::digest(key).into();
    }
    let mut block = [0; BLOCK];
    block[..key.len()].copy_from_slice(key);
    block[key.len()] = 0x80;
    block[BLOCK - 8..].copy_from_slice(&(key.len() as u64 * 8).to_be_bytes());
    let mut state = BEGIN;
    compress256(&mut state, &[block]);
    let mut hash = Hash::default();
    for (bytes, word) in hash.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = u32::to_be_bytes(word);
    }
    hash
}

fn check_one_form(key: &KnownKey, node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    if node.get("sha256").is_some() == node.get("key").is_some() {
        reader.error(node.span, "a key has either sha256 or key");
    }
    if key.consumer.is_empty() || key.consumer.chars().any(char::is_control) {
        reader.error(node.span, "the consumer needs a name without control characters");
    }
}

fn check(settings: &KeyAuth, node: &Node, reader: &mut Reader<'_>) {
    if settings.keys.is_empty() {
        reader.error(node.span, "without keys no request is allowed");
    }
    if settings.from.is_empty() {
        reader.error(node.span, "there is no place to look for a key");
    }
    if !settings.realm.bytes().all(|b| b == b' ' || b.is_ascii_graphic() && !b"\"\\".contains(&b)) {
        reader.error(node.span, "the realm is ASCII text without quotes and backslashes");
    }
    let mut seen = HashMap::new();
    for (at, key) in settings.keys.iter().enumerate() {
        if let Some(before) = key.hash().and_then(|hash| seen.insert(hash, at)) {
            let (one, other) = (&settings.keys[before].consumer, &key.consumer);
            reader.error(node.span, format!("{one} and {other} have the same key"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = KeyAuth::read(node, reader)?;
    let mut keyring = Keyring::default();
    for key in &settings.keys {
        keyring.add(key.hash()?);
    }
    let challenge = challenge(&settings);
    Some(Arc::new(KeyAuthPlan { settings, keyring: Arc::new(keyring), challenge }))
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

/// The digests of all keys; shared by the workers.
#[derive(Default)]
struct Keyring {
    hashes: Vec<Hash>,
    /// Indices of `hashes` by the first bytes.
    places: HashMap<u64, Vec<usize>, foldhash::fast::RandomState>,
}

impl Keyring {
    fn add(&mut self, hash: Hash) {
        self.places.entry(prefix(&hash)).or_default().push(self.hashes.len());
        self.hashes.push(hash);
    }

    /// The index of a key.
    fn find(&self, key: &[u8]) -> Option<usize> {
        let hash = digest(key);
        let candidates = self.places.get(&prefix(&hash))?;
        candidates.iter().copied().find(|at| is_same(&self.hashes[*at], &hash))
    }
}

/// In constant time. Compares words: comparing bytes takes longer than the digest.
fn is_same(one: &Hash, other: &Hash) -> bool {
    let (one, other) = (one.as_chunks().0, other.as_chunks().0);
    let words = one.iter().zip(other);
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    words.fold(0, |differs, (one, other)| differs | (word(one) ^ word(other))).ct_eq(&0).into()
}

fn prefix(hash: &Hash) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
}

struct KeyAuthPlan {
    settings: KeyAuth,
    keyring: Arc<Keyring>,
    challenge: String,
}

impl FilterPlan for KeyAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let refusals = |reason| {
            let labels = [KIND.name, reason];
            worker.telemetry.worker_counter(worker.index, &families::AUTH_REFUSALS, &labels)
        };
        Stage::Filter(Rc::new(KeyAuthFilter {
            consumers: self.settings.keys.iter().map(|key| Rc::from(&*key.consumer)).collect(),
            keyring: self.keyring.clone(),
            places: self.settings.from.0.clone(),
            hide: self.settings.hide,
            challenge: self.challenge.clone(),
            missing: refusals("missing"),
            invalid: refusals("invalid"),
        }))
    }

    fn describe(&self) -> String {
        let keys = self.settings.keys.len();
        let hidden = if self.settings.hide { "" } else { ", passed on" };
        format!("{keys} key{}{hidden}", if keys == 1 { "" } else { "s" })
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn secret_queries(&self) -> Vec<&str> {
        self.settings.from.iter().filter_map(KeySource::query_name).collect()
    }
}

struct KeyAuthFilter {
    keyring: Arc<Keyring>,
    consumers: Vec<Rc<str>>,
    places: Vec<KeySource>,
    hide: bool,
    challenge: String,
    missing: Arc<CachePadded<Counter>>,
    invalid: Arc<CachePadded<Counter>>,
}

impl Filter for KeyAuthFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        for place in &self.places {
            let Some(found) = place.with_key(request, |key| self.keyring.find(key)) else {
                continue;
            };
            return match found {
                Some(at) => {
                    request.consumer = Some(self.consumers[at].clone());
                    if self.hide {
                        place.hide(request);
                    }
                    Step::Continue.into()
                }
                None => self.refuse(request, &self.invalid, "the key is not known").into(),
            };
        }
        self.refuse(request, &self.missing, "there is no key").into()
    }
}

impl KeyAuthFilter {
    fn refuse(
        &self,
        request: &mut Request,
        counter: &CachePadded<Counter>,
        why: &'static str,
    ) -> Step {
        counter.inc();
        // The request is only logged from here on. A key that is wrong here may be right elsewhere,
        // or was yesterday.
        for place in &self.places {
            place.hide(request);
        }
        let fault = Fault::new(FaultKind::Unauthorized, why);
        Step::Fail(fault.with_field(Known::WwwAuthenticate, &self.challenge))
    }
}

impl KeySource {
    fn query_name(&self) -> Option<&str> {
        match self {
            KeySource::Query(name) => Some(name),
            KeySource::Header(_) | KeySource::Bearer => None,
        }
    }

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

fn only<T>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
