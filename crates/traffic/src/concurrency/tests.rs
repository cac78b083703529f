//! Each setting of `concurrency`, with requests that stay in flight.

use message::Request;
use plugin::Filter;
use plugin::testing::{context, errors, filter, filter_in, get, passed, plan};
use settings::node;
use telemetry::families;

use super::KIND;

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::Concurrency>().unwrap();
}

/// The requests that begin of so many.
fn begun(limit: &dyn Filter, count: usize, headers: &[(&str, &str)]) -> Vec<Request> {
    let begin = |_| {
        let mut request = get("/", headers);
        passed(limit.on_request(&mut request)).is_ok().then_some(request)
    };
    (0..count).filter_map(begin).collect()
}

#[test]
fn requests_above_the_limit_are_rejected_until_others_end() {
    let context = context();
    let limit = filter_in(&KIND, &node!({ "limit": 2, "name": "api" }), &context);
    let mut first = begun(&*limit, 5, &[]);
    assert_eq!(first.len(), 2);
    let fault = passed(limit.on_request(&mut get("/", &[]))).unwrap_err();
    assert_eq!(
        (fault.status, fault.slug(), fault.retry_after_s),
        (503, "concurrency_limited", Some(1))
    );
    let in_flight = context.telemetry.worker_gauge(0, &families::CONCURRENCY_IN_FLIGHT, &["api"]);
    assert_eq!(in_flight.get(), 2);
    first.pop();
    assert_eq!(begun(&*limit, 5, &[]).len(), 1);
    drop(first);
    assert_eq!(in_flight.get(), 0);
    assert_eq!(begun(&*limit, 5, &[]).len(), 2);
    let rejected = context.telemetry.worker_counter(0, &families::CONCURRENCY_REJECTED, &["api"]);
    assert_eq!(rejected.get(), 3 + 1 + 4 + 3);
}

#[test]
fn a_middleware_that_takes_the_request_leaves_its_permit() {
    let limit = filter(&KIND, &node!({ "limit": 1 }));
    let mut request = begun(&*limit, 1, &[]).remove(0);
    drop(request.take());
    assert_eq!(begun(&*limit, 1, &[]).len(), 0);
    // A request in the background is not in flight for a client.
    drop(request.for_background());
    assert_eq!(begun(&*limit, 1, &[]).len(), 0);
    drop(request);
    assert_eq!(begun(&*limit, 1, &[]).len(), 1);
}

#[test]
fn each_key_has_its_own_limit() {
    let settings = node!({ "limit": 1, "key": "header.x-user", "status": 429 });
    let limit = filter(&KIND, &settings);
    let long = "long".repeat(100);
    let held: Vec<_> = ["ann", "bob", &long]
        .iter()
        .flat_map(|user| begun(&*limit, 3, &[("x-user", user)]))
        .collect();
    assert_eq!(held.len(), 3);
    let fault = passed(limit.on_request(&mut get("/", &[("x-user", "ann")]))).unwrap_err();
    assert_eq!(fault.status, 429);
}

#[test]
fn an_ipv6_network_counts_as_one_client() {
    let held = |settings: settings::Node| {
        let limit = filter(&KIND, &settings);
        ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2"].map(|client| {
            let mut request = get("/", &[]);
            request.client_ip = client.parse().unwrap();
            let passes = passed(limit.on_request(&mut request)).is_ok();
            (passes, request)
        })
    };
    let passes = |settings| held(settings).map(|(passes, _)| passes);
    let by_client = node!({ "limit": 1, "key": "client_ip" });
    assert_eq!(passes(by_client), [true, false, true, true, true]);
    let wider = node!({ "limit": 1, "key": "client_ip", "ipv6_prefix": 48 });
    assert_eq!(passes(wider), [true, false, false, true, true]);
    let exact = node!({ "limit": 1, "key": "client_ip", "ipv6_prefix": 128 });
    assert_eq!(passes(exact), [true; 5]);
}

#[test]
fn a_reload_forgets_no_request_in_flight() {
    let context = context();
    let old = filter_in(&KIND, &node!({ "limit": 3, "name": "api" }), &context);
    let held = begun(&*old, 3, &[]);
    let new = filter_in(&KIND, &node!({ "limit": 4, "name": "api" }), &context);
    drop(old);
    assert_eq!(begun(&*new, 3, &[]).len(), 1);
    drop(held);
    assert_eq!(begun(&*new, 9, &[]).len(), 4);
}

#[test]
fn low_priorities_are_rejected_first() {
    let settings = node!({
        "limit": 10,
        "priorities": [
            { "when": { "header": "x-batch" }, "share": "20%" },
            { "when": { "header": "x-report" }, "share": "50%" },
        ],
    });
    let limit = filter(&KIND, &settings);
    let batch = begun(&*limit, 9, &[("x-batch", "1")]);
    let reports = begun(&*limit, 9, &[("x-report", "1")]);
    let rest = begun(&*limit, 9, &[]);
    assert_eq!([batch.len(), reports.len(), rest.len()], [2, 3, 5]);
}

#[test]
fn slower_responses_lower_an_adaptive_limit() {
    net::manual_time::block_on(async {
        let context = context();
        let settings = node!({ "adaptive": { "min": 2, "max": 100 }, "name": "api" });
        let limit = filter_in(&KIND, &settings, &context);
        let shown = context.telemetry.gauge(&families::CONCURRENCY_LIMIT, &["api"]);
        assert_eq!(shown.get(), 20);
        let respond = async |latency_ms: u64| {
            let requests = begun(&*limit, 200, &[]);
            net::manual_time::advance(std::time::Duration::from_millis(latency_ms)).await;
            for mut request in requests {
                let mut response = message::Response::new(200);
                passed(limit.on_response(&mut request, &mut response)).unwrap();
            }
        };
        for _ in 0..40 {
            respond(300).await;
        }
        let grown = shown.get();
        assert!(grown > 40, "{grown}");
        for _ in 0..20 {
            respond(3000).await;
        }
        assert!(shown.get() < grown / 2, "{} of {grown}", shown.get());
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "either `limit` or `adaptive`"),
        (node!({ "limit": 5, "adaptive": {} }), "either `limit` or `adaptive`"),
        (node!({ "limit": 0 }), "between 1 and"),
        (node!({ "adaptive": { "min": 9, "max": 5 } }), "`min` is greater than `max`"),
        (node!({ "adaptive": {}, "key": "client_ip" }), "has no `key`"),
        (node!({ "limit": 5, "key": "host", "ipv6_prefix": 48 }), "the key is not client_ip"),
        (node!({ "limit": 5, "priorites": [] }), "did you mean \"priorities\"?"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = |settings| plan(&KIND, &settings).unwrap().describe();
    assert_eq!(shown(node!({ "limit": 5, "key": "client_ip" })), "5 by client_ip");
    assert_eq!(shown(node!({ "adaptive": {} })), "adaptive, 10 to 1000");
}
