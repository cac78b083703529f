//! The lookup.
//!
//! Owns the walk through the table: hosts from exact to any, segments from literal to rest; a
//! branch is skipped if its best rank cannot beat the current result. Promises: no lock, no
//! allocation (except for named groups of an expression), and never more steps than the table has
//! nodes, whatever the path.

use message::{PARAMS_MAX, Params, Request};
use wire::Method;

use crate::PathPattern;
use crate::host;
use crate::limits::{HOST_BYTES, LISTENERS_MAX};
use crate::methods::Mask;
use crate::table::{Bucket, Entry, RouteId, Router};
use crate::tree::{EXACT_HOSTS, HOSTS_BELOW, List, NONE};

/// The input of a lookup.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub request: &'a Request,
    /// The time for conditions on it, in seconds since 1970; `None` is now.
    pub unix_secs: Option<u64>,
}

impl<'a> From<&'a Request> for Input<'a> {
    fn from(request: &'a Request) -> Self {
        Input { request, unix_secs: None }
    }
}

impl<'a> Input<'a> {
    /// The name of the listener that received the request.
    pub fn listener(&self) -> &'a str {
        &self.request.facts.listener
    }

    /// The host of the request, perhaps with its port. It is read only if a route has a host.
    pub fn host(&self) -> &'a [u8] {
        self.request.authority()
    }

    /// The path in its normal form.
    pub fn path(&self) -> &'a str {
        self.request.target.path()
    }

    pub fn method(&self) -> &'a Method {
        &self.request.method
    }
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum RouteLookup {
    Route(RouteId, Params),
    /// Routes match except for the method; these are the methods they allow, as listed in Allow.
    MethodNotAllowed(String),
    NotFound,
}

/// A path is shorter than a request line may be (64 KiB).
type Ranges = [(u16, u16); PARAMS_MAX];

impl Router {
    /// Returns the route of a request: the first match in the order.
    pub fn find(&self, input: &Input<'_>) -> RouteLookup {
        let mut walk = Walk::new(self, input);
        walk.hosts();
        if walk.best != NONE {
            return self.found(input, &walk);
        }
        if !walk.refused {
            return RouteLookup::NotFound;
        }
        // Not the fast path: walks again and collects the methods of each rule.
        let mut walk = Walk::new(self, input);
        walk.allowed = Some(0);
        walk.hosts();
        match walk.allowed {
            Some(mask) if mask != 0 => RouteLookup::MethodNotAllowed(self.table.methods.list(mask)),
            _ => RouteLookup::NotFound,
        }
    }

    /// True if a route of the request's listener names the request's host under `host`.
    pub fn names_host(&self, input: &Input<'_>) -> bool {
        let mut buffer = [0; HOST_BYTES];
        let Some(host) = host::normal(input.host(), &mut buffer) else { return false };
        let table = &*self.table;
        let listener = self.listener_bit(input);
        let named = |node, name: &[u8]| {
            let bucket = table.tree.host(node, name);
            bucket.is_some_and(|at| table.buckets[at as usize].listeners & listener != 0)
        };
        let dots = memchr::memchr_iter(b'.', host).filter(|dot| *dot > 0);
        named(EXACT_HOSTS, host) || dots.into_iter().any(|dot| named(HOSTS_BELOW, &host[dot + 1..]))
    }

    #[inline]
    fn listener_bit(&self, input: &Input<'_>) -> u64 {
        let mut named = self.table.listeners.iter();
        1 << named.position(|name| **name == *input.listener()).unwrap_or(LISTENERS_MAX)
    }

    fn found(&self, input: &Input<'_>, walk: &Walk<'_, '_>) -> RouteLookup {
        let entry = &self.table.entries[walk.best as usize];
        let route = RouteId(entry.rule);
        let Some(names) = self.names.get(entry.names as usize) else {
            return RouteLookup::Route(route, Params::default());
        };
        if let Some(PathPattern::Regex(regex)) = self.patterns.get(entry.pattern as usize) {
            let mut groups = regex.capture_locations();
            regex.captures_read(&mut groups, input.path());
            let mut ranges = Ranges::default();
            let named = regex.capture_names().enumerate().filter(|(_, name)| name.is_some());
            for (range, (group, _)) in ranges.iter_mut().zip(named) {
                let (from, to) = groups.get(group).unwrap_or_default();
                *range = (from as u16, to as u16);
            }
            return RouteLookup::Route(route, Params::new(names.clone(), &ranges[..names.len()]));
        }
        RouteLookup::Route(route, Params::new(names.clone(), &walk.best_ranges[..names.len()]))
    }
}

struct Walk<'r, 'i> {
    router: &'r Router,
    input: &'i Input<'i>,
    path: &'i [u8],
    method: Mask,
    listener: u64,
    ranges: Ranges,
    /// The best rank so far, and its parameters.
    best: u32,
    best_ranges: Ranges,
    /// An entry does not allow the method.
    refused: bool,
    /// Collects the methods of such entries instead of looking for a route.
    allowed: Option<Mask>,
}

impl<'r, 'i> Walk<'r, 'i> {
    #[inline]
    fn new(router: &'r Router, input: &'i Input<'i>) -> Self {
        Walk {
            router,
            input,
            path: input.request.target.path_bytes(),
            method: router.table.methods.bit(input.method()),
            listener: router.listener_bit(input),
            ranges: Ranges::default(),
            best: NONE,
            best_ranges: Ranges::default(),
            refused: false,
            allowed: None,
        }
    }

