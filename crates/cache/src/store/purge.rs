//! Purges: what is meant, and taking it out.
//!
//! Promises that what was stored when a purge began is removed (or stale) when it returns, that no
//! shard is locked for long however much there is to look through, and that everything goes at
//! once: objects older than the last purge of everything are not found, and are taken out later.

use std::sync::Arc;

use super::Store;
use super::memory::{Shard, canonical};
use crate::key::url_hash;
use crate::limits::SLICE_OBJECTS;
use crate::rules::search;
use crate::{Object, ObjectKind};

mod purge_epochs;

pub use purge_epochs::PurgeEpoch;
pub(super) use purge_epochs::PurgeEpochs;

/// What is to be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge<'a> {
    /// All that is stored under a URL, by every route, in every variant and coding.
    Url(&'a [u8]),
    /// The same of every URL that begins so.
    Prefix(&'a [u8]),
    /// All that has one of these tags or groups: `rules::tags` says what each is found by.
    Tags(&'a [u64]),
    All,
}

impl Store {
    /// Removes what is meant, or makes it stale if `soft`; how many responses that were (as the
    /// origin sent them: derived codings go along and are not counted). What is being fetched
    /// meanwhile is not stored: see [`PurgeEpoch`].
    pub fn purge(&self, purge: &Purge<'_>, soft: bool) -> u64 {
        let purged = self.purge_one(purge, soft);
        let Purge::Url(url) = purge else { return purged };
        // Looked for once the purge is noted: a fetch that says so later is not stored.
        let others = self.searched(url);
        purged + others.iter().map(|url| self.purge_one(&Purge::Url(url), soft)).sum::<u64>()
    }

    /// The URLs under which what answers to this one may be stored, by No-Vary-Search.
    fn searched(&self, url: &[u8]) -> Vec<Vec<u8>> {
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

    fn purge_one(&self, purge: &Purge<'_>, soft: bool) -> u64 {
        let time = self.purge_epochs.note(purge);
        if let Some(disk) = &*self.disk() {
            disk.purge(purge, time);
        }
        match purge {
            Purge::All => self.memory.end_epoch(soft),
            Purge::Url(url) => {
                let hash = url_hash(url);
                let find = |shard: &Shard| shard.of_url(hash, url).collect();
                let meant = |object: &Object| object.key.url() == *url;
                self.purge_found(self.memory.shard_of(hash), soft, find, meant)
            }
            Purge::Tags(tags) => {
                let find = |shard: &Shard| tags.iter().flat_map(|tag| shard.of_tag(*tag)).collect();
                let meant = |object: &Object| has_tag(object, tags);
                let shards = 0..self.memory.shards();
                shards.map(|shard| self.purge_found(shard, soft, find, meant)).sum()
            }
            Purge::Prefix(prefix) => {
                let meant = |object: &Object| object.key.url().starts_with(prefix);
                (0..self.memory.shards()).map(|shard| self.purge_slices(shard, soft, meant)).sum()
            }
        }
    }

    /// Purges what a table says.
    fn purge_found(
        &self,
        shard: usize,
        soft: bool,
        find: impl Fn(&Shard) -> Vec<u32>,
        meant: impl Fn(&Object) -> bool,
    ) -> u64 {
        let mut purged = 0;
        loop {
            let (places, moves) = {
                let shard = self.memory.read(shard);
                (find(&shard), shard.moves())
            };
            let (some, moved) = self.purge_places(shard, &places, moves, soft, &meant);
            purged += some;
            if !moved {
                return purged;
            }
        }
    }

    /// Looks through a whole shard, slice by slice.
    fn purge_slices(&self, shard: usize, soft: bool, meant: impl Fn(&Object) -> bool) -> u64 {
        let mut purged = 0;
        let mut from = 0;
        // Objects that moved may have moved to where was looked already.
        let mut first = None;
        loop {
            let (places, slots, moves) = {
                let shard = self.memory.read(shard);
                let epochs = self.memory.epochs();
                let slice = from..shard.slots().min(from + SLICE_OBJECTS as u32);
                let here = |at: &u32| shard.visible(*at, epochs).is_some_and(|o| meant(o));
                (slice.filter(here).collect::<Vec<_>>(), shard.slots(), shard.moves())
            };
            let begun = *first.get_or_insert(moves);
            let (some, moved) = self.purge_places(shard, &places, moves, soft, &meant);
            purged += some;
            from += SLICE_OBJECTS as u32;
            if moved || moves != begun {
                (from, first) = (0, None);
            } else if from >= slots {
                return purged;
            }
        }
    }

    /// Purges what is at these places, if it is still what is meant; how many responses that were,
    /// and whether objects have moved since the places were found, as of `moves`.
    fn purge_places(
        &self,
        shard: usize,
        places: &[u32],
        moves: u64,
        soft: bool,
        meant: impl Fn(&Object) -> bool,
    ) -> (u64, bool) {
        let mut purged = 0;
        let mut moved = false;
        for slice in places.chunks(SLICE_OBJECTS) {
            self.memory.change(shard, |shard, now, removed| {
                moved |= shard.moves() != moves;
                for &at in slice {
                    let found = shard.visible(at, now.epochs);
                    let Some(object) = found.filter(|object| meant(object)) else { continue };
                    // What was made stale before a move is not made stale twice.
                    let counts = canonical(object).is_some() && !(soft && object.state.is_stale());
                    purged += u64::from(counts);
                    match (&object.kind, soft) {
                        (ObjectKind::Response(_) | ObjectKind::Parts(_), true) => {
                            object.state.make_stale()
                        }
                        // They say what is asked for, not what was answered.
                        (ObjectKind::Varies(_) | ObjectKind::NoVarySearch(_), true) => {}
                        _ => drop(shard.remove(at, super::RemovalReason::Purged, removed)),
                    }
                }
            });
        }
        (purged, moved)
    }
}

fn has_tag(object: &Object, tags: &[u64]) -> bool {
    let own = object.response().map_or(&[][..], |response| &response.tags);
    own.iter().any(|tag| tags.contains(tag))
}
