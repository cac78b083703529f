//! Keys of signed requests, as the entries of `consumers` list them.
//!
//! Promises that a key has one algorithm, which the configuration defines and never the message,
//! and that no secret is shown.

use std::fmt;

use aws_lc_rs::hmac;
use hmac::HMAC_SHA512;
use md5::{Digest as _, Md5};
use serde_json::{Value as Json, json};
use settings::{Node, Reader, Secret, Setting};
use subtle::ConstantTimeEq;

use crate::token::{Algorithm, Key, PublicKey};

/// The shortest secret of the algorithms of ShenYu.
const SECRET_BYTES_MIN: usize = 16;
/// The longest name of a key.
const ID_BYTES_MAX: usize = 256;
/// The block of MD5, to which a key of HMAC is padded (RFC 2104 2).
const MD5_BLOCK: usize = 64;

/// How a key signs requests (RFC 9421 6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub(crate) enum SignatureAlgorithm {
    /// HMAC with SHA-256.
    #[setting(word = "hmac-sha256")]
    HmacSha256,
    /// Ed25519.
    #[setting(word = "ed25519")]
    Ed25519,
    /// ECDSA on P-256 with SHA-256.
    #[setting(word = "ecdsa-p256-sha256")]
    EcdsaP256Sha256,
    /// ECDSA on P-384 with SHA-384.
    #[setting(word = "ecdsa-p384-sha384")]
    EcdsaP384Sha384,
    /// RSASSA-PSS with SHA-512.
    #[setting(word = "rsa-pss-sha512")]
    RsaPssSha512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[setting(word = "rsa-v1_5-sha256")]
    RsaV15Sha256,
    /// HMAC with SHA-512: `HS512` of ShenYu only.
    #[setting(word = "hmac-sha512")]
    HmacSha512,
    /// HMAC with MD5: `HMD5` of ShenYu only.
    #[setting(word = "hmac-md5")]
    HmacMd5,
    /// MD5 of the text and the secret: `MD5` and version 1.0.0 of ShenYu only.
    #[setting(word = "md5")]
    Md5,
}

impl SignatureAlgorithm {
    /// The name in the registry of RFC 9421, and the algorithm of tokens that signs alike.
    fn registered(self) -> Option<(&'static str, Algorithm)> {
        Some(match self {
            SignatureAlgorithm::HmacSha256 => ("hmac-sha256", Algorithm::Hs256),
            SignatureAlgorithm::Ed25519 => ("ed25519", Algorithm::EdDsa),
            SignatureAlgorithm::EcdsaP256Sha256 => ("ecdsa-p256-sha256", Algorithm::Es256),
            SignatureAlgorithm::EcdsaP384Sha384 => ("ecdsa-p384-sha384", Algorithm::Es384),
            SignatureAlgorithm::RsaPssSha512 => ("rsa-pss-sha512", Algorithm::Ps512),
            SignatureAlgorithm::RsaV15Sha256 => ("rsa-v1_5-sha256", Algorithm::Rs256),
            SignatureAlgorithm::HmacSha512
            | SignatureAlgorithm::HmacMd5
            | SignatureAlgorithm::Md5 => return None,
        })
    }

    /// The name of RFC 9421.
    pub(crate) fn message_name(self) -> Option<&'static str> {
        self.registered().map(|(name, _)| name)
    }

    /// The name of ShenYu.
    pub(crate) fn shenyu_name(self) -> Option<&'static str> {
        match self {
            SignatureAlgorithm::HmacSha256 => Some("HS256"),
            SignatureAlgorithm::HmacSha512 => Some("HS512"),
            SignatureAlgorithm::HmacMd5 => Some("HMD5"),
            SignatureAlgorithm::Md5 => Some("MD5"),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            SignatureAlgorithm::HmacSha512 => "hmac-sha512",
            SignatureAlgorithm::HmacMd5 => "hmac-md5",
            SignatureAlgorithm::Md5 => "md5",
            registered => registered.message_name().unwrap_or_default(),
        }
    }
}

/// A key of signed requests. Exactly one of `secret` and `public_key` is required.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct SignatureKeySettings {
    /// The name that a request refers to it by: `keyid` of RFC 9421, `appKey` of ShenYu.
    pub(crate) id: String,
    /// The algorithm, whichever a request names: `hmac-sha256`, `ed25519`, `ecdsa-p256-sha256`,
    /// `ecdsa-p384-sha384`, `rsa-pss-sha512` or `rsa-v1_5-sha256`; for ShenYu `hmac-sha256`,
    /// `hmac-sha512`, `hmac-md5` or `md5`.
    algorithm: SignatureAlgorithm,
    /// The shared secret of HMAC and MD5: at least 32 bytes for `hmac-sha256`, 16 for others.
    secret: Option<Secret>,
    /// A file with the public key in PEM, `PUBLIC KEY`, or that text itself.
    public_key: Option<PublicKey>,
}

fn check(settings: &SignatureKeySettings, node: &Node, reader: &mut Reader<'_>) {
    let id = &settings.id;
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = format!("the id of a key has 1 to {ID_BYTES_MAX} ASCII characters and no spaces");
        reader.error(node.span, why);
    }
    // A value that cannot be read is an error already.
    if node.get("secret").is_some() == node.get("public_key").is_some() {
        reader.error(node.span, "a key has either secret or public_key");
    } else if settings.key().is_none() {
        let why = match (&settings.secret, settings.algorithm) {
            (Some(_), SignatureAlgorithm::HmacSha256) => "the secret is shorter than 32 bytes",
            (Some(_), algorithm) if algorithm.shenyu_name().is_some() => {
                "the secret is shorter than 16 bytes"
            }
            _ => "the key is not one of its algorithm",
        };
        reader.error(node.span, why);
    }
}

