//! The health of the members: results of checks, failures in a row, ejections and their end.
//!
//! Every change is logged, counted, and seen by all workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use telemetry::log::Level;
use telemetry::{MarkKind, SharedCounter, families};

use crate::health_history::HealthChange;
use crate::limits::{EJECTION_FACTOR_MAX, HEALTH_CHANGES_SHOWN};
use crate::member::{Member, ServerHealth, ServerState};
use crate::settings::EjectionSettings;

use super::{Cluster, ClusterState, Members};

impl Cluster {
    /// Sets the result of active checks of a server.
    pub(crate) fn set_checked(&self, member: &Member, healthy: bool, now_ms: u64, why: &str) {
        let inside = self.inside();
        let health = &member.health;
        if health.unhealthy.swap(!healthy, Ordering::Relaxed) != healthy {
            return;
        }
        if healthy {
            health.returned_ms.store(now_ms, Ordering::Relaxed);
            let why = "its checks succeed";
            self.report(&inside, member, ServerState::Healthy, "a server is healthy again", why);
        } else {
            self.report(&inside, member, ServerState::Unhealthy, "a server is unhealthy", why);
        }
    }

    /// Counts a failure of a server; ejects it after too many in a row, unless too many others are
    /// ejected already.
    pub(crate) fn failed(
        &self,
        member: &Member,
        rules: &EjectionSettings,
        was_trial: bool,
        now_ms: u64,
    ) {
        let health = &member.health;
        let failures = health.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let out = health.is_ejected();
        if rules.failures == 0 || (out && !was_trial) || (!was_trial && failures < rules.failures) {
            return;
        }
        let inside = self.inside();
        if !was_trial && !may_eject(&inside.members, rules) {
            return;
        }
        let times = health.ejections.fetch_add(1, Ordering::Relaxed);
        let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX).min(EJECTION_FACTOR_MAX);
        let out_ms = rules.ejected_for.as_millis_u64().saturating_mul(u64::from(factor));
        health.ejected_until_ms.store(now_ms.saturating_add(out_ms).max(1), Ordering::Relaxed);
        health.failures.store(0, Ordering::Relaxed);
        self.ejections(member).inc();
        let why = match was_trial {
            true => format!("the trial request failed; for {out_ms} ms"),
            false => format!("{failures} failures in a row; for {out_ms} ms"),
        };
        let message = "a server is ejected after failures";
        self.report(&inside, member, ServerState::Ejected, message, &why);
        self.reshaped.notify_one();
    }

    /// Counts a success, which ends a row of failures and, for a trial request, the ejection.
    pub(crate) fn succeeded(
        &self,
        member: &Member,
        rules: &EjectionSettings,
        was_trial: bool,
        now_ms: u64,
    ) {
        let health = &member.health;
        // Usually there is nothing to write, and a write would invalidate the cache line of every
        // worker.
        if health.failures.load(Ordering::Relaxed) != 0 {
            health.failures.store(0, Ordering::Relaxed);
        }
        if !was_trial {
            if health.ejections.load(Ordering::Relaxed) != 0 {
                forget_ejections(health, rules, now_ms);
            }
            return;
        }
        let inside = self.inside();
        health.ejected_until_ms.store(0, Ordering::Relaxed);
        health.returned_ms.store(now_ms, Ordering::Relaxed);
        let why = "the trial request succeeded";
        self.report(&inside, member, ServerState::Healthy, "an ejected server is back", why);
        self.reshaped.notify_one();
    }

    /// Ends an ejection before its time: the next request tries the server.
    pub(crate) fn end_ejection(&self, member: &Member, now_ms: u64) {
        let inside = self.inside();
        let until_ms = &member.health.ejected_until_ms;
        if until_ms.load(Ordering::Relaxed) > now_ms {
            until_ms.store(now_ms.max(1), Ordering::Relaxed);
            let message = "an ejected server accepts connections again, the next request tries it";
            let why = "it accepts connections again";
            self.report(&inside, member, ServerState::Trial, message, why);
        }
    }

    fn ejections(&self, member: &Member) -> Arc<SharedCounter> {
        self.telemetry.counter(&families::UPSTREAM_EJECTIONS, &[&self.name, &member.name])
    }

    /// Reports a change of a server's health to the log, the metrics, its history and the workers.
    fn report(
        &self,
        inside: &ClusterState,
        member: &Member,
        state: ServerState,
        message: &str,
        why: &str,
    ) {
        let (upstream, server) = (&*self.name, &*member.name);
        let level = if state.is_out() { Level::Warn } else { Level::Info };
        telemetry::event!(level, message, upstream = upstream, server = server, why = why);
        self.remember(member, state, why);
        show(inside, member);
        self.changed();
    }

    /// Adds a change to the history of a server, and marks its time.
    pub(super) fn remember(&self, member: &Member, state: ServerState, why: &str) {
        member.health.history.add(state, why);
        let (kind, now) = match state {
            ServerState::Healthy => (MarkKind::Good, "back"),
            ServerState::Trial => return,
            ServerState::Draining => (MarkKind::Neutral, state.as_str()),
            _ => (MarkKind::Bad, state.as_str()),
        };
        let text = format!("{} {} is {now}: {why}", self.name, member.name);
        self.telemetry.marks().add(kind, &text);
    }

    /// The last changes of the health of its servers, and the address of each; the latest first.
    pub(crate) fn health_changes(&self) -> Vec<(Arc<str>, HealthChange)> {
        let inside = self.inside();
        let members: Vec<_> = inside.members.list.iter().chain(&inside.leaving).cloned().collect();
        drop(inside);
        let changes_of = |member: &Arc<Member>| {
            let named = |change| (member.name.clone(), change);
            member.health.history.all().into_iter().map(named).collect::<Vec<_>>()
        };
        let mut changes: Vec<_> = members.iter().flat_map(changes_of).collect();
        changes.sort_by_key(|(_, change)| std::cmp::Reverse(change.at_ms));
        changes.truncate(HEALTH_CHANGES_SHOWN);
        changes
    }
}

/// Forgets earlier ejections of a server that has been back for as long as its first ejection
/// lasted.
fn forget_ejections(health: &ServerHealth, rules: &EjectionSettings, now_ms: u64) {
    let back_ms = now_ms.saturating_sub(health.returned_ms.load(Ordering::Relaxed));
    if !health.is_ejected() && back_ms >= rules.ejected_for.as_millis_u64() {
        health.ejections.store(0, Ordering::Relaxed);
    }
}

/// True if one more server may be ejected.
fn may_eject(members: &Members, rules: &EjectionSettings) -> bool {
    let out = members.list.iter().filter(|member| member.health.is_ejected()).count();
    let allowed = (members.list.len() as f64 * rules.max_ejected.fraction()).floor();
    ((out + 1) as f64) <= allowed
}

/// Updates the gauge of a server in rotation.
pub(super) fn show(inside: &ClusterState, member: &Member) {
    if let Some(gauge) = inside.gauges.get(&member.name) {
        // Time alone does not end an ejection here: a trial request does.
        gauge.set(i64::from(member.state(0) == ServerState::Healthy));
    }
}

impl ServerHealth {
    /// The time at which the state changes by itself, if it does.
    pub(crate) fn turns_at_ms(&self, now_ms: u64) -> Option<u64> {
        let until_ms = self.ejected_until_ms.load(Ordering::Relaxed);
        (until_ms > now_ms).then_some(until_ms)
    }
}
