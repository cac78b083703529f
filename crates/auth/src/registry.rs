//! The consumers of a running process, and each worker's view of them.
//!
//! Owns the set of the configuration in use and the changes that the admin API made to single
//! entries. A change is in force until the configuration's own entry of that name changes, or the
//! process ends. Promises that a change applies as a whole, that no two entries share a credential,
//! and that a worker looks a known credential up in memory of its own: one atomic load is all that
//! it shares with other workers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use message::Consumer;
use plugin::WorkerContext;
use serde_json::Value as Json;
use telemetry::event;
use telemetry::log::Level;

use crate::consumers::{ConsumerSet, ConsumerSettings, Entry};
use crate::credential::{ByCredential, CredentialId, CredentialKind};

/// The number of credentials whose consumers a worker remembers.
const REMEMBERED: usize = 4096;

/// The consumers of this process: there is one registry, under the key `()` of `plugin::Shared`.
#[derive(Default)]
pub struct Registry {
    /// Grows with every change, so that workers forget what they remember.
    generation: AtomicU64,
    state: RwLock<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    set: Arc<ConsumerSet>,
    /// Entries changed through the admin API; `None` is a deleted one.
    changed: HashMap<Box<str>, Option<Arc<Entry>>>,
    /// Credentials of changed entries.
    by_credential: ByCredential<Arc<Entry>>,
}

/// Why an entry was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// Another version is in use than the one expected.
    Stale { current: String },
    /// There is no consumer of that name.
    NoConsumer,
    /// Another consumer has one of the credentials: its name, and what kind of credential.
    Taken { by: String, what: &'static str },
}

impl RegistryState {
    fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        match self.changed.get(name) {
            Some(changed) => changed.as_ref(),
            None => self.set.entry(name),
        }
    }

    fn find(&self, id: &CredentialId) -> Option<&Arc<Entry>> {
        let in_set = || {
            let entry = self.set.by_credential.get(id)?;
            (!self.changed.contains_key(&entry.consumer.name)).then_some(entry)
        };
        self.by_credential.get(id).or_else(in_set)
    }

    /// The consumer that already has a credential of this entry.
    fn conflict(&self, entry: &Entry) -> Option<ChangeError> {
        entry.credentials.iter().find_map(|id| {
            let owner = self.find(id).filter(|other| other.consumer.name != entry.consumer.name)?;
            Some(ChangeError::Taken {
                by: owner.settings.name().to_owned(),
                what: id.kind().noun(),
            })
        })
    }

    fn forget(&mut self, name: &str) {
        if let Some(Some(entry)) = self.changed.remove(name) {
            for id in &entry.credentials {
                self.by_credential.remove(id);
            }
        }
    }

    fn change(&mut self, name: &str, entry: Option<Arc<Entry>>) {
        self.forget(name);
        if let Some(entry) = &entry {
            let ids = entry.credentials.iter();
            self.by_credential.extend(ids.map(|id| (*id, entry.clone())));
        }
        self.changed.insert(name.into(), entry);
    }
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, RegistryState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegistryState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Puts the consumers of a configuration into use. What the admin API changed stays in force
    /// for entries that the configuration has as before.
    pub fn install(&self, set: &Arc<ConsumerSet>) {
        let mut state = self.write();
        if Arc::ptr_eq(&state.set, set) {
            return;
        }
        let before = std::mem::replace(&mut state.set, set.clone());
        let differs = |name: &str| {
            let entry = |set: &ConsumerSet| set.entry(name).map(|entry| entry.settings.clone());
            entry(&before) != entry(set)
        };
        let changed: Vec<Box<str>> =
            state.changed.keys().filter(|name| differs(name)).cloned().collect();
        changed.iter().for_each(|name| state.forget(name));
        let changed: Vec<(Box<str>, Option<Arc<Entry>>)> =
            state.changed.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        for (name, entry) in changed {
            let in_set = |id| state.set.by_credential.get(id);
            let ids = entry.iter().flat_map(|entry| &entry.credentials);
            let owner = ids.filter_map(in_set).find(|owner| {
                owner.consumer.name != name && !state.changed.contains_key(&owner.consumer.name)
            });
            if let Some(owner) = owner.map(|owner| owner.settings.name().to_owned()) {
                event!(
                    Level::Warn,
                    "a consumer of the admin API is dropped: the configuration gives its \
                     credential to another one",
                    consumer = name,
                    owner = owner
                );
                state.forget(&name);
            }
        }
        drop(state);
        self.announce();
    }

    /// The entry of a consumer as JSON, and its version.
    pub fn get(&self, name: &str) -> Option<(Json, String)> {
        let entry = self.read().entry(name)?.clone();
        Some((entry.settings.to_json(), version(&entry)))
    }

    /// The names in their order: at most `limit` of them, after `after`.
    pub fn names(&self, after: &str, limit: usize) -> Vec<String> {
        let state = self.read();
        let changed =
            state.changed.iter().filter_map(|(name, entry)| entry.as_ref().map(|_| &**name));
        let unchanged = state.set.names().filter(|name| !state.changed.contains_key(*name));
        // Stores no more than the page while it reads all names.
        let mut names = BTreeSet::new();
        for name in changed.chain(unchanged).filter(|name| *name > after) {
            names.insert(name);
            if names.len() > limit {
                names.pop_last();
            }
        }
        names.into_iter().map(str::to_owned).collect()
    }

    /// Adds or replaces an entry. `allows` decides about the version that is replaced, which is
    /// `None` for a new entry. Returns the new version, and whether the entry is new.
    pub fn put(
        &self,
        settings: ConsumerSettings,
        allows: impl FnOnce(Option<&str>) -> bool,
    ) -> Result<(String, bool), ChangeError> {
        let entry = Arc::new(Entry::new(settings));
        let name = entry.consumer.name.clone();
        let mut state = self.write();
        let current = state.entry(&name).map(|entry| version(entry));
        if !allows(current.as_deref()) {
            return Err(ChangeError::Stale { current: current.unwrap_or_default() });
        }
        if let Some(conflict) = state.conflict(&entry) {
            return Err(conflict);
        }
        let version = version(&entry);
        state.change(&name, Some(entry));
        drop(state);
        self.announce();
        Ok((version, current.is_none()))
    }

    /// Deletes an entry.
    pub fn delete(
        &self,
        name: &str,
        allows: impl FnOnce(Option<&str>) -> bool,
    ) -> Result<(), ChangeError> {
        let mut state = self.write();
        let current = state.entry(name).map(|entry| version(entry));
        let Some(current) = current else { return Err(ChangeError::NoConsumer) };
        if !allows(Some(&current)) {
            return Err(ChangeError::Stale { current });
        }
        state.change(name, None);
        drop(state);
        self.announce();
        Ok(())
    }
}

