//! The state of one upstream that all workers share: its settings, its members and their health.
//!
//! Keyed by the upstream's name, it outlives plans. Members change without a new plan: names are
//! resolved again, sources name other servers, servers fail and return. Every change increments
//! `version`, the only thing a worker reads per request; a worker takes the lock only after a
//! change.

mod discovery;
mod health;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http_client::{Destination, RoomSignal};
use net::clock;
use settings::{Address, Host};
use telemetry::log::Level;
use telemetry::{SharedGauge, Telemetry, families};
use tokio::sync::Notify;

use crate::limits::{ADDRESSES_PER_NAME, LEAVING_SERVERS};
use crate::member::{Member, ServerChange, ServerHealth, ServerState};
use crate::registrations::Registrations;
use crate::ring::{self, Ring};
use crate::settings::{Balance, ServerSettings, UpstreamSettings};
use crate::upstream_plan::{DiscoverPlan, UpstreamPlan};

use discovery::Discovery;
pub use discovery::DiscoveryStatus;

/// One upstream.
pub struct Cluster {
    pub(crate) name: Box<str>,
    /// Distinguishes this cluster from a later one of the same name.
    pub(crate) id: u64,
    version: AtomicU64,
    inside: Mutex<ClusterState>,
    /// Members, settings or ejections have changed: for the control thread.
    pub(crate) reshaped: Notify,
    /// Another name was resolved or failed to resolve.
    name_resolved: Notify,
    /// Wakes the requests that wait for room, once a worker has a handler.
    room: OnceLock<Arc<RoomSignal>>,
    /// Servers that have registered themselves.
    pub(crate) registrations: Registrations,
    telemetry: Arc<Telemetry>,
}

struct ClusterState {
    plan: UpstreamPlan,
    discovery: Discovery,
    /// Changes of servers until the next reload, by the address or the entry in `servers`.
    changes: BTreeMap<String, ServerChange>,
    /// The addresses of the server names.
    resolved: BTreeMap<Address, Vec<Destination>>,
    members: Arc<Members>,
    /// Members that were removed; requests to them may be in flight.
    leaving: Vec<Arc<Member>>,
    /// Gauges of servers in rotation; a gauge without a holder is removed.
    gauges: BTreeMap<Arc<str>, Arc<SharedGauge>>,
}

/// The members of a cluster at one time.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) list: Vec<Arc<Member>>,
    /// The hash ring, if `balance` is a hash.
    pub(crate) ring: Option<Ring>,
}

/// A consistent snapshot of a cluster.
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) settings: Arc<UpstreamSettings>,
    pub(crate) members: Arc<Members>,
    pub(crate) discover: Option<Arc<DiscoverPlan>>,
    discovered: Arc<Vec<ServerSettings>>,
}

impl Snapshot {
    /// The servers of the configuration and of its source.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &ServerSettings> {
        self.settings.servers.iter().chain(&*self.discovered)
    }
}

impl ClusterState {
    /// The addresses of a server: its own, or those of its name.
    fn destinations(&self, server: &ServerSettings) -> Vec<Destination> {
        match &server.address.address {
            Address::Unix(path) => vec![Destination::Unix(path.clone())],
            address if is_name(address) => self.resolved.get(address).cloned().unwrap_or_default(),
            address => address.socket_addr().map(Destination::Tcp).into_iter().collect(),
        }
    }

    /// The changes of a server; that of its address goes before that of its entry.
    fn change(&self, address: &str, entry: &str) -> ServerChange {
        [address, entry]
            .into_iter()
            .filter_map(|key| self.changes.get(key).copied())
            .reduce(ServerChange::after)
            .unwrap_or_default()
    }

    /// True if the name of a server has not been resolved yet.
    fn awaits_a_name<'a>(&self, mut servers: impl Iterator<Item = &'a ServerSettings>) -> bool {
        servers.any(|server| {
            let address = &server.address.address;
            is_name(address) && !self.resolved.contains_key(address)
        })
    }

    /// Remembers the former members whose addresses are not among the present ones.
    fn remember_leaving(&mut self, former: &Members, present: &HashSet<Destination>) {
        let has_left = |one: &&Arc<Member>| !present.contains(&one.endpoint.destination);
        self.leaving.retain(|one| has_left(&one));
        self.leaving.extend(former.list.iter().filter(has_left).cloned());
        let too_many = self.leaving.len().saturating_sub(LEAVING_SERVERS);
        self.leaving.drain(..too_many);
    }
}

