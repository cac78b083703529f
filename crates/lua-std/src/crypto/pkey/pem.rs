//! Keys in PEM (RFC 7468), in OpenSSL's old and new formats.

use super::curve::{Curve, K256, P256, P384, P521};
use super::{Key, KeyResult};
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::{RsaPrivateKey, RsaPublicKey};

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// The first key in the text.
pub(super) fn key(text: &[u8], password: Option<&[u8]>) -> KeyResult<Key> {
    let text = std::str::from_utf8(text).map_err(|_| "the PEM is not text")?;
    let (label, block) = blocks(text)
        // OpenSSL writes the name of the curve before the key, and again in it.
        .find(|(label, _)| *label != "EC PARAMETERS")
        .ok_or("there is no PEM block")?;
    let found = match label {
        "PUBLIC KEY" => public(block),
        "RSA PUBLIC KEY" => rsa(RsaPublicKey::from_pkcs1_pem(block)),
        "PRIVATE KEY" => private(block),
        "RSA PRIVATE KEY" if block.contains("Proc-Type:") => {
            return Err("encrypted keys in the old format (Proc-Type) are not supported".to_owned());
        }
        "RSA PRIVATE KEY" => rsa(RsaPrivateKey::from_pkcs1_pem(block)),
        "EC PRIVATE KEY" => elliptic(block),
        "ENCRYPTED PRIVATE KEY" => {
            let password = password.ok_or("the key is encrypted, and there is no password")?;
            let found = encrypted(block, password);
            return found
                .ok_or_else(|| "the password is wrong, or there is no key inside".to_owned());
        }
        other => return Err(format!("a PEM block of '{other}' is not a key")),
    };
    found.ok_or_else(|| format!("the '{label}' is damaged, or of a kind that is not supported"))
}

/// The blocks of a text, each with its label.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(BEGIN).filter_map(|(at, _)| {
        let block = &text[at..];
        let label = block[BEGIN.len()..].split(DASHES).next()?;
        let end = format!("-----END {label}-----");
        let length = block.find(&end)? + end.len();
        Some((label, &block[..length]))
    })
}

fn rsa<K: Into<super::rsa::Key>, E>(key: Result<K, E>) -> Option<Key> {
    Some(Key::Rsa(Box::new(key.ok()?.into())))
}

fn curve<C: Curve + 'static, K: Into<C>, E>(key: Result<K, E>) -> Option<Key> {
    Some(Key::Curve(Box::new(key.ok()?.into())))
}

/// Each kind rejects the others' keys, so the first that accepts it is right.
fn public(block: &str) -> Option<Key> {
    rsa(RsaPublicKey::from_public_key_pem(block))
        .or_else(|| curve::<P256, _, _>(p256::PublicKey::from_public_key_pem(block)))
        .or_else(|| curve::<P384, _, _>(p384::PublicKey::from_public_key_pem(block)))
        .or_else(|| curve::<P521, _, _>(p521::PublicKey::from_public_key_pem(block)))
        .or_else(|| curve::<K256, _, _>(k256::PublicKey::from_public_key_pem(block)))
}

fn private(block: &str) -> Option<Key> {
    rsa(RsaPrivateKey::from_pkcs8_pem(block))
        .or_else(|| curve::<P256, _, _>(p256::SecretKey::from_pkcs8_pem(block)))
        .or_else(|| curve::<P384, _, _>(p384::SecretKey::from_pkcs8_pem(block)))
        .or_else(|| curve::<P521, _, _>(p521::SecretKey::from_pkcs8_pem(block)))
        .or_else(|| curve::<K256, _, _>(k256::SecretKey::from_pkcs8_pem(block)))
}

fn elliptic(block: &str) -> Option<Key> {
    curve::<P256, _, _>(p256::SecretKey::from_sec1_pem(block))
        .or_else(|| curve::<P384, _, _>(p384::SecretKey::from_sec1_pem(block)))
        .or_else(|| curve::<P521, _, _>(p521::SecretKey::from_sec1_pem(block)))
        .or_else(|| curve::<K256, _, _>(k256::SecretKey::from_sec1_pem(block)))
}

/// Deriving the key from the password is slow, so it is done once.
fn encrypted(block: &str, password: &[u8]) -> Option<Key> {
    let (_, document) = rsa::pkcs8::SecretDocument::from_pem(block).ok()?;
    let info = rsa::pkcs8::EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).ok()?;
    let plain = info.decrypt(password).ok()?;
    let der = plain.as_bytes();
    rsa(RsaPrivateKey::from_pkcs8_der(der))
        .or_else(|| curve::<P256, _, _>(p256::SecretKey::from_pkcs8_der(der)))
        .or_else(|| curve::<P384, _, _>(p384::SecretKey::from_pkcs8_der(der)))
        .or_else(|| curve::<P521, _, _>(p521::SecretKey::from_pkcs8_der(der)))
        .or_else(|| curve::<K256, _, _>(k256::SecretKey::from_pkcs8_der(der)))
}
