//! Keys that verify tokens: from the configuration and from key sets (RFC 7517).
//!
//! Promises that a key has exactly one algorithm, which the key and the configuration define and
//! never the token (RFC 8725 3.1). A key of a set that cannot verify signatures, or that is of an
//! unknown kind, is skipped, as RFC 7517 5 demands.

use std::fmt;
use std::path::PathBuf;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value as Json};
use settings::{Node, Reader, Schema, SchemaBuilder, Secret, Setting};

use super::strict_json;

/// The shortest modulus of RSA: 2048 bits (RFC 7518 3.3).
const RSA_MODULUS_BYTES_MIN: usize = 256;
/// Keys that a set may have.
const KEYS_MAX: usize = 128;

/// The algorithm of a key (RFC 7518 3.1, RFC 8037 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub(crate) enum Algorithm {
    /// HMAC with SHA-256.
    #[setting(word = "HS256")]
    Hs256,
    /// HMAC with SHA-384.
    #[setting(word = "HS384")]
    Hs384,
    /// HMAC with SHA-512.
    #[setting(word = "HS512")]
    Hs512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[setting(word = "RS256")]
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    #[setting(word = "RS384")]
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    #[setting(word = "RS512")]
    Rs512,
    /// RSASSA-PSS with SHA-256.
    #[setting(word = "PS256")]
    Ps256,
    /// RSASSA-PSS with SHA-384.
    #[setting(word = "PS384")]
    Ps384,
    /// RSASSA-PSS with SHA-512.
    #[setting(word = "PS512")]
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    #[setting(word = "ES256")]
    Es256,
    /// ECDSA on P-384 with SHA-384.
    #[setting(word = "ES384")]
    Es384,
    /// ECDSA on P-521 with SHA-512.
    #[setting(word = "ES512")]
    Es512,
    /// Ed25519.
    #[setting(word = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    const ALL: [(&str, Algorithm); 13] = [
        ("HS256", Algorithm::Hs256),
        ("HS384", Algorithm::Hs384),
        ("HS512", Algorithm::Hs512),
        ("RS256", Algorithm::Rs256),
        ("RS384", Algorithm::Rs384),
        ("RS512", Algorithm::Rs512),
        ("PS256", Algorithm::Ps256),
        ("PS384", Algorithm::Ps384),
        ("PS512", Algorithm::Ps512),
        ("ES256", Algorithm::Es256),
        ("ES384", Algorithm::Es384),
        ("ES512", Algorithm::Es512),
        ("EdDSA", Algorithm::EdDsa),
    ];

    /// The algorithm of a name, whose case counts.
    pub(crate) fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    fn mac(self) -> Option<hmac::Algorithm> {
        match self {
            Algorithm::Hs256 => Some(hmac::HMAC_SHA256),
            Algorithm::Hs384 => Some(hmac::HMAC_SHA384),
            Algorithm::Hs512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    fn signature(self) -> Option<&'static dyn VerificationAlgorithm> {
        Some(match self {
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => return None,
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::Es512 => &signature::ECDSA_P521_SHA512_FIXED,
            Algorithm::EdDsa => &signature::ED25519,
        })
    }
}

/// A key that verifies tokens.
#[derive(Clone)]
pub(crate) struct Key {
    id: Option<Box<str>>,
    algorithm: Algorithm,
    verifier: Verifier,
}

#[derive(Clone)]
enum Verifier {
    Mac(Box<hmac::Key>),
    Signature(ParsedPublicKey),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {:?}, ***)", self.id, self.algorithm)
    }
}

impl Key {
    /// A shared secret. One that is shorter than the digest is refused (RFC 7518 3.2).
    pub(crate) fn secret(id: Option<Box<str>>, algorithm: Algorithm, secret: &[u8]) -> Option<Key> {
        let mac = algorithm.mac()?;
        let is_long = secret.len() >= mac.digest_algorithm().output_len;
        let verifier = Verifier::Mac(Box::new(hmac::Key::new(mac, secret)));
        is_long.then_some(Key { id, algorithm, verifier })
    }

