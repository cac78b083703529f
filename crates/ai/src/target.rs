//! The providers of a model: which one a request is sent to, and which ones are ejected.
//!
//! Promises that a request is sent to each provider at most once, and that a model of which all
//! providers are ejected still uses the one whose ejection ends first. The health of a provider's
//! model is shared by all workers and outlives plans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use message::{Headers, Response};
use plugin::WorkerContext;
use wire::Known;

use crate::settings::Ejection;

/// A model at one of its providers.
#[derive(Debug)]
pub(crate) struct Target {
    /// The provider, as an index of the handler's providers.
    pub(crate) provider: usize,
    pub(crate) provider_name: String,
    /// The provider's name for the model.
    pub(crate) model: String,
    pub(crate) weight: u32,
    pub(crate) backup: bool,
}

/// Identifies the health of a target across reloads.
#[derive(PartialEq, Eq, Hash)]
struct HealthKey {
    provider: String,
    url: String,
    model: String,
}

/// The health of a model at a provider. Times are milliseconds of the process's clock.
#[derive(Debug, Default)]
pub(crate) struct TargetHealth {
    /// Failures in a row, seen by any worker.
    failures: AtomicU32,
    /// Ejected until this time.
    ejected_until_ms: AtomicU64,
}

impl TargetHealth {
    pub(crate) fn of(target: &Target, url: &str, worker: &WorkerContext) -> Arc<TargetHealth> {
        let key = HealthKey {
            provider: target.provider_name.clone(),
            url: url.to_owned(),
            model: target.model.clone(),
        };
        worker.shared.get(key, TargetHealth::default)
    }

    fn is_ejected(&self, now_ms: u64) -> bool {
        self.ejected_until_ms.load(Relaxed) > now_ms
    }

