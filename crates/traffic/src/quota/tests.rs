//! Each setting of `quota`, its fields, and its register.

use std::rc::Rc;

use message::{Consumer, Request, Response};
use plugin::{Filter, WorkerContext};
use settings::{Node, node};
use telemetry::families;
use wire::Known;

use super::{KIND, QuotaInfo, QuotaUse, Quotas};
use plugin::testing::{context, errors, filter_in, get, passed, plan, rendered};

/// A quota in this directory.
fn quota(directory: &tempfile::TempDir, settings: Node, worker: &WorkerContext) -> Rc<dyn Filter> {
    let settings::Value::Map(mut map) = settings.value else { panic!("a map") };
    let path = directory.path().to_str().unwrap();
    let settings::Value::Map(more) = node!({ "directory": path }).value else { panic!("a map") };
    map.extend(more);
    filter_in(&KIND, &Node::made(settings::Value::Map(map)), worker)
}

fn from(consumer: &str, limits: Option<Node>) -> Request {
    let mut request = get(&format!("/?{consumer}"), &[]);
    request.client_ip = "10.0.0.1".parse().unwrap();
    let limits = limits.map(|limits| Box::new(settings::read(&limits).unwrap()));
    let consumer = Consumer { name: consumer.into(), limits, ..Consumer::default() };
    request.consumer = Some(Rc::new(consumer));
    request
}

/// Status, policy, remaining and Retry-After of a response.
fn exchange(quota: &dyn Filter, request: &mut Request) -> (u16, [String; 3]) {
    let response = match passed(quota.on_request(request)) {
        Ok(()) => {
            let mut response = Response::new(200);
            passed(quota.on_response(request, &mut response)).unwrap();
            response
        }
        Err(fault) => rendered(&fault),
    };
    let fields = [Known::RateLimitPolicy, Known::RateLimit, Known::RetryAfter]
        .map(|name| response.headers.get_str(name).unwrap_or("").to_owned());
    (response.status, fields)
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::Quota>().unwrap();
    settings::verify::<message::ConsumerLimits>().unwrap();
}

#[test]
fn requests_above_the_quota_are_rejected_until_the_period_ends() {
    let (directory, context) = (tempfile::tempdir().unwrap(), context());
    let settings = node!({ "name": "half-day", "limit": 2, "period": "12h", "key": "consumer" });
    let limit = quota(&directory, settings, &context);
    let (status, fields) = exchange(&*limit, &mut from("alice", None));
    assert_eq!((status, &*fields[0]), (200, "\"half-day\";q=2;w=43200"));
    assert!(fields[1].starts_with("\"half-day\";r=1;t=43"), "{}", fields[1]);
    let mut request = from("alice", None);
    passed(limit.on_request(&mut request)).unwrap();
    let mut fault = message::Fault::not_found();
    limit.on_fault(&mut request, &mut fault);
    let left = rendered(&fault).headers.get_str(Known::RateLimit).unwrap().to_owned();
    assert!(left.starts_with("\"half-day\";r=0;"), "{left}");
    let (status, fields) = exchange(&*limit, &mut from("alice", None));
    let wait: u64 = fields[2].parse().unwrap();
    assert!(status == 429 && (43_000..=43_200).contains(&wait), "{status} {wait}");
    assert_eq!(exchange(&*limit, &mut from("bob", None)).0, 200);
    let rejected = context.policy_rejections("quota", "half-day");
    assert_eq!(rejected.get(), 1);
    assert_eq!(context.telemetry.gauge(&families::STATE_ENTRIES, &["half-day"]).get(), 2);
    assert_eq!(context.telemetry.gauge(&families::QUOTA_STORED, &["half-day"]).get(), 1);
}

#[test]
fn counts_survive_reloads_and_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        |limit: u32| node!({ "name": "calls", "limit": limit, "period": "30d", "status": 402 });
    let first = context();
    let before = quota(&directory, settings(3), &first);
    assert_eq!(exchange(&*before, &mut from("a", None)).0, 200);
    // A reload with another limit, on a second worker.
    let second = WorkerContext { index: 1, ..first.clone() };
    let after = quota(&directory, settings(2), &second);
    assert_eq!(exchange(&*after, &mut from("a", None)).0, 200);
    assert_eq!(exchange(&*after, &mut from("a", None)).0, 402);
    assert_eq!(exchange(&*before, &mut from("a", None)).0, 200);
    // Another process, while the first one still runs and after it.
    let restarted = quota(&directory, settings(4), &context());
    assert_eq!(exchange(&*restarted, &mut from("a", None)).0, 200);
    assert_eq!(exchange(&*before, &mut from("a", None)).0, 402);
    drop((before, after, restarted));
    assert_eq!(exchange(&*quota(&directory, settings(4), &context()), &mut from("a", None)).0, 402);
}