    /// A public key as SubjectPublicKeyInfo, or as the bytes that RFC 7518 6.2 and RFC 8037 2 have.
    pub(crate) fn public(id: Option<Box<str>>, algorithm: Algorithm, bytes: &[u8]) -> Option<Key> {
        let parsed = ParsedPublicKey::new(algorithm.signature()?, bytes).ok()?;
        Some(Key { id, algorithm, verifier: Verifier::Signature(parsed) })
    }

    /// A key of a set; `None` if it is of no use here.
    fn of_set(key: &Map<String, Json>) -> Option<Key> {
        let text = |name: &str| key.get(name).and_then(Json::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        if let Some(Json::Array(operations)) = key.get("key_ops")
            && !operations.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let by_kind = match (text("kty")?, text("crv")) {
            ("oct", _) => Algorithm::Hs256,
            ("RSA", _) => Algorithm::Rs256,
            ("EC", Some("P-256")) => Algorithm::Es256,
            ("EC", Some("P-384")) => Algorithm::Es384,
            ("EC", Some("P-521")) => Algorithm::Es512,
            ("OKP", Some("Ed25519")) => Algorithm::EdDsa,
            _ => return None,
        };
        let algorithm = match key.get("alg") {
            None => by_kind,
            Some(Json::String(name)) if name == "Ed25519" => Algorithm::EdDsa,
            Some(name) => Algorithm::named(name.as_str()?)?,
        };
        let id = text("kid").map(Box::from);
        match by_kind {
            Algorithm::Hs256 => Key::secret(id, algorithm, &bytes("k")?),
            Algorithm::Rs256 => {
                let is_rsa = matches!(
                    algorithm,
                    Algorithm::Rs256
                        | Algorithm::Rs384
                        | Algorithm::Rs512
                        | Algorithm::Ps256
                        | Algorithm::Ps384
                        | Algorithm::Ps512
                );
                let (modulus, exponent) = (bytes("n")?, bytes("e")?);
                let is_long = modulus.len() >= RSA_MODULUS_BYTES_MIN;
                let der = || rsa_public_key(&modulus, &exponent);
                (is_rsa && is_long).then(|| Key::public(id, algorithm, &der()))?
            }
            Algorithm::EdDsa if algorithm == by_kind => Key::public(id, algorithm, &bytes("x")?),
            _ if algorithm == by_kind => {
                Key::public(id, algorithm, &[&[4][..], &bytes("x")?, &bytes("y")?].concat())
            }
            _ => None,
        }
    }

    /// True if a token that names this algorithm and key may be of this key.
    pub(crate) fn fits(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let same = |own: &str| id.is_none_or(|id| id == own);
        self.algorithm == algorithm && self.id.as_deref().is_none_or(same)
    }

    pub(crate) fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.verifier {
            Verifier::Mac(key) => hmac::verify(key, signed, signature).is_ok(),
            Verifier::Signature(key) => key.verify_sig(signed, signature).is_ok(),
        }
    }
}

/// RSAPublicKey (RFC 8017 A.1.1) in DER.
fn rsa_public_key(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let integer = |bytes: &[u8]| {
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        let bytes = &bytes[first..];
        // The sign is in the first bit.
        let sign: &[u8] = if bytes.first().is_none_or(|byte| *byte >= 0x80) { &[0] } else { &[] };
        der(0x02, &[sign, bytes].concat())
    };
    der(0x30, &[integer(modulus), integer(exponent)].concat())
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let first = length.iter().position(|byte| *byte != 0).unwrap_or(length.len());
            out.push(0x80 | (length.len() - first) as u8);
            out.extend_from_slice(&length[first..]);
        }
    }
    out.extend_from_slice(content);
    out
}

/// The keys of a set. The error continues the sentence "the key set …".
pub(crate) fn key_set(text: &[u8]) -> Result<Vec<Key>, &'static str> {
    keys_of_set(text, |_| true)
}

/// The keys of a set that everyone can read: a shared secret in it is none, and is skipped.
pub(crate) fn provided_key_set(text: &[u8]) -> Result<Vec<Key>, &'static str> {
    keys_of_set(text, |key| matches!(key.verifier, Verifier::Signature(_)))
}

