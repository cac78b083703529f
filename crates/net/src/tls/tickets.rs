//! Session tickets: keys that all workers share, and keys that machines share by files.
//!
//! A ticket of one listener must not resume a session on another that asks more of its clients, so
//! keys depend on a context: what the listener requires of client certificates.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;

/// How long a ticket made with a key file is offered, in seconds. A key must stay in the list of
/// files for as long.
const LIFETIME_SECS: u32 = 12 * 60 * 60;
/// Shortest content of a key file, in bytes.
pub const TICKET_KEY_BYTES_MIN: usize = 32;
const NAME_BYTES: usize = 16;

type Shared = Mutex<HashMap<[u8; 32], Weak<dyn ProducesTickets>>>;

/// Keys of this process by their context; they outlive a plan, so that a reload does not end
/// sessions.
static SHARED: std::sync::LazyLock<Shared> = std::sync::LazyLock::new(Mutex::default);

/// Returns the random keys of this process for a context. They are replaced every six hours.
pub(super) fn shared(context: [u8; 32]) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keys) = shared.get(&context).and_then(Weak::upgrade) {
        return Ok(keys);
    }
    let keys = Ticketer::new()?;
    shared.retain(|_, keys| keys.strong_count() > 0);
    shared.insert(context, Arc::downgrade(&keys));
    Ok(keys)
}

/// Keys from files: the first encrypts, all decrypt.
pub(super) struct FileKeys(Vec<FileKey>);

struct FileKey {
    name: [u8; NAME_BYTES],
    key: RandomizedNonceKey,
}

impl fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileKeys({})", self.0.len())
    }
}

impl FileKeys {
    /// Derives the keys of a context from the contents of files.
    pub(super) fn new(files: &[Vec<u8>], context: [u8; 32]) -> Result<FileKeys, rustls::Error> {
        let keys = files.iter().map(|content| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, content);
            let derive = |purpose: &[u8]| {
                let mut derivation = hmac::Context::with_key(&secret);
                derivation.update(purpose);
                derivation.update(&context);
                derivation.sign()
            };
            let mut name = [0; NAME_BYTES];
            name.copy_from_slice(&derive(b"tidegate session ticket name").as_ref()[..NAME_BYTES]);
            let key = derive(b"tidegate session ticket key");
            let key = RandomizedNonceKey::new(&AES_256_GCM, key.as_ref())
                .map_err(|_| rustls::Error::General("session ticket key".to_owned()))?;
            Ok(FileKey { name, key })
        });
        keys.collect::<Result<_, _>>().map(FileKeys)
    }
}

impl ProducesTickets for FileKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let FileKey { name, key } = self.0.first()?;
        let mut sealed = plain.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::from(name), &mut sealed).ok()?;
        Some([name, nonce.as_ref().as_slice(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let FileKey { key, .. } = self.0.iter().find(|key| key.name == *name)?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(name), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_by_every_machine_with_its_key_and_in_its_context_only() {
        let (old, new) = (vec![1; 48], vec![2; 48]);
        let one = FileKeys::new(std::slice::from_ref(&old), [0; 32]).unwrap();
        let other = FileKeys::new(&[new, old.clone()], [0; 32]).unwrap();
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(other.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(one.decrypt(&other.encrypt(b"session").unwrap()), None, "a newer key");
        let stricter = FileKeys::new(&[old], [1; 32]).unwrap();
        assert_eq!(stricter.decrypt(&ticket), None);
        for end in 0..ticket.len() {
            assert_eq!(other.decrypt(&ticket[..end]), None);
        }
        let mut changed = ticket;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(other.decrypt(&changed), None);
    }

    #[test]
    fn keys_of_the_process_are_the_same_for_a_context_while_they_are_used() {
        let keys = shared([7; 32]).unwrap();
        let ticket = keys.encrypt(b"session").unwrap();
        assert_eq!(shared([7; 32]).unwrap().decrypt(&ticket).unwrap(), b"session");
        assert_eq!(shared([8; 32]).unwrap().decrypt(&ticket), None);
    }
}
