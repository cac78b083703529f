//! Eviction: S3-FIFO (Yang et al., SOSP 2023), by bytes.
//!
//! There are three queues. New objects enter the small one, a tenth of the bytes: most are never
//! requested again and are evicted soon. Objects used more than once there move to the main queue,
//! where each use saves them from one visit. Keys of objects evicted from the small queue go to the
//! ghost queue; if they come back, they enter the main queue. A use writes nothing here, and an
//! eviction visits a bounded number of objects. Objects are known by number only.

use crate::limits::EVICTION_STEPS;
use crate::object::ObjectState;

mod ghost;

use ghost::Ghost;

/// No object.
pub(super) const NONE: u32 = u32::MAX;
/// The small queue gets this fraction of the bytes.
const SMALL_PART: u64 = 10;
/// Uses that move an object from the small queue to the main one.
const USES_TO_STAY: u8 = 2;
/// The unit of weights, so that they fit in 32 bits.
const UNIT_BYTES: u64 = 16;

/// The queues of one shard.
pub(super) struct S3Fifo {
    nodes: Vec<QueueNode>,
    small: QueueList,
    main: QueueList,
    ghost: Ghost,
}

/// The node of an object in a queue.
#[derive(Clone, Copy)]
struct QueueNode {
    weight_units: u32,
    /// The neighbours in the queue.
    older: u32,
    newer: u32,
    queue: Queue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    None,
    Small,
    Main,
}

#[derive(Clone, Copy)]
struct QueueList {
    oldest: u32,
    newest: u32,
    units: u64,
}

/// The object to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) at: u32,
    /// Whether its key goes to the ghost queue.
    pub(super) unproven: bool,
}

impl S3Fifo {
    pub(super) fn new() -> S3Fifo {
        let list = QueueList { oldest: NONE, newest: NONE, units: 0 };
        S3Fifo { nodes: Vec::new(), small: list, main: list, ghost: Ghost::default() }
    }

    /// The weight of all objects.
    pub(super) fn weight(&self) -> u64 {
        (self.small.units + self.main.units) * UNIT_BYTES
    }

    /// Memory of the queues.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<QueueNode>() + self.ghost.bytes()
    }

    /// Adds object `at`, one of `live`.
    pub(super) fn insert(&mut self, at: u32, hash: u64, weight: u64, live: u32) {
        let back = self.ghost.take(hash, self.main.units * UNIT_BYTES);
        self.ghost.fit(live as usize);
        let index = at as usize;
        if index >= self.nodes.len() {
            let blank = QueueNode { weight_units: 0, older: NONE, newer: NONE, queue: Queue::None };
            super::memory::reserve_some(&mut self.nodes);
            self.nodes.resize(index + 1, blank);
        }
        self.nodes[index].weight_units = units(weight);
        self.push(at, if back { Queue::Main } else { Queue::Small });
    }

    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.nodes[at as usize].queue = Queue::None;
    }

    /// Changes the weight of object `at`.
    pub(super) fn reweigh(&mut self, at: u32, weight: u64) {
        let node = &mut self.nodes[at as usize];
        let (before, after) = (node.weight_units, units(weight));
        node.weight_units = after;
        let list = self.list(at);
        list.units = list.units - u64::from(before) + u64::from(after);
    }

    /// The weight of object `at`.
    pub(super) fn weight_of(&self, at: u32) -> u64 {
        u64::from(self.nodes[at as usize].weight_units) * UNIT_BYTES
    }

    /// Adds a key to the ghost queue.
    pub(super) fn remember(&mut self, hash: u64, weight: u64) {
        self.ghost.put(hash, weight);
    }

    /// Chooses the object to evict; `state` is `None` for an expired one. It stays in its queue
    /// until it is removed.
    pub(super) fn victim<'a>(
        &mut self,
        state: impl Fn(u32) -> Option<&'a ObjectState>,
    ) -> Option<Victim> {
        for step in 1.. {
            let small = self.small.oldest != NONE
                && (self.main.oldest == NONE
                    || self.small.units * SMALL_PART >= self.small.units + self.main.units);
            let at = if small { self.small.oldest } else { self.main.oldest };
            if at == NONE {
                return None;
            }
            let Some(state) = state(at) else { return Some(Victim { at, unproven: false }) };
            let uses = state.uses();
            if step >= EVICTION_STEPS || uses == 0 || (small && uses < USES_TO_STAY) {
                return Some(Victim { at, unproven: small });
            }
            state.set_uses(if small { 0 } else { uses - 1 });
            self.unlink(at);
            self.push(at, Queue::Main);
        }
        None
    }

    /// Renumbers all objects in the order of the queues and clears the ghost queue; returns the old
    /// numbers by the new ones.
    pub(super) fn renumber(&mut self) -> Vec<u32> {
        let mut order = Vec::new();
        let mut new = S3Fifo::new();
        for (mut at, queue) in [(self.small.oldest, Queue::Small), (self.main.oldest, Queue::Main)]
        {
            while at != NONE {
                let node = self.nodes[at as usize];
                new.nodes.push(QueueNode { queue: Queue::None, ..node });
                new.push(order.len() as u32, queue);
                order.push(at);
                at = node.newer;
            }
        }
        new.nodes.shrink_to_fit();
        *self = new;
        order
    }

    fn list(&mut self, at: u32) -> &mut QueueList {
        match self.nodes[at as usize].queue {
            Queue::Main => &mut self.main,
            _ => &mut self.small,
        }
    }

    fn push(&mut self, at: u32, queue: Queue) {
        self.nodes[at as usize].queue = queue;
        let units = u64::from(self.nodes[at as usize].weight_units);
        let list = self.list(at);
        list.units += units;
        let older = std::mem::replace(&mut list.newest, at);
        if older == NONE {
            list.oldest = at;
        } else {
            self.nodes[older as usize].newer = at;
        }
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer) = (older, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let QueueNode { weight_units, older, newer, .. } = self.nodes[at as usize];
        let list = self.list(at);
        list.units -= u64::from(weight_units);
        if older == NONE {
            list.oldest = newer;
        }
        if newer == NONE {
            list.newest = older;
        }
        if older != NONE {
            self.nodes[older as usize].newer = newer;
        }
        if newer != NONE {
            self.nodes[newer as usize].older = older;
        }
    }
}

fn units(weight: u64) -> u32 {
    u32::try_from(weight.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
