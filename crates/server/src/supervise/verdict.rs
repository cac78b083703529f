//! What is to be done with a worker, from what is known of it: a pure function.

use std::time::Duration;

use super::policy::Policy;
use super::stats::Stats;

/// What is known of a worker that is ready.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'s> {
    pub(crate) age: Duration,
    /// Since it was heard last.
    pub(crate) silence: Duration,
    pub(crate) stats: &'s Stats,
    /// Its share of the jitter.
    pub(crate) requests_extra: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// Another one takes its place, then it drains.
    Replace(Reason),
    /// It is killed.
    Kill(Reason),
}

/// Why a process was started in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It ended by itself.
    Exit,
    /// It could not begin.
    Start,
    /// Its application answered nobody.
    Stuck,
    /// Its I/O thread was not heard any more.
    Silent,
    MaxRequests,
    MaxRss,
    Lifetime,
    /// Somebody asked for it.
    Reload,
}

impl Reason {
    pub(crate) const ALL: [Reason; 8] = [
        Reason::Exit,
        Reason::Start,
        Reason::Stuck,
        Reason::Silent,
        Reason::MaxRequests,
        Reason::MaxRss,
        Reason::Lifetime,
        Reason::Reload,
    ];

    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Reason::Exit => "exit",
            Reason::Start => "start",
            Reason::Stuck => "stuck",
            Reason::Silent => "silent",
            Reason::MaxRequests => "max_requests",
            Reason::MaxRss => "max_rss",
            Reason::Lifetime => "lifetime",
            Reason::Reload => "reload",
        }
    }
}

impl Policy {
    pub(crate) fn verdict(&self, facts: &Facts<'_>) -> Verdict {
        let stats = facts.stats;
        if let Some(most) = self.stuck_after {
            if facts.silence >= most {
                return Verdict::Kill(Reason::Silent);
            }
            if Duration::from_millis(stats.loop_lag_ms) >= most {
                return Verdict::Kill(Reason::Stuck);
            }
        }
        let over = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
        let requests = self.max_requests.map(|most| most.saturating_add(facts.requests_extra));
        if over(requests, stats.requests) {
            Verdict::Replace(Reason::MaxRequests)
        } else if over(self.max_rss_bytes, stats.rss_bytes) {
            Verdict::Replace(Reason::MaxRss)
        } else if self.lifetime.is_some_and(|most| facts.age >= most) {
            Verdict::Replace(Reason::Lifetime)
        } else {
            Verdict::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(policy: &Policy, stats: &Stats, age_s: u64, silence_s: u64) -> Verdict {
        policy.verdict(&Facts {
            age: Duration::from_secs(age_s),
            silence: Duration::from_secs(silence_s),
            stats,
            requests_extra: 5,
        })
    }

    #[test]
    fn each_rule_has_its_verdict() {
        let policy = Policy {
            stuck_after: Some(Duration::from_secs(30)),
            max_requests: Some(100),
            max_rss_bytes: Some(1000),
            lifetime: Some(Duration::from_secs(60)),
            ..Policy::default()
        };
        let fine = Stats { requests: 104, rss_bytes: 999, ..Stats::default() };
        assert_eq!(verdict(&policy, &fine, 59, 29), Verdict::Fine);
        assert_eq!(verdict(&policy, &fine, 59, 30), Verdict::Kill(Reason::Silent));
        assert_eq!(verdict(&policy, &fine, 60, 0), Verdict::Replace(Reason::Lifetime));
        let busy = Stats { requests: 105, ..Stats::default() };
        assert_eq!(verdict(&policy, &busy, 0, 0), Verdict::Replace(Reason::MaxRequests));
        let fat = Stats { rss_bytes: 1000, ..Stats::default() };
        assert_eq!(verdict(&policy, &fat, 0, 0), Verdict::Replace(Reason::MaxRss));
        let stuck = Stats { loop_lag_ms: 30_000, requests: 500, ..Stats::default() };
        assert_eq!(verdict(&policy, &stuck, 0, 0), Verdict::Kill(Reason::Stuck));
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
        assert_eq!(verdict(&policy, &stats, 1 << 40, 1 << 40), Verdict::Fine);
    }
}
