//! Shrinking of tables that were once full.
//!
//! All objects get new numbers in the order of their queues. Code that remembers numbers across
//! locks compares [`Shard::renumberings`].

use hashbrown::HashTable;

use super::super::tags::Tags;
use super::{Shard, tags_of};
use crate::store::s3fifo::NONE;

/// Smaller tables are not shrunk.
const PLACES_MIN: usize = 64;
/// Tables are shrunk when they have so many slots per object.
const PLACES_PER_OBJECT: usize = 4;

impl Shard {
    /// How often objects were renumbered.
    pub(in crate::store) fn renumberings(&self) -> u64 {
        self.moves
    }

    /// Shrinks the tables if few of their slots are used.
    pub(super) fn compact(&mut self) {
        let live = self.live as usize;
        if self.slots.len() < PLACES_MIN || live * PLACES_PER_OBJECT > self.slots.len() {
            return;
        }
        self.moves += 1;
        let order = self.queues.renumber();
        let mut slots = Vec::with_capacity(live);
        for at in order {
            slots.push(std::mem::replace(&mut self.slots[at as usize], super::BLANK));
        }
        self.slots = slots;
        (self.free, self.hand) = (NONE, 0);
        self.keys = HashTable::with_capacity(live);
        self.urls = HashTable::with_capacity(live);
        self.tags = Tags::new();
        for at in 0..self.slots.len() {
            let (hash, url_hash) = (self.slots[at].hash, self.slots[at].url_hash);
            let slots = &self.slots;
            self.keys.insert_unique(hash, at as u32, |at| slots[*at as usize].hash);
            self.urls.insert_unique(url_hash, at as u32, |at| slots[*at as usize].url_hash);
            let tags = slots[at]
                .object
                .as_ref()
                .map_or(NONE, |object| self.tags.add(at as u32, tags_of(object)));
            self.slots[at].tags = tags;
        }
    }
}
