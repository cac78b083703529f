//! What a worker keeps at hand of the store.
//!
//! A small table of its own, one place per hash: finding something in it takes no lock and writes
//! nothing that another worker reads. Promises that nothing is found that has left the store, was
//! purged with everything, or has another key, and that it keeps alive at most so many bytes.

use std::sync::Arc;

use crate::Object;

/// What is kept for a key: the object, and what was prepared from it.
pub trait Kept {
    /// What must still be in the store for the rest to be good.
    fn object(&self) -> &Arc<Object>;

    /// Memory that is kept alive, the object's content included.
    fn bytes(&self) -> usize;
}

impl Kept for Arc<Object> {
    fn object(&self) -> &Arc<Object> {
        self
    }

    fn bytes(&self) -> usize {
        match &self.kind {
            crate::Kind::Response(response) => response.content.len() as usize + 1024,
            _ => 1024,
        }
    }
}

/// The table of one worker, for one store.
pub struct Front<T> {
    /// A power of two of them.
    places: Box<[Option<Place<T>>]>,
    /// The store's epoch that all of it is of.
    epoch: u64,
    bytes: usize,
    bytes_max: usize,
    /// Since it was looked through for what has left the store.
    puts: usize,
}

/// After so many puts it is looked through: what has left the store is memory that the store does
/// not count.
const TIDY_AFTER: usize = 64;

struct Place<T> {
    hash: u64,
    bytes: usize,
    kept: T,
}

impl<T: Kept> Front<T> {
    /// At least `places` places, for at most `bytes_max` bytes.
    pub fn new(places: usize, bytes_max: usize) -> Front<T> {
        let places = (0..places.next_power_of_two()).map(|_| None).collect();
        Front { places, epoch: 0, bytes: 0, bytes_max, puts: 0 }
    }

    /// What is kept for a key. `epoch` is the store's now.
    pub fn get(&mut self, hash: u64, key: &[u8], epoch: u64) -> Option<&T> {
        self.renew(epoch);
        let at = self.at(hash);
        let place = self.places[at].as_ref()?;
        if place.hash != hash {
            return None;
        }
        let object = place.kept.object();
        if object.life.is_gone() {
            self.clear(at);
            return None;
        }
        if object.key.text() != key {
            return None;
        }
        self.places[at].as_ref().map(|place| &place.kept)
    }

    /// Keeps something, if it is not too much, in place of what was where it belongs. `epoch` is
    /// the store's from before the object was looked up.
    pub fn put(&mut self, hash: u64, kept: T, epoch: u64) {
        self.renew(epoch);
        let at = self.at(hash);
        self.clear(at);
        self.puts += 1;
        if self.puts == TIDY_AFTER {
            self.puts = 0;
            self.tidy();
        }
        let bytes = kept.bytes();
        if bytes > self.bytes_max {
            return;
        }
        // What has left the store goes first, then whatever is next.
        let mut next = at;
        while self.bytes + bytes > self.bytes_max {
            next = (next + 1) & (self.places.len() - 1);
            self.clear(next);
        }
        self.bytes += bytes;
        self.places[at] = Some(Place { hash, bytes, kept });
    }

    /// Lets go of what has left the store.
    fn tidy(&mut self) {
        for at in 0..self.places.len() {
            let place = self.places[at].as_ref();
            if place.is_some_and(|place| place.kept.object().life.is_gone()) {
                self.clear(at);
            }
        }
    }

    /// Bytes that are kept alive.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn renew(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            for at in 0..self.places.len() {
                self.clear(at);
            }
        }
    }

    fn clear(&mut self, at: usize) {
        if let Some(place) = self.places[at].take() {
            self.bytes -= place.bytes;
        }
    }

    fn at(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests;
