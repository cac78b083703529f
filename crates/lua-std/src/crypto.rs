//! `crypto.*`: hashes, message authentication, ciphers, keys, random bytes.
//!
//! Owns no cryptography of its own: all of it is RustCrypto's. Promises that wrong lengths and
//! unknown names raise, that invalid data of a peer (a tag, a signature, padding, a PEM) is `nil,
//! reason`, and that no unverified data is returned.

pub(super) mod cipher;
pub(super) mod hash;
pub(super) mod hmac;
pub(super) mod pkey;
pub(super) mod random;

/// The authentication code of `hash` by name, for `jwt`. `None` for an unknown hash.
pub(super) fn hash_mac(key: &[u8], data: &[u8], hash: &str) -> Option<Vec<u8>> {
    (hash::find("hmac", 3, hash).ok()?.mac)(key, data)
}

#[cfg(test)]
mod tests;
