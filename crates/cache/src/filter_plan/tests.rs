//! Every setting of the filter, and what it turns.

use message::{Headers, Request, Target};
use settings::{Node, node, read};
use wire::Method;

use super::{CachePlan, FilterConfig};
use crate::rules::{Policy, SetCookie};

fn plan(node: Node) -> CachePlan {
    CachePlan::new(read(&node).unwrap_or_else(|wrong| panic!("{wrong}")))
}

fn with(key: &str, value: Node) -> Node {
    let node = node!({ "store": "pages" });
    let settings::Value::Map(mut entries) = node.value else { panic!("a map") };
    let span = settings::Span::NOWHERE;
    entries.push((settings::MapKey { name: key.to_owned(), span }, value));
    Node::made(settings::Value::Map(entries))
}

fn key(plan: &CachePlan, route: &str, url: &'static str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut headers = Headers::new();
    headers.append("host", "shop.example");
    for (name, value) in fields {
        headers.append(*name, value);
    }
    let target = Target::new(bytes::Bytes::from_static(url.as_bytes())).unwrap();
    let request = Request::made_up(Method::Get, target, headers);
    let mut buffer = crate::key::KeyBuffer::default();
    plan.key_rules(route).write(&request, &mut buffer).unwrap();
    buffer.text().to_vec()
}

#[test]
fn without_a_word_the_rules_are_the_strict_ones() {
    let plan = plan(node!("pages"));
    let mut policy = Policy::default();
    // Both say the same in another order.
    policy.status_ceilings.sort_by_key(|ceiling| ceiling.first);
    assert_eq!(plan.config().policy, policy);
    let FilterConfig { fetch, purge, x_status, hit_for_miss_s, body_bytes_max, .. } = plan.config();
    assert_eq!(fetch.accept_encoding.as_deref(), Some("gzip"));
    assert!(fetch.drop.iter().any(|name| name.as_str() == "x-host"));
    assert!(fetch.drop_content.iter().any(|name| name.as_str() == "content-type"));
    assert!(purge.is_empty() && !x_status);
    assert_eq!((*hit_for_miss_s, *body_bytes_max), (120, 64 << 20));
}

/// Each setting of the rules, and the knob it turns.
#[test]
fn every_setting_reaches_the_rules() {
    let policy = |key: &str, value: Node| plan(with(key, value)).config().policy.clone();
    let ttl = node!({ "default": "10s", "min": "2s", "max": "1h",
        "statuses": { "5xx": "0s", "404": "1500ms" },
        "heuristic": { "fraction": "29%", "max": "1m" } });
    let found = policy("ttl", ttl);
    assert_eq!((found.default_ttl_s, found.ttl_min_s, found.ttl_max_s), (10, 2, 3600));
    // A duration below a second becomes one second; a status takes precedence over its class.
    let ceilings: Vec<_> = [404, 503, 200].map(|status| found.ttl_max_s(status)).into();
    assert_eq!(ceilings, [2, 0, 3600]);
    let guess = found.heuristic.unwrap();
    assert_eq!((guess.percent, guess.ttl_max_s), (29, 60));
    let found = policy("stale", node!({ "while_revalidate": "10s", "if_error": "1h" }));
    assert_eq!((found.while_revalidate_s, found.if_error_s), (10, 3600));
    assert!(!policy("honour_request", node!(false)).honour_request);
    assert_eq!(policy("set_cookie", node!("strip")).set_cookie, SetCookie::Strip);
    assert_eq!(policy("set_cookie", node!("keep")).set_cookie, SetCookie::Store);
    assert_eq!(
        *policy("targeted", node!(["CDN-Cache-Control"])).targeted,
        ["cdn-cache-control".into()]
    );
    assert!(policy("surrogate_control", node!(true)).surrogate_control);
    assert!(!policy("no_vary_search", node!(false)).no_vary_search);
    assert_eq!(policy("variants", node!(4)).variants_max, 4);
    assert_eq!(*policy("languages", node!(["pt-BR"])).languages, ["pt-br".into()]);
}

