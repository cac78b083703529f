//! Limits on the tokens of a consumer over time.
//!
//! A request is rejected once the tokens of the period so far have reached a limit; its own tokens
//! are added when they are known. Requests in flight can therefore exceed a limit.

use std::rc::Rc;
use std::sync::Arc;

use message::{Headers, Request};
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, LimitHit, WorkerMetrics, families};
use traffic::{AmountKey, AmountQuota, AmountQuotaSettings, AmountUse};
use wire::Known;

use crate::api_error::ApiError;

/// The limits of a handler, on one worker.
pub(crate) struct TokenLimits {
    limits: Vec<TokenLimit>,
    worker: Arc<WorkerMetrics>,
}

struct TokenLimit {
    quota: Rc<AmountQuota>,
    rejected: Arc<CachePadded<Counter>>,
}

/// A limit in which the tokens of a request are counted.
pub(crate) struct Charge {
    quota: Rc<AmountQuota>,
    key: AmountKey,
}

impl Charge {
    pub(crate) fn add(&self, tokens: u32) {
        self.quota.add(self.key, tokens);
    }
}

/// What the limits allow a request.
#[derive(Default)]
pub(crate) struct Allowance {
    pub(crate) charges: Vec<Charge>,
    /// The limit with the fewest remaining tokens.
    tightest: Option<AmountUse>,
}

impl TokenLimits {
    pub(crate) fn new(settings: &[AmountQuotaSettings], worker: &WorkerContext) -> TokenLimits {
        let limit = |settings: &AmountQuotaSettings| {
            let labels = [&*settings.name];
            let family = &families::AI_TOKEN_LIMITED;
            TokenLimit {
                quota: Rc::new(AmountQuota::new(settings, worker)),
                rejected: worker.telemetry.worker_counter(worker.index, family, &labels),
            }
        };
        TokenLimits {
            limits: settings.iter().map(limit).collect(),
            worker: worker.telemetry.worker(worker.index),
        }
    }

    /// Checks a request against every limit.
    pub(crate) fn check(&self, request: &Request) -> Result<Allowance, ApiError> {
        let mut allowance = Allowance::default();
        for limit in &self.limits {
            let Some(used) = limit.quota.used(request) else {
                let message = "The tokens cannot be counted now.";
                return Err(ApiError::new(503, "limit_unavailable", message));
            };
            if used.remaining() == 0 {
                self.worker.hit(LimitHit::Rate);
                limit.rejected.inc();
                return Err(exceeded(limit.quota.name(), used));
            }
            allowance.charges.push(Charge { quota: limit.quota.clone(), key: used.key });
            let tightest = allowance.tightest.get_or_insert(used);
            if used.remaining() < tightest.remaining() {
                *tightest = used;
            }
        }
        Ok(allowance)
    }
}

impl Allowance {
    /// Adds the fields that OpenAI's API has.
    pub(crate) fn write(&self, headers: &mut Headers) {
        if let Some(used) = self.tightest {
            write(used, headers);
        }
    }
}

fn write(used: AmountUse, headers: &mut Headers) {
    headers.append("x-ratelimit-limit-tokens", used.limit.to_string());
    headers.append("x-ratelimit-remaining-tokens", used.remaining().to_string());
    headers.append("x-ratelimit-reset-tokens", span(used.ends_in_s));
}

fn exceeded(name: &str, used: AmountUse) -> ApiError {
    let AmountUse { limit, ends_in_s, .. } = used;
    let message = format!(
        "The limit \"{name}\" of {limit} tokens is reached. Please try again in {}.",
        span(ends_in_s)
    );
    let mut error = ApiError::new(429, "rate_limit_exceeded", message);
    error.headers.append(Known::RetryAfter, ends_in_s.to_string());
    write(used, &mut error.headers);
    error
}

/// A length of time as OpenAI writes it, such as `6m0s`.
fn span(seconds: u32) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn lengths_of_time_are_those_of_the_api() {
        for (seconds, text) in [(1, "1s"), (360, "6m0s"), (3_601, "1h0m1s"), (86_400, "24h0m0s")] {
            assert_eq!(span(seconds), text);
        }
    }
}
