//! The consumers of a running process, and each worker's view of them.
//!
//! Owns the set of the configuration in use and the changes that the admin API made to single
//! entries. A change is in force until the configuration's own entry of that name changes; without
//! a file that stores changes, also no longer than the process. Promises that a change applies as a
//! whole, that no two entries share a credential, and that a worker looks a known credential up in
//! memory of its own: one atomic load is all that it shares with other workers.

mod change_file;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use message::Consumer;
use plugin::WorkerContext;
use serde_json::Value as Json;
use telemetry::event;
use telemetry::log::Level;

use crate::consumers::{ConsumerSet, ConsumerSettings, Entry};
use crate::credential::{ByCredential, CredentialId};
use crate::decoy::DecoyHashes;
use crate::password::PasswordHash;
pub use change_file::reread_changes;
use change_file::{ChangeFile, Changes};

/// The number of credentials whose consumers a worker remembers.
const REMEMBERED: usize = 4096;

/// The consumers of this process: there is one registry, under the key `()` of `plugin::Shared`.
#[derive(Default)]
pub struct Registry {
    /// Grows with every change, so that workers forget what they remember.
    generation: AtomicU64,
    state: RwLock<RegistryState>,
    /// The file that stores changes. Locked during a change, so that there is one at a time;
    /// workers never wait for it.
    file: Mutex<Option<ChangeFile>>,
    /// True if the file may have changes that are not in force.
    is_outdated: AtomicBool,
}

#[derive(Default)]
struct RegistryState {
    set: Arc<ConsumerSet>,
    changes: Changes,
    /// Credentials of changed entries.
    by_credential: ByCredential<Arc<Entry>>,
    /// Of all entries in force.
    decoys: DecoyHashes,
}

/// A change of the admin API.
#[derive(Clone)]
struct Change {
    /// The version of the configuration's entry of that name, without which the change ends.
    replaces: Option<String>,
    /// `None` is a deleted entry.
    entry: Option<Arc<Entry>>,
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
    /// The change cannot be written to the file of changes.
    NotStored(String),
}

