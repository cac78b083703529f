//! The algorithm against its definition, and each setting of `rate_limit`.

use std::sync::atomic::AtomicU64;

use message::Response;
use plugin::Filter;
use settings::{Rate, node};
use telemetry::families;
use wire::Known;

use super::{Gcra, KIND, RateDecision, Remaining, pack, unpack};
use plugin::testing::{context, errors, filter, filter_in, get, passed, plan, rendered};

const SECOND: u64 = 1_000_000_000;

fn gcra(rate: &str, burst: u32) -> Gcra {
    Gcra::new(rate.parse::<Rate>().unwrap(), burst)
}

fn allowed(gcra: Gcra, cell: &AtomicU64, now_ns: u64) -> bool {
    matches!(gcra.take(cell, 1, now_ns), RateDecision::Allowed(_))
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::RateLimit>().unwrap();
}

#[test]
fn a_burst_passes_and_then_the_rate() {
    let (limit, cell) = (gcra("10/s", 5), AtomicU64::new(0));
    let start = 1000 * SECOND;
    let at_once = (0..20).filter(|_| allowed(limit, &cell, start)).count();
    assert_eq!(at_once, 5);
    // One request more each tenth of a second, and none in between.
    for tenth in 1..50 {
        let now = start + tenth * SECOND / 10;
        assert!(!allowed(limit, &cell, now - 1), "{tenth}");
        assert!(allowed(limit, &cell, now), "{tenth}");
        assert!(!allowed(limit, &cell, now), "{tenth}");
    }
    // A pause restores the burst, and no more.
    let after = start + 100 * SECOND;
    assert_eq!((0..20).filter(|_| allowed(limit, &cell, after)).count(), 5);
}

#[test]
fn a_burst_of_one_allows_the_whole_rate_to_workers_that_are_late() {
    let (limit, cell) = (gcra("1000/s", 1), AtomicU64::new(0));
    // 10 000 requests a second to two workers, whose clocks are up to 300 µs old.
    let (mut now_ns, mut step, mut passed) = (SECOND, 12345u64, 0);
    let mut last_ns = 0;
    while now_ns < 11 * SECOND {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        now_ns += 100_000;
        let seen_ns = now_ns - (step >> 33) % 300_000;
        if allowed(limit, &cell, seen_ns) {
            passed += 1;
            assert!(seen_ns.abs_diff(last_ns) >= 100_000 - 1, "two at once");
            last_ns = seen_ns;
        }
    }
    assert!((9_900..=10_001).contains(&passed), "{passed}");
    // Two requests at the same time: one passes, also after a pause.
    let later = now_ns + 60 * SECOND;
    assert_eq!((0..9).filter(|_| allowed(limit, &cell, later)).count(), 1);
}

#[test]
fn some_requests_cost_more_or_nothing() {
    let costs = node!({
        "rate": "1/h",
        "burst": 10,
        "cost": [
            { "when": { "header": "x-export" }, "cost": 4 },
            { "when": { "header": "x-free" }, "cost": 0 },
        ],
    });
    let limit = filter(&KIND, &costs);
    assert_eq!(passes(&*limit, ("x-export", "1"), "10.0.0.1"), 2);
    assert_eq!(passes(&*limit, NONE, "10.0.0.1"), 2);
    assert_eq!(passes(&*limit, ("x-free", "1"), "10.0.0.1"), 10);
}

#[test]
fn a_raised_limit_does_not_keep_the_debt_of_the_lower_one() {
    let (low, high, cell) = (gcra("10/m", 10), gcra("100/s", 100), AtomicU64::new(0));
    let start = 1000 * SECOND;
    assert_eq!((0..20).filter(|_| allowed(low, &cell, start)).count(), 10);
    // A minute of debt is cut to the new burst, a second.
    assert!(!allowed(high, &cell, start));
    assert!(allowed(high, &cell, start + SECOND / 100));
    let after = start + SECOND + SECOND / 100;
    assert_eq!((0..200).filter(|_| allowed(high, &cell, after)).count(), 100);
}

#[test]
fn never_more_than_burst_and_rate_over_any_time() {
    for (rate, burst, per_second) in [("7/s", 3, 7.0), ("90/m", 1, 1.5), ("1000000/s", 100, 1e6)] {
        let (limit, cell) = (gcra(rate, burst), AtomicU64::new(0));
        let (mut passed, mut now) = (0u64, SECOND);
        let mut step: u64 = 12345;
        for _ in 0..20_000 {
            // Random steps between zero and a seventh of a second.
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now += (step >> 33) % (SECOND / 7);
            passed += u64::from(allowed(limit, &cell, now));
        }
        let seconds = (now - SECOND) as f64 / SECOND as f64;
        let most = f64::from(burst) + seconds * per_second;
        assert!(passed as f64 <= most + 1.0, "{rate}: {passed} of {most}");
    }
}

