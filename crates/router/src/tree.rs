//! The tree of segments that all hosts share.
//!
//! Owns its nodes: the paths that end at one, the paths with a rest there, and the best rank below
//! it, which lets a lookup skip every branch that can only lose. Knows ranks, not routes. Sized for
//! the cache: a lookup touches one line per node and one per text.

use std::collections::HashMap;

use crate::edges::Edges;
use crate::{PathPattern, Segment};

/// No node, no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes whose edges are hosts instead of segments: exact ones, and those after a `*.`.
pub(crate) const EXACT_HOSTS: u32 = u32::MAX;
pub(crate) const HOSTS_BELOW: u32 = u32::MAX - 1;

/// The tree, in flat arrays.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Lists of more than one rank: the length, then the ranks.
    lists: Vec<u32>,
    /// The texts of only children.
    text: Vec<u8>,
    edges: Edges,
}

/// 32 bytes: two to a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The best rank at or below this node.
    pub(crate) best: u32,
    /// The target of any segment, or [`NONE`].
    pub(crate) param: u32,
    /// Ranks of the paths that end here.
    pub(crate) ends: List,
    /// Ranks of the paths whose `{*rest}` begins here.
    pub(crate) rests: List,
    /// The target of a literal: [`NONE`], [`MANY`] (the edges know), else an only child, whose text
    /// is compared without hashing.
    literal: u32,
    text_at: u32,
    text_length: u32,
}

const MANY: u32 = NONE - 1;

/// Ranks, the best first: none ([`NONE`]), one (itself), or the start of a list ([`LISTED`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct List(u32);

const LISTED: u32 = 1 << 31;

impl List {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == NONE
    }
}

impl Tree {
    #[inline]
    pub(crate) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(crate) fn ranks<'a>(&'a self, list: &'a List) -> &'a [u32] {
        match list.0 {
            NONE => &[],
            at if at & LISTED == 0 => std::slice::from_ref(&list.0),
            at => {
                let at = (at & !LISTED) as usize;
                &self.lists[at + 1..][..self.lists[at] as usize]
            }
        }
    }

    /// The target of a literal at a node.
    #[inline]
    pub(crate) fn literal(&self, id: u32, segment: &[u8]) -> Option<u32> {
        let node = self.node(id);
        match node.literal {
            NONE => None,
            MANY => self.edges.get(id, segment),
            child => {
                let text = &self.text[node.text_at as usize..][..node.text_length as usize];
                // An empty text is not compared: its address may be dangling, and even a read of no
                // bytes from it costs a processor with AVX-512 some hundred cycles.
                let is_same = text.len() == segment.len() && (text.is_empty() || text == segment);
                is_same.then_some(child)
            }
        }
    }

    /// The target of a host at one of the host nodes.
    #[inline]
    pub(crate) fn host(&self, node: u32, host: &[u8]) -> Option<u32> {
        self.edges.get(node, host)
    }
}

/// Builds a tree. Ranks have to be added in their order.
#[derive(Default)]
pub(crate) struct TreeBuilder {
    nodes: Vec<NodeBuilder>,
    edges: HashMap<(u32, Box<[u8]>), u32>,
}

struct NodeBuilder {
    best: u32,
    param: u32,
    ends: Vec<u32>,
    rests: Vec<u32>,
}

impl TreeBuilder {
    pub(crate) fn add_node(&mut self) -> u32 {
        let node = NodeBuilder { best: NONE, param: NONE, ends: Vec::new(), rests: Vec::new() };
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Adds an edge from one of the host nodes to `to`, unless there is one.
    pub(crate) fn host(&mut self, node: u32, host: &str, to: u32) -> u32 {
        *self.edges.entry((node, host.as_bytes().into())).or_insert(to)
    }

    /// Adds a path below a root; `None` is any path. Ant patterns and expressions do not belong
    /// here.
    pub(crate) fn path(&mut self, root: u32, pattern: Option<&PathPattern>, rank: u32) {
        let parts = match pattern {
            Some(PathPattern::Segments(segments)) => Some(segments.parts()),
            _ => None,
        };
        let mut id = root;
        self.passes(id, rank);
        for part in parts.into_iter().flatten() {
            id = match part {
                Segment::Literal(text) => self.literal(id, &text),
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

    pub(crate) fn build(self) -> Tree {
        // In the order of the nodes, so that equal rules give equal tables.
        let mut edges: Vec<_> =
            self.edges.iter().map(|((from, text), to)| (*from, &**text, *to)).collect();
        edges.sort_unstable();
        let mut lists = Vec::new();
        let mut nodes: Vec<Node> = self.nodes.iter().map(|node| node.build(&mut lists)).collect();
        let (mut only, mut many, mut text) = (Vec::new(), Vec::new(), Vec::new());
        for siblings in edges.chunk_by(|one, other| one.0 == other.0) {
            match siblings {
                [edge] if edge.0 < HOSTS_BELOW => only.push(*edge),
                siblings => many.extend_from_slice(siblings),
            }
        }
        for (from, segment, to) in only {
            let node = &mut nodes[from as usize];
            node.literal = to;
            (node.text_at, node.text_length) = (text.len() as u32, segment.len() as u32);
            text.extend_from_slice(segment);
        }
        for (from, ..) in many.iter().filter(|(from, ..)| *from < HOSTS_BELOW) {
            nodes[*from as usize].literal = MANY;
        }
        Tree { nodes, lists, text, edges: Edges::new(many.into_iter()) }
    }
}

impl NodeBuilder {
    fn build(&self, lists: &mut Vec<u32>) -> Node {
        let mut list = |ranks: &[u32]| match ranks {
            [] => List(NONE),
            [rank] => List(*rank),
            ranks => {
                let at = lists.len() as u32;
                lists.push(ranks.len() as u32);
                lists.extend_from_slice(ranks);
                List(at | LISTED)
            }
        };
        let (ends, rests) = (list(&self.ends), list(&self.rests));
        Node {
            best: self.best,
            param: self.param,
            ends,
            rests,
            literal: NONE,
            text_at: 0,
            text_length: 0,
        }
    }
}
