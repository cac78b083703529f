//! The tree of segments that all hosts share.
//!
//! Owns its nodes: what ends at one, what takes the rest there, and the best rank below it, which lets
//! a lookup skip every branch that can only lose. Knows ranks, not routes.

use std::collections::HashMap;

use crate::edges::Edges;
use crate::{PathPattern, Segment};

/// No node, no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes whose edges are hosts instead of segments: exact ones, and what stands behind a `*.`.
pub(crate) const EXACT_HOSTS: u32 = u32::MAX;
pub(crate) const HOSTS_BELOW: u32 = u32::MAX - 1;

/// The tree, in flat arrays.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    lists: Vec<u32>,
    pub(crate) edges: Edges,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The best rank at or below this node.
    pub(crate) best: u32,
    /// Where any segment leads, or [`NONE`].
    pub(crate) param: u32,
    /// Are there edges with a text?
    pub(crate) has_literals: bool,
    /// Ranks of the paths that end here.
    pub(crate) ends: List,
    /// Ranks of the paths whose `{*rest}` begins here.
    pub(crate) rests: List,
}

/// Ranks, the best first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    at: u32,
    length: u32,
}

impl List {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }
}

impl Tree {
    #[inline]
    pub(crate) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(crate) fn ranks(&self, list: List) -> &[u32] {
        &self.lists[list.at as usize..][..list.length as usize]
    }
}

/// A tree while it is built. Ranks have to come in their order.
#[derive(Default)]
pub(crate) struct Growing {
    nodes: Vec<Young>,
    edges: HashMap<(u32, Box<[u8]>), u32>,
}

struct Young {
    best: u32,
    param: u32,
    has_literals: bool,
    ends: Vec<u32>,
    rests: Vec<u32>,
}

impl Growing {
    pub(crate) fn add_node(&mut self) -> u32 {
        let young = Young {
            best: NONE,
            param: NONE,
            has_literals: false,
            ends: Vec::new(),
            rests: Vec::new(),
        };
        self.nodes.push(young);
        self.nodes.len() as u32 - 1
    }

    /// Adds what leads from one of the host nodes to `to`, unless there is something already.
    pub(crate) fn host(&mut self, node: u32, host: &str, to: u32) -> u32 {
        *self.edges.entry((node, host.as_bytes().into())).or_insert(to)
    }

    /// Adds a path below a root; `None` is any path. Ant patterns and expressions do not belong here.
    pub(crate) fn path(&mut self, root: u32, pattern: Option<&PathPattern>, rank: u32) {
        let parts = match pattern {
            Some(PathPattern::Segments(segments)) => segments.parts(),
            _ => &[],
        };
        let mut id = root;
        self.passes(id, rank);
        for part in parts {
            id = match part {
                Segment::Literal(text) => self.literal(id, text),
                Segment::Param(_) => self.param(id),
                Segment::Rest(_) => {
                    self.nodes[id as usize].rests.push(rank);
                    return;
                }
            };
            self.passes(id, rank);
        }
        let node = &mut self.nodes[id as usize];
        // Any path is the rest at the root.
        if id == root { node.rests.push(rank) } else { node.ends.push(rank) }
    }

    fn passes(&mut self, id: u32, rank: u32) {
        let best = &mut self.nodes[id as usize].best;
        *best = rank.min(*best);
    }

    fn literal(&mut self, id: u32, text: &str) -> u32 {
        let key = (id, text.as_bytes().into());
        if let Some(child) = self.edges.get(&key) {
            return *child;
        }
        let child = self.add_node();
        self.nodes[id as usize].has_literals = true;
        self.edges.insert(key, child);
        child
    }

    fn param(&mut self, id: u32) -> u32 {
        if self.nodes[id as usize].param == NONE {
            let child = self.add_node();
            self.nodes[id as usize].param = child;
        }
        self.nodes[id as usize].param
    }

    pub(crate) fn grown(self) -> Tree {
        let mut lists = Vec::new();
        let mut list = |ranks: Vec<u32>| {
            let at = lists.len() as u32;
            lists.extend_from_slice(&ranks);
            List { at, length: ranks.len() as u32 }
        };
        let nodes = self.nodes.into_iter().map(|young| Node {
            best: young.best,
            param: young.param,
            has_literals: young.has_literals,
            ends: list(young.ends),
            rests: list(young.rests),
        });
        let nodes = nodes.collect();
        Tree { nodes, lists, edges: Edges::new(&self.edges) }
    }
}
