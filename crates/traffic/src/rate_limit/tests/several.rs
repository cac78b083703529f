//! Sliding windows, several limits, limits of consumers, and the rate under overload.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use message::{Consumer, ConsumerLimits, Request, Response};
use plugin::{Filter, WorkerContext};
use settings::{Node, node};
use telemetry::families;
use wire::Known;

use super::super::sliding::SlidingWindow;
use super::{KIND, RateDecision, passes};
use plugin::testing::{context, errors, filter, filter_in, get, passed, plan, rendered};

const SECOND_US: u64 = 1_000_000;

fn takes(window: SlidingWindow, cell: &AtomicU64, now_us: u64) -> bool {
    matches!(window.take(cell, 1, now_us), RateDecision::Allowed(_))
}

#[test]
fn a_sliding_window_counts_what_it_covers_of_the_one_before() {
    let (window, cell) = (SlidingWindow::new("10/s".parse().unwrap()), AtomicU64::new(0));
    let start = 1000 * SECOND_US;
    assert_eq!((0..20).filter(|_| takes(window, &cell, start)).count(), 10);
    assert_eq!((0..20).filter(|_| takes(window, &cell, start + SECOND_US - 1)).count(), 0);
    // A quarter of the next window: three quarters of the ten are in the sliding one.
    let at = start + SECOND_US + SECOND_US / 4;
    assert_eq!((0..20).filter(|_| takes(window, &cell, at)).count(), 3);
    // The clock of another worker is a little older.
    assert!(!takes(window, &cell, start + SECOND_US - 100));
    // After a pause of two windows nothing counts.
    let at = start + 5 * SECOND_US;
    assert_eq!((0..20).filter(|_| takes(window, &cell, at)).count(), 10);
}

#[test]
fn the_wait_of_a_sliding_window_is_long_enough_and_not_too_long() {
    for rate in ["1/m", "7/m", "60/m"] {
        let (window, cell) = (SlidingWindow::new(rate.parse().unwrap()), AtomicU64::new(0));
        let mut now = 600 * SECOND_US + 17 * SECOND_US;
        for round in 0..50 {
            while takes(window, &cell, now) {}
            let RateDecision::Refused { wait_s, .. } = window.take(&cell, 1, now) else {
                panic!("{rate}: full");
            };
            let then = now + u64::from(wait_s) * SECOND_US;
            assert!(wait_s == 1 || !takes(window, &cell, then - 2 * SECOND_US), "{rate} {round}");
            assert!(takes(window, &cell, then), "{rate} {round}: {wait_s}");
            now = then + round * SECOND_US / 3;
        }
    }
}

/// The number of requests that two workers allow within ten seconds in which 10 000 a second come,
/// with a reload each second.
fn allowed_under_overload(settings: &Node) -> usize {
    let first = context();
    let second = WorkerContext { index: 1, workers: 2, ..first.clone() };
    let build = || [&first, &second].map(|worker| filter_in(&KIND, settings, worker));
    net::manual_time::block_on(async {
        let (mut workers, mut allowed) = (build(), 0);
        for at in 0..100_000 {
            if at % 10_000 == 0 {
                workers = build();
            }
            let mut request = get("/", &[]);
            allowed += usize::from(passed(workers[at % 2].on_request(&mut request)).is_ok());
            if at % 10 == 9 {
                net::manual_time::advance(Duration::from_millis(1)).await;
            }
        }
        allowed
    })
}

#[test]
fn ten_times_the_rate_is_limited_to_within_one_per_cent_across_reloads() {
    for settings in [
        node!({ "rate": "1000/s", "burst": 1 }),
        node!({ "rate": "1000/s", "burst": 50 }),
        node!({ "rate": "1000/s", "window": "sliding" }),
        node!({ "limits": [
            { "rate": "1000/s", "burst": 1 },
            { "rate": "1000000/h", "burst": 1000000 },
        ] }),
    ] {
        let allowed = allowed_under_overload(&settings);
        assert!((9_900..=10_100).contains(&allowed), "{settings:?}: {allowed}");
    }
}

#[test]
fn a_request_that_one_limit_rejects_counts_for_no_other() {
    for limits in [
        node!({ "limits": [
            { "rate": "1/h", "burst": 6, "name": "all" },
            { "rate": "1/h", "burst": 2, "name": "user", "key": "header.x-user" },
        ] }),
        node!({ "limits": [
            { "rate": "6/h", "window": "sliding", "name": "all" },
            { "rate": "1/h", "burst": 2, "name": "user", "key": "header.x-user" },
        ] }),
    ] {
        let context = context();
        let limit = filter_in(&KIND, &limits, &context);
        // The rejections of each user leave the rest of the six to the next.
        for (user, passed) in [("ann", 2), ("bob", 2), ("eve", 2), ("joe", 0)] {
            assert_eq!(passes(&*limit, ("x-user", user), "10.0.0.1"), passed, "{user} {limits:?}");
        }
        let refused =
            |name| context.telemetry.worker_counter(0, &families::RATE_LIMITED, &[name]).get();
        assert_eq!((refused("user"), refused("all")), (16, 18));
    }
}