impl Cluster {
    pub(crate) fn new(name: &str, plan: UpstreamPlan, telemetry: Arc<Telemetry>) -> Cluster {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let cluster = Cluster {
            name: name.into(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(0),
            inside: Mutex::new(ClusterState {
                discovery: Discovery::new(&plan, name, &telemetry),
                plan,
                changes: BTreeMap::new(),
                resolved: BTreeMap::new(),
                members: Arc::default(),
                leaving: Vec::new(),
                gauges: BTreeMap::new(),
            }),
            reshaped: Notify::new(),
            name_resolved: Notify::new(),
            room: OnceLock::new(),
            registrations: Registrations::default(),
            telemetry,
        };
        cluster.reshape(&mut cluster.inside());
        cluster
    }

    fn inside(&self) -> MutexGuard<'_, ClusterState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        // A server may have returned or may accept more requests.
        if let Some(room) = self.room.get() {
            room.announce();
        }
    }

    /// Sets the signal of this upstream's pools, the same on every worker.
    pub(crate) fn set_room(&self, room: Arc<RoomSignal>) {
        self.room.get_or_init(|| room);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let inside = self.inside();
        Snapshot {
            version: self.version(),
            settings: inside.plan.settings.clone(),
            members: inside.members.clone(),
            discover: inside.plan.discover.clone(),
            discovered: inside.discovery.servers.clone(),
        }
    }

    /// Members that were removed; requests to them may be in flight.
    pub(crate) fn leaving(&self) -> Vec<Arc<Member>> {
        self.inside().leaving.clone()
    }

    /// Applies the upstream of a new plan; health and connections of remaining servers are
    /// preserved.
    pub(crate) fn apply(&self, plan: &UpstreamPlan) {
        let mut inside = self.inside();
        let changes = std::mem::take(&mut inside.changes);
        for server in changes.keys() {
            let message = "the reload ends a change of a server";
            telemetry::event!(Level::Info, message, upstream = self.name, server = server);
        }
        if inside.plan == *plan && changes.is_empty() {
            return;
        }
        if plan.settings.health.is_none() {
            // Without checks nothing would ever mark them healthy again.
            for member in &inside.members.list {
                if member.health.unhealthy.swap(false, Ordering::Relaxed) {
                    let why = "the configuration has no checks any more";
                    self.remember(member, ServerState::Healthy, why);
                }
            }
        }
        self.follow(&mut inside, plan);
        inside.plan = plan.clone();
        self.reshape(&mut inside);
    }

    /// Changes a server until the next reload; returns false if there is none of this name.
    pub(crate) fn change_server(&self, server: &str, change: ServerChange, now_ms: u64) -> bool {
        let mut inside = self.inside();
        let members = inside.members.clone();
        let is_named =
            |member: &Member, name: &str| *member.name == *name || *member.server == *name;
        let exists = |name: &str| members.list.iter().any(|member| is_named(member, name));
        if !exists(server) {
            return false;
        }
        // Addresses of names come and go: changes of those that have gone do not add up.
        inside.changes.retain(|name, _| exists(name));
        let earlier = inside.changes.get(server).copied().unwrap_or_default();
        inside.changes.insert(server.to_owned(), change.after(earlier));
        if change.drain == Some(false) {
            let returning =
                members.list.iter().filter(|each| each.is_draining && is_named(each, server));
            returning.for_each(|each| each.health.returned_ms.store(now_ms, Ordering::Relaxed));
        }
        self.reshape(&mut inside);
        true
    }

    /// Sets the addresses of a server name.
    pub(crate) fn resolve(&self, server: &Address, mut addresses: Vec<Destination>) {
        addresses.truncate(ADDRESSES_PER_NAME);
        let mut inside = self.inside();
        if inside.resolved.get(server) != Some(&addresses) {
            inside.resolved.insert(server.clone(), addresses);
            self.reshape(&mut inside);
        }
        self.name_resolved.notify_waiters();
    }

    /// Marks a server name as resolved once, without a result.
    pub(crate) fn mark_resolved(&self, server: &Address) {
        self.inside().resolved.entry(server.clone()).or_default();
        self.name_resolved.notify_waiters();
    }

    /// Waits until every server name has been resolved once.
    pub(crate) async fn wait_resolved(&self) {
        loop {
            let changed = self.name_resolved.notified();
            if self.is_resolved() {
                return;
            }
            changed.await;
        }
    }

    fn is_resolved(&self) -> bool {
        let inside = self.inside();
        let listed = inside.plan.settings.servers.iter().chain(&*inside.discovery.servers);
        let mut addresses = listed.map(|server| &server.address.address);
        (inside.plan.discover.is_none() || inside.discovery.is_tried)
            && addresses.all(|address| !is_name(address) || inside.resolved.contains_key(address))
    }

