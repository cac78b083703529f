//! Many servers that share purges, simulated: messages are delayed and lost, servers are cut off,
//! paused, killed and restarted with what they had on disk, and the log loses entries or
//! everything. After a purge was confirmed, no server may serve what it covers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use fastrand::Rng;

use super::{Follower, LogPosition, LogProgress, LogRead, PositionDigest, PurgeEntry, PurgeSpread};
use crate::{PurgeRequest, PurgeWhat};
use log::Log;
use node::Node;

mod log;
mod node;

const NODES: usize = 6;
const KEYS: u64 = 8;
const END_MS: u64 = 6_000;
/// How long a server serves alone, and is remembered by the log.
const ALONE_MS: u64 = 1_000;
const REMEMBERED_MS: u64 = ALONE_MS + ALONE_MS / 16 + 20;
const TIMEOUT_MS: u64 = 300;
const POLL_MS: u64 = 50;
/// Entries that the log keeps, and that one poll returns.
const ENTRIES: usize = 40;
const PAGE: usize = 16;

/// A rule that servers break, to see that the simulation notices.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// A server serves from its cache whether or not the others wait for it.
    ServesForgotten,
    /// A server that missed entries keeps its cache.
    IgnoresGaps,
    /// A server stores responses of servers that do not know of its purges.
    TrustsOwners,
}

enum Event {
    Request(usize),
    /// A server requests a response from another one, which has to know of these purges.
    Asked {
        owner: usize,
        node: usize,
        life: u64,
        key: u64,
        epoch: u64,
        noted: PositionDigest,
    },
    Fetched {
        node: usize,
        life: u64,
        key: u64,
        version: u64,
        epoch: u64,
    },
    Poll {
        node: usize,
        life: u64,
        poll: u64,
    },
    Arrives {
        node: usize,
        life: u64,
        poll: u64,
        sent: u64,
        position: Option<LogPosition>,
    },
    Replied {
        node: usize,
        life: u64,
        poll: u64,
        sent: u64,
        read: LogRead,
    },
    Purge,
    Published {
        key: u64,
        version: u64,
    },
    Waits {
        key: u64,
        version: u64,
        number: u64,
        mark: String,
    },
    Trouble,
    Resumes {
        node: usize,
        life: u64,
    },
    Heals(usize),
    Starts(usize),
}

#[derive(Default)]
struct Totals {
    hits: u64,
    stale: u64,
    confirmed: u64,
    gaps: u64,
    /// Responses of other servers that were used, and that were not.
    owned: u64,
    outdated: u64,
}

struct Simulation {
    rng: Rng,
    broken: Broken,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    next: u64,
    log: Log,
    nodes: Vec<Node>,
    origin: HashMap<u64, u64>,
    confirmed: HashMap<u64, u64>,
    totals: Totals,
}

impl Simulation {
    fn run(seed: u64, broken: Broken) -> Totals {
        let mut rng = Rng::with_seed(seed);
        let nodes = (0..NODES).map(|_| Node {
            life: 0,
            is_up: false,
            paused_until: 0,
            is_cut_off: false,
            rate: rng.u64(980..=1020),
            follower: Follower::new(Duration::from_millis(ALONE_MS)),
            progress: LogProgress::default(),
            poll: 0,
            cache: HashMap::new(),
            epochs: HashMap::new(),
            disk_position: None,
        });
        let nodes = nodes.collect();
        let mut simulation = Simulation {
            rng,
            broken,
            now: 1,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            next: 0,
            log: Log::default(),
            nodes,
            origin: HashMap::new(),
            confirmed: HashMap::new(),
            totals: Totals::default(),
        };
        for node in 0..NODES {
            simulation.after(0..500, Event::Starts(node));
            simulation.after(0..50, Event::Request(node));
        }
        simulation.after(0..200, Event::Purge);
        simulation.after(500..1500, Event::Trouble);
        while let Some(Reverse((at, id))) = simulation.queue.pop()
            && at < END_MS
        {
            simulation.now = at;
            let event = simulation.events.remove(&id).unwrap();
            simulation.step(event);
        }
        simulation.totals
    }

    fn after(&mut self, delay: std::ops::Range<u64>, event: Event) {
        let at = self.now + self.rng.u64(delay);
        self.at(at, event);
    }

