//! One worker's view of a cluster between two changes: the servers that can be picked.
//!
//! Rebuilt when the version of the cluster has changed or an ejection has ended; measurements and
//! connections of remaining servers are carried over. A request holds the view it began with.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_client::{ClientOptions, Destination, HostField, Pool, PoolLimits, PoolPermit};
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, Gauge, families};
use wire::h1::HeadLimits;

use crate::cluster::{Cluster, Members, Snapshot};
use crate::limits::{
    FAILURE_LATENCY_US, LATENCY_EXPIRES, LATENCY_FADES, LATENCY_NEAR, LATENCY_SLACK_US,
    LOSSES_BEFORE_SAMPLE,
};
use crate::member::{Member, ServerState};
use crate::settings::{HostSettings, UpstreamSettings};

/// Classes of a server's responses: 1xx to 5xx, then none.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "error"];
pub(crate) const CLASS_ERROR: usize = 5;

/// Measurements and connections of a server on this worker, across views.
pub(crate) struct Stats {
    pub(crate) pool: Rc<Pool>,
    /// Moving average of the time to the response head, and when it was last measured.
    latency_us: Cell<f64>,
    measured_us: Cell<u64>,
    /// The last measurement was a failure.
    failed: Cell<bool>,
    /// When p2c picked it last, and how many comparisons it has lost since.
    picked_us: Cell<u64>,
    losses: Cell<u32>,
    /// Credit in the smooth weighted round robin.
    pub(crate) turn: Cell<i64>,
    classes: [Arc<CachePadded<Counter>>; 6],
    /// The average latency for the status, which failures do not change.
    shown_latency_us: Arc<CachePadded<Gauge>>,
}

impl Stats {
    fn new(context: &WorkerContext, cluster: &Cluster, member: &Member) -> Stats {
        let class = |class| {
            let labels = [&*cluster.name, &*member.name, class];
            let family = &families::UPSTREAM_REQUESTS;
            context.telemetry.worker_counter(context.index, family, &labels)
        };
        let limits = PoolLimits::default();
        Stats {
            pool: Pool::of(context, &cluster.name, &member.endpoint, limits),
            latency_us: Cell::new(0.0),
            measured_us: Cell::new(0),
            failed: Cell::new(false),
            picked_us: Cell::new(0),
            losses: Cell::new(0),
            turn: Cell::new(0),
            classes: CLASSES.map(class),
            shown_latency_us: member.health.add_latency(),
        }
    }

    pub(crate) fn count(&self, class: usize) {
        self.classes[class].inc();
    }

    /// Adds a latency to the average. A slower response counts at once, a faster one gradually
    /// (peak EWMA). The first success after a failure or after an expired measurement replaces the
    /// average.
    pub(crate) fn measure(&self, latency_us: u64, now_us: u64) {
        self.average(latency_us, now_us);
        self.shown_latency_us.set(self.latency_us.get() as i64);
    }

    fn average(&self, latency_us: u64, now_us: u64) {
        let latency = latency_us as f64;
        let age_us = now_us.saturating_sub(self.measured_us.get());
        let is_void = self.failed.replace(false) || age_us >= LATENCY_EXPIRES.as_micros() as u64;
        let average = self.latency_at(now_us);
        let next = if is_void || latency > average {
            latency
        } else {
            average + (latency - average) / 8.0
        };
        self.latency_us.set(next);
        self.measured_us.set(now_us);
    }

    /// The decayed average: old measurements fade, so that a server that was slow once is tried
    /// again. As in finagle and linkerd, by a power of the time, so that even the slowest response
    /// is forgotten within a minute.
    pub(crate) fn latency_at(&self, now_us: u64) -> f64 {
        let age_us = now_us.saturating_sub(self.measured_us.get());
        // A measurement within the last thousandth of the decay time is not worth an exponential.
        if age_us < LATENCY_FADES.as_micros() as u64 / 1000 {
            return self.latency_us.get();
        }
        self.latency_us.get() * (-(age_us as f64) / LATENCY_FADES.as_micros() as f64).exp()
    }

    /// Adds a failure to the average: a failure is often fast and must not look good.
    pub(crate) fn measure_failure(&self, latency_us: u64, now_us: u64) {
        self.average(latency_us.max(FAILURE_LATENCY_US), now_us);
        self.failed.set(true);
    }

    /// Notes that p2c picked this server.
    pub(crate) fn picked(&self, now_us: u64) {
        self.picked_us.set(now_us);
        self.losses.set(0);
    }

