//! Routes that can never match, because an earlier one takes every request they could match.
//!
//! Owns the search for them. Promises no false report: a route counts as dead only if each of its
//! hosts and paths is covered by one earlier route that has no conditions of its own (or exactly
//! the same), takes every method and every listener, the same or wider hosts, and the same or wider
//! paths. Coverage by several routes together, or by the meaning of an expression, is not detected.

use crate::precedence::RuleOrder;
use crate::table::{Bucket, RouteError, RouteId, Router};
use crate::tree::{EXACT_HOSTS, HOSTS_BELOW, List, NONE};
use crate::{HostPattern, PathPattern, Segment};

/// An error for every dead rule.
pub(crate) fn find(router: &Router) -> Vec<RouteError> {
    let table = &*router.table;
    // The rule that covers all entries of each rule; `None` once an uncovered entry was found.
    let mut covers = vec![Some((NONE, NONE)); table.rules.len()];
    for (rank, entry) in (0..).zip(&table.entries) {
        let cover = &mut covers[entry.rule as usize];
        if cover.is_some() {
            *cover = coverer(router, rank).map(|by| (rank, by));
        }
    }
    let dead = (0..).zip(covers).filter_map(|(rule, cover)| Some((rule, cover?)));
    dead.filter(|(_, (rank, _))| *rank != NONE)
        .map(|(rule, (rank, by))| error(router, rule, rank, by))
        .collect()
}

fn error(router: &Router, rule: u32, rank: u32, by: u32) -> RouteError {
    let table = &*router.table;
    let other = &table.rules[table.entries[by as usize].rule as usize].name;
    let order = table.positions[by as usize].decided(&table.positions[rank as usize]);
    let help = match order {
        RuleOrder::File => format!("move it before {other:?}, or narrow one of the two"),
        RuleOrder::Priority => format!("lower the priority of {other:?}, or narrow it"),
        _ => "give it a higher `priority`".to_owned(),
    };
    RouteError {
        rule: RouteId(rule),
        span: table.rules[rule as usize].span,
        message: format!(
            "this route can never match: {other:?} takes every such request before it ({order})"
        ),
        help: Some(help),
    }
}

/// The rank of an earlier entry, of another rule, that takes all requests of this one.
fn coverer(router: &Router, rank: u32) -> Option<u32> {
    let search = Search { router, rank };
    let table = &*router.table;
    let tree = &table.tree;
    let mut buckets = Vec::new();
    let mut below = |name: &str| {
        for (dot, _) in name.match_indices('.') {
            buckets.extend(tree.host(HOSTS_BELOW, &name.as_bytes()[dot + 1..]));
        }
    };
    match router.host(rank) {
        Some(HostPattern::Exact(name)) => {
            below(name);
            buckets.extend(tree.host(EXACT_HOSTS, name.as_bytes()));
        }
        Some(HostPattern::Below(name)) => {
            below(name);
            buckets.extend(tree.host(HOSTS_BELOW, name.as_bytes()));
        }
        None => {}
    }
    if table.any_host != NONE {
        buckets.push(table.any_host);
    }
    buckets.into_iter().find_map(|bucket| search.bucket(&table.buckets[bucket as usize]))
}

struct Search<'r> {
    router: &'r Router,
    rank: u32,
}

impl Search<'_> {
    fn bucket(&self, bucket: &Bucket) -> Option<u32> {
        if bucket.best >= self.rank {
            return None;
        }
        let root = self.router.table.tree.node(bucket.root);
        match self.router.path(self.rank) {
            None => self.list(root.rests),
            Some(PathPattern::Segments(segments)) => {
                self.segments(bucket.root, &segments.parts().collect::<Vec<_>>())
            }
            Some(special) => self
                .prefix(bucket.root, &special.literal_prefix())
                .or_else(|| self.same_pattern(bucket, special)),
        }
    }

    /// Wider or equal paths below a node.
    fn segments(&self, id: u32, parts: &[Segment<'_>]) -> Option<u32> {
        let tree = &self.router.table.tree;
        let node = tree.node(id);
        if node.best >= self.rank {
            return None;
        }
        let further = match parts.split_first() {
            None => self.list(node.ends),
            Some((Segment::Rest(_), _)) => None,
            Some((part, others)) => {
                let (same, any) = match part {
                    Segment::Literal(text) => (tree.literal(id, text.as_bytes()), !text.is_empty()),
                    _ => (None, true),
                };
                let any = Some(node.param).filter(|param| any && *param != NONE);
                [same, any].into_iter().flatten().find_map(|child| self.segments(child, others))
            }
        };
        further.or_else(|| self.list(node.rests))
    }

    /// Paths that take everything below the prefix of a pattern: at the root, and after each whole
    /// segment.
    fn prefix(&self, root: u32, prefix: &str) -> Option<u32> {
        let tree = &self.router.table.tree;
        let mut id = root;
        let mut rest = prefix;
        loop {
            if let Some(by) = self.list(tree.node(id).rests) {
                return Some(by);
            }
            let (segment, after) = rest.strip_prefix('/')?.split_once('/')?;
            id = tree.literal(id, segment.as_bytes())?;
            rest = &rest[rest.len() - after.len() - 1..];
        }
    }

    fn same_pattern(&self, bucket: &Bucket, special: &PathPattern) -> Option<u32> {
        let first = special.first_segment();
        let listed = match &first {
            Some(first) => bucket.patterns.get(first.as_bytes()).map_or(&[][..], |list| list),
            None => &bucket.other_patterns,
        };
        let router = self.router;
        listed
            .iter()
            .copied()
            .take_while(|by| *by < self.rank)
            .find(|by| router.path(*by) == Some(special) && self.covers(*by))
    }

    fn list(&self, ranks: List) -> Option<u32> {
        let ranks = self.router.table.tree.ranks(&ranks).iter().copied();
        ranks.take_while(|by| *by < self.rank).find(|by| self.covers(*by))
    }

    /// True if the rest is covered as well, given that host and path are.
    fn covers(&self, by: u32) -> bool {
        let router = self.router;
        let [one, other] = [by, self.rank].map(|rank| &router.table.entries[rank as usize]);
        let condition = |index: u32| router.conditions.get(index as usize);
        one.rule != other.rule
            && one.methods & other.methods == other.methods
            && one.listeners & other.listeners == other.listeners
            && condition(one.condition).is_none_or(|c| Some(c) == condition(other.condition))
    }
}

#[cfg(test)]
mod tests;