impl RegistryState {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.changes.is_empty()
    }

    fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        match self.changes.get(name) {
            Some(change) => change.entry.as_ref(),
            None => self.set.entry(name),
        }
    }

    /// The version of the configuration's entry.
    fn configured(&self, name: &str) -> Option<String> {
        self.set.entry(name).map(|entry| entry.settings.version())
    }

    fn find(&self, id: &CredentialId) -> Option<&Arc<Entry>> {
        let in_set = || {
            let entry = self.set.by_credential.get(id)?;
            (!self.changes.contains_key(entry.settings.name())).then_some(entry)
        };
        self.by_credential.get(id).or_else(in_set)
    }

    /// The consumer that already has a credential of this entry.
    fn conflict(&self, entry: &Entry) -> Option<ChangeError> {
        let name = entry.settings.name();
        entry.settings.credentials().iter().find_map(|id| {
            let owner = self.find(id).filter(|other| other.settings.name() != name)?;
            Some(ChangeError::Taken {
                by: owner.settings.name().to_owned(),
                what: id.kind().noun(),
            })
        })
    }

    /// The change of an entry, and the version that it replaces, if `allows` agrees to that one.
    fn propose(
        &self,
        name: &str,
        entry: &Option<Arc<Entry>>,
        allows: impl Fn(Option<&str>) -> bool,
    ) -> Result<(Change, Option<String>), ChangeError> {
        let current = self.entry(name).map(|entry| entry.settings.version());
        if entry.is_none() && current.is_none() {
            return Err(ChangeError::NoConsumer);
        }
        if !allows(current.as_deref()) {
            return Err(ChangeError::Stale { current: current.unwrap_or_default() });
        }
        match entry.as_ref().and_then(|entry| self.conflict(entry)) {
            Some(conflict) => Err(conflict),
            None => {
                let replaces = self.configured(name);
                Ok((Change { replaces, entry: entry.clone() }, current))
            }
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(Change { entry: Some(entry), .. }) = self.changes.remove(name) {
            for id in entry.settings.credentials() {
                self.by_credential.remove(&id);
            }
        }
    }

    fn change(&mut self, name: &str, change: Change) {
        let password = |entry: Option<&Arc<Entry>>| entry?.settings.password.clone();
        password(self.entry(name)).iter().for_each(|hash| self.decoys.remove(hash));
        password(change.entry.as_ref()).iter().for_each(|hash| self.decoys.add(hash));
        self.forget(name);
        if let Some(entry) = &change.entry {
            let ids = entry.settings.credentials().into_iter();
            self.by_credential.extend(ids.map(|id| (id, entry.clone())));
        }
        self.changes.insert(name.into(), change);
    }

    /// Replaces the configuration's set and drops the changes that do not fit to it. Returns their
    /// number.
    fn install(&mut self, set: Arc<ConsumerSet>) -> usize {
        let before = self.changes.len();
        self.set = set;
        let changes = self.changes.iter();
        let ended = changes.filter(|(name, change)| change.replaces != self.configured(name));
        let ended: Vec<Box<str>> = ended.map(|(name, _)| name.clone()).collect();
        ended.iter().for_each(|name| self.forget(name));
        for (name, change) in self.changes.clone() {
            let in_set = |id| self.set.by_credential.get(&id);
            let ids = change.entry.iter().flat_map(|entry| entry.settings.credentials());
            let owner = ids.filter_map(in_set).find(|owner| {
                let owner = owner.settings.name();
                *owner != *name && !self.changes.contains_key(owner)
            });
            if let Some(owner) = owner.map(|owner| owner.settings.name().to_owned()) {
                event!(
                    Level::Warn,
                    "a consumer of the admin API is dropped: the configuration gives its \
                     credential to another one",
                    consumer = name,
                    owner = owner
                );
                self.forget(&name);
            }
        }
        let changes = std::mem::take(&mut self.changes);
        let dropped = before - changes.len();
        self.decoys = self.set.decoys.clone();
        changes.into_iter().for_each(|(name, change)| self.change(&name, change));
        dropped
    }
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, RegistryState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegistryState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_file(&self) -> MutexGuard<'_, Option<ChangeFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Takes over the changes that are stored in a file, and stores later ones there. To be called
    /// before the first [`Registry::install`], which drops those that the configuration has ended.
    /// The error is a sentence.
    pub fn open_changes(&self, path: &Path) -> Result<(), String> {
        let mut file = self.lock_file();
        let (opened, changes) = ChangeFile::open(path)?;
        let mut state = self.write();
        for (name, change) in changes {
            if let Some(ChangeError::Taken { by, what }) =
                change.entry.as_ref().and_then(|entry| state.conflict(entry))
            {
                let path = path.display();
                return Err(format!("{path} gives {name} and {by} the same {what}"));
            }
            state.change(&name, change);
        }
        *file = Some(opened);
        Ok(())
    }

    /// Removes changes from the file that a configuration has ended. Waits for the disk.
    pub fn remove_ended_changes(&self) -> Result<(), String> {
        let mut file = self.lock_file();
        let Some(file) = &mut *file else { return Ok(()) };
        self.update(file).map_err(|error| {
            format!("{} still has changes that are not in force: {error}", file.path().display())
        })
    }

    /// Replaces the file if it may have changes that are not in force.
    fn update(&self, file: &mut ChangeFile) -> io::Result<()> {
        let changes = self.read().changes.len();
        let is_outdated = self.is_outdated.swap(false, Ordering::Relaxed);
        if !is_outdated && !file.is_long(changes) {
            return Ok(());
        }
        // A copy, so that no worker waits for the disk.
        let changes = self.read().changes.clone();
        file.replace(&changes).inspect_err(|_| self.is_outdated.store(true, Ordering::Relaxed))
    }

    /// Puts the consumers of a configuration into use. What the admin API changed stays in force
    /// for entries that the configuration has as before.
    pub fn install(&self, set: &Arc<ConsumerSet>) {
        let mut state = self.write();
        if Arc::ptr_eq(&state.set, set) {
            return;
        }
        if state.install(set.clone()) > 0 {
            self.is_outdated.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.announce();
    }

    /// The entry of a consumer as JSON, and its version.
    pub fn get(&self, name: &str) -> Option<(Json, String)> {
        let entry = self.read().entry(name)?.clone();
        Some((entry.settings.to_json(), entry.settings.version()))
    }

    /// The names in their order: at most `limit` of them, after `after`.
    pub fn names(&self, after: &str, limit: usize) -> Vec<String> {
        let state = self.read();
        let changed = state
            .changes
            .iter()
            .filter_map(|(name, change)| change.entry.as_ref().map(|_| &**name));
        let unchanged = state.set.names().filter(|name| !state.changes.contains_key(*name));
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
    /// `None` for a new entry. Returns the new version, and whether the entry is new. Waits for the
    /// disk if changes are stored.
    pub fn put(
        &self,
        settings: ConsumerSettings,
        allows: impl Fn(Option<&str>) -> bool,
    ) -> Result<(String, bool), ChangeError> {
        let version = settings.version();
        let entry = Arc::new(Entry::new(settings));
        let before = self.change(entry.settings.name(), &Some(entry.clone()), allows)?;
        Ok((version, before.is_none()))
    }

    /// Deletes an entry. Waits for the disk if changes are stored.
    pub fn delete(
        &self,
        name: &str,
        allows: impl Fn(Option<&str>) -> bool,
    ) -> Result<(), ChangeError> {
        self.change(name, &None, allows).map(|_| ())
    }

    /// Stores a change and puts it in force. Returns the version that it replaces.
    fn change(
        &self,
        name: &str,
        entry: &Option<Arc<Entry>>,
        allows: impl Fn(Option<&str>) -> bool,
    ) -> Result<Option<String>, ChangeError> {
        let mut file = self.lock_file();
        let mut stored = None;
        if let Some(file) = &mut *file {
            let (change, _) = self.read().propose(name, entry, &allows)?;
            let written = self.update(file).and_then(|()| file.append(name, &change));
            written.map_err(|error| {
                ChangeError::NotStored(format!("{}: {error}", file.path().display()))
            })?;
            stored = Some(change.replaces);
        }
        let mut state = self.write();
        let proposed = state.propose(name, entry, &allows);
        let is_stored = |(change, _): &(Change, _)| Some(&change.replaces) == stored.as_ref();
        if stored.is_some() && !proposed.as_ref().is_ok_and(is_stored) {
            // A reload came in between.
            self.is_outdated.store(true, Ordering::Relaxed);
        }
        let (change, before) = proposed?;
        state.change(name, change);
        drop(state);
        self.announce();
        Ok(before)
    }
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

    /// Another number after each change of the consumers: what was found before may be outdated.
    pub(crate) fn generation(&self) -> u64 {
        self.registry.generation.load(Ordering::Acquire)
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

    /// True if there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.registry.read().is_empty()
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
        match self.registry.read().entry(name) {
            Some(_) => Err("the token is not one of the consumer with this name"),
            None => Ok(Consumer::named(name)),
        }
    }

    /// The consumer with a credential, and its entry.
    pub(crate) fn entry(&self, id: &CredentialId) -> Option<(Rc<Consumer>, Arc<Entry>)> {
        self.with(id, None, |known| Some((known.consumer.clone(), known.entry.clone()?)))?
    }

    /// The hash that the password of an unknown name is verified against.
    pub(crate) fn decoy(&self, number: u64) -> PasswordHash {
        self.registry.read().decoys.choose(number)
    }

    /// Calls `take` with the known consumer of a credential. One without an entry is remembered
    /// only under a name, which comes from the configuration or from a verified credential.
    fn with<R>(
        &self,
        id: &CredentialId,
        name: Option<&str>,
        take: impl FnOnce(&Known) -> R,
    ) -> Option<R> {
        let generation = self.generation();
        let mut remembered = self.remembered.borrow_mut();
        if self.seen.replace(generation) != generation {
            remembered.clear();
        } else if let Some(known) = remembered.get(id) {
            return Some(take(known));
        }
        let entry = self.registry.read().find(id).cloned();
        let known = match (&entry, name) {
            (Some(found), _) => Known { consumer: Rc::new(found.settings.consumer()), entry },
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
