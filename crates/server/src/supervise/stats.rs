//! The statistics that a worker process reports every second.
//!
//! Counters start with the process; a sum over consecutive processes includes the earlier ones
//! ([`Stats::followed_by`]).

use serde_json::{Value, json};
use telemetry::Snapshot;

/// The statistics of one process, or the sum over those of its slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Requests and sessions that the application has taken.
    pub requests: u64,
    /// Requests and sessions in flight.
    pub in_flight: u64,
    /// WebSocket sessions that are open.
    pub websockets: u64,
    /// Number of stalls: times in which the application did not respond.
    pub stalls: u64,
    /// Current time without a response of the application.
    pub loop_lag_ms: u64,
    pub rss_bytes: u64,
    /// Time from the arrival of a request until the application takes it.
    pub queue: Snapshot,
    /// Time from there to the response headers.
    pub call: Snapshot,
    /// Time that the application's threads waited for the GIL.
    pub gil_wait: Snapshot,
}

impl Stats {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "requests": self.requests,
            "in_flight": self.in_flight,
            "websockets": self.websockets,
            "stalls": self.stalls,
            "loop_lag_ms": self.loop_lag_ms,
            "rss_bytes": self.rss_bytes,
            "queue_us": histogram(&self.queue),
            "call_us": histogram(&self.call),
            "gil_wait_us": histogram(&self.gil_wait),
        })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Stats> {
        let number = |key: &str| value[key].as_u64();
        Some(Stats {
            requests: number("requests")?,
            in_flight: number("in_flight")?,
            websockets: number("websockets").unwrap_or_default(),
            stalls: number("stalls").unwrap_or_default(),
            loop_lag_ms: number("loop_lag_ms").unwrap_or_default(),
            rss_bytes: number("rss_bytes").unwrap_or_default(),
            queue: snapshot(&value["queue_us"]),
            call: snapshot(&value["call_us"]),
            gil_wait: snapshot(&value["gil_wait_us"]),
        })
    }

    /// Adds the counters of earlier processes in the slot; gauges are those of the later process.
    pub(crate) fn followed_by(&self, later: &Stats) -> Stats {
        let mut sum = later.clone();
        sum.requests += self.requests;
        sum.stalls += self.stalls;
        sum.queue.merge(&self.queue);
        sum.call.merge(&self.call);
        sum.gil_wait.merge(&self.gil_wait);
        sum
    }

    /// The counters of a process that has exited; its gauges are zero.
    pub(crate) fn ended(mut self) -> Stats {
        (self.in_flight, self.websockets, self.loop_lag_ms, self.rss_bytes) = (0, 0, 0, 0);
        self
    }
}

fn histogram(snapshot: &Snapshot) -> Value {
    json!({ "counts": snapshot.buckets, "sum": snapshot.sum_us })
}

/// Missing buckets are zero.
fn snapshot(value: &Value) -> Snapshot {
    let mut snapshot =
        Snapshot { sum_us: value["sum"].as_u64().unwrap_or(0), ..Snapshot::default() };
    let counts = value["counts"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (bucket, count) in snapshot.buckets.iter_mut().zip(counts) {
        *bucket = count.as_u64().unwrap_or(0);
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(requests: u64) -> Stats {
        let mut stats = Stats { requests, in_flight: 2, rss_bytes: 5, ..Stats::default() };
        stats.queue.buckets[1] = requests;
        stats.queue.sum_us = 10 * requests;
        stats
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Stats::from_json(&stats(3).to_json()), Some(stats(3)));
        assert_eq!(Stats::from_json(&json!({ "requests": 1 })), None);
        let least = Stats::from_json(&json!({ "requests": 1, "in_flight": 0 })).unwrap();
        assert_eq!(least, Stats { requests: 1, ..Stats::default() });
    }

    #[test]
    fn counters_continue_in_the_next_process_and_levels_do_not() {
        let sum = stats(3).ended().followed_by(&stats(4));
        assert_eq!((sum.requests, sum.in_flight, sum.rss_bytes), (7, 2, 5));
        assert_eq!((sum.queue.buckets[1], sum.queue.sum_us), (7, 70));
        assert_eq!(stats(3).ended().in_flight, 0);
    }
}