fn keys_of_set(text: &[u8], is_usable: fn(&Key) -> bool) -> Result<Vec<Key>, &'static str> {
    let set = strict_json::object(text).ok_or("is not a JSON object with unique names")?;
    let Some(Json::Array(keys)) = set.get("keys") else { return Err("has no list `keys`") };
    if keys.len() > KEYS_MAX {
        return Err("has too many keys");
    }
    let read = keys.iter().filter_map(|key| Key::of_set(key.as_object()?));
    let usable: Vec<Key> = read.filter(is_usable).collect();
    if usable.is_empty() { Err("has no key that verifies tokens") } else { Ok(usable) }
}

/// A key. Exactly one of `secret` and `public_key` is required.
#[derive(Clone, Debug, Setting)]
#[setting(check = check_key)]
pub(crate) struct KeySettings {
    /// The algorithm, whichever a token names: `HS256`, `RS256`, `PS256`, `ES256`, `EdDSA` and
    /// their variants with 384 and 512 bits.
    algorithm: Algorithm,
    /// The `kid` of tokens that it verifies; unless set, tokens with any `kid`.
    id: Option<String>,
    /// The shared secret of HS256 to HS512: at least as long as the digest.
    secret: Option<Secret>,
    /// A file with the public key in PEM, `PUBLIC KEY`, or that text itself.
    public_key: Option<PublicKey>,
}

impl KeySettings {
    pub(crate) fn key(&self) -> Option<Key> {
        let id = self.id.as_deref().map(Box::from);
        match (&self.secret, &self.public_key) {
            (Some(secret), None) => Key::secret(id, self.algorithm, secret.expose()),
            (None, Some(file)) => Key::public(id, self.algorithm, &file.0),
            _ => None,
        }
    }
}

fn check_key(settings: &KeySettings, node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    if node.get("secret").is_some() == node.get("public_key").is_some() {
        reader.error(node.span, "a key has either secret or public_key");
    } else if settings.key().is_none() {
        let why = match (&settings.secret, settings.algorithm.mac()) {
            (Some(_), Some(_)) => "the secret is shorter than the digest of its algorithm",
            _ => "the key is not one of its algorithm",
        };
        reader.error(node.span, why);
    }
}

/// A public key: SubjectPublicKeyInfo in DER.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PublicKey(pub(crate) Vec<u8>);

const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const PEM_END: &str = "-----END PUBLIC KEY-----";

impl PublicKey {
    fn of_pem(text: &str) -> Option<PublicKey> {
        let (_, rest) = text.split_once(PEM_BEGIN)?;
        let (body, _) = rest.split_once(PEM_END)?;
        let body: String = body.split_ascii_whitespace().collect();
        STANDARD.decode(body).ok().map(PublicKey)
    }

    pub(crate) fn to_pem(&self) -> String {
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(&self.0))
    }
}

impl Setting for PublicKey {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path or PEM")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let written = String::read(node, reader)?;
        // The admin API has no files.
        let (place, text) = match written.contains(PEM_BEGIN) {
            true => ("the text".to_owned(), written),
            false => {
                let content = reader.read_file(node.span, &PathBuf::from(&written))?;
                (written, String::from_utf8_lossy(&content).into_owned())
            }
        };
        let key = PublicKey::of_pem(&text);
        if key.is_none() {
            reader
                .error(node.span, format!("{place} has no public key in PEM"))
                .help("openssl pkey -in KEY -pubout writes one");
        }
        key
    }
}

/// A key set from a file.
#[derive(Clone, Debug)]
pub(crate) struct KeySetFile(pub(crate) Vec<Key>);

impl Setting for KeySetFile {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let path = String::read(node, reader)?;
        let content = reader.read_file(node.span, &PathBuf::from(&path))?;
        match key_set(&content) {
            Ok(keys) => Some(KeySetFile(keys)),
            Err(why) => {
                reader.error(node.span, format!("{path}: the key set {why}"));
                None
            }
        }
    }
}
