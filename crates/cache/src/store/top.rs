//! The objects with the most hits, and those that take the most memory.
//!
//! Promises lists of bounded length, and read locks of one slice of a shard at a time, so that a
//! worker that inserts waits no longer than for a purge by prefix. Visits every object: takes less
//! than half a second for a million, and belongs on a thread that may block.

use std::sync::Arc;

use super::Store;
use crate::Object;
use crate::limits::{SLICE_OBJECTS, TOP_MAX};

/// Stored responses in the order of their ranks, the highest first.
#[derive(Default)]
pub struct TopObjects {
    pub by_hits: Vec<Arc<Object>>,
    pub by_memory: Vec<Arc<Object>>,
}

/// The objects of the highest ranks so far.
struct Highest {
    most: usize,
    ranked: Vec<(u64, Arc<Object>)>,
}

impl Highest {
    fn new(most: usize) -> Highest {
        Highest { most, ranked: Vec::with_capacity(most + 1) }
    }

    /// True if an object of this rank is among them.
    fn admits(&self, rank: u64) -> bool {
        let is_full = self.ranked.len() >= self.most;
        rank > 0 && self.ranked.last().is_none_or(|(lowest, _)| !is_full || rank > *lowest)
    }

    fn add(&mut self, rank: u64, object: &Arc<Object>) {
        // The store may have been compacted in between: then an object is visited again.
        let is_known = |(_, other): &(u64, Arc<Object>)| Arc::ptr_eq(other, object);
        if self.admits(rank) && !self.ranked.iter().any(is_known) {
            let at = self.ranked.partition_point(|(other, _)| *other >= rank);
            self.ranked.insert(at, (rank, object.clone()));
            self.ranked.truncate(self.most);
        }
    }

    fn into_objects(self) -> Vec<Arc<Object>> {
        self.ranked.into_iter().map(|(_, object)| object).collect()
    }
}

impl Store {
    /// Returns at most `most` of the stored responses with the most hits, without those that have
    /// none, and as many of those that take the most memory. Blocks.
    pub fn top(&self, most: usize) -> TopObjects {
        if self.is_closed() {
            return TopObjects::default();
        }
        let most = most.clamp(1, TOP_MAX);
        let (mut hits, mut memory) = (Highest::new(most), Highest::new(most));
        let mut candidates = Vec::new();
        let epochs = self.memory.epochs();
        for shard in 0..self.memory.shards() {
            let mut at = 0;
            loop {
                let locked = self.memory.read(shard);
                let (slots, end) = (locked.slots(), at + SLICE_OBJECTS as u32);
                for at in at..slots.min(end) {
                    let visible = locked.visible(at, epochs);
                    let Some(object) = visible.filter(|object| object.response().is_some()) else {
                        continue;
                    };
                    let ranks = (u64::from(object.hits()), locked.weight_of(at));
                    if hits.admits(ranks.0) || memory.admits(ranks.1) {
                        candidates.push((ranks, object.clone()));
                    }
                }
                drop(locked);
                // Objects that are dropped here may be the last of their kind: not under the lock.
                for (ranks, object) in candidates.drain(..) {
                    hits.add(ranks.0, &object);
                    memory.add(ranks.1, &object);
                }
                at = end;
                if at >= slots {
                    break;
                }
            }
        }
        TopObjects { by_hits: hits.into_objects(), by_memory: memory.into_objects() }
    }
}