/// A short name of what an entry says: the same entry has the same one in every process of this
/// release.
fn version(entry: &Entry) -> String {
    let mut hasher = DefaultHasher::new();
    entry.settings.to_json().to_string().hash(&mut hasher);
    // Values that the JSON masks are part of the version.
    entry.settings.password.hash(&mut hasher);
    entry.settings.signature_keys.iter().for_each(|key| key.hash_secret(&mut hasher));
    format!("{:016x}", hasher.finish())
}

/// A worker's view of the registry.
pub(crate) struct Directory {
    registry: Arc<Registry>,
    seen: Cell<u64>,
    remembered: RefCell<ByCredential<Known>>,
}

/// A consumer, and its entry if it has one.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) consumer: Rc<Consumer>,
    pub(crate) entry: Option<Arc<Entry>>,
}

impl Directory {
    /// The one of this worker.
    pub(crate) fn of(worker: &WorkerContext) -> Rc<Directory> {
        worker.local.get((), || Directory {
            registry: worker.shared.get((), Registry::default),
            seen: Cell::new(0),
            remembered: RefCell::default(),
        })
    }

    /// The consumer with a credential.
    pub(crate) fn find(&self, id: &CredentialId) -> Option<Rc<Consumer>> {
        self.with(id, None, |known| known.consumer.clone())
    }

    /// The consumer of a name, whose identity is `id`; one without an entry has only the name.
    pub(crate) fn named(&self, id: &CredentialId, name: &str) -> Rc<Consumer> {
        let consumer = self.with(id, Some(name), |known| known.consumer.clone());
        consumer.unwrap_or_else(|| Consumer::named(name))
    }

    /// The consumer of a token's subject, whose identity is `id`; one without an entry has only the
    /// name, unless only those with an entry are accepted.
    pub(crate) fn subject(
        &self,
        id: &CredentialId,
        name: &str,
        entries_only: bool,
    ) -> Result<Rc<Consumer>, &'static str> {
        if let Some(consumer) = self.find(id) {
            return Ok(consumer);
        }
        if entries_only {
            return Err("the consumer of the token is not known");
        }
        // An issuer must not be able to name a consumer whose entry does not name the subject.
        // (`find` would also find the name of one without an entry that another filter accepted.)
        let declared = CredentialId::of(CredentialKind::Name, name.as_bytes());
        match self.entry(&declared) {
            Some(_) => Err("the token is not one of the consumer with this name"),
            None => Ok(Consumer::named(name)),
        }
    }

    /// The consumer with a credential, and its entry.
    pub(crate) fn entry(&self, id: &CredentialId) -> Option<(Rc<Consumer>, Arc<Entry>)> {
        self.with(id, None, |known| Some((known.consumer.clone(), known.entry.clone()?)))?
    }

    /// Calls `take` with the known consumer of a credential. One without an entry is remembered
    /// only under a name, which comes from the configuration or from a verified credential.
    fn with<R>(
        &self,
        id: &CredentialId,
        name: Option<&str>,
        take: impl FnOnce(&Known) -> R,
    ) -> Option<R> {
        let generation = self.registry.generation.load(Ordering::Acquire);
        let mut remembered = self.remembered.borrow_mut();
        if self.seen.replace(generation) != generation {
            remembered.clear();
        } else if let Some(known) = remembered.get(id) {
            return Some(take(known));
        }
        let entry = self.registry.read().find(id).cloned();
        let known = match (&entry, name) {
            (Some(found), _) => Known { consumer: Rc::new(found.consumer.clone()), entry },
            (None, Some(name)) => Known { consumer: Consumer::named(name), entry: None },
            (None, None) => return None,
        };
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        Some(take(remembered.entry(*id).or_insert(known)))
    }
}

#[cfg(test)]
mod tests;
