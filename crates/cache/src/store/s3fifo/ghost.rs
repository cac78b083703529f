//! Recently evicted keys (the S3-FIFO ghost queue).
//!
//! Each bucket has four entries with the lower half of a hash and the time of eviction, in evicted
//! bytes. A new entry replaces the oldest of its bucket. A lost entry or a collision only puts an
//! object into the wrong queue.

/// Entries per bucket.
const WAYS: usize = 4;
/// The unit of time, as a shift.
const TICK_SHIFT: u32 = 10;

#[derive(Clone, Copy, Default)]
struct GhostEntry {
    print: u32,
    /// Zero is an empty entry.
    tick: u32,
}

/// The ghost queue.
#[derive(Default)]
pub(super) struct Ghost {
    buckets: Box<[[GhostEntry; WAYS]]>,
    /// Bytes evicted so far.
    passed: u64,
}

impl Ghost {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Grows to as many entries as there are objects.
    pub(super) fn fit(&mut self, live: usize) {
        if live <= self.buckets.len() * WAYS {
            return;
        }
        let count = live.div_ceil(WAYS).next_power_of_two();
        let old = std::mem::replace(&mut self.buckets, vec![Default::default(); count].into());
        for place in old.iter().flatten().filter(|place| place.tick != 0) {
            self.set(*place);
        }
    }

    pub(super) fn put(&mut self, hash: u64, weight: u64) {
        self.passed += weight;
        if !self.buckets.is_empty() {
            self.set(GhostEntry { print: hash as u32, tick: self.tick() });
        }
    }

    /// Removes a key; true if it was evicted within the last `within` bytes.
    pub(super) fn take(&mut self, hash: u64, within: u64) -> bool {
        let (now, print) = (self.tick(), hash as u32);
        let Some(bucket) = self.bucket(print) else { return false };
        let Some(place) = bucket.iter_mut().find(|place| place.print == print && place.tick != 0)
        else {
            return false;
        };
        let age = now.wrapping_sub(place.tick);
        *place = GhostEntry::default();
        u64::from(age) << TICK_SHIFT <= within
    }

    fn tick(&self) -> u32 {
        ((self.passed >> TICK_SHIFT) as u32).max(1)
    }

    fn bucket(&mut self, print: u32) -> Option<&mut [GhostEntry; WAYS]> {
        let mask = self.buckets.len().wrapping_sub(1);
        self.buckets.get_mut(print as usize & mask)
    }

    fn set(&mut self, new: GhostEntry) {
        let now = self.tick();
        let Some(bucket) = self.bucket(new.print) else { return };
        let age = |place: &GhostEntry| match place.tick {
            0 => u32::MAX,
            _ if place.print == new.print => u32::MAX,
            tick => now.wrapping_sub(tick),
        };
        if let Some(place) = bucket.iter_mut().max_by_key(|place| age(place)) {
            *place = new;
        }
    }
}
