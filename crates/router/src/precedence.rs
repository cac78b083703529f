//! The total order of routes.
//!
//! Owns it: priority; then the host (exact, the longest `*.`, any); then the path, segment by
//! segment (literal, `{param}`, `{*rest}`), Ant patterns and expressions after those; then the
//! number of conditions; then the order of the file. The rest of this crate makes it fast or
//! explains it.

use std::cmp::Reverse;
use std::fmt;

use crate::{HostPattern, Match, PathPattern, Segment};

/// The rule of the order that decided between two routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOrder {
    Priority,
    Host,
    /// The kind of this segment, counted from 1.
    Segment(usize),
    /// One of them is an Ant pattern or an expression.
    Pattern,
    Conditions,
    File,
}

/// The position of one host and one path of a route in the order; the least comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RulePosition {
    priority: Reverse<i64>,
    host: (HostKind, Reverse<usize>),
    path: Vec<PathKind>,
    conditions: Reverse<usize>,
    /// The rule, and its host and path: no two positions are equal.
    pub(crate) rule: u32,
    pub(crate) host_index: u32,
    pub(crate) path_index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostKind {
    Exact,
    Below,
    Any,
}

/// A path that ends comes before one that continues: `/a` before `/a/{*rest}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Literal,
    Param,
    Rest,
    Pattern,
}

impl RulePosition {
    /// The position of a rule's host and path; without them it is any host, any path.
    pub(crate) fn new(
        rule: u32,
        written: &Match,
        host_index: u32,
        path_index: u32,
    ) -> RulePosition {
        let host = match written.host.get(host_index as usize) {
            Some(HostPattern::Exact(_)) => (HostKind::Exact, Reverse(0)),
            Some(HostPattern::Below(name)) => (HostKind::Below, Reverse(name.len())),
            None => (HostKind::Any, Reverse(0)),
        };
        let path = match written.path.get(path_index as usize) {
            Some(PathPattern::Segments(segments)) => segments.parts().map(kind).collect(),
            Some(PathPattern::PathGlob(_) | PathPattern::Regex(_)) => vec![PathKind::Pattern],
            None => vec![PathKind::Rest],
        };
        RulePosition {
            priority: Reverse(written.priority),
            host,
            path,
            conditions: Reverse(written.conditions()),
            rule,
            host_index,
            path_index,
        }
    }

    /// The rule that puts this position before a later one.
    pub(crate) fn decided(&self, later: &RulePosition) -> RuleOrder {
        if self.priority != later.priority {
            return RuleOrder::Priority;
        }
        if self.host != later.host {
            return RuleOrder::Host;
        }
        let same = self.path.iter().zip(&later.path).take_while(|(a, b)| a == b).count();
        if self.path != later.path {
            let patterns = [self, later].map(|place| place.path.contains(&PathKind::Pattern));
            return if patterns.contains(&true) {
                RuleOrder::Pattern
            } else {
                RuleOrder::Segment(same + 1)
            };
        }
        if self.conditions != later.conditions { RuleOrder::Conditions } else { RuleOrder::File }
    }
}

fn kind(segment: Segment<'_>) -> PathKind {
    match segment {
        Segment::Literal(_) => PathKind::Literal,
        Segment::Param(_) => PathKind::Param,
        Segment::Rest(_) => PathKind::Rest,
    }
}

impl RuleOrder {
    /// The rule as an identifier.
    pub fn slug(self) -> &'static str {
        match self {
            RuleOrder::Priority => "priority",
            RuleOrder::Host => "host",
            RuleOrder::Segment(_) => "path",
            RuleOrder::Pattern => "pattern",
            RuleOrder::Conditions => "conditions",
            RuleOrder::File => "file",
        }
    }
}

impl fmt::Display for RuleOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleOrder::Priority => f.write_str("the higher priority comes first"),
            RuleOrder::Host => f.write_str("the more exact host comes first"),
            RuleOrder::Segment(at) => {
                write!(f, "segment {at}: literal comes before {{param}} before {{*rest}}")
            }
            RuleOrder::Pattern => f.write_str("Ant patterns and regular expressions come last"),
            RuleOrder::Conditions => f.write_str("more conditions come first"),
            RuleOrder::File => f.write_str("the one written first comes first"),
        }
    }
}
