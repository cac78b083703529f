//! Compiles rules into a table.
//!
//! Promises: a compiled table has a total order and no rule that can never match, and all errors of
//! the rules are returned together.

use std::collections::HashMap;
use std::sync::Arc;

use plugin::Condition;

use crate::limits::{ENTRIES_MAX, LISTENERS_MAX, METHODS_MAX};
use crate::methods::{Mask, Methods};
use crate::precedence::RulePosition;
use crate::table::{Bucket, Entry, RouteError, RouteId, Router, Rule, Table};
use crate::tree::{EXACT_HOSTS, HOSTS_BELOW, NONE, Tree, TreeBuilder};
use crate::{HostPattern, PathPattern, shadow};

impl Router {
    /// Compiles a table, or returns all errors of the rules together.
    pub fn compile(rules: Vec<Rule>) -> Result<Router, Vec<RouteError>> {
        let mut builder = TableBuilder::default();
        let positions = builder.positions(&rules);
        for rule in 0..rules.len() as u32 {
            builder.rule(rule, &rules);
        }
        if !builder.errors.is_empty() {
            return Err(builder.errors);
        }
        let router = builder.router(rules, positions);
        let dead = shadow::find(&router);
        if dead.is_empty() { Ok(router) } else { Err(dead) }
    }
}

#[derive(Default)]
struct TableBuilder {
    errors: Vec<RouteError>,
    methods: Methods,
    listeners: Vec<Box<str>>,
    conditions: Vec<Condition>,
    /// Methods, listeners and condition of each rule.
    rules: Vec<(Mask, u64, u32)>,
    tree: TreeBuilder,
    buckets: Vec<Bucket>,
    names: Vec<Arc<[Box<str>]>>,
    names_known: HashMap<Vec<String>, u32>,
    patterns: Vec<PathPattern>,
}

/// Fills in [`Bucket::best_wider`] of a host's bucket.
fn set_best_wider(tree: &Tree, buckets: &mut [Bucket], host: &HostPattern) {
    let (node, name) = match host {
        HostPattern::Exact(name) => (EXACT_HOSTS, name),
        HostPattern::Below(name) => (HOSTS_BELOW, name),
    };
    let Some(bucket) = tree.host(node, name.as_bytes()) else { return };
    let wider = name.match_indices('.').filter_map(|(dot, _)| {
        let bucket = tree.host(HOSTS_BELOW, &name.as_bytes()[dot + 1..])?;
        Some(buckets[bucket as usize].best)
    });
    buckets[bucket as usize].best_wider = wider.min().unwrap_or(NONE);
}

impl TableBuilder {
    fn error(&mut self, rule: u32, rules: &[Rule], message: String) {
        let span = rules[rule as usize].span;
        self.errors.push(RouteError { rule: RouteId(rule), span, message, help: None });
    }

    /// The positions of all hosts with all paths, in the order.
    fn positions(&mut self, rules: &[Rule]) -> Vec<RulePosition> {
        let mut positions = Vec::new();
        for (rule, Rule { matches, .. }) in rules.iter().enumerate() {
            for host in 0..matches.host.len().max(1) as u32 {
                for path in 0..matches.path.len().max(1) as u32 {
                    positions.push(RulePosition::new(rule as u32, matches, host, path));
                }
            }
            if positions.len() > ENTRIES_MAX {
                let message = format!("more than {ENTRIES_MAX} pairs of a host and a path");
                self.error(rule as u32, rules, message);
                return Vec::new();
            }
        }
        positions.sort_unstable();
        positions
    }

    fn rule(&mut self, rule: u32, rules: &[Rule]) {
        let written = &rules[rule as usize].matches;
        let methods = self.methods.mask(written.methods.iter().map(|name| &name.0));
        if methods.is_none() {
            let message = format!("routes name more than {METHODS_MAX} methods of their own");
            self.error(rule, rules, message);
        }
        let mut listeners = if written.listener.is_empty() { u64::MAX } else { 0 };
        for name in written.listener.iter() {
            let known = self.listeners.iter().position(|known| **known == *name.value);
            let bit = known.unwrap_or_else(|| {
                self.listeners.push(name.value.as_str().into());
                self.listeners.len() - 1
            });
            if bit >= LISTENERS_MAX {
                let message = format!("routes name more than {LISTENERS_MAX} listeners");
                self.error(rule, rules, message);
                break;
            }
            listeners |= 1 << bit;
        }
        let condition = written.when.as_ref().map_or(NONE, |condition| {
            self.conditions.push(condition.clone());
            self.conditions.len() as u32 - 1
        });
        self.rules.push((methods.unwrap_or_default(), listeners, condition));
    }

