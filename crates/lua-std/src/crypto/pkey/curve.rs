//! Elliptic curves: ECDSA on P-256, P-384 and P-521 (FIPS 186-5) and secp256k1 (SEC 2),
//! deterministic (RFC 6979).

use super::KeyResult;
use p256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};

/// A key on one of the curves. Signatures come as DER, or as two numbers end to end.
pub(crate) trait Curve {
    fn web_algorithm(&self) -> &'static [&'static str];
    fn sign(&self, digest: &[u8], der: bool) -> KeyResult<Vec<u8>>;
    fn verify(&self, digest: &[u8], signature: &[u8], der: bool) -> bool;
}

/// The libraries of the curves differ only in their names.
macro_rules! curve {
    ($name:ident, $library:ident, $web:literal) => {
        pub(super) struct $name {
            signing: Option<$library::ecdsa::SigningKey>,
            verifying: $library::ecdsa::VerifyingKey,
        }

        impl From<$library::SecretKey> for $name {
            fn from(key: $library::SecretKey) -> Self {
                let signing = $library::ecdsa::SigningKey::from(&key);
                Self { verifying: *signing.verifying_key(), signing: Some(signing) }
            }
        }

        impl From<$library::PublicKey> for $name {
            fn from(key: $library::PublicKey) -> Self {
                Self { signing: None, verifying: $library::ecdsa::VerifyingKey::from(&key) }
            }
        }

        impl Curve for $name {
            fn web_algorithm(&self) -> &'static [&'static str] {
                &[$web]
            }

            fn sign(&self, digest: &[u8], der: bool) -> KeyResult<Vec<u8>> {
                let key = self.signing.as_ref().ok_or("the key is public")?;
                let signature: $library::ecdsa::Signature =
                    key.sign_prehash(digest).map_err(|_| wrong_digest_length(digest))?;
                Ok(if der {
                    signature.to_der().as_bytes().to_vec()
                } else {
                    signature.to_bytes().to_vec()
                })
            }

            fn verify(&self, digest: &[u8], signature: &[u8], der: bool) -> bool {
                let signature = if der {
                    $library::ecdsa::Signature::from_der(signature)
                } else {
                    $library::ecdsa::Signature::from_slice(signature)
                };
                // The library of secp256k1 accepts the lower one of the two equivalent values of s
                // only, and OpenSSL signs with either.
                let verified =
                    signature.map(|s| self.verifying.verify_prehash(digest, &s.normalize_s()));
                matches!(verified, Ok(Ok(())))
            }
        }
    };
}

fn wrong_digest_length(digest: &[u8]) -> String {
    format!("a digest of {} bytes is too short for this curve", digest.len())
}

curve!(K256, k256, "ES256K");
curve!(P256, p256, "ES256");
curve!(P384, p384, "ES384");
curve!(P521, p521, "ES512");