    fn hosts(&mut self) {
        // The `*` of OPTIONS has no segments and no route.
        if self.path.first() != Some(&b'/') {
            return;
        }
        let table = &*self.router.table;
        if table.has_exact_hosts || table.has_hosts_below {
            self.named_hosts();
        }
        if let Some(any) = table.buckets.get(table.any_host as usize) {
            self.bucket(any);
        }
    }

    fn named_hosts(&mut self) {
        let Some(host) = host::trimmed(self.input.host()) else { return };
        let mut buffer;
        let host = match host::is_lower(host) {
            true => host,
            false => {
                buffer = [0; HOST_BYTES];
                host::lower(host, &mut buffer)
            }
        };
        let table = &*self.router.table;
        if table.has_exact_hosts
            && let Some(bucket) = table.tree.host(EXACT_HOSTS, host)
        {
            let bucket = &table.buckets[bucket as usize];
            self.bucket(bucket);
            if self.best < bucket.best_wider {
                return;
            }
        }
        if !table.has_hosts_below {
            return;
        }
        for dot in memchr::memchr_iter(b'.', host).filter(|dot| *dot > 0) {
            if let Some(bucket) = table.tree.host(HOSTS_BELOW, &host[dot + 1..]) {
                let bucket = &table.buckets[bucket as usize];
                self.bucket(bucket);
                if self.best < bucket.best_wider {
                    return;
                }
            }
        }
    }

    fn bucket(&mut self, bucket: &Bucket) {
        if bucket.best >= self.best {
            return;
        }
        self.node(bucket.root, 0, 0);
        if !bucket.patterns.is_empty() || !bucket.other_patterns.is_empty() {
            self.patterns(bucket);
        }
    }

    /// Continues at a node; `at` is at a slash or the end, and `count` parameters precede it.
    fn node(&mut self, mut id: u32, mut at: usize, count: usize) {
        let tree = &self.router.table.tree;
        loop {
            let node = tree.node(id);
            if node.best >= self.best {
                return;
            }
            if at == self.path.len() {
                self.ranks(&node.ends, count);
                if !node.rests.is_empty() {
                    self.rest(&node.rests, at, count);
                }
                return;
            }
            let from = at + 1;
            let to = segment_end(self.path, from);
            let literal = tree.literal(id, &self.path[from..to]);
            if node.param == NONE && node.rests.is_empty() {
                // The common case needs no backtracking.
                let Some(child) = literal else { return };
                (id, at) = (child, to);
                continue;
            }
            if let Some(child) = literal {
                self.node(child, to, count);
            }
            if node.param != NONE && from < to {
                self.ranges[count] = (from as u16, to as u16);
                self.node(node.param, to, count + 1);
            }
            if !node.rests.is_empty() {
                self.rest(&node.rests, from, count);
            }
            return;
        }
    }

    fn rest(&mut self, ranks: &List, from: usize, count: usize) {
        self.ranges[count] = (from as u16, self.path.len() as u16);
        self.ranks(ranks, count + 1);
    }

    /// Takes the first of these that matches, if it is better than the current result.
    #[inline]
    fn ranks(&mut self, ranks: &List, count: usize) {
        let router = self.router;
        for &rank in router.table.tree.ranks(ranks) {
            if rank >= self.best {
                return;
            }
            if self.fits(&router.table.entries[rank as usize]) {
                self.best = rank;
                if count > 0 {
                    self.best_ranges[..count].copy_from_slice(&self.ranges[..count]);
                }
                return;
            }
        }
    }

    /// The Ant patterns and expressions of a bucket: those with the path's first segment and those
    /// without one, merged in their order.
    fn patterns(&mut self, bucket: &Bucket) {
        let first = match bucket.patterns.is_empty() {
            true => None,
            false => bucket.patterns.get(&self.path[1..segment_end(self.path, 1)]),
        };
        let (mut some, mut others) = (first.map_or(&[][..], |list| list), &*bucket.other_patterns);
        while let Some(&rank) = [some.first(), others.first()].into_iter().flatten().min() {
            if rank >= self.best {
                return;
            }
            let list = if some.first() == Some(&rank) { &mut some } else { &mut others };
            *list = &list[1..];
            let entry = &self.router.table.entries[rank as usize];
            let matches = match &self.router.patterns[entry.pattern as usize] {
                PathPattern::PathGlob(ant) => ant.is_match(self.input.path()),
                PathPattern::Regex(regex) => regex.is_match(self.input.path()),
                PathPattern::Segments(_) => false,
            };
            if matches && self.fits(entry) {
                self.best = rank;
                return;
            }
        }
    }

    /// True if everything except host and path matches.
    #[inline]
    fn fits(&mut self, entry: &Entry) -> bool {
        if entry.listeners & self.listener == 0 {
            return false;
        }
        if entry.methods & self.method == 0 {
            self.refused = true;
            if let Some(allowed) = self.allowed
                && self.holds(entry)
            {
                self.allowed = Some(allowed | entry.methods);
            }
            return false;
        }
        self.holds(entry)
    }

    #[inline]
    fn holds(&self, entry: &Entry) -> bool {
        match self.router.conditions.get(entry.condition as usize) {
            None => true,
            Some(condition) => condition.holds_at(self.input.request, self.input.unix_secs),
        }
    }
}

/// The end of the segment that begins at `from`. Segments are short: eight bytes at a time, inline,
/// costs less than the call of a general search.
#[inline]
fn segment_end(path: &[u8], from: usize) -> usize {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    let mut at = from;
    while let Some(eight) = path.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let zeroed = u64::from_le_bytes(*eight) ^ SLASHES;
        // The lowest set high bit marks the first slash.
        let found = zeroed.wrapping_sub(LOW) & !zeroed & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < path.len() && path[at] != b'/' {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests;