#[test]
fn costs_and_quotas_of_consumers() {
    let directory = tempfile::tempdir().unwrap();
    let settings = node!({
        "name": "calls", "limit": 5, "period": "day", "time_zone": "Europe/Berlin",
        "key": "consumer", "consumer_limits": true,
        "cost": [{ "when": { "query": "free" }, "cost": 0 },
                 { "when": { "query": "heavy" }, "cost": 4 }],
    });
    let limit = quota(&directory, settings, &context());
    let passes = |name: &str, limits: Option<Node>| {
        (0..20).filter(|_| exchange(&*limit, &mut from(name, limits.clone())).0 == 200).count()
    };
    assert_eq!((passes("free", None), passes("heavy", None), passes("alice", None)), (20, 1, 5));
    assert_eq!(passes("bob", Some(node!({ "quotas": { "calls": 7 } }))), 7);
    assert_eq!(passes("carol", Some(node!({ "quotas": { "other": 7 } }))), 5);
    assert_eq!(passes("dave", Some(node!({ "quotas": { "calls": 0 } }))), 0);
    let own = Some(node!({ "quotas": { "calls": 9 } }));
    let (_, fields) = exchange(&*limit, &mut from("erin", own));
    assert_eq!(fields[0], "\"calls\";q=9;w=86400");
    assert!(fields[1].starts_with("\"calls\";r=8;"), "{}", fields[1]);
}

#[test]
fn the_register_reads_and_resets_one_key() {
    let (directory, context) = (tempfile::tempdir().unwrap(), context());
    let settings = node!({ "name": "calls", "limit": 2, "period": "1h" });
    let limit = quota(&directory, settings, &context);
    let quotas = context.shared.get((), Quotas::default);
    (0..3).for_each(|_| drop(exchange(&*limit, &mut from("a", None))));
    let now_s = net::clock::wall_secs();
    let used = quotas.read("calls", "10.0.0.1", now_s).unwrap();
    assert_eq!(used.used, 2);
    assert!((now_s + 3500..=now_s + 3600).contains(&used.period_end_s));
    assert_eq!(quotas.read("calls", "10.0.0.2", now_s).unwrap().used, 0);
    assert!(quotas.reset("calls", "10.0.0.1") && !quotas.reset("other", "10.0.0.1"));
    assert_eq!(exchange(&*limit, &mut from("a", None)).0, 200);
    let info = QuotaInfo {
        name: "calls".to_owned(),
        limit: 2,
        period: "1h".to_owned(),
        key: "client_ip".to_owned(),
    };
    assert_eq!(quotas.list(), [info]);
    drop(limit);
    assert_eq!((quotas.list().len(), quotas.read("calls", "a", now_s)), (0, None::<QuotaUse>));
}

#[test]
fn without_its_file_a_quota_rejects_until_a_reload_opens_it() {
    let (directory, context) = (tempfile::tempdir().unwrap(), context());
    // A file where the directory of the quota should be.
    let path = directory.path().join("quotas");
    std::fs::write(&path, "").unwrap();
    let path = path.to_str().unwrap();
    let settings = node!({ "name": "calls", "limit": 1, "directory": path });
    let limit = filter_in(&KIND, &settings, &context);
    let stored = context.telemetry.gauge(&families::QUOTA_STORED, &["calls"]);
    assert_eq!(exchange(&*limit, &mut from("a", None)).0, 503);
    assert_eq!((stored.get(), context.policy_rejections("quota", "no_file").get()), (0, 1));
    let quotas = context.shared.get((), Quotas::default);
    assert!(quotas.read("calls", "10.0.0.1", 0).is_none() && !quotas.reset("calls", "10.0.0.1"));
    std::fs::remove_file(path).unwrap();
    assert_eq!(exchange(&*limit, &mut from("a", None)).0, 503);
    let reloaded = filter_in(&KIND, &settings, &context);
    assert_eq!(exchange(&*reloaded, &mut from("a", None)).0, 200);
    assert_eq!(exchange(&*reloaded, &mut from("a", None)).0, 429);
    // Requests on the previous plan count in the same file.
    assert_eq!((exchange(&*limit, &mut from("a", None)).0, stored.get()), (429, 1));
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "limit": 1 }), "\"name\" is missing"),
        (node!({ "name": "a" }), "\"limit\" is missing"),
        (node!({ "name": "../a", "limit": 1 }), "the name is 1 to 64"),
        (node!({ "name": "a", "limit": 1, "period": "year" }), "is not a period"),
        (node!({ "name": "a", "limit": 1, "period": "30s" }), "between 1m and 366d"),
        (node!({ "name": "a", "limit": 1, "time_zone": "Mars" }), "is not a time zone"),
        (node!({ "name": "a", "limit": 1, "consumer_limits": true }), "write `key: consumer`"),
        (node!({ "name": "a", "limit": 1, "entries": 0 }), "between 1 and"),
        (
            node!({ "name": "a", "limit": 1, "cost": [{ "when": { "query": "x" }, "cost": 2 }] }),
            "a cost above the limit never passes",
        ),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let described = |settings: Node| plan(&KIND, &settings).unwrap().describe();
    let month = node!({ "name": "a", "limit": 9, "time_zone": "Asia/Tokyo" });
    assert_eq!(described(month), "9 per month (Asia/Tokyo) by client_ip");
    let rolling = node!({
        "name": "a", "limit": 9, "period": "30d", "key": "consumer", "consumer_limits": true,
    });
    assert_eq!(described(rolling), "9 per 30d by consumer, or the consumer's own");
}