fn fields(response: &Response) -> [String; 2] {
    [Known::RateLimitPolicy, Known::RateLimit]
        .map(|name| response.headers.get_str(name).unwrap_or("").to_owned())
}

fn exchange(limit: &dyn Filter, request: &mut Request) -> Response {
    match passed(limit.on_request(request)) {
        Ok(()) => {
            let mut response = Response::new(200);
            passed(limit.on_response(request, &mut response)).unwrap();
            response
        }
        Err(fault) => rendered(&fault),
    }
}

#[test]
fn the_fields_show_the_tightest_limit() {
    let limits = node!({ "limits": [
        { "rate": "100/h", "burst": 3, "name": "burst" },
        { "rate": "10/h", "window": "sliding", "name": "hour" },
        { "rate": "60/m", "burst": 5 },
    ] });
    let limit = filter(&KIND, &limits);
    let response = exchange(&*limit, &mut get("/", &[]));
    assert_eq!(fields(&response), ["\"burst\";q=100;w=3600", "\"burst\";r=2;t=36"]);
    let of_minute =
        node!({ "limits": [{ "rate": "9/h", "burst": 9 }, { "rate": "60/m", "burst": 5 }] });
    let response = exchange(&*filter(&KIND, &of_minute), &mut get("/", &[]));
    assert_eq!(fields(&response), ["\"60/m\";q=60;w=60", "\"60/m\";r=4;t=1"]);
}

fn of_consumer(name: &str, limits: Option<ConsumerLimits>) -> Request {
    let mut request = get("/", &[]);
    let limits = limits.map(Box::new);
    request.consumer = Some(Rc::new(Consumer { name: name.into(), limits, ..Consumer::default() }));
    request
}

fn own(settings: Node) -> Option<ConsumerLimits> {
    Some(settings::read(&settings).unwrap())
}

#[test]
fn a_consumer_has_the_limits_of_its_entry_and_others_the_default() {
    let settings = node!({ "rate": "1/h", "burst": 2, "key": "consumer", "consumer_limits": true });
    let limit = filter(&KIND, &settings);
    let allowed = |name: &str, limits: Option<ConsumerLimits>| {
        let mut requests = (0..30).map(|_| of_consumer(name, limits.clone()));
        requests.by_ref().filter_map(|mut one| passed(limit.on_request(&mut one)).ok()).count()
    };
    assert_eq!(allowed("alice", own(node!({ "rate": "5/h", "burst": 20 }))), 20);
    assert_eq!(allowed("bob", own(node!({ "quotas": { "monthly": 5 } }))), 2);
    assert_eq!(allowed("carol", None), 2);
    let mut request = of_consumer("dave", own(node!({ "rate": "50/m", "burst": 10 })));
    let response = exchange(&*limit, &mut request);
    assert_eq!(fields(&response), ["\"default\";q=50;w=60", "\"default\";r=9;t=2"]);
    let sliding = node!({
        "rate": "2/h", "window": "sliding", "key": "consumer", "consumer_limits": true,
    });
    let limit = filter(&KIND, &sliding);
    let mut request = of_consumer("alice", own(node!({ "rate": "7/h" })));
    // The windows are those of the clock: this one has begun 1000 s ago.
    let response = net::manual_time::block_on(async { exchange(&*limit, &mut request) });
    assert_eq!(fields(&response)[1], "\"default\";r=6;t=6200".to_owned());
}

#[test]
fn errors_of_several_limits_are_named() {
    for (settings, why) in [
        (node!({ "rate": "1/s", "limits": [{ "rate": "2/s" }] }), "either `rate` or `limits`"),
        (node!({ "limits": [{ "rate": "1/s" }, { "rate": "1/s" }] }), "two limits are called"),
        (node!({ "limits": [{ "rate": "1/s" }], "burst": 2 }), "`burst` belongs to an entry"),
        (node!({ "limits": [{ "rate": "1/s" }], "name": "a" }), "`name` belongs to an entry"),
        (node!({ "limits": [{}] }), "\"rate\" is missing"),
        (node!({ "rate": "1/s", "window": "sliding", "burst": 2 }), "has no `burst`"),
        (node!({ "rate": "1/s", "window": "slidng" }), "did you mean \"sliding\""),
        (node!({ "rate": "5000000/h", "window": "sliding" }), "counts at most 4000000"),
        (node!({ "rate": "1/s", "consumer_limits": true }), "write `key: consumer`"),
        (
            node!({ "limits": [{ "rate": "1/s", "key": "host", "consumer_limits": true }] }),
            "need a key with the consumer",
        ),
        (
            node!({ "limits": [{ "rate": "1/s", "burst": 9 }, { "rate": "1/s", "name": "b" }],
                    "cost": [{ "when": { "query": "x" }, "cost": 6 }] }),
            "a cost above the burst of 1 never passes",
        ),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let settings = node!({ "key": "consumer", "limits": [
        { "rate": "20/s", "consumer_limits": true },
        { "rate": "1000/h", "window": "sliding", "key": "host" },
    ] });
    let shown = plan(&KIND, &settings).unwrap().describe();
    let wanted = "20/s by consumer, burst 20, or the consumer's own; 1000/h by host, sliding";
    assert_eq!(shown, wanted);
}