    pub(crate) fn succeed(&self) {
        // Read before it is written: the line stays shared between the cores.
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Counts a failure. Returns the length of the ejection that it begins, in milliseconds.
    pub(crate) fn fail(
        &self,
        rules: &Ejection,
        retry_after_ms: Option<u64>,
        now_ms: u64,
    ) -> Option<u64> {
        let before = self.failures.load(Relaxed);
        let failures = before.saturating_add(1);
        // A failure that another worker counts at the same time may be lost.
        self.failures.store(failures, Relaxed);
        let retry_after_ms = retry_after_ms
            .map(|wait| wait.min(rules.max_retry_after.as_millis_u64()))
            .filter(|wait| *wait > 0);
        let has_too_many = rules.failures > 0 && failures >= rules.failures;
        let rule_ms = has_too_many.then(|| rules.ejected_for.as_millis_u64());
        let span_ms = retry_after_ms.max(rule_ms)?;
        let was_ejected = self.is_ejected(now_ms);
        self.ejected_until_ms.fetch_max(now_ms.saturating_add(span_ms), Relaxed);
        (!was_ejected).then_some(span_ms)
    }
}

/// The time that a response asks the client to wait, in milliseconds (RFC 9110 10.2.3).
pub(crate) fn retry_after_ms(response: &Response) -> Option<u64> {
    if !matches!(response.status, 429 | 503) {
        return None;
    }
    wait_s(&response.headers, net::clock::wall_secs()).map(|wait| wait.saturating_mul(1000))
}

fn wait_s(headers: &Headers, now_s: u64) -> Option<u64> {
    let value = headers.get(Known::RetryAfter)?.trim_ascii();
    match std::str::from_utf8(value).ok()?.parse() {
        Ok(seconds) => Some(seconds),
        Err(_) => wire::date::parse_http_date(value).map(|date| date.saturating_sub(now_s)),
    }
}

/// The targets that a request was sent to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u32);

impl Tried {
    fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    pub(crate) fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

/// Chooses the next target. First come those that are neither ejected nor backups, then backups,
/// then the one whose ejection ends first. `draw` returns a number below its argument.
pub(crate) fn choose(
    targets: &[Target],
    health: &[Arc<TargetHealth>],
    tried: Tried,
    now_ms: u64,
    draw: impl FnOnce(u32) -> u32,
) -> Option<usize> {
    let untried = || (0..targets.len()).filter(|index| !tried.contains(*index));
    for backup in [false, true] {
        let candidates = || {
            untried().filter(|index| {
                targets[*index].backup == backup && !health[*index].is_ejected(now_ms)
            })
        };
        let total: u32 = candidates().map(|index| targets[index].weight).sum();
        if total == 0 {
            continue;
        }
        let mut drawn = draw(total);
        return candidates().find(|index| {
            let weight = targets[*index].weight;
            let is_drawn = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_drawn
        });
    }
    untried().min_by_key(|index| health[*index].ejected_until_ms.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetHealth, Tried, choose, wait_s};
    use crate::settings::Ejection;
    use message::Headers;
    use settings::node;
    use std::sync::Arc;
    use wire::Known;

    fn targets(weights: &[(u32, bool)]) -> (Vec<Target>, Vec<Arc<TargetHealth>>) {
        let target = |(weight, backup): &(u32, bool)| Target {
            provider: 0,
            provider_name: "p".to_owned(),
            model: "m".to_owned(),
            weight: *weight,
            backup: *backup,
        };
        let health = weights.iter().map(|_| Arc::default()).collect();
        (weights.iter().map(target).collect(), health)
    }

    fn rules(failures: u32) -> Ejection {
        settings::read(&node!({ "failures": failures, "ejected_for": "10s" })).unwrap()
    }

    #[test]
    fn targets_are_drawn_by_weight_and_tried_once() {
        let (targets, health) = targets(&[(3, false), (1, false), (9, true)]);
        let mut shares = [0; 3];
        for drawn in 0..4 {
            let chosen = choose(&targets, &health, Tried::default(), 0, |total| {
                assert_eq!(total, 4);
                drawn
            });
            shares[chosen.unwrap()] += 1;
        }
        assert_eq!(shares, [3, 1, 0]);
        let mut tried = Tried::default();
        let mut order = Vec::new();
        while let Some(index) = choose(&targets, &health, tried, 0, |_| 0) {
            tried.add(index);
            order.push(index);
        }
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn ejected_targets_come_last() {
        let (targets, health) = targets(&[(1, false), (1, false), (1, true)]);
        let next = |tried, now_ms| choose(&targets, &health, tried, now_ms, |_| 0);
        assert_eq!(health[0].fail(&rules(1), None, 0), Some(10_000));
        assert_eq!(health[0].fail(&rules(1), None, 0), None, "it is ejected already");
        assert_eq!(next(Tried::default(), 0), Some(1));
        assert_eq!(health[1].fail(&rules(1), Some(5_000), 0), Some(10_000));
        assert_eq!(next(Tried::default(), 0), Some(2));
        assert_eq!(health[2].fail(&rules(0), Some(60_000), 0), Some(60_000));
        // The ejection that ends first.
        assert_eq!(next(Tried::default(), 0), Some(0));
        assert_eq!(next(Tried::default(), 10_000), Some(0));
    }

    #[test]
    fn a_row_of_failures_ejects_and_a_success_ends_the_row() {
        let health = TargetHealth::default();
        for _ in 0..2 {
            assert_eq!(health.fail(&rules(3), None, 0), None);
            assert_eq!(health.fail(&rules(3), None, 0), None);
            health.succeed();
        }
        assert_eq!(health.fail(&rules(0), None, 0), None);
        assert_eq!(health.fail(&rules(3), None, 0), None);
        assert_eq!(health.fail(&rules(3), None, 0), Some(10_000));
        // Back after its time, and ejected again by the next failure.
        assert_eq!(health.fail(&rules(3), None, 10_000), Some(10_000));
        // `Retry-After` has a bound.
        let long = TargetHealth::default();
        assert_eq!(long.fail(&rules(3), Some(u64::MAX), 0), Some(600_000));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, seconds) in [
            ("7", Some(7)),
            ("Thu, 01 Jan 1970 00:01:40 GMT", Some(60)),
            ("Thu, 01 Jan 1970 00:00:01 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let mut headers = Headers::new();
            headers.append(Known::RetryAfter, value);
            assert_eq!(wait_s(&headers, 40), seconds, "{value}");
        }
    }
}
