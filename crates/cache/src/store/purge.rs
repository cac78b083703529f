//! Purges of the store.
//!
//! Promises that what was stored when a purge began is removed (or stale) when it returns, that no
//! shard is locked for long, and that everything can be purged at once: objects older than the last
//! purge of everything are not found, and are removed later.

use std::fs::File;
use std::sync::Arc;

use net::clock;

use super::Store;
use super::memory::{Memory, RemovalReason, Shard, canonical};
use crate::key::url_hash;
use crate::limits::SLICE_OBJECTS;
use crate::rules::search;
use crate::{Object, ObjectKind};

mod purge_epochs;

pub use purge_epochs::PurgeEpoch;
pub(super) use purge_epochs::PurgeEpochs;

/// The objects that a purge covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge<'a> {
    /// All objects of a URL, of every route, in every variant and coding.
    Url(&'a [u8]),
    /// All objects of every URL with this prefix.
    Prefix(&'a [u8]),
    /// All objects with one of these hashes of tags or groups (`rules::tags`).
    Tags(&'a [u64]),
    All,
}

impl Store {
    /// Removes the objects that a purge covers, or makes them stale if `soft`; returns the number
    /// of responses, not counting transcoded ones. Responses of fetches in flight are not stored:
    /// see [`PurgeEpoch`].
    pub fn purge(&self, purge: &Purge<'_>, soft: bool) -> u64 {
        self.purge_as(purge, soft, self.gate.is_alone())
    }

    /// The same for a purge that other servers do not know of.
    pub fn purge_locally(&self, purge: &Purge<'_>, soft: bool) -> u64 {
        self.purge_as(purge, soft, true)
    }

    fn purge_as(&self, purge: &Purge<'_>, soft: bool, is_local: bool) -> u64 {
        let purge_one = |purge: &Purge<'_>| {
            if is_local {
                self.note_local(purge);
            }
            self.purge_one(purge, soft)
        };
        let purged = purge_one(purge);
        let Purge::Url(url) = purge else { return purged };
        // Found after the purge is noted: a rule from a later fetch is not stored.
        let others = self.searched(url);
        purged + others.iter().map(|url| purge_one(&Purge::Url(url))).sum::<u64>()
    }

    /// The URLs under which responses for this one are stored by No-Vary-Search.
    pub(super) fn searched(&self, url: &[u8]) -> Vec<Vec<u8>> {
        let Some(at) = memchr::memchr(b'?', url) else { return Vec::new() };
        let (path, query) = (&url[..at], &url[at + 1..]);
        let canonical = |object: &Arc<Object>| {
            let ObjectKind::NoVarySearch(rule) = &object.kind else { return None };
            let mut other = [path, b"?"].concat();
            search::canonical(query, rule, &mut other);
            if other.last() == Some(&b'?') {
                other.pop();
            }
            (other != url).then_some(other)
        };
        let mut others: Vec<_> = self.of_url(path).iter().filter_map(canonical).collect();
        others.sort();
        others.dedup();
        others
    }

    fn note_local(&self, purge: &Purge<'_>) {
        if let Some(times) = self.local_purges.get() {
            times.note_at(purge, next_ms());
        }
    }

    /// Remembers from now on when local purges are made: responses of other servers are stored too.
    pub(crate) fn remember_local_purges(&self) {
        self.local_purges.get_or_init(|| {
            let times = PurgeEpochs::new(0);
            if self.purge_epochs.purge_epoch() != self.began {
                // Which were local is not known.
                times.note_at(&Purge::All, next_ms());
            }
            times
        });
    }

    /// True if a response that another server had at this time (milliseconds on the clock of
    /// [`clock::now`]) was not purged locally since.
    pub(crate) fn is_current_locally(&self, url: &[u8], tags: &[u64], since_ms: u64) -> bool {
        let since = PurgeEpoch::of_time(since_ms);
        let times = self.local_purges.get();
        times.is_none_or(|times| times.is_current(url, url_hash(url), tags, since))
    }

    fn purge_one(&self, purge: &Purge<'_>, soft: bool) -> u64 {
        let time = self.purge_epochs.note(purge);
        if let Some(disk) = &*self.disk() {
            disk.purge(purge, soft, time);
        }
        let memory = &self.memory;
        let removes = (!soft).then_some(RemovalReason::Purged);
        match purge {
            Purge::All => memory.end_epoch(soft),
            Purge::Url(url) => {
                let hash = url_hash(url);
                let find = |shard: &Shard| shard.of_url(hash, url).collect();
                let meant = |object: &Object| object.key.url() == *url;
                memory.change_found(memory.shard_of(hash), removes, find, meant)
            }
            Purge::Tags(tags) => {
                let find = |shard: &Shard| tags.iter().flat_map(|tag| shard.of_tag(*tag)).collect();
                let meant = |object: &Object| has_tag(object, tags);
                let shards = 0..memory.shards();
                shards.map(|shard| memory.change_found(shard, removes, find, meant)).sum()
            }
            Purge::Prefix(prefix) => {
                memory.change_all(removes, |object| object.key.url().starts_with(prefix))
            }
        }
    }
}

impl Memory {
    /// Removes the objects whose content is in such a file; it may take long.
    pub(super) fn remove_files(&self, meant: impl Fn(&Arc<File>) -> bool) {
        self.change_all(Some(RemovalReason::Size), |object| {
            object.file().is_some_and(|range| meant(&range.file))
        });
    }

    /// Removes the objects that an index of the shard finds, or makes them stale.
    fn change_found(
        &self,
        shard: usize,
        removes: Option<RemovalReason>,
        find: impl Fn(&Shard) -> Vec<u32>,
        meant: impl Fn(&Object) -> bool,
    ) -> u64 {
        let mut purged = 0;
        loop {
            let (places, moves) = {
                let shard = self.read(shard);
                (find(&shard), shard.renumberings())
            };
            let (some, moved) = self.change_places(shard, &places, moves, removes, &meant);
            purged += some;
            if !moved {
                return purged;
            }
        }
    }

    /// The same for objects of all shards, slice by slice.
    fn change_all(&self, removes: Option<RemovalReason>, meant: impl Fn(&Object) -> bool) -> u64 {
        (0..self.shards()).map(|shard| self.change_slices(shard, removes, &meant)).sum()
    }

    fn change_slices(
        &self,
        shard: usize,
        removes: Option<RemovalReason>,
        meant: impl Fn(&Object) -> bool,
    ) -> u64 {
        let mut purged = 0;
        let mut from = 0;
        // Compaction may have moved objects to slots that were visited already.
        let mut first = None;
        loop {
            let (places, slots, moves) = {
                let shard = self.read(shard);
                let epochs = self.epochs();
                let slice = from..shard.slots().min(from + SLICE_OBJECTS as u32);
                let here = |at: &u32| shard.visible(*at, epochs).is_some_and(|o| meant(o));
                (slice.filter(here).collect::<Vec<_>>(), shard.slots(), shard.renumberings())
            };
            let begun = *first.get_or_insert(moves);
            let (some, moved) = self.change_places(shard, &places, moves, removes, &meant);
            purged += some;
            from += SLICE_OBJECTS as u32;
            if moved || moves != begun {
                (from, first) = (0, None);
            } else if from >= slots {
                return purged;
            }
        }
    }

    /// The same for the objects in these slots that are still meant; returns the number of
    /// responses, and whether objects have moved since `moves`.
    fn change_places(
        &self,
        shard: usize,
        places: &[u32],
        moves: u64,
        removes: Option<RemovalReason>,
        meant: impl Fn(&Object) -> bool,
    ) -> (u64, bool) {
        let mut purged = 0;
        let mut moved = false;
        for slice in places.chunks(SLICE_OBJECTS) {
            self.change(shard, |shard, now, removed| {
                moved |= shard.renumberings() != moves;
                for &at in slice {
                    let found = shard.visible(at, now.epochs);
                    let Some(object) = found.filter(|object| meant(object)) else { continue };
                    // An object that was made stale before a move is not counted twice.
                    let was_changed = removes.is_none() && object.state.is_stale();
                    purged += u64::from(canonical(object).is_some() && !was_changed);
                    match (&object.kind, removes) {
                        (ObjectKind::Response(_) | ObjectKind::Parts(_), None) => {
                            object.state.make_stale()
                        }
                        // They describe requests, not responses.
                        (ObjectKind::Varies(_) | ObjectKind::NoVarySearch(_), None) => {}
                        (_, why) => {
                            drop(shard.remove(at, why.unwrap_or(RemovalReason::Purged), removed))
                        }
                    }
                }
            });
        }
        (purged, moved)
    }
}

/// The millisecond that begins next: a purge is not before it.
fn next_ms() -> u64 {
    clock::precise_us() / 1000 + 1
}

pub(super) fn has_tag(object: &Object, tags: &[u64]) -> bool {
    let own = object.response().map_or(&[][..], |response| &response.tags);
    own.iter().any(|tag| tags.contains(tag))
}
