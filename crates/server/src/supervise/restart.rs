//! Decides whether a worker is replaced or killed: a pure function of its state.

use std::time::Duration;

use super::policy::Policy;
use super::stats::Stats;

/// The state of a worker that is ready.
#[derive(Clone, Debug)]
pub(crate) struct WorkerFacts<'s> {
    pub(crate) age: Duration,
    /// Time since its last report.
    pub(crate) silence: Duration,
    pub(crate) stats: &'s Stats,
    /// Its share of the jitter.
    pub(crate) requests_extra: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    Fine,
    /// Start a replacement, then drain it.
    Replace(RestartReason),
    /// Kill it.
    Kill(RestartReason),
}

/// The reason why a process was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RestartReason {
    /// It exited by itself.
    Exit,
    /// It could not start.
    Start,
    /// Its application did not respond.
    Stuck,
    /// Its I/O thread sent no reports.
    Silent,
    MaxRequests,
    MaxRss,
    Lifetime,
    /// Requested by the admin API, a signal or a file change.
    Reload,
}

impl RestartReason {
    pub(crate) const ALL: [RestartReason; 8] = [
        RestartReason::Exit,
        RestartReason::Start,
        RestartReason::Stuck,
        RestartReason::Silent,
        RestartReason::MaxRequests,
        RestartReason::MaxRss,
        RestartReason::Lifetime,
        RestartReason::Reload,
    ];

    pub(crate) const fn slug(self) -> &'static str {
        match self {
            RestartReason::Exit => "exit",
            RestartReason::Start => "start",
            RestartReason::Stuck => "stuck",
            RestartReason::Silent => "silent",
            RestartReason::MaxRequests => "max_requests",
            RestartReason::MaxRss => "max_rss",
            RestartReason::Lifetime => "lifetime",
            RestartReason::Reload => "reload",
        }
    }
}

impl Policy {
    pub(crate) fn decide(&self, facts: &WorkerFacts<'_>) -> RestartDecision {
        let stats = facts.stats;
        if let Some(most) = self.stuck_after {
            if facts.silence >= most {
                return RestartDecision::Kill(RestartReason::Silent);
            }
            if Duration::from_millis(stats.loop_lag_ms) >= most {
                return RestartDecision::Kill(RestartReason::Stuck);
            }
        }
        let over = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
        let requests = self.max_requests.map(|most| most.saturating_add(facts.requests_extra));
        if over(requests, stats.requests) {
            RestartDecision::Replace(RestartReason::MaxRequests)
        } else if over(self.max_rss_bytes, stats.rss_bytes) {
            RestartDecision::Replace(RestartReason::MaxRss)
        } else if self.lifetime.is_some_and(|most| facts.age >= most) {
            RestartDecision::Replace(RestartReason::Lifetime)
        } else {
            RestartDecision::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(policy: &Policy, stats: &Stats, age_s: u64, silence_s: u64) -> RestartDecision {
        policy.decide(&WorkerFacts {
            age: Duration::from_secs(age_s),
            silence: Duration::from_secs(silence_s),
            stats,
            requests_extra: 5,
        })
    }

    #[test]
    fn each_rule_has_its_decision() {
        let policy = Policy {
            stuck_after: Some(Duration::from_secs(30)),
            max_requests: Some(100),
            max_rss_bytes: Some(1000),
            lifetime: Some(Duration::from_secs(60)),
            ..Policy::default()
        };
        let fine = Stats { requests: 104, rss_bytes: 999, ..Stats::default() };
        assert_eq!(decision(&policy, &fine, 59, 29), RestartDecision::Fine);
        assert_eq!(decision(&policy, &fine, 59, 30), RestartDecision::Kill(RestartReason::Silent));
        assert_eq!(
            decision(&policy, &fine, 60, 0),
            RestartDecision::Replace(RestartReason::Lifetime)
        );
        let busy = Stats { requests: 105, ..Stats::default() };
        assert_eq!(
            decision(&policy, &busy, 0, 0),
            RestartDecision::Replace(RestartReason::MaxRequests)
        );
        let fat = Stats { rss_bytes: 1000, ..Stats::default() };
        assert_eq!(decision(&policy, &fat, 0, 0), RestartDecision::Replace(RestartReason::MaxRss));
        let stuck = Stats { loop_lag_ms: 30_000, requests: 500, ..Stats::default() };
        assert_eq!(decision(&policy, &stuck, 0, 0), RestartDecision::Kill(RestartReason::Stuck));
    }

    #[test]
    fn without_rules_everything_is_fine() {
        let policy = Policy { stuck_after: None, ..Policy::default() };
        let stats = Stats {
            requests: u64::MAX,
            rss_bytes: u64::MAX,
            loop_lag_ms: u64::MAX,
            ..Stats::default()
        };
        assert_eq!(decision(&policy, &stats, 1 << 40, 1 << 40), RestartDecision::Fine);
    }
}