    fn router(mut self, rules: Vec<Rule>, positions: Vec<RulePosition>) -> Router {
        let mut any_host = NONE;
        let mut entries = Vec::with_capacity(positions.len());
        let (mut has_exact_hosts, mut has_hosts_below) = (false, false);
        for (rank, position) in (0..).zip(&positions) {
            let written = &rules[position.rule as usize].matches;
            let bucket = match written.host.get(position.host_index as usize) {
                Some(HostPattern::Exact(name)) => {
                    has_exact_hosts = true;
                    self.bucket(EXACT_HOSTS, name)
                }
                Some(HostPattern::Below(name)) => {
                    has_hosts_below = true;
                    self.bucket(HOSTS_BELOW, name)
                }
                None if any_host == NONE => {
                    any_host = self.add_bucket();
                    any_host
                }
                None => any_host,
            };
            let path = written.path.get(position.path_index as usize);
            entries.push(self.entry(position.rule, bucket, path, rank));
        }
        let tree = self.tree.build();
        for position in &positions {
            let written = &rules[position.rule as usize].matches;
            if let Some(host) = written.host.get(position.host_index as usize) {
                set_best_wider(&tree, &mut self.buckets, host);
            }
        }
        let table = Table {
            rules,
            entries,
            positions,
            buckets: self.buckets,
            any_host,
            has_exact_hosts,
            has_hosts_below,
            tree,
            methods: self.methods,
            listeners: self.listeners,
        };
        Router {
            table: Arc::new(table),
            names: self.names,
            patterns: self.patterns,
            conditions: self.conditions,
        }
    }

    fn bucket(&mut self, hosts: u32, name: &str) -> u32 {
        let next = self.buckets.len() as u32;
        let bucket = self.tree.host(hosts, name, next);
        if bucket == next { self.add_bucket() } else { bucket }
    }

    fn add_bucket(&mut self) -> u32 {
        let root = self.tree.add_node();
        self.buckets.push(Bucket {
            root,
            best: NONE,
            best_wider: NONE,
            listeners: 0,
            patterns: HashMap::default(),
            other_patterns: Vec::new(),
        });
        self.buckets.len() as u32 - 1
    }

    fn entry(&mut self, rule: u32, bucket: u32, path: Option<&PathPattern>, rank: u32) -> Entry {
        let (methods, listeners, condition) = self.rules[rule as usize];
        let bucket = &mut self.buckets[bucket as usize];
        bucket.best = bucket.best.min(rank);
        bucket.listeners |= listeners;
        let mut pattern = NONE;
        match path {
            None | Some(PathPattern::Segments(_)) => self.tree.path(bucket.root, path, rank),
            Some(special) => {
                pattern = self.patterns.len() as u32;
                self.patterns.push(special.clone());
                match special.first_segment() {
                    Some(first) => {
                        let first = first.into_bytes().into_boxed_slice();
                        bucket.patterns.entry(first).or_default().push(rank);
                    }
                    None => bucket.other_patterns.push(rank),
                }
            }
        }
        let names = self.names_of(path);
        Entry { methods, listeners, rule, condition, names, pattern }
    }

    fn names_of(&mut self, path: Option<&PathPattern>) -> u32 {
        let names: Vec<String> =
            path.map_or(Vec::new(), |path| path.params().into_iter().map(str::to_owned).collect());
        if names.is_empty() {
            return NONE;
        }
        let next = self.names.len() as u32;
        let known = *self.names_known.entry(names.clone()).or_insert(next);
        if known == next {
            self.names.push(names.into_iter().map(String::into_boxed_str).collect());
        }
        known
    }
}
