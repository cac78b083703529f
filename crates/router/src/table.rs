//! The compiled form of rules.
//!
//! Owns entries (one host and one path of one rule) sorted by the order, so that an entry's index
//! is its rank and the least matching rank wins; a bucket per host; the shared tree. Immutable once
//! `compile` has built it.

use std::collections::HashMap;
use std::sync::Arc;

use plugin::Condition;
use settings::Span;

use crate::methods::{Mask, Methods};
use crate::precedence::RulePosition;
use crate::tree::Tree;
use crate::{HostPattern, Match, PathPattern};

/// The rule of one route.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: String,
    /// Where it is in the configuration.
    pub span: Span,
    pub matches: Match,
}

/// A route: the index of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(pub u32);

impl RouteId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why rules cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    pub rule: RouteId,
    pub span: Span,
    pub message: String,
    pub help: Option<String>,
}

/// The compiled table. The large parts are shared by all clones; a clone has its own copy of what
/// is counted or pooled inside (names of parameters, regular expressions), so each worker uses one
/// and shares no cache line that is written to.
pub struct Router {
    pub(crate) table: Arc<Table>,
    pub(crate) names: Vec<Arc<[Box<str>]>>,
    /// Ant patterns and expressions.
    pub(crate) patterns: Vec<PathPattern>,
    pub(crate) conditions: Vec<Condition>,
}

pub(crate) struct Table {
    pub(crate) rules: Vec<Rule>,
    /// By rank.
    pub(crate) entries: Vec<Entry>,
    /// By rank.
    pub(crate) positions: Vec<RulePosition>,
    pub(crate) buckets: Vec<Bucket>,
    /// The bucket of every host, or [`NONE`](crate::tree::NONE).
    pub(crate) any_host: u32,
    pub(crate) has_exact_hosts: bool,
    pub(crate) has_hosts_below: bool,
    pub(crate) tree: Tree,
    pub(crate) methods: Methods,
    pub(crate) listeners: Vec<Box<str>>,
}

/// The conditions of an entry besides host and path. `NONE` if there is no such condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) methods: Mask,
    pub(crate) listeners: u64,
    pub(crate) rule: u32,
    pub(crate) condition: u32,
    pub(crate) names: u32,
    pub(crate) pattern: u32,
}

/// The routes of one host pattern.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) root: u32,
    /// The best rank in the bucket.
    pub(crate) best: u32,
    /// The best rank in the buckets of wider `*.` hosts: a lower rank makes their lookup
    /// unnecessary.
    pub(crate) best_wider: u32,
    /// The listeners of its routes, as bits.
    pub(crate) listeners: u64,
    /// Ranks of Ant patterns and expressions by their first segment, and of those without one.
    pub(crate) patterns: HashMap<Box<[u8]>, Vec<u32>, foldhash::fast::FixedState>,
    pub(crate) other_patterns: Vec<u32>,
}

impl Clone for Router {
    fn clone(&self) -> Self {
        Router {
            table: self.table.clone(),
            names: self.names.iter().map(|names| names.to_vec().into()).collect(),
            patterns: self.patterns.clone(),
            conditions: self.conditions.clone(),
        }
    }
}

impl Router {
    /// The rules, in the order they were given; [`RouteId`] counts them.
    pub fn rules(&self) -> &[Rule] {
        &self.table.rules
    }

    pub(crate) fn host(&self, rank: u32) -> Option<&HostPattern> {
        let position = &self.table.positions[rank as usize];
        self.table.rules[position.rule as usize].matches.host.get(position.host_index as usize)
    }

    pub(crate) fn path(&self, rank: u32) -> Option<&PathPattern> {
        let position = &self.table.positions[rank as usize];
        self.table.rules[position.rule as usize].matches.path.get(position.path_index as usize)
    }
}
