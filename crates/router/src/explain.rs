//! Explains why a request gets its route, and why not the others.
//!
//! Owns the explanation: data for the admin API, text for the command line. Promises that the
//! chosen route is the result of [`Router::find`]; the reasons come from `compare`, which shares no
//! code with it. Lists at most [`CANDIDATES_SHOWN`] others, the closest ones, in the order in which
//! they are tried.
//! are tried.

use std::fmt;

use crate::PathDiffers;
use crate::compare::compare;
use crate::find::{Input, RouteLookup};
use crate::host;
use crate::limits::{CANDIDATES_SHOWN, HOST_BYTES, LISTENERS_MAX};
use crate::precedence::RuleOrder;
use crate::table::{RouteId, Router};

/// The explanation of one lookup.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub method: String,
    pub host: String,
    pub path: String,
    pub listener: String,
    pub verdict: RuleVerdict,
    /// Other routes, in the order in which they are tried.
    pub others: Vec<Candidate>,
    /// Number of other routes that are not listed.
    pub left_out: usize,
}

/// The result of routing.
#[derive(Clone, Debug)]
pub enum RuleVerdict {
    Route(Chosen),
    /// 405, with the value of Allow.
    MethodNotAllowed(String),
    /// 404.
    NotFound,
}

/// The chosen route.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub route: RouteId,
    pub name: String,
    /// Which of its hosts and paths matched.
    pub matched: String,
    pub params: Vec<(String, String)>,
    /// The conditions that held.
    pub when: Option<String>,
}

/// A route that was not chosen.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub route: RouteId,
    pub name: String,
    /// Which of its hosts and paths came closest.
    pub matched: String,
    pub why: MismatchReason,
}

/// Why a route was not chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum MismatchReason {
    /// It is limited to these listeners.
    Listener(String),
    /// It is limited to this host.
    Host(String),
    Path(PathDiffers),
    /// It is limited to these methods.
    Method(String),
    /// This condition fails.
    Condition(String),
    /// It matches too, but comes later, by this rule of the order.
    Later(RuleOrder),
}

impl MismatchReason {
    /// The reason as an identifier.
    pub fn slug(&self) -> &'static str {
        match self {
            MismatchReason::Listener(_) => "listener",
            MismatchReason::Host(_) => "host",
            MismatchReason::Path(_) => "path",
            MismatchReason::Method(_) => "method",
            MismatchReason::Condition(_) => "condition",
            MismatchReason::Later(_) => "later",
        }
    }

    /// How close the route came: the number of the first criterion that fails.
    fn criteria_met(&self) -> (u8, usize) {
        match self {
            MismatchReason::Listener(_) => (0, 0),
            MismatchReason::Host(_) => (1, 0),
            MismatchReason::Path(differs) => (2, differs.segment),
            MismatchReason::Method(_) => (3, 0),
            MismatchReason::Condition(_) => (4, 0),
            MismatchReason::Later(_) => (5, 0),
        }
    }
}

impl Router {
    /// Explains a lookup. Takes time proportional to the number of routes: not for every request.
    pub fn explain(&self, input: &Input<'_>) -> Explanation {
        let mut buffer = [0; HOST_BYTES];
        let host = host::normal(input.host(), &mut buffer).unwrap_or(input.host());
        let found = self.find(input);
        let chosen = match &found {
            RouteLookup::Route(route, _) => self.chosen_rank(input, host, *route),
            _ => None,
        };
        let (others, left_out) = self.others(input, host, chosen);
        let verdict = match found {
            RouteLookup::Route(route, params) => {
                let rank = chosen.unwrap_or_default();
                let value =
                    |name: &str| params.get(input.path(), name).unwrap_or_default().to_owned();
                let when = self.table.rules[route.index()].matches.when.as_ref();
                RuleVerdict::Route(Chosen {
                    route,
                    name: self.table.rules[route.index()].name.clone(),
                    matched: self.matched(rank),
                    params: params.names().map(|name| (name.to_owned(), value(name))).collect(),
                    when: when.map(ToString::to_string),
                })
            }
            RouteLookup::MethodNotAllowed(allow) => RuleVerdict::MethodNotAllowed(allow),
            RouteLookup::NotFound => RuleVerdict::NotFound,
        };
        Explanation {
            method: input.method().as_str().to_owned(),
            host: String::from_utf8_lossy(host).into_owned(),
            path: input.path().to_owned(),
            listener: input.listener().to_owned(),
            verdict,
            others,
            left_out,
        }
    }

    /// The host and path of the chosen route that matched: the first one.
    fn chosen_rank(&self, input: &Input<'_>, host: &[u8], route: RouteId) -> Option<u32> {
        let mut ranks = (0..).zip(&self.table.entries);
        ranks.find_map(|(rank, entry)| {
            (entry.rule == route.0 && self.why_not(rank, input, host).is_none()).then_some(rank)
        })
    }

