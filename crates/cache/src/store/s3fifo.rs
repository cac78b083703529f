//! Who goes first when memory is short: S3-FIFO (Yang et al., SOSP 2023), by bytes.
//!
//! Three queues. What is new enters the small one, a tenth of the bytes: most of it is never asked
//! for again and leaves soon. What was used more than once there goes to the main one, where each
//! use saves it from one visit. What left the small queue without that is remembered as a ghost,
//! and enters the main queue if it comes back. Promises that a use writes nothing here, and that
//! choosing looks at a bounded number of objects. Knows objects by number only.

use crate::limits::EVICTION_STEPS;
use crate::object::ObjectState;

mod ghost;

use ghost::Ghost;

/// No object.
pub(super) const NONE: u32 = u32::MAX;
/// The small queue gets this part of the bytes.
const SMALL_PART: u64 = 10;
/// As many uses take an object from the small queue to the main one.
const USES_TO_STAY: u8 = 2;
/// What weights are counted in, so that they fit 32 bits.
const UNIT_BYTES: u64 = 16;

/// The queues of one shard.
pub(super) struct S3Fifo {
    nodes: Vec<QueueNode>,
    small: QueueList,
    main: QueueList,
    ghost: Ghost,
}

/// An object's place.
#[derive(Clone, Copy)]
struct QueueNode {
    weight_units: u32,
    /// The one that came before, and the one that came after.
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

/// Who shall go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) at: u32,
    /// It was not used enough to stay, and is to be remembered.
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

    /// Memory of the queues themselves.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<QueueNode>() + self.ghost.bytes()
    }

    /// Takes in object `at`, of `live` there are then.
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

    /// Object `at` was replaced by one of another weight.
    pub(super) fn reweigh(&mut self, at: u32, weight: u64) {
        let node = &mut self.nodes[at as usize];
        let (before, after) = (node.weight_units, units(weight));
        node.weight_units = after;
        let list = self.list(at);
        list.units = list.units - u64::from(before) + u64::from(after);
    }

    /// What object `at` weighs.
    pub(super) fn weight_of(&self, at: u32) -> u64 {
        u64::from(self.nodes[at as usize].weight_units) * UNIT_BYTES
    }

    /// Remembers the one that left unproven.
    pub(super) fn remember(&mut self, hash: u64, weight: u64) {
        self.ghost.put(hash, weight);
    }

    /// Who shall go; `state` is `None` for what is of no use any more. It stays in its queue until
    /// it is removed.
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

    /// Gives all objects new numbers in the order of the queues and forgets the ghosts; the old
    /// numbers, by the new ones.
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
