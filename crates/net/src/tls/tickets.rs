//! Session tickets: keys that all workers share, keys that machines share by files, and keys that
//! they share while they run. All encrypt with AES-256-GCM.
//!
//! A ticket of one listener must not resume a session on another that asks more of its clients, so
//! keys depend on a context: what the listener requires of client certificates.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;

use crate::clock::{self, Moment};

/// How long a client may use a ticket, in seconds. A key that machines share must stay in their
/// lists for as long after it has encrypted its last ticket.
pub const TICKET_LIFETIME_SECS: u32 = 12 * 60 * 60;
/// How long a random key encrypts. It decrypts for as long again.
const ROTATION: Duration = Duration::from_secs(6 * 60 * 60);
/// Shortest content of a key that machines share, in bytes.
pub const TICKET_KEY_BYTES_MIN: usize = 32;
const NAME_BYTES: usize = 16;

/// The keys of this process; they outlive a plan, so that a reload does not end sessions.
#[derive(Default)]
struct Registry {
    of_context: HashMap<[u8; 32], Weak<ProcessKeys>>,
    /// The contents of the keys that other machines have too.
    shared: Vec<Vec<u8>>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    // Each step leaves it whole.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the keys of this process for a context.
pub(super) fn of_process(context: [u8; 32]) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    let mut registry = registry();
    if let Some(keys) = registry.of_context.get(&context).and_then(Weak::upgrade) {
        return Ok(keys);
    }
    let keys = Arc::new(ProcessKeys::new(context)?);
    keys.share(&registry.shared)?;
    registry.of_context.retain(|_, keys| keys.strong_count() > 0);
    registry.of_context.insert(context, Arc::downgrade(&keys));
    Ok(keys)
}

/// Gives the contents of keys that other machines have too to all listeners without key files: the
/// first encrypts, all decrypt. The random keys of this process then encrypt nothing more, and
/// decrypt what they have encrypted. On an error some listeners may have the keys of before.
pub fn share_ticket_keys(contents: Vec<Vec<u8>>) -> Result<(), String> {
    let mut registry = registry();
    registry.shared = contents;
    for keys in registry.of_context.values().filter_map(Weak::upgrade) {
        keys.share(&registry.shared).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the content of a new key; `None` without randomness.
pub fn random_ticket_key() -> Option<[u8; TICKET_KEY_BYTES_MIN]> {
    let mut content = [0; TICKET_KEY_BYTES_MIN];
    rand::fill(&mut content).ok()?;
    Some(content)
}

/// The keys of a context: those that machines share, and random ones until there are any.
#[derive(Debug)]
struct ProcessKeys {
    context: [u8; 32],
    random: RandomKeys,
    shared: RwLock<TicketKeys>,
}

impl ProcessKeys {
    fn new(context: [u8; 32]) -> Result<ProcessKeys, rustls::Error> {
        let shared = RwLock::new(TicketKeys(Vec::new()));
        Ok(ProcessKeys { context, random: RandomKeys::new()?, shared })
    }

    fn share(&self, contents: &[Vec<u8>]) -> Result<(), rustls::Error> {
        let keys = TicketKeys::derive(contents, self.context)?;
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }
}

impl ProducesTickets for ProcessKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_LIFETIME_SECS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        match shared.0.is_empty() {
            true => self.random.with(|keys| keys.encrypt(plain)),
            false => shared.encrypt(plain),
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner).decrypt(ticket);
        shared.or_else(|| self.random.with(|keys| keys.decrypt(ticket)))
    }
}

/// Keys that only this process has: the current one and the one before it.
#[derive(Debug)]
struct RandomKeys(RwLock<Rotation>);

#[derive(Debug)]
struct Rotation {
    keys: TicketKeys,
    /// When the current key is replaced.
    ends: Moment,
}

impl RandomKeys {
    fn new() -> Result<RandomKeys, rustls::Error> {
        let keys = TicketKeys(vec![TicketKey::random()?]);
        Ok(RandomKeys(RwLock::new(Rotation { keys, ends: clock::now().after(ROTATION) })))
    }

