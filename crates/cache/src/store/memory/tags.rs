//! The index of tags.
//!
//! Each tag has one list, so that adding or removing a common tag costs no more than a rare one.

use hashbrown::HashTable;

use crate::store::s3fifo::NONE;

/// The tags of one shard's objects.
pub(super) struct Tags {
    lists: HashTable<TagList>,
    nodes: Vec<TagNode>,
    /// The first unused node; unused nodes are chained by `next`.
    free: u32,
}

struct TagList {
    tag: u64,
    first: u32,
}

struct TagNode {
    object: u32,
    /// The neighbours in the list of the tag.
    previous: u32,
    next: u32,
    /// The node of the object's next tag.
    sibling: u32,
}

impl Tags {
    pub(super) fn new() -> Tags {
        Tags { lists: HashTable::new(), nodes: Vec::new(), free: NONE }
    }

    /// Memory of the lists.
    pub(super) fn bytes(&self) -> usize {
        self.lists.allocation_size() + self.nodes.capacity() * size_of::<TagNode>()
    }

    /// Adds the tags of an object; returns the node to remove them by.
    pub(super) fn add(&mut self, object: u32, tags: &[u64]) -> u32 {
        let mut sibling = NONE;
        // Backwards, so that the chain has the order of the tags.
        for &tag in tags.iter().rev() {
            let at = self.node();
            let next = match self.lists.find_mut(tag, |list| list.tag == tag) {
                Some(list) => std::mem::replace(&mut list.first, at),
                None => {
                    self.lists.insert_unique(tag, TagList { tag, first: at }, |list| list.tag);
                    NONE
                }
            };
            if next != NONE {
                self.nodes[next as usize].previous = at;
            }
            self.nodes[at as usize] = TagNode { object, previous: NONE, next, sibling };
            sibling = at;
        }
        sibling
    }

    /// Removes the tags that [`Tags::add`] returned `first` for.
    pub(super) fn remove(&mut self, mut first: u32, tags: &[u64]) {
        for &tag in tags {
            if first == NONE {
                return;
            }
            let TagNode { previous, next, sibling, .. } = self.nodes[first as usize];
            if next != NONE {
                self.nodes[next as usize].previous = previous;
            }
            if previous != NONE {
                self.nodes[previous as usize].next = next;
            } else if let Ok(mut list) = self.lists.find_entry(tag, |list| list.tag == tag) {
                match next {
                    NONE => drop(list.remove()),
                    next => list.get_mut().first = next,
                }
            }
            self.nodes[first as usize].next = self.free;
            self.free = first;
            first = sibling;
        }
    }

    /// The objects that have a tag.
    pub(super) fn of(&self, tag: u64) -> impl Iterator<Item = u32> {
        let mut at = self.lists.find(tag, |list| list.tag == tag).map_or(NONE, |list| list.first);
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.next;
            Some(node.object)
        })
    }

    fn node(&mut self) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            return at;
        }
        super::reserve_some(&mut self.nodes);
        self.nodes.push(TagNode { object: NONE, previous: NONE, next: NONE, sibling: NONE });
        (self.nodes.len() - 1) as u32
    }
}
