//! Identities of credentials: the SHA-256 of the value that the client presents, or of the name
//! that it is presented under.
//!
//! Promises that two identities are compared in constant time, and that a table finds one by its
//! first bytes, which reveals nothing: an attacker cannot choose digests.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// A SHA-256.
pub(crate) type Sha256Digest = [u8; 32];

/// The kind of credential that a digest identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// The name of a consumer: how lists in filters refer to the entry.
    Name,
    Key,
    CertificateFingerprint,
    CertificateName,
    CertificateSubject,
    /// Name and password as a client sends them.
    Password,
    /// The subject of tokens.
    Subject,
    /// A token as a client sends it.
    Token,
    /// The name of a key that signs requests.
    SignatureKey,
    /// The nonce of a signed request.
    Nonce,
}

impl CredentialKind {
    /// The name of the kind in messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            CredentialKind::Name => "name",
            CredentialKind::Key => "key",
            CredentialKind::Password => "password",
            CredentialKind::Subject => "subject",
            CredentialKind::Token => "token",
            CredentialKind::SignatureKey => "signature key",
            CredentialKind::Nonce => "nonce",
            CredentialKind::CertificateFingerprint
            | CredentialKind::CertificateName
            | CredentialKind::CertificateSubject => "certificate",
        }
    }
}

/// The identity of a credential.
#[derive(Clone, Copy)]
pub(crate) struct CredentialId {
    kind: CredentialKind,
    digest: Sha256Digest,
}

impl CredentialId {
    /// The identity of a text that the client presents.
    pub(crate) fn of(kind: CredentialKind, text: &[u8]) -> CredentialId {
        CredentialId { kind, digest: digest(text) }
    }

    /// The identity of a key whose digest is known.
    pub(crate) fn of_key(digest: Sha256Digest) -> CredentialId {
        CredentialId { kind: CredentialKind::Key, digest }
    }

    pub(crate) fn digest(&self) -> &Sha256Digest {
        &self.digest
    }

    pub(crate) fn kind(&self) -> CredentialKind {
        self.kind
    }
}

impl PartialEq for CredentialId {
    fn eq(&self, other: &CredentialId) -> bool {
        self.kind == other.kind && is_same(&self.digest, &other.digest)
    }
}

impl Eq for CredentialId {}

impl Hash for CredentialId {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let prefix = self.digest.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
        hasher.write_u64(prefix);
    }
}

/// A table by credential.
pub(crate) type ByCredential<T> =
    std::collections::HashMap<CredentialId, T, foldhash::fast::RandomState>;

/// Compares in constant time, if the lengths are the same. Compares words: comparing bytes takes
/// longer than a digest.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks(), other.as_chunks());
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let last = |rest: &[u8]| rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
    let words = words.iter().zip(other_words);
    let differs = words.fold(last(rest) ^ last(other_rest), |differs, (one, other)| {
        differs | (word(one) ^ word(other))
    });
    one.len() == other.len() && differs.ct_eq(&0).into()
}

/// The state that SHA-256 begins with (FIPS 180-4 5.3.3).
#[rustfmt::skip]
const BEGIN: [u32; 8] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a,
    0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];
const BLOCK: usize = 64;
/// The longest text that fits into one block with its padding.
const ONE_BLOCK_MAX: usize = BLOCK - 9;

/// The SHA-256 of a text. A text that fits into one block is padded here (FIPS 180-4 5.1.1):
/// hashing through a buffer for input of any length costs nearly twice as much.
pub(crate) fn digest(text: &[u8]) -> Sha256Digest {
    if text.len() > ONE_BLOCK_MAX {
        return Sha256::digest(text).into();
    }
    let mut block = [0; BLOCK];
    block[..text.len()].copy_from_slice(text);
    block[text.len()] = 0x80;
    block[BLOCK - 8..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    let mut state = BEGIN;
    compress256(&mut state, &[block]);
    let mut hash = Sha256Digest::default();
    for (bytes, word) in hash.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = u32::to_be_bytes(word);
    }
    hash
}

/// A digest as it is written in the configuration.
#[derive(Clone, PartialEq)]
pub(crate) struct Fingerprint(pub(crate) Sha256Digest);

impl Fingerprint {
    /// In lower-case digits.
    pub(crate) fn to_hex(&self) -> String {
        use std::fmt::Write as _;
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(***)")
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        let digits = text.bytes().filter(|byte| *byte != b':').collect::<Vec<u8>>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut hash = Sha256Digest::default();
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
        Schema::pattern("SHA-256", "^(sha256:)?([0-9a-fA-F]{2}:?){31}[0-9a-fA-F]{2}$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a SHA-256 in hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_that_differ_anywhere_are_not_the_same() {
        let hash: Sha256Digest = std::array::from_fn(|at| at as u8);
        assert!(is_same(&hash, &hash));
        for at in 0..hash.len() {
            let mut other = hash;
            other[at] ^= 0x80;
            assert!(!is_same(&hash, &other), "byte {at}");
        }
    }

    #[test]
    fn texts_of_every_length_have_the_digest_of_the_standard() {
        let text: Vec<u8> = (0..200).map(|number| number as u8 ^ 0xa5).collect();
        for length in 0..=text.len() {
            let expected = Sha256Digest::from(Sha256::digest(&text[..length]));
            assert_eq!(digest(&text[..length]), expected, "{length}");
        }
        // FIPS 180-4's example, by NIST: "abc".
        assert_eq!(digest(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }

    #[test]
    fn credentials_of_different_kinds_are_different() {
        let key = CredentialId::of(CredentialKind::Key, b"alice");
        let name = CredentialId::of(CredentialKind::Name, b"alice");
        assert!(key != name && key == CredentialId::of_key(digest(b"alice")));
    }
}
