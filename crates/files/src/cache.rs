//! A worker's cache of files: resources by path, each used for `FRESH` before it is revalidated.
//!
//! Owns a bounded table per handler settings and worker, which outlives plans. Promises that an
//! older resource is not served before a revalidation has begun, that one request at a time
//! revalidates it and the next one does if that request is dropped, and that descriptors and memory
//! stay within the worker's budget. Evicts by CLOCK: entries without a recent request go first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use net::clock::Moment;

use crate::limits::{FRESH, KNOWN_PATHS, MEMORY_BYTES, OPEN_FILES};
use crate::resource::Resource;

/// What all handlers of one worker hold open or in memory.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    open_files: Cell<usize>,
    memory_bytes: Cell<usize>,
}

impl Budget {
    fn add(&self, resource: &Resource) {
        self.open_files.set(self.open_files.get() + resource.open_files());
        self.memory_bytes.set(self.memory_bytes.get() + resource.memory_bytes());
    }

    fn give_back(&self, resource: &Resource) {
        self.open_files.set(self.open_files.get() - resource.open_files());
        self.memory_bytes.set(self.memory_bytes.get() - resource.memory_bytes());
    }

    fn has_room_for(&self, resource: &Resource) -> bool {
        self.open_files.get() + resource.open_files() <= OPEN_FILES
            && self.memory_bytes.get() + resource.memory_bytes() <= MEMORY_BYTES
    }
}

/// The cache of one handler.
pub(crate) struct Cache {
    table: RefCell<Table>,
    budget: Rc<Budget>,
}

/// A resource that one request revalidates. If that request is dropped early, the next one
/// revalidates the resource.
pub(crate) struct Claim<'c> {
    cache: &'c Cache,
    path: &'c str,
    pub(crate) resource: Rc<Resource>,
    since: Moment,
    confirmed: bool,
}

impl Claim<'_> {
    /// Marks the resource as unchanged.
    pub(crate) fn confirm(mut self) -> Rc<Resource> {
        self.confirmed = true;
        self.resource.clone()
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.confirmed {
            self.cache.keep_until(self.path, self.since);
        }
    }
}

#[derive(Default)]
struct Table {
    places: HashMap<Rc<str>, usize, foldhash::fast::RandomState>,
    slots: Vec<CacheEntry>,
    hand: usize,
}

struct CacheEntry {
    path: Rc<str>,
    resource: Rc<Resource>,
    fresh_until: Moment,
    used: Cell<bool>,
}

impl Cache {
    pub(crate) fn new(budget: Rc<Budget>) -> Cache {
        Cache { table: RefCell::default(), budget }
    }

    /// Returns the resource if it may be served without revalidation.
    pub(crate) fn fresh(&self, path: &str, now: Moment) -> Option<Rc<Resource>> {
        let table = self.table.borrow();
        let slot = &table.slots[*table.places.get(path)?];
        slot.used.set(true);
        (now < slot.fresh_until).then(|| slot.resource.clone())
    }

    /// Returns a resource to revalidate, if there is one. Until that is done other requests use it
    /// as it is, so that only one of them revalidates.
    pub(crate) fn claim<'c>(&'c self, path: &'c str, now: Moment) -> Option<Claim<'c>> {
        let resource = self.keep_until(path, now.after(FRESH))?;
        Some(Claim { cache: self, path, resource, since: now, confirmed: false })
    }

    fn keep_until(&self, path: &str, fresh_until: Moment) -> Option<Rc<Resource>> {
        let mut table = self.table.borrow_mut();
        let at = *table.places.get(path)?;
        let slot = &mut table.slots[at];
        slot.fresh_until = fresh_until;
        Some(slot.resource.clone())
    }

    /// Forgets a path.
    pub(crate) fn remove(&self, path: &str) {
        let mut table = self.table.borrow_mut();
        if let Some(at) = table.places.get(path).copied() {
            self.remove_at(&mut table, at);
        }
    }

