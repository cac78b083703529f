//! The servers of a source: which are in use, and how the source is doing.
//!
//! Promises that the last known servers stay in use while the source fails; that a response without
//! servers has the effect that the configuration names; and that each change of the source's state
//! is logged once.

use std::collections::BTreeSet;
use std::sync::Arc;

use net::clock::{self, Moment};
use settings::Address;
use telemetry::log::Level;
use telemetry::{SharedCounter, SharedGauge, Telemetry, event, families};

use super::{Cluster, ClusterState};
use crate::discover_settings::{DiscoverSettings, OnEmpty};
use crate::discovered::DiscoveredServers;
use crate::limits::DISCOVERY_ERROR_BYTES;
use crate::server_address::ServerAddress;
use crate::settings::ServerSettings;
use crate::upstream_plan::UpstreamPlan;

/// What is known of the source of an upstream.
#[derive(Default)]
pub(super) struct Discovery {
    pub(super) servers: Arc<Vec<ServerSettings>>,
    /// The source has responded or failed once.
    pub(super) is_tried: bool,
    /// The last response had no servers: those of an earlier one are in use.
    is_outdated: bool,
    responded: Option<Moment>,
    /// Why the source fails.
    failure: Option<String>,
    /// What is wrong with the last response, although it was used.
    flaw: Option<String>,
    metrics: Option<DiscoveryMetrics>,
}

/// The source of an upstream, for the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveryStatus {
    /// The source in a few words: `consul api`.
    pub source: String,
    /// Servers of the source that are in use.
    pub servers: usize,
    /// Since the source was last known to name these servers; `None` if it never responded.
    pub age_ms: Option<u64>,
    pub error: Option<String>,
}

struct DiscoveryMetrics {
    changed: Arc<SharedCounter>,
    unchanged: Arc<SharedCounter>,
    empty: Arc<SharedCounter>,
    failed: Arc<SharedCounter>,
    servers: Arc<SharedGauge>,
    failing: Arc<SharedGauge>,
    responded_at_s: Arc<SharedGauge>,
}

impl DiscoveryMetrics {
    fn new(name: &str, telemetry: &Telemetry) -> DiscoveryMetrics {
        let updates = |result| telemetry.counter(&families::DISCOVERY_UPDATES, &[name, result]);
        DiscoveryMetrics {
            changed: updates("changed"),
            unchanged: updates("unchanged"),
            empty: updates("empty"),
            failed: updates("failed"),
            servers: telemetry.gauge(&families::DISCOVERY_SERVERS, &[name]),
            failing: telemetry.gauge(&families::DISCOVERY_FAILING, &[name]),
            responded_at_s: telemetry.gauge(&families::DISCOVERY_RESPONDED_AT, &[name]),
        }
    }
}

impl Discovery {
    pub(super) fn new(plan: &UpstreamPlan, name: &str, telemetry: &Telemetry) -> Discovery {
        let metrics = plan.discover.as_ref().map(|_| DiscoveryMetrics::new(name, telemetry));
        Discovery { metrics, ..Discovery::default() }
    }

    fn responded(&mut self) {
        let now = clock::now();
        (self.is_tried, self.responded, self.failure) = (true, Some(now), None);
    }

    fn error(&self) -> Option<&String> {
        self.failure.as_ref().or(self.flaw.as_ref())
    }
}

impl ClusterState {
    /// True if a name is from a list of the source that may have vanished since, together with the
    /// addresses of the name, which were known at `resolved`.
    fn is_name_of_older_list(&self, server: &Address, resolved: Option<Moment>) -> bool {
        let settings = &self.plan.settings;
        let is_listed = settings.servers.iter().any(|listed| listed.address.address == *server);
        let Some(discover) = settings.discover.as_ref().filter(|_| !is_listed) else {
            return false;
        };
        let discovery = &self.discovery;
        let is_stream = discover.source().is_some_and(|source| source.is_stream());
        let is_newer =
            discovery.responded.is_some_and(|responded| is_stream || Some(responded) > resolved);
        discover.on_empty == OnEmpty::Keep
            && (discovery.is_outdated || discovery.failure.is_some() || !is_newer)
    }
}

impl Cluster {
    /// Takes over that a server name does not exist. The addresses that it had at `resolved` stay
    /// in use with the list that it is from, until the source has a newer one.
    pub(crate) fn name_unknown(&self, server: &Address, resolved: Option<Moment>) {
        let is_kept = self.inside().is_name_of_older_list(server, resolved);
        if !is_kept {
            self.resolve(server, Vec::new());
        }
    }

    /// Prepares for a plan: without a source it has no discovered servers, with another one it has
    /// the last known ones until that responds.
    pub(super) fn follow(&self, inside: &mut ClusterState, plan: &UpstreamPlan) {
        let source = |plan: &UpstreamPlan| plan.settings.discover.clone();
        match (source(&inside.plan), source(plan)) {
            (Some(before), Some(after)) if before.is_same_source(&after) => {}
            (_, after) => {
                if after.as_ref().is_none_or(|after| after.registration.is_none()) {
                    self.registrations.clear();
                }
                let mut fresh = Discovery::new(plan, &self.name, self.telemetry());
                if after.is_some() {
                    fresh.servers = inside.discovery.servers.clone();
                }
                inside.discovery = fresh;
            }
        }
    }

