//! Who left unproven, lately.
//!
//! Four places per bucket, each with the lower half of a hash and the time it was put there, in
//! bytes that have passed since. A place is given to whoever comes after the oldest of its bucket.
//! StoreTime and then somebody is forgotten early or mistaken for another: that costs a place in
//! the wrong queue, no more.

/// Places that share a bucket.
const WAYS: usize = 4;
/// What time is counted in.
const TICK_SHIFT: u32 = 10;

#[derive(Clone, Copy, Default)]
struct GhostEntry {
    print: u32,
    /// Zero is an empty place.
    tick: u32,
}

/// The memory of those that left.
#[derive(Default)]
pub(super) struct Ghost {
    buckets: Box<[[GhostEntry; WAYS]]>,
    /// Bytes that were put here so far.
    passed: u64,
}

impl Ghost {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Makes room to remember as many as there are.
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

    /// Whether it left within the last `within` bytes; forgets it.
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