    /// Stores a resource unless it alone exceeds the budget.
    pub(crate) fn insert(&self, path: &str, resource: Rc<Resource>, now: Moment) {
        self.remove(path);
        let mut table = self.table.borrow_mut();
        while table.slots.len() >= KNOWN_PATHS || !self.budget.has_room_for(&resource) {
            let Some(at) = table.victim() else { return };
            self.remove_at(&mut table, at);
        }
        self.budget.add(&resource);
        let path: Rc<str> = Rc::from(path);
        let at = table.slots.len();
        table.places.insert(path.clone(), at);
        let fresh_until = now.after(FRESH);
        table.slots.push(CacheEntry { path, resource, fresh_until, used: Cell::new(false) });
    }

    fn remove_at(&self, table: &mut Table, at: usize) {
        let slot = table.slots.swap_remove(at);
        self.budget.give_back(&slot.resource);
        table.places.remove(&slot.path);
        if let Some(moved) = table.slots.get(at) {
            let path = moved.path.clone();
            table.places.insert(path, at);
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for slot in &self.table.get_mut().slots {
            self.budget.give_back(&slot.resource);
        }
    }
}

impl Table {
    fn victim(&mut self) -> Option<usize> {
        // Two rounds at most: the first clears every bit.
        for _ in 0..=2 * self.slots.len() {
            self.hand = (self.hand + 1).checked_rem(self.slots.len())?;
            if !self.slots[self.hand].used.replace(false) {
                break;
            }
        }
        Some(self.hand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::tests::memory;

    fn cache() -> (Cache, Rc<Budget>) {
        let budget = Rc::new(Budget::default());
        (Cache::new(budget.clone()), budget)
    }

    #[test]
    fn a_resource_is_fresh_for_a_while_and_claimed_once() {
        let (cache, _) = cache();
        let now = net::clock::now();
        let later = now.after(FRESH);
        cache.insert("/a", Rc::new(memory(b"a")), now);
        assert!(cache.fresh("/a", now).is_some() && cache.fresh("/b", now).is_none());
        assert!(cache.fresh("/a", later).is_none());
        let claim = cache.claim("/a", later).unwrap();
        assert!(cache.fresh("/a", later).is_some(), "other requests use it");
        drop(claim);
        assert!(cache.fresh("/a", later).is_none(), "it was not revalidated");
        cache.claim("/a", later).unwrap().confirm();
        assert!(cache.fresh("/a", later).is_some());
        assert!(cache.claim("/b", later).is_none());
        cache.remove("/a");
        assert!(cache.fresh("/a", now).is_none());
    }

    #[test]
    fn paths_are_bounded_and_used_ones_stay() {
        let (cache, budget) = cache();
        let now = net::clock::now();
        cache.insert("/regular", Rc::new(memory(b"r")), now);
        for stranger in 0..3 * KNOWN_PATHS {
            cache.insert(&format!("/{stranger}"), Rc::new(memory(b"s")), now);
            assert!(cache.fresh("/regular", now).is_some(), "{stranger}");
        }
        assert_eq!(budget.memory_bytes.get(), KNOWN_PATHS);
        let last = format!("/{}", 3 * KNOWN_PATHS - 1);
        assert!(cache.fresh(&last, now).is_some());
    }

    #[test]
    fn handlers_share_one_budget() {
        let (one, budget) = cache();
        let other = Cache::new(budget.clone());
        let now = net::clock::now();
        let half = vec![0; MEMORY_BYTES / 2];
        one.insert("/a", Rc::new(memory(&half)), now);
        one.insert("/b", Rc::new(memory(&half)), now);
        other.insert("/c", Rc::new(memory(b"c")), now);
        assert!(other.fresh("/c", now).is_none(), "there is no room, and nothing of its own");
        drop(one);
        assert_eq!(budget.memory_bytes.get(), 0);
        other.insert("/c", Rc::new(memory(b"c")), now);
        assert!(other.fresh("/c", now).is_some());
    }
}