    /// Counts a lost comparison. True if the server should be picked nevertheless: it was neither
    /// picked nor measured recently, so its measurement may be outdated.
    pub(crate) fn lost(&self, now_us: u64) -> bool {
        let losses = self.losses.get() + 1;
        self.losses.set(losses.min(LOSSES_BEFORE_SAMPLE));
        let last_us = self.picked_us.get().max(self.measured_us.get());
        losses >= LOSSES_BEFORE_SAMPLE
            && now_us.saturating_sub(last_us) >= LATENCY_EXPIRES.as_micros() as u64
    }

    /// Discards the measurements from before the server's return.
    fn forget_before(&self, returned_ms: u64) {
        if self.measured_us.get() / 1000 <= returned_ms {
            self.latency_us.set(0.0);
            self.failed.set(false);
        }
    }
}

/// A server that may be picked.
pub(crate) struct Peer {
    pub(crate) member: Arc<Member>,
    pub(crate) stats: Rc<Stats>,
    pub(crate) name: Rc<str>,
    pub(crate) host: HostField,
}

impl Peer {
    /// True if it takes one more request.
    pub(crate) fn has_room(&self) -> bool {
        self.member.max_connections.is_none_or(|most| self.stats.pool.has_room(most))
    }

    /// The permit for one more request; `None` if it takes none.
    pub(crate) fn permit(&self) -> Option<PoolPermit> {
        match self.member.max_connections {
            None => Some(PoolPermit::default()),
            Some(most) => self.stats.pool.permit(most),
        }
    }

    /// True if this server is the better choice for one more request. Nearly equal latencies count
    /// as equal: otherwise a tiny difference would attract all requests.
    pub(crate) fn is_better_than(&self, other: &Peer, now_us: u64) -> bool {
        let queue = |peer: &Peer| peer.stats.pool.active() as f64 / f64::from(peer.member.weight);
        let latency = |peer: &Peer| peer.stats.latency_at(now_us) + LATENCY_SLACK_US;
        let ratio = latency(self) / latency(other);
        if (1.0 / LATENCY_NEAR..LATENCY_NEAR).contains(&ratio) {
            queue(self) < queue(other)
        } else {
            ratio * (queue(self) + 1.0) < queue(other) + 1.0
        }
    }

    /// The share of its weight that a server gets during its slow start.
    pub(crate) fn warmth(&self, slow_start_ms: u64, now_ms: u64) -> f64 {
        let returned_ms = self.member.health.returned_ms.load(Ordering::Relaxed);
        if slow_start_ms == 0 || returned_ms == 0 {
            return 1.0;
        }
        let share = now_ms.saturating_sub(returned_ms) as f64 / slow_start_ms as f64;
        share.clamp(crate::limits::SLOW_START_FLOOR, 1.0)
    }
}

/// The servers that may be picked.
pub(crate) struct View {
    version: u64,
    /// When the next ejection ends.
    recheck_ms: u64,
    pub(crate) settings: Arc<UpstreamSettings>,
    pub(crate) options: Rc<ClientOptions>,
    members: Arc<Members>,
    pub(crate) peers: Vec<Rc<Peer>>,
    /// Servers in rotation, as indices of `peers`.
    pub(crate) usable: Vec<usize>,
    /// The same by index.
    pub(crate) is_usable: Vec<bool>,
    /// Sums of the weights of `usable`; empty when they are all the same.
    pub(crate) weight_sums: Vec<u64>,
    /// Servers whose ejection has ended.
    pub(crate) trials: Vec<usize>,
    pub(crate) panic: bool,
    /// Some server may be in its slow start.
    pub(crate) slow_start_ms: u64,
}

impl View {
    pub(crate) fn new(
        context: &WorkerContext,
        cluster: &Cluster,
        former: Option<&View>,
        now_ms: u64,
    ) -> View {
        let Snapshot { version, settings, members, .. } = cluster.snapshot();
        let former = former.map_or(&[][..], |view| view.peers.as_slice());
        let known: HashMap<&Destination, &Rc<Peer>> =
            former.iter().map(|peer| (&peer.member.endpoint.destination, peer)).collect();
        let peers: Vec<Rc<Peer>> = members
            .list
            .iter()
            .map(|member| {
                let known = known.get(&member.endpoint.destination);
                let known = known.filter(|peer| peer.member.endpoint == member.endpoint);
                let stats = known.map_or_else(
                    || Rc::new(Stats::new(context, cluster, member)),
                    |peer| peer.stats.clone(),
                );
                stats.pool.set_limits(pool_limits(&settings, member));
                if member.max_connections.is_some() {
                    stats.pool.announce_room();
                }
                stats.forget_before(member.health.returned_ms.load(Ordering::Relaxed));
                Rc::new(Peer {
                    stats,
                    name: Rc::from(&*member.name),
                    host: host_field(&settings, member),
                    member: member.clone(),
                })
            })
            .collect();
        let mut view = View {
            version,
            recheck_ms: u64::MAX,
            options: Rc::new(client_options(&settings)),
            slow_start_ms: settings.slow_start.as_millis_u64(),
            settings,
            members,
            is_usable: vec![false; peers.len()],
            peers,
            usable: Vec::new(),
            weight_sums: Vec::new(),
            trials: Vec::new(),
            panic: false,
        };
        view.choose_usable(now_ms);
        view
    }