    fn at(&mut self, at: u64, event: Event) {
        self.queue.push(Reverse((at, self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    /// True if a message between a server and the log arrives.
    fn arrives(&mut self, node: usize) -> bool {
        !self.nodes[node].is_cut_off && self.rng.u32(0..50) != 0
    }

    fn is_running(&self, node: usize, life: u64) -> bool {
        self.nodes[node].is_up && self.nodes[node].life == life
    }

    fn step(&mut self, event: Event) {
        // What happens to a paused server happens when it continues, in any order.
        let of = match &event {
            Event::Request(node)
            | Event::Asked { owner: node, .. }
            | Event::Fetched { node, .. }
            | Event::Poll { node, .. }
            | Event::Replied { node, .. } => Some(*node),
            _ => None,
        };
        if let Some(node) = of
            && self.nodes[node].paused_until > self.now
        {
            let resumes = self.nodes[node].paused_until;
            let at = resumes + self.rng.u64(0..3);
            return self.at(at, event);
        }
        match event {
            Event::Request(node) => self.request(node),
            Event::Asked { owner, node, life, key, epoch, noted } => {
                self.asked(owner, &noted, (node, life, key, epoch));
            }
            Event::Fetched { node, life, key, version, epoch } => {
                self.fetched((node, life, key, epoch), version);
            }
            Event::Poll { node, life, poll }
                if self.is_running(node, life) && self.nodes[node].poll == poll =>
            {
                self.poll(node);
            }
            Event::Arrives { node, life, poll, sent, position } => {
                let (now, rng) = (self.now, &mut self.rng);
                let read = self.log.poll(node, position.as_ref(), now, rng);
                if self.arrives(node) {
                    self.after(1..30, Event::Replied { node, life, poll, sent, read });
                }
            }
            Event::Replied { node, life, poll, sent, read }
                if self.is_running(node, life) && self.nodes[node].poll == poll =>
            {
                self.replied(node, sent, read);
            }
            Event::Purge => self.purge(),
            Event::Published { key, version } => {
                let mark = self.rng.u64(..).to_string();
                let what = PurgeWhat::Url(key.to_string());
                let purge = PurgeRequest { what, soft: false };
                let entry = PurgeEntry { cache: "pages".to_owned(), purge };
                let number = self.log.append(self.now, mark.clone(), Some(entry));
                self.after(1..20, Event::Waits { key, version, number, mark });
            }
            Event::Waits { key, version, number, mark } => {
                let Some(nodes) = self.log.reports(number, &mark, self.now) else { return };
                if PurgeSpread::of(nodes, number).is_confirmed() {
                    let confirmed = self.confirmed.entry(key).or_default();
                    *confirmed = version.max(*confirmed);
                    self.totals.confirmed += 1;
                } else {
                    self.after(1..20, Event::Waits { key, version, number, mark });
                }
            }
            Event::Trouble => self.trouble(),
            Event::Resumes { node, life } if self.nodes[node].life == life => {
                self.nodes[node].paused_until = 0;
            }
            Event::Heals(node) => self.nodes[node].is_cut_off = false,
            Event::Starts(node) => self.start(node),
            Event::Poll { .. } | Event::Replied { .. } | Event::Resumes { .. } => {}
        }
    }

    fn request(&mut self, node: usize) {
        self.after(1..40, Event::Request(node));
        if !self.nodes[node].is_up {
            return;
        }
        let key = self.rng.u64(0..KEYS);
        let stored = self.stored(node, key);
        let server = &self.nodes[node];
        let epoch = server.epochs.get(&key).copied().unwrap_or_default();
        let (life, noted) = (server.life, server.progress.noted());
        match stored {
            Some(version) => {
                let confirmed = self.confirmed.get(&key).copied().unwrap_or_default();
                self.totals.hits += 1;
                self.totals.stale += u64::from(version < confirmed);
            }
            None => {
                let owner = self.rng.usize(0..NODES);
                match noted.filter(|_| owner != node && self.nodes[owner].is_up) {
                    Some(noted) => {
                        let asked = Event::Asked { owner, node, life, key, epoch, noted };
                        self.after(1..30, asked);
                    }
                    None => self.fetch((node, life, key, epoch)),
                }
            }
        }
    }

    /// What a server serves from its cache.
    fn stored(&self, node: usize, key: u64) -> Option<u64> {
        let server = &self.nodes[node];
        let serves = server.clock(self.now) < server.follower.serves_until_ms()
            || self.broken == Broken::ServesForgotten;
        server.cache.get(&key).copied().filter(|_| serves)
    }

    fn fetch(&mut self, (node, life, key, epoch): (usize, u64, u64, u64)) {
        let version = self.origin.get(&key).copied().unwrap_or_default();
        self.after(1..100, Event::Fetched { node, life, key, version, epoch });
    }

    fn fetched(&mut self, (node, life, key, epoch): (usize, u64, u64, u64), version: u64) {
        let is_running = self.is_running(node, life);
        let node = &mut self.nodes[node];
        if is_running && node.epochs.get(&key).copied().unwrap_or_default() == epoch {
            node.cache.insert(key, version);
        }
    }

    /// A server responds to another one as the owner of a key, or the origin does.
    fn asked(&mut self, owner: usize, noted: &PositionDigest, asker: (usize, u64, u64, u64)) {
        let applied = self.nodes[owner].progress.applied();
        let includes = applied.is_some_and(|applied| applied.includes(noted));
        if !self.nodes[owner].is_up || !includes && self.broken != Broken::TrustsOwners {
            self.totals.outdated += 1;
            return self.fetch(asker);
        }
        self.totals.owned += 1;
        let (node, life, key, epoch) = asker;
        match self.stored(owner, key) {
            Some(version) => {
                self.after(1..60, Event::Fetched { node, life, key, version, epoch });
            }
            None => self.fetch(asker),
        }
    }

    fn poll(&mut self, node: usize) {
        let now = self.now;
        let server = &mut self.nodes[node];
        server.poll += 1;
        let (life, poll) = (server.life, server.poll);
        let (sent, position) = (server.clock(now), server.follower.position().cloned());
        if self.arrives(node) {
            self.after(1..30, Event::Arrives { node, life, poll, sent, position });
        }
        self.after(TIMEOUT_MS..TIMEOUT_MS + 50, Event::Poll { node, life, poll });
    }

    fn replied(&mut self, node: usize, sent: u64, read: LogRead) {
        let (broken, keeps) = (self.broken, self.rng.bool());
        let server = &mut self.nodes[node];
        server.progress.note(&read);
        if read.has_gap && broken != Broken::IgnoresGaps {
            server.clear();
            self.totals.gaps += 1;
        }
        for entry in read.entries.iter().filter_map(|entry| entry.purge.as_ref()) {
            if let PurgeWhat::Url(key) = &entry.purge.what {
                server.purge(key.parse().unwrap());
            }
        }
        server.follower.registered(sent);
        server.progress.set_applied(&read.position);
        server.follower.applied(read.position.clone(), read.has_more);
        if keeps || read.has_gap {
            server.disk_position = Some(read.position);
        }
        server.poll += 1;
        let (life, poll) = (server.life, server.poll);
        let pause = if read.has_more { 1 } else { POLL_MS };
        self.after(0..pause, Event::Poll { node, life, poll });
    }

    fn purge(&mut self) {
        self.after(1..120, Event::Purge);
        let key = self.rng.u64(0..KEYS);
        let version = self.origin.entry(key).or_default();
        *version += 1;
        let version = *version;
        let node = self.rng.usize(0..NODES);
        if self.nodes[node].is_up && self.nodes[node].paused_until <= self.now {
            self.nodes[node].purge(key);
            if self.arrives(node) {
                self.after(1..30, Event::Published { key, version });
            }
        }
    }

    fn trouble(&mut self) {
        self.after(50..1500, Event::Trouble);
        let node = self.rng.usize(0..NODES);
        let lasts = match self.rng.u32(0..3) {
            0 => 1..300,
            1 => 300..2000,
            _ => 2000..6000,
        };
        let life = self.nodes[node].life;
        match self.rng.u32(0..10) {
            0..3 => {
                self.nodes[node].is_up = false;
                self.nodes[node].paused_until = 0;
                self.after(lasts, Event::Starts(node));
            }
            3..6 => {
                self.nodes[node].is_cut_off = true;
                self.after(lasts, Event::Heals(node));
            }
            6..9 => {
                let until = self.now + self.rng.u64(lasts);
                self.nodes[node].paused_until = until;
                self.at(until, Event::Resumes { node, life });
            }
            // Redis was restarted without its data.
            _ => self.log = Log::default(),
        }
    }

    /// Starts a server with what it had on disk.
    fn start(&mut self, node: usize) {
        let alone = Duration::from_millis(ALONE_MS);
        let broken = self.broken;
        let server = &mut self.nodes[node];
        if server.is_up {
            return;
        }
        (server.is_up, server.life, server.paused_until) = (true, server.life + 1, 0);
        server.follower = Follower::new(alone);
        server.progress.reset();
        match server.disk_position.clone() {
            Some(position) => server.follower.rewind(position),
            None if broken == Broken::IgnoresGaps => {}
            None => server.clear(),
        }
        let (life, poll) = (server.life, server.poll);
        self.after(0..20, Event::Poll { node, life, poll });
    }
}

fn seeds(count: u64, broken: Broken) -> Totals {
    let mut all = Totals::default();
    for seed in 0..count {
        let totals = Simulation::run(seed, broken);
        assert!(
            totals.stale == 0 || broken != Broken::Nothing,
            "seed {seed}: {} stale of {} hits",
            totals.stale,
            totals.hits
        );
        all.hits += totals.hits;
        all.stale += totals.stale;
        all.confirmed += totals.confirmed;
        all.gaps += totals.gaps;
        all.owned += totals.owned;
        all.outdated += totals.outdated;
    }
    all
}

#[test]
fn nothing_that_a_confirmed_purge_covers_is_served() {
    let totals = seeds(200, Broken::Nothing);
    let Totals { hits, confirmed, gaps, owned, outdated, .. } = totals;
    let seen = format!(
        "{hits} hits, {confirmed} confirmed purges, {gaps} gaps, {owned} responses of other \
         servers, {outdated} not used"
    );
    assert!(hits > 100_000 && confirmed > 10_000 && gaps > 1_000, "{seen}");
    assert!(owned > 10_000 && outdated > 10_000, "{seen}");
}

#[test]
fn the_simulation_finds_servers_that_break_a_rule() {
    for broken in [Broken::ServesForgotten, Broken::IgnoresGaps, Broken::TrustsOwners] {
        assert!(seeds(40, broken).stale > 0);
    }
}