    /// Takes over the servers of a response.
    pub(crate) fn discovered(&self, found: DiscoveredServers) {
        let mut inside = self.inside();
        let Some(settings) = inside.plan.settings.discover.clone() else { return };
        let had_failed = inside.discovery.failure.is_some();
        inside.discovery.responded();
        // A response of which nothing can be used is not one without servers.
        let is_kept = found.servers.is_empty()
            && (settings.on_empty == OnEmpty::Keep || !found.rejected.is_empty());
        let is_same = *inside.discovery.servers == found.servers;
        let flaw = match found.rejected.as_slice() {
            [] if !is_kept => None,
            // No server has registered yet.
            [] if settings.registration.is_some() && inside.discovery.servers.is_empty() => None,
            [] => Some("the response has no servers".to_owned()),
            [first, more @ ..] => {
                Some(cut(format!("{} entries are not used: {first}", more.len() + 1)))
            }
        };
        if flaw.is_some() && flaw != inside.discovery.flaw {
            event!(
                Level::Warn,
                "the source of an upstream's servers has a response with an error",
                upstream = &*self.name,
                source = source_of(&settings),
                error = flaw.as_deref().unwrap_or_default(),
                servers =
                    if is_kept { inside.discovery.servers.len() } else { found.servers.len() }
            );
        }
        inside.discovery.flaw = flaw;
        inside.discovery.is_outdated = is_kept;
        if had_failed {
            self.log_return(&settings);
        }
        match (is_kept, is_same) {
            (true, _) => self.count(&inside, |metrics| &metrics.empty),
            (false, true) => self.count(&inside, |metrics| &metrics.unchanged),
            (false, false) => {
                self.log_change(&settings, &inside.discovery.servers, &found.servers);
                inside.discovery.servers = Arc::new(found.servers);
                self.count(&inside, |metrics| &metrics.changed);
                self.reshape(&mut inside);
            }
        }
        self.show_source(&inside);
        self.name_resolved.notify_waiters();
    }

    /// Notes that the source still names the same servers.
    pub(crate) fn discovery_confirmed(&self) {
        let mut inside = self.inside();
        let Some(settings) = inside.plan.settings.discover.clone() else { return };
        if inside.discovery.failure.is_some() {
            self.log_return(&settings);
        }
        inside.discovery.responded();
        self.count(&inside, |metrics| &metrics.unchanged);
        self.show_source(&inside);
    }

    /// Notes that the source failed: the last known servers stay in use.
    pub(crate) fn discovery_failed(&self, why: &str) {
        let mut inside = self.inside();
        let Some(settings) = inside.plan.settings.discover.clone() else { return };
        let why = cut(why.to_owned());
        let discovery = &mut inside.discovery;
        if discovery.failure.is_none() {
            let is_stream = settings.source().is_some_and(|source| source.is_stream());
            if is_stream && discovery.responded.is_some() {
                // Until now it would have reported a change.
                discovery.responded = Some(clock::now());
            }
            event!(
                Level::Warn,
                "the source of an upstream's servers fails, the last known servers stay in use",
                event = "discovery_failed",
                upstream = &*self.name,
                source = source_of(&settings),
                error = why,
                servers = discovery.servers.len()
            );
        }
        discovery.is_tried = true;
        discovery.failure = Some(why);
        self.count(&inside, |metrics| &metrics.failed);
        self.show_source(&inside);
        self.name_resolved.notify_waiters();
    }

    /// The state of the source, if there is one.
    pub(crate) fn discovery_status(&self) -> Option<DiscoveryStatus> {
        let inside = self.inside();
        let source = inside.plan.settings.discover.as_ref()?.source()?;
        let discovery = &inside.discovery;
        let is_current = source.is_stream() && discovery.failure.is_none();
        let age = discovery.responded.map(|responded| clock::now().since(responded).as_millis());
        let age_ms = age.map(|age| if is_current { 0 } else { u64::try_from(age).unwrap_or(0) });
        Some(DiscoveryStatus {
            source: source.to_string(),
            servers: discovery.servers.len(),
            age_ms,
            error: discovery.error().cloned(),
        })
    }

    fn count(
        &self,
        inside: &ClusterState,
        counter: impl FnOnce(&DiscoveryMetrics) -> &Arc<SharedCounter>,
    ) {
        if let Some(metrics) = &inside.discovery.metrics {
            counter(metrics).inc();
        }
    }

    fn show_source(&self, inside: &ClusterState) {
        let discovery = &inside.discovery;
        let Some(metrics) = &discovery.metrics else { return };
        metrics.servers.set(i64::try_from(discovery.servers.len()).unwrap_or(i64::MAX));
        metrics.failing.set(i64::from(discovery.failure.is_some()));
        if discovery.failure.is_none() {
            metrics.responded_at_s.set(i64::try_from(clock::wall_secs()).unwrap_or(i64::MAX));
        }
    }

    fn log_return(&self, settings: &DiscoverSettings) {
        event!(
            Level::Info,
            "the source of an upstream's servers responds again",
            event = "discovery_restored",
            upstream = &*self.name,
            source = source_of(settings)
        );
    }

    fn log_change(
        &self,
        settings: &DiscoverSettings,
        before: &[ServerSettings],
        after: &[ServerSettings],
    ) {
        let before: BTreeSet<&ServerAddress> = before.iter().map(|one| &one.address).collect();
        let after: BTreeSet<&ServerAddress> = after.iter().map(|one| &one.address).collect();
        event!(
            Level::Info,
            "the servers of an upstream have changed",
            event = "servers_changed",
            upstream = &*self.name,
            source = source_of(settings),
            servers = after.len(),
            added = after.difference(&before).count(),
            removed = before.difference(&after).count()
        );
    }
}

fn source_of(settings: &DiscoverSettings) -> String {
    settings.source().map(|source| source.to_string()).unwrap_or_default()
}

fn cut(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(DISCOVERY_ERROR_BYTES));
    why
}