    pub(crate) fn is_current(&self, cluster: &Cluster, now_ms: u64) -> bool {
        self.version == cluster.version() && now_ms < self.recheck_ms
    }

    /// Returns the time for which it stays current without a change of the cluster.
    pub(crate) fn current_for(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.recheck_ms.saturating_sub(now_ms))
    }

    /// True if some server takes one more request.
    pub(crate) fn has_room(&self) -> bool {
        self.usable.iter().chain(&self.trials).any(|&at| self.peers[at].has_room())
    }

    /// True if the only reason why no server takes a request is `max_connections`.
    pub(crate) fn is_full(&self) -> bool {
        !self.usable.is_empty() && !self.has_room()
    }

    pub(crate) fn ring(&self) -> Option<&crate::ring::Ring> {
        self.members.ring.as_ref()
    }

    /// Primaries in rotation; otherwise backups in rotation; with too few servers in rotation, all
    /// servers that do not drain.
    fn choose_usable(&mut self, now_ms: u64) {
        let states: Vec<ServerState> =
            self.peers.iter().map(|peer| peer.member.state(now_ms)).collect();
        let may_serve = |at: &usize| states[*at] != ServerState::Draining;
        let servers = (0..self.peers.len()).filter(may_serve).count();
        let healthy = |backup: bool| -> Vec<usize> {
            (0..self.peers.len())
                .filter(|&at| states[at] == ServerState::Healthy)
                .filter(|&at| self.peers[at].member.backup == backup)
                .collect()
        };
        let mut usable = healthy(false);
        let backups = healthy(true);
        self.panic = self.settings.is_panic(usable.len() + backups.len(), servers);
        if self.panic {
            usable = (0..self.peers.len()).filter(may_serve).collect();
        } else if usable.is_empty() {
            usable = backups;
        }
        self.trials =
            (0..self.peers.len()).filter(|&at| states[at] == ServerState::Trial).collect();
        let turns = self.peers.iter().filter_map(|peer| peer.member.health.turns_at_ms(now_ms));
        self.recheck_ms = turns.min().unwrap_or(u64::MAX);
        for &at in &usable {
            self.is_usable[at] = true;
        }
        let weight = |at: &usize| u64::from(self.peers[*at].member.weight);
        if usable.iter().any(|at| weight(at) != weight(&usable[0])) {
            let mut sum = 0;
            self.weight_sums = usable
                .iter()
                .map(|at| {
                    sum += weight(at);
                    sum
                })
                .collect();
        }
        self.usable = usable;
    }
}

fn host_field(settings: &UpstreamSettings, member: &Member) -> HostField {
    match &settings.host {
        HostSettings::Preserve => HostField::Preserve,
        HostSettings::Fixed(text) => HostField::Fixed(text.as_str().into()),
        HostSettings::Server => HostField::Fixed((*member.authority).into()),
    }
}

fn pool_limits(settings: &UpstreamSettings, member: &Member) -> PoolLimits {
    PoolLimits {
        max_idle: settings.keepalive.max_idle as usize,
        idle: settings.timeouts.idle.get(),
        max_age: settings.keepalive.max_age.get(),
        max_requests: settings.keepalive.max_requests,
        max_slow: member.max_slow_clients.map(|most| most as usize),
        head: head_limits(settings),
    }
}

fn head_limits(settings: &UpstreamSettings) -> HeadLimits {
    HeadLimits {
        headers: usize::try_from(settings.headers.bytes()).unwrap_or(usize::MAX),
        header_count: settings.header_count as usize,
        ..HeadLimits::default()
    }
}

fn client_options(settings: &UpstreamSettings) -> ClientOptions {
    ClientOptions {
        response: settings.timeouts.response.get(),
        read: settings.timeouts.read.get(),
        write: settings.timeouts.write.get(),
        tunnel_idle: settings.timeouts.idle.get(),
        head: head_limits(settings),
        forwarded: settings.forwarded,
        via: true,
    }
}

/// The time-out of connecting.
pub(crate) fn connect_within(settings: &UpstreamSettings) -> Duration {
    settings.timeouts.connect.get()
}