    /// Calls `using` with the keys of this time; `None` if there is no randomness for a new one.
    fn with<R>(&self, using: impl FnOnce(&TicketKeys) -> Option<R>) -> Option<R> {
        let now = clock::now();
        let rotation = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now < rotation.ends {
            return using(&rotation.keys);
        }
        drop(rotation);
        let mut rotation = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another worker may have replaced it.
        if now >= rotation.ends {
            let key = TicketKey::random().ok()?;
            let next_end = rotation.ends.after(ROTATION);
            // Without handshakes nothing is replaced: the current key may be too old as well.
            let is_previous_usable = now < next_end;
            rotation.keys.0.truncate(usize::from(is_previous_usable));
            rotation.keys.0.insert(0, key);
            rotation.ends = if is_previous_usable { next_end } else { now.after(ROTATION) };
        }
        using(&rotation.keys)
    }
}

/// A list of keys: the first encrypts, all decrypt.
pub(super) struct TicketKeys(Vec<TicketKey>);

struct TicketKey {
    name: [u8; NAME_BYTES],
    key: RandomizedNonceKey,
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys({})", self.0.len())
    }
}

impl TicketKeys {
    /// Derives the keys of a context from the contents of keys that machines share.
    pub(super) fn derive(
        contents: &[Vec<u8>],
        context: [u8; 32],
    ) -> Result<TicketKeys, rustls::Error> {
        let keys = contents.iter().map(|content| TicketKey::derive(content, context));
        keys.collect::<Result<_, _>>().map(TicketKeys)
    }
}

impl TicketKey {
    fn derive(content: &[u8], context: [u8; 32]) -> Result<TicketKey, rustls::Error> {
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
        Ok(TicketKey { name, key })
    }

    fn random() -> Result<TicketKey, rustls::Error> {
        let content = random_ticket_key().ok_or(rustls::Error::FailedToGetRandomBytes)?;
        TicketKey::derive(&content, [0; 32])
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_LIFETIME_SECS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let TicketKey { name, key } = self.0.first()?;
        let mut sealed = plain.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::from(name), &mut sealed).ok()?;
        Some([name, nonce.as_ref().as_slice(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let TicketKey { key, .. } = self.0.iter().find(|key| key.name == *name)?;
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
        let one = TicketKeys::derive(std::slice::from_ref(&old), [0; 32]).unwrap();
        let other = TicketKeys::derive(&[new, old.clone()], [0; 32]).unwrap();
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(other.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(one.decrypt(&other.encrypt(b"session").unwrap()), None, "a newer key");
        let stricter = TicketKeys::derive(&[old], [1; 32]).unwrap();
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
        let keys = of_process([7; 32]).unwrap();
        let ticket = keys.encrypt(b"session").unwrap();
        assert_eq!(of_process([7; 32]).unwrap().decrypt(&ticket).unwrap(), b"session");
        assert_eq!(of_process([8; 32]).unwrap().decrypt(&ticket), None);
    }

    #[test]
    fn machines_share_keys_while_they_run_and_each_reads_the_tickets_of_before() {
        let (old, new) = (vec![1; 32], vec![2; 32]);
        let [one, other] = [[7; 32]; 2].map(|context| ProcessKeys::new(context).unwrap());
        let early = one.encrypt(b"early").unwrap();
        assert_eq!(other.decrypt(&early), None, "each begins with random keys");
        one.share(&[old.clone(), new.clone()]).unwrap();
        other.share(&[old.clone(), new.clone()]).unwrap();
        assert_eq!(one.decrypt(&early).unwrap(), b"early");
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(other.decrypt(&ticket).unwrap(), b"session");
        // One machine learns of a rotation before the other.
        one.share(&[new.clone(), vec![3; 32], old]).unwrap();
        assert_eq!(one.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(other.decrypt(&one.encrypt(b"newer").unwrap()).unwrap(), b"newer");
        assert_eq!(one.decrypt(&other.encrypt(b"older").unwrap()).unwrap(), b"older");
        one.share(&[new]).unwrap();
        assert_eq!(one.decrypt(&ticket), None, "its key was removed");
        let stricter = ProcessKeys::new([8; 32]).unwrap();
        stricter.share(&[vec![1; 32]]).unwrap();
        assert_eq!(stricter.decrypt(&ticket), None, "of another context");
    }
}