    /// Rebuilds the members from settings, discovered servers and resolved names.
    fn reshape(&self, inside: &mut ClusterState) {
        let (settings, discovered) =
            (inside.plan.settings.clone(), inside.discovery.servers.clone());
        let listed = || settings.servers.iter().chain(&*discovered);
        let former = inside.members.clone();
        let known: HashMap<&Destination, &Arc<Member>> =
            former.list.iter().map(|member| (&member.endpoint.destination, member)).collect();
        let joining = JoiningServers::new(&settings, &former);
        let mut seen = HashSet::new();
        let mut list: Vec<Arc<Member>> = Vec::new();
        for server in listed() {
            let text: Arc<str> = server.address.to_string().into();
            let authority: Arc<str> = server.address.authority().into();
            for destination in inside.destinations(server) {
                if !seen.insert(destination.clone()) {
                    continue; // two names for one server
                }
                let known = known.get(&destination);
                let name: Arc<str> = destination.to_string().into();
                let change = inside.change(&name, &text);
                let weight = change.weight.unwrap_or(server.weight);
                let is_draining = change.drain == Some(true);
                list.push(Arc::new(Member {
                    server: text.clone(),
                    authority: authority.clone(),
                    place: ring::hash(name.as_bytes()),
                    name,
                    endpoint: inside.plan.endpoint(&server.address, destination),
                    weight,
                    is_draining,
                    is_changed: is_draining || weight != server.weight,
                    backup: server.backup,
                    max_connections: server.max_connections,
                    max_slow_clients: server.slow_clients(),
                    health: known.map_or_else(|| joining.health(), |member| member.health.clone()),
                }));
            }
        }
        if list.is_empty() && settings.discover.is_some() && inside.awaits_a_name(listed()) {
            // Until a name of the new servers is resolved, the former ones are better than none.
            seen.extend(former.list.iter().map(|member| member.endpoint.destination.clone()));
            list.clone_from(&former.list);
        }
        if joining.must_be_checked
            && !list.iter().any(|member| known.contains_key(&member.endpoint.destination))
        {
            // No other server is there to wait for the first check.
            for member in &list {
                member.health.unhealthy.store(false, Ordering::Relaxed);
            }
        }
        inside.remember_leaving(&former, &seen);
        let names: HashSet<&Address> = listed().map(|server| &server.address.address).collect();
        inside.resolved.retain(|address, _| names.contains(address));
        let ring = matches!(settings.balance, Balance::Hash(_))
            .then(|| Ring::new(list.iter().map(|member| (&*member.name, member.weight))));
        inside.gauges = list.iter().map(|one| (one.name.clone(), self.gauge(one))).collect();
        inside.members = Arc::new(Members { list, ring });
        for member in &inside.members.list {
            health::show(inside, member);
            let was_draining = known.get(&member.endpoint.destination).map(|one| one.is_draining);
            if was_draining.is_some_and(|was_draining| was_draining != member.is_draining) {
                let why = match member.is_draining {
                    true => "by the admin API",
                    false => "the drain has ended",
                };
                self.remember(member, member.state(clock::precise_us() / 1000), why);
            }
        }
        self.changed();
        self.reshaped.notify_one();
    }

    fn gauge(&self, member: &Member) -> Arc<SharedGauge> {
        self.telemetry.gauge(&families::UPSTREAM_HEALTHY, &[&self.name, &member.name])
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }
}

/// How the servers begin that a source adds to others.
struct JoiningServers {
    /// When their slow start begins; 0 for never.
    joined_ms: u64,
    /// They are used after a successful check.
    must_be_checked: bool,
}

impl JoiningServers {
    fn new(settings: &UpstreamSettings, former: &Members) -> JoiningServers {
        let is_joined = settings.discover.is_some() && !former.list.is_empty();
        JoiningServers {
            joined_ms: if is_joined { (clock::precise_us() / 1000).max(1) } else { 0 },
            must_be_checked: is_joined && settings.health.is_some(),
        }
    }

    fn health(&self) -> Arc<ServerHealth> {
        let health = ServerHealth::default();
        health.unhealthy.store(self.must_be_checked, Ordering::Relaxed);
        health.returned_ms.store(self.joined_ms, Ordering::Relaxed);
        Arc::new(health)
    }
}

fn is_name(address: &Address) -> bool {
    matches!(address, Address::Tcp { host: Host::Name(_), .. })
}