impl SignatureKeySettings {
    pub(crate) fn key(&self) -> Option<SignatureKey> {
        let algorithm = self.algorithm;
        let registered = algorithm.registered().map(|(_, algorithm)| algorithm);
        let verifier = match (&self.secret, &self.public_key, registered) {
            (Some(secret), None, Some(registered)) => {
                Verifier::Key(Key::secret(None, registered, secret.expose())?)
            }
            (None, Some(public), Some(registered)) => {
                Verifier::Key(Key::public(None, registered, &public.0)?)
            }
            (Some(secret), None, None) if secret.expose().len() >= SECRET_BYTES_MIN => {
                match algorithm {
                    SignatureAlgorithm::HmacSha512 => {
                        Verifier::Mac(Box::new(hmac::Key::new(HMAC_SHA512, secret.expose())))
                    }
                    SignatureAlgorithm::HmacMd5 => Verifier::HmacMd5(secret.expose().into()),
                    _ => Verifier::Md5(secret.expose().into()),
                }
            }
            _ => return None,
        };
        Some(SignatureKey { id: self.id.as_str().into(), algorithm, verifier })
    }

    /// The key as the admin API shows it.
    pub(crate) fn to_json(&self) -> Json {
        let mut key = json!({ "id": self.id, "algorithm": self.algorithm.word() });
        match &self.public_key {
            Some(public) => key["public_key"] = json!(public.to_pem()),
            None => key["secret"] = json!("***"),
        }
        key
    }

    /// The secret, which [`SignatureKeySettings::to_json`] masks.
    pub(crate) fn secret(&self) -> Option<&[u8]> {
        self.secret.as_ref().map(Secret::expose)
    }
}

/// A key that verifies requests.
pub(crate) struct SignatureKey {
    pub(crate) id: Box<str>,
    pub(crate) algorithm: SignatureAlgorithm,
    verifier: Verifier,
}

enum Verifier {
    Key(Key),
    Mac(Box<hmac::Key>),
    HmacMd5(Box<[u8]>),
    Md5(Box<[u8]>),
}

impl fmt::Debug for SignatureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignatureKey({:?}, {:?}, ***)", self.id, self.algorithm)
    }
}

impl SignatureKey {
    pub(crate) fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.verifier {
            Verifier::Key(key) => key.verify(signed, signature),
            Verifier::Mac(key) => hmac::verify(key, signed, signature).is_ok(),
            Verifier::HmacMd5(secret) => hmac_md5(secret, signed).ct_eq(signature).into(),
            Verifier::Md5(secret) => md5(&[signed, secret]).ct_eq(signature).into(),
        }
    }
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut state = Md5::new();
    parts.iter().for_each(|part| state.update(part));
    state.finalize().into()
}

/// HMAC (RFC 2104 2) with MD5, which the cryptography library does not have.
fn hmac_md5(secret: &[u8], text: &[u8]) -> [u8; 16] {
    let mut block = [0; MD5_BLOCK];
    if secret.len() > MD5_BLOCK {
        block[..16].copy_from_slice(&md5(&[secret]));
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    let inner = md5(&[&block.map(|byte| byte ^ 0x36), text]);
    md5(&[&block.map(|byte| byte ^ 0x5c), &inner])
}

#[cfg(test)]
mod tests {
    use settings::{node, read, verify};

    use super::*;

    #[test]
    fn the_declaration_is_valid() {
        verify::<SignatureKeySettings>().unwrap();
    }

    #[test]
    fn hmac_with_md5_has_the_vectors_of_rfc_2202() {
        let hex = |mac: [u8; 16]| mac.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(hmac_md5(&[0x0b; 16], b"Hi There")), "9294727a3638bb1c13f48ef8158bfc9d");
        let jefe = hmac_md5(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(jefe), "750c783e6ab0b503eaa86e310a5db738");
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(hmac_md5(&[0xaa; 80], long)), "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
    }

    #[test]
    fn keys_are_checked_and_their_secrets_not_shown() {
        let secret = "topsecret-topsecret-topsecret-to";
        for algorithm in ["hmac-sha256", "hmac-sha512", "hmac-md5", "md5"] {
            let key = node!({ "id": "k", "algorithm": algorithm, "secret": secret });
            let settings: SignatureKeySettings = read(&key).unwrap();
            assert_eq!(settings.to_json()["algorithm"], algorithm);
            let shown = format!("{settings:?} {:?} {}", settings.key(), settings.to_json());
            assert!(!shown.contains("topsecret"), "{shown}");
        }
        for (key, why) in [
            (node!({ "id": "k", "algorithm": "md5" }), "either secret or public_key"),
            (node!({ "id": "k", "algorithm": "md5", "secret": "topsecret" }), "than 16 bytes"),
            (
                node!({ "id": "k", "algorithm": "hmac-sha256", "secret": "topsecret-topsecret" }),
                "than 32 bytes",
            ),
            (node!({ "id": "k", "algorithm": "ed25519", "secret": secret }), "its algorithm"),
            (node!({ "id": "a b", "algorithm": "md5", "secret": secret }), "no spaces"),
            (node!({ "id": "", "algorithm": "md5", "secret": secret }), "no spaces"),
            (node!({ "id": "k", "algorithm": "none", "secret": secret }), "hmac-sha256"),
            (
                node!({ "id": "k", "algorithm": "ed25519",
                    "public_key": "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----" }),
                "no public key in PEM",
            ),
        ] {
            let report = read::<SignatureKeySettings>(&key).unwrap_err();
            assert!(report.contains(why), "{report}\nwanted {why}");
            assert!(!report.contains("topsecret"), "{report}");
        }
    }
}
