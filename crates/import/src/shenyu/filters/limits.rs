//! Limits and circuit breakers, from the plugins `rateLimiter`, `resilience4j`, `hystrix` and
//! `sentinel`.

use serde_json::{Value, json};

use super::super::model::{Entry, number, text};
use super::{Filters, own_name};

impl Filters {
    /// Adds a limit of requests per second, if the numbers are one.
    fn limit(&mut self, rule: &Entry, per_second: f64, burst: Option<u64>, key: &str, cost: u64) {
        let rate = match per_second {
            rate if rate >= 1.0 => format!("{}/s", rate.round() as u64),
            rate if rate * 60.0 >= 1.0 => format!("{}/m", (rate * 60.0).round() as u64),
            rate => format!("{}/h", ((rate * 3600.0).round() as u64).max(1)),
        };
        let mut limit = json!({ "rate": rate, "key": key, "name": own_name(rule) });
        burst.into_iter().for_each(|burst| limit["burst"] = burst.clamp(1, 1_000_000).into());
        if cost > 1 {
            limit["cost"] = json!([{ "when": { "variable": "path" }, "cost": cost }]);
        }
        self.push("rate_limit", limit);
    }

    fn concurrency(&mut self, limit: u64, status: u64, rule: &Entry) {
        let limit = limit.clamp(1, 1_000_000);
        self.push_own("concurrency", json!({ "limit": limit, "status": status }), rule);
    }

    pub(super) fn rate_limiter(&mut self, handle: &Value, rule: &Entry) {
        let burst = number(handle, "burstCapacity").map(|burst| burst as u64);
        let is_per_client = text(handle, "keyResolverName") == "REMOTE_ADDRESS_KEY_RESOLVER";
        // Without an address, one key for all.
        let key = if is_per_client { "client_ip" } else { "route" };
        match (&*text(handle, "algorithmName"), number(handle, "replenishRate")) {
            ("concurrent", _) => {
                self.concurrency(burst.unwrap_or(1), 429, rule);
                if is_per_client && let Some(limit) = self.list.last_mut() {
                    limit["concurrency"]["key"] = key.into();
                }
            }
            (algorithm, Some(rate)) if rate > 0.0 => {
                if algorithm != "tokenBucket" {
                    self.note(rule, &format!("{algorithm} becomes a token bucket"));
                }
                let cost = number(handle, "requestCount").unwrap_or(1.0).max(1.0) as u64;
                self.limit(rule, rate, burst.map(|burst| burst.max(cost)), key, cost);
            }
            _ => self.not_converted(rule, "limits without a rate"),
        }
    }

    pub(super) fn resilience4j(&mut self, handle: &Value, rule: &Entry) {
        let limit = number(handle, "limitForPeriod").unwrap_or(50.0);
        let period_ms = number(handle, "limitRefreshPeriod").unwrap_or(500.0).max(1.0);
        let burst = Some(limit as u64).filter(|_| limit >= 1.0);
        self.limit(rule, limit * 1000.0 / period_ms, burst, "route", 1);
        if number(handle, "circuitEnable") == Some(1.0) {
            let mut breaker = breaker(
                number(handle, "failureRateThreshold").unwrap_or(50.0),
                number(handle, "minimumNumberOfCalls").unwrap_or(100.0),
                number(handle, "waitIntervalFunctionInOpenState").unwrap_or(60_000.0),
            );
            let probes = number(handle, "permittedNumberOfCallsInHalfOpenState").unwrap_or(10.0);
            breaker["probes"] = (probes as u64).clamp(1, 1000).into();
            self.note(rule, "the window of the circuit breaker is 10 s, not a number of calls");
            self.push_own("circuit_breaker", breaker, rule);
        }
        self.fallback(handle, rule);
    }

    pub(super) fn hystrix(&mut self, handle: &Value, rule: &Entry) {
        let concurrent = number(handle, "maxConcurrentRequests").unwrap_or(100.0);
        self.concurrency(concurrent as u64, 503, rule);
        let breaker = breaker(
            number(handle, "errorThresholdPercentage").unwrap_or(50.0),
            number(handle, "requestVolumeThreshold").unwrap_or(20.0),
            number(handle, "sleepWindowInMilliseconds").unwrap_or(5000.0),
        );
        self.push_own("circuit_breaker", breaker, rule);
        if handle["timeout"].as_u64().is_some() {
            self.note(rule, "the time-out of hystrix is that of the upstream here");
        }
        self.fallback(handle, rule);
    }

    pub(super) fn sentinel(&mut self, handle: &Value, rule: &Entry) {
        let count = number(handle, "flowRuleCount").unwrap_or(0.0);
        if number(handle, "flowRuleEnable") == Some(1.0) && count > 0.0 {
            match number(handle, "flowRuleGrade") {
                Some(0.0) => self.concurrency(count as u64, 429, rule),
                _ => self.limit(rule, count, None, "route", 1),
            }
            if number(handle, "flowRuleControlBehavior").unwrap_or(0.0) != 0.0 {
                self.note(rule, "requests above the limit are rejected, not queued or warmed up");
            }
        }
        if number(handle, "degradeRuleEnable") == Some(1.0) {
            let count = number(handle, "degradeRuleCount").unwrap_or(0.0);
            let requests = number(handle, "degradeRuleMinRequestAmount").unwrap_or(5.0);
            let open = number(handle, "degradeRuleTimeWindow").unwrap_or(10.0) * 1000.0;
            match number(handle, "degradeRuleGrade") {
                Some(0.0) => {
                    let ratio = number(handle, "degradeRuleSlowRatioThreshold").unwrap_or(1.0);
                    let mut breaker = breaker(100.0, requests, open);
                    breaker["slow"] = format!("{}ms", (count as u64).max(1)).into();
                    breaker["slow_ratio"] = percent(ratio * 100.0).into();
                    self.push_own("circuit_breaker", breaker, rule);
                }
                Some(1.0) => {
                    let breaker = breaker(count * 100.0, requests, open);
                    self.push_own("circuit_breaker", breaker, rule);
                }
                _ => self.note(rule, "a number of errors is not carried over, write a ratio"),
            }
        }
        self.fallback(handle, rule);
    }

    fn fallback(&mut self, handle: &Value, rule: &Entry) {
        if ["fallbackUri", "callBackUri"].iter().any(|field| !text(handle, field).is_empty()) {
            self.note(
                rule,
                "the fallback is not carried over, write `fallback` of circuit_breaker",
            );
        }
    }
}

fn breaker(failures: f64, requests: f64, open_ms: f64) -> Value {
    json!({
        "failure_ratio": percent(failures),
        "min_requests": (requests as u64).clamp(1, 1_000_000),
        "open": format!("{}ms", (open_ms as u64).clamp(100, 3_600_000)),
    })
}

fn percent(share: f64) -> String {
    format!("{}%", (share.round() as u64).clamp(1, 100))
}