#[test]
fn a_decision_has_the_remaining_quota_and_the_wait() {
    let (limit, cell) = (gcra("1/m", 3), AtomicU64::new(0));
    let now = 5 * SECOND;
    for (left, full_in_s) in [(2, 60), (1, 120), (0, 180)] {
        let verdict = limit.take(&cell, 1, now);
        assert_eq!(verdict, RateDecision::Allowed(Remaining { requests: left, full_in_s }));
    }
    let refused = |full_in_s, wait_s| RateDecision::Refused {
        remaining: Remaining { requests: 0, full_in_s },
        wait_s,
    };
    assert_eq!(limit.take(&cell, 1, now), refused(180, 60));
    assert_eq!(limit.take(&cell, 1, now + 59 * SECOND + 1), refused(121, 1));
    assert!(matches!(limit.take(&cell, 1, now + 60 * SECOND), RateDecision::Allowed(_)));
    let tightest = (7, Remaining { requests: u32::MAX, full_in_s: 31_622_400 });
    assert_eq!(unpack(pack(tightest)), tightest);
}

#[test]
fn workers_share_one_cell_without_exceeding_the_limit() {
    let (limit, cell) = (gcra("1/h", 1000), AtomicU64::new(0));
    let passed: usize = std::thread::scope(|scope| {
        let count = || (0..1000).filter(|_| allowed(limit, &cell, SECOND)).count();
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(passed, 1000);
}

/// The number of allowed requests among ten with this field.
fn passes(limit: &dyn Filter, field: (&str, &str), client: &str) -> usize {
    let one = |_: &i32| {
        let mut request = get("/", &[field]);
        request.client_ip = client.parse().unwrap();
        passed(limit.on_request(&mut request)).is_ok()
    };
    (0..10).filter(one).count()
}

const NONE: (&str, &str) = ("x-none", "");

#[test]
fn excess_requests_are_rejected_with_retry_after() {
    net::manual_time::block_on(async {
        let limit = filter(&KIND, &node!({ "rate": "2/h" , "burst": 2, "name": "api" }));
        let mut request = get("/", &[]);
        passed(limit.on_request(&mut request)).unwrap();
        let mut response = Response::new(200);
        passed(limit.on_response(&mut request, &mut response)).unwrap();
        let fields = |response: &Response| {
            [Known::RateLimitPolicy, Known::RateLimit, Known::RetryAfter]
                .map(|name| response.headers.get_str(name).unwrap_or("").to_owned())
        };
        assert_eq!(fields(&response), ["\"api\";q=2;w=3600", "\"api\";r=1;t=1800", ""]);
        let mut fault = message::Fault::not_found();
        limit.on_fault(&mut request, &mut fault);
        assert_eq!(fields(&rendered(&fault))[1], "\"api\";r=1;t=1800");
        passed(limit.on_request(&mut request)).unwrap();
        let fault = passed(limit.on_request(&mut request)).unwrap_err();
        let response = rendered(&fault);
        assert_eq!((response.status, fault.slug()), (429, "rate_limited"));
        assert_eq!(fields(&response), ["\"api\";q=2;w=3600", "\"api\";r=0;t=3600", "1800"]);
    });
}

#[test]
fn status_and_headers_are_settings() {
    let settings = node!({ "rate": "1/h", "status": 503, "headers": false });
    let limit = filter(&KIND, &settings);
    let mut request = get("/", &[]);
    passed(limit.on_request(&mut request)).unwrap();
    let mut response = Response::new(200);
    passed(limit.on_response(&mut request, &mut response)).unwrap();
    assert!(response.headers.is_empty());
    let refusal = rendered(&passed(limit.on_request(&mut request)).unwrap_err());
    assert_eq!(refusal.status, 503);
    assert!(!refusal.headers.contains(Known::RateLimit));
    assert!(refusal.headers.contains(Known::RetryAfter));
}

#[test]
fn the_burst_is_a_second_of_the_rate_unless_it_is_set() {
    for (settings, wanted) in [
        (node!({ "rate": "4/s" }), 4),
        (node!({ "rate": "3/m" }), 1),
        (node!({ "rate": "1/h", "burst": 7 }), 7),
    ] {
        let limit = filter(&KIND, &settings);
        let count = net::manual_time::block_on(async { passes(&*limit, NONE, "10.0.0.1") });
        assert_eq!(count, wanted, "{settings:?}");
    }
}

#[test]
fn each_key_has_its_own_limit() {
    let by_user = filter(&KIND, &node!({ "rate": "1/h", "burst": 2, "key": "header.x-user" }));
    let long = "long".repeat(100);
    for user in ["ann", "bob", "", &long] {
        assert_eq!(passes(&*by_user, ("x-user", user), "10.0.0.1"), 2, "{user}");
    }
    assert_eq!(passes(&*by_user, ("x-user", &long), "10.0.0.2"), 0);
    // Without the field the key is empty as well.
    assert_eq!(passes(&*by_user, NONE, "10.0.0.3"), 0);
    let by_both = node!({ "rate": "1/h", "burst": 2, "key": "{client_ip} {header.x-user}" });
    let by_both = filter(&KIND, &by_both);
    for (user, client) in [("ann", "10.0.0.1"), ("ann", "10.0.0.2"), ("bob", "10.0.0.1")] {
        assert_eq!(passes(&*by_both, ("x-user", user), client), 2);
    }
}

#[test]
fn an_ipv6_network_counts_as_one_client() {
    let limit = filter(&KIND, &node!({ "rate": "1/h", "burst": 2 }));
    assert_eq!(passes(&*limit, NONE, "2001:db8::1"), 2);
    assert_eq!(passes(&*limit, NONE, "2001:db8::2"), 0);
    assert_eq!(passes(&*limit, NONE, "2001:db8:0:1::1"), 2);
    assert_eq!(passes(&*limit, NONE, "10.0.0.1"), 2);
    assert_eq!(passes(&*limit, NONE, "10.0.0.2"), 2);
    let exact = filter(&KIND, &node!({ "rate": "1/h", "ipv6_prefix": 128 }));
    assert_eq!(passes(&*exact, NONE, "2001:db8::1"), 1);
    assert_eq!(passes(&*exact, NONE, "2001:db8::2"), 1);
}

#[test]
fn a_reload_keeps_debts_and_names_separate_limits() {
    let context = context();
    let settings = node!({ "rate": "1/h", "burst": 3 });
    let old = filter_in(&KIND, &settings, &context);
    assert_eq!(passes(&*old, NONE, "10.0.0.1"), 3);
    let new = filter_in(&KIND, &settings, &context);
    drop(old);
    assert_eq!(passes(&*new, NONE, "10.0.0.1"), 0);
    for settings in [
        node!({ "rate": "1/h", "burst": 3, "name": "a" }),
        node!({ "rate": "1/h", "burst": 3, "name": "b" }),
        node!({ "rate": "1/h", "burst": 3, "key": "header.x-user" }),
        node!({ "rate": "2/h", "burst": 3 }),
    ] {
        let other = filter_in(&KIND, &settings, &context);
        assert_eq!(passes(&*other, NONE, "10.0.0.1"), 3, "{settings:?}");
    }
    // A named limit may change its rate and keeps its debt.
    let before = filter_in(&KIND, &node!({ "rate": "1/h", "burst": 3, "name": "c" }), &context);
    assert_eq!(passes(&*before, NONE, "10.0.0.1"), 3);
    let after = filter_in(&KIND, &node!({ "rate": "2/h", "burst": 3, "name": "c" }), &context);
    assert_eq!(passes(&*after, NONE, "10.0.0.1"), 0);
}

#[test]
fn entries_bound_the_number_of_keys() {
    let context = context();
    let settings = node!({ "rate": "1/h", "key": "header.x-user", "entries": 1, "name": "users" });
    let limit = filter_in(&KIND, &settings, &context);
    assert_eq!(passes(&*limit, ("x-user", "ann"), "10.0.0.1"), 1);
    assert_eq!(passes(&*limit, ("x-user", "bob"), "10.0.0.1"), 1);
    assert_eq!(passes(&*limit, ("x-user", "ann"), "10.0.0.1"), 1, "she was forgotten");
    let counted = |family| context.telemetry.counter(family, &["users"]).get();
    assert_eq!(counted(&families::STATE_EVICTIONS), 2);
    assert_eq!(context.telemetry.gauge(&families::STATE_ENTRIES, &["users"]).get(), 1);
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "needs either `rate` or `limits`"),
        (node!({ "rate": "10" }), "has no unit"),
        (node!({ "rate": "1/s", "burst": 0 }), "between 1 and"),
        (node!({ "rate": "1/s", "status": 200 }), "between 400 and 599"),
        (node!({ "rate": "1/s", "key": "clientip" }), "client_ip"),
        (node!({ "rate": "1/s", "name": "a\"b" }), "the name is"),
        (node!({ "rate": "1/s", "ipv6_prefix": 129 }), "between 1 and 128"),
        (node!({ "rate": "1/s", "entries": 0 }), "between 1 and"),
        (
            node!({ "rate": "1/s", "burst": 5, "cost": [{ "when": { "query": "x" }, "cost": 6 }] }),
            "a cost above the burst of 5 never passes",
        ),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = plan(&KIND, &node!({ "rate": "200/s", "burst": 50 })).unwrap().describe();
    assert_eq!(shown, "200/s by client_ip, burst 50");
}

mod several;