    fn others(
        &self,
        input: &Input<'_>,
        host: &[u8],
        chosen: Option<u32>,
    ) -> (Vec<Candidate>, usize) {
        let rule_of = |rank: u32| self.table.entries[rank as usize].rule;
        let mut closest: Vec<Option<(u32, MismatchReason)>> = vec![None; self.table.rules.len()];
        for rank in 0..self.table.entries.len() as u32 {
            if chosen.is_some_and(|chosen| rule_of(chosen) == rule_of(rank)) {
                continue;
            }
            // Another route that matches comes after the chosen one.
            let later = |by: u32| {
                let positions = &self.table.positions;
                MismatchReason::Later(positions[by as usize].decided(&positions[rank as usize]))
            };
            let why = self.why_not(rank, input, host).or_else(|| chosen.map(later));
            let Some(why) = why else { continue };
            let place = &mut closest[rule_of(rank) as usize];
            if place.as_ref().is_none_or(|(_, other)| other.criteria_met() < why.criteria_met()) {
                *place = Some((rank, why));
            }
        }
        let mut closest: Vec<(u32, MismatchReason)> = closest.into_iter().flatten().collect();
        closest.sort_by_key(|(rank, why)| (std::cmp::Reverse(why.criteria_met()), *rank));
        let left_out = closest.len().saturating_sub(CANDIDATES_SHOWN);
        closest.truncate(CANDIDATES_SHOWN);
        closest.sort_by_key(|(rank, _)| *rank);
        let candidate = |(rank, why)| {
            let rule = rule_of(rank);
            let name = self.table.rules[rule as usize].name.clone();
            Candidate { route: RouteId(rule), name, matched: self.matched(rank), why }
        };
        (closest.into_iter().map(candidate).collect(), left_out)
    }

    /// Why this host and path of a rule do not match.
    fn why_not(&self, rank: u32, input: &Input<'_>, host: &[u8]) -> Option<MismatchReason> {
        let table = &*self.table;
        let entry = &table.entries[rank as usize];
        let written = &table.rules[entry.rule as usize].matches;
        let mut listeners = table.listeners.iter();
        let listener = listeners.position(|name| **name == *input.listener());
        if entry.listeners & (1 << listener.unwrap_or(LISTENERS_MAX)) == 0 {
            let names: Vec<_> = written.listener.iter().map(|name| name.value.as_str()).collect();
            return Some(MismatchReason::Listener(names.join(", ")));
        }
        if let Some(pattern) = self.host(rank)
            && !pattern.matches(host)
        {
            return Some(MismatchReason::Host(pattern.to_string()));
        }
        let differs = match self.path(rank) {
            Some(pattern) => compare(pattern, input.path()).err(),
            None if input.path().starts_with('/') => None,
            None => Some(PathDiffers { segment: 1, wanted: Some("/".to_owned()), found: None }),
        };
        if let Some(differs) = differs {
            return Some(MismatchReason::Path(differs));
        }
        if entry.methods & table.methods.bit(input.method()) == 0 {
            return Some(MismatchReason::Method(table.methods.list(entry.methods)));
        }
        let condition = self.conditions.get(entry.condition as usize)?;
        condition.why_not(input.request, input.unix_secs).map(MismatchReason::Condition)
    }

    fn matched(&self, rank: u32) -> String {
        let host = self.host(rank).map_or("any host".to_owned(), ToString::to_string);
        let path = self.path(rank).map_or("any path".to_owned(), ToString::to_string);
        format!("{host} {path}")
    }
}

impl fmt::Display for MismatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MismatchReason::Listener(names) => write!(f, "only on listener {names}"),
            MismatchReason::Host(host) => write!(f, "the host is not {host}"),
            MismatchReason::Path(differs) => write!(f, "{differs}"),
            MismatchReason::Method(methods) => write!(f, "only for {methods}"),
            MismatchReason::Condition(failing) => write!(f, "its condition fails: {failing}"),
            MismatchReason::Later(order) => write!(f, "fits too, but {order}"),
        }
    }
}

/// Several lines, the last without a line end.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { method, host, path, listener, .. } = self;
        writeln!(f, "{method} {host}{path} on listener {listener}")?;
        match &self.verdict {
            RuleVerdict::Route(chosen) => {
                write!(f, "route {} ({})", chosen.name, chosen.matched)?;
                for (name, value) in &chosen.params {
                    write!(f, "\n  path.{name} = {value:?}")?;
                }
                if let Some(when) = &chosen.when {
                    write!(f, "\n  when {when}")?;
                }
            }
            RuleVerdict::MethodNotAllowed(allow) => {
                write!(f, "no route takes the method: 405, Allow: {allow}")?;
            }
            RuleVerdict::NotFound => f.write_str("no route: 404")?,
        }
        if !self.others.is_empty() {
            f.write_str("\nother routes, in the order they are tried:")?;
        }
        let width = self.others.iter().map(|other| other.name.chars().count()).max();
        let width = width.unwrap_or_default().min(32);
        for other in &self.others {
            write!(f, "\n  {:width$}  {}  — {}", other.name, other.matched, other.why)?;
        }
        if self.left_out > 0 {
            write!(f, "\n  and {} more, farther from this request", self.left_out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