#[test]
fn every_setting_reaches_fill_and_serving() {
    let config = |key: &str, value: Node| plan(with(key, value));
    assert_eq!(config("max_size", node!("1MiB")).config().body_bytes_max, 1 << 20);
    assert_eq!(config("hit_for_miss", node!("5s")).config().hit_for_miss_s, 5);
    assert!(config("x_status", node!(true)).config().x_status);
    let purge = config("purge", node!({ "allow": ["10.0.0.0/8"] }));
    assert!(settings::any_contains(&purge.config().purge, "10.1.2.3".parse().unwrap()));
    let plan =
        config("codings", node!({ "origin": ["br", "gzip"], "offer": [], "min_size": "2KiB" }));
    assert_eq!(plan.config().fetch.accept_encoding.as_deref(), Some("br, gzip"));
    assert_eq!(plan.config().codings.min_size.bytes(), 2048);
    let plan = config("codings", node!({ "origin": [] }));
    assert_eq!(plan.config().fetch.accept_encoding, None);
    let plan = config(
        "fetch",
        node!({ "wait": "1s", "outlive": "2s", "outlive_size": "3KiB",
        "drop_headers": ["x-a"] }),
    );
    let fetch = &plan.config().fetch;
    assert_eq!((fetch.wait.as_secs(), fetch.outlive.as_secs(), fetch.outlive_bytes), (1, 2, 3072));
    assert_eq!(fetch.drop.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["x-a"]);
}

#[test]
fn what_counts_in_the_key_is_sent_on() {
    let plan = plan(with(
        "key",
        node!({ "headers": ["x-host", "content-type"], "query": { "deny": ["utm_a"] } }),
    ));
    let fetch = &plan.config().fetch;
    assert!(fetch.drop.iter().all(|name| name.as_str() != "x-host"));
    assert!(fetch.drop_content.iter().all(|name| name.as_str() != "content-type"));
}

#[test]
fn requests_are_keyed_by_what_was_declared() {
    let declared = |value: Node| plan(with("key", value));
    let same = |plan: &CachePlan, one: &'static str, other: &'static str| {
        key(plan, "r", one, &[]) == key(plan, "r", other, &[])
    };
    assert!(!same(&declared(node!({})), "/?a=1&b=2", "/?b=2&a=1"));
    assert!(same(&declared(node!({ "query": "sorted" })), "/?a=1&b=2", "/?b=2&a=1"));
    assert!(same(&declared(node!({ "query": "none" })), "/?a=1", "/"));
    assert!(same(&declared(node!({ "query": { "deny": ["a"] } })), "/?a=1&b=2", "/?b=2"));
    let allow = declared(node!({ "query": { "allow": ["b"] } }));
    assert!(same(&allow, "/?a=1&b=2", "/?b=2") && !same(&allow, "/?b=1", "/?b=2"));
    assert!(same(&declared(node!({})), "/%61", "/a"));
    let has_key = |value: Node| {
        let target = Target::new(bytes::Bytes::from_static(b"/a%2Fb")).unwrap();
        let request = Request::made_up(Method::Get, target, Headers::new());
        let rules = declared(value).key_rules("r");
        rules.write(&request, &mut crate::key::KeyBuffer::default()).is_ok()
    };
    assert!(has_key(node!({ "path": "raw" })) && !has_key(node!({})));
    for (value, one, other) in [
        (node!({ "headers": ["x-tenant"] }), ("x-tenant", "a"), ("x-tenant", "b")),
        (node!({ "cookies": ["plan"] }), ("cookie", "plan=a; x=1"), ("cookie", "plan=b; x=1")),
        (node!({ "by": ["header.x-y"] }), ("x-y", "a"), ("x-y", "b")),
    ] {
        let plan = declared(value);
        assert_ne!(key(&plan, "r", "/", &[one]), key(&plan, "r", "/", &[other]));
    }
    let plan = declared(node!({ "cookies": ["plan"] }));
    let cookie = |text: &'static str| key(&plan, "r", "/", &[("cookie", text)]);
    assert_eq!(cookie("plan=a; x=1"), cookie("plan=a; x=2"));
    assert_ne!(key(&plan, "r", "/", &[]), key(&plan, "other", "/", &[]), "routes never share");
}

#[test]
fn explain_says_what_counts() {
    use plugin::FilterPlan;

    let plan = plan(node!({ "store": "pages", "ttl": { "default": "10s" },
        "key": { "query": { "allow": ["q"] }, "headers": ["x-tenant"], "cookies": ["plan"] } }));
    assert_eq!(
        plan.describe(),
        "in pages, keyed by query parameters q, header x-tenant, cookie plan, 10s for responses \
         without a lifetime, compressed as zstd, br, gzip"
    );
}
