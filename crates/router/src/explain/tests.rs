//! Explanations: the chosen route, and the reasons against the others.

use settings::{Node, Span, node};

use super::{MismatchReason, RuleVerdict};
use crate::testing::request;
use crate::{CANDIDATES_SHOWN, Input, Router, Rule, RuleOrder};

fn router(rules: Vec<(&str, Node)>) -> Router {
    let rule = |(name, matches): (&str, Node)| Rule {
        name: name.to_owned(),
        span: Span::NOWHERE,
        matches: settings::read(&matches).unwrap(),
    };
    Router::compile(rules.into_iter().map(rule).collect()).unwrap()
}

fn shop() -> Router {
    router(vec![
        ("site", node!({ "path": "/{*file}" })),
        ("items", node!({ "path": "/api/{*rest}" })),
        ("item", node!({ "host": "*.shop.example", "path": "/api/item/{id}", "methods": "GET" })),
        ("add", node!({ "host": "*.shop.example", "path": "/api/item/{id}", "methods": "PUT" })),
        (
            "beta",
            node!({ "host": "www.shop.example", "path": "/api/item/{id}",
                    "when": { "header": "x-beta", "equals": "1" } }),
        ),
        ("other", node!({ "host": "other.example" })),
        ("inside", node!({ "listener": "inside", "path": "/api" })),
        (
            "numbers",
            node!({ "path": { "regex": "^/api/[a-z]+/[0-9]+$" }, "priority": 1,
                            "methods": "DELETE" }),
        ),
    ])
}

#[test]
fn each_route_says_why_not() {
    let request = request("GET", "WWW.Shop.example:8080/api/item/7", &[]);
    let explanation = shop().explain(&Input::from(&request));
    let text = explanation.to_string();
    assert_eq!(
        text,
        "GET www.shop.example/api/item/7 on listener internal\n\
         route item (*.shop.example /api/item/{id})\n\
         \x20 path.id = \"7\"\n\
         other routes, in the order they are tried:\n\
         \x20 numbers  any host regex ^/api/[a-z]+/[0-9]+$  — only for DELETE\n\
         \x20 beta     www.shop.example /api/item/{id}  — its condition fails: header x-beta \
         equals \"1\"\n\
         \x20 other    other.example any path  — the host is not other.example\n\
         \x20 add      *.shop.example /api/item/{id}  — only for PUT\n\
         \x20 inside   any host /api  — only on listener inside\n\
         \x20 items    any host /api/{*rest}  — fits too, but the more exact host comes first\n\
         \x20 site     any host /{*file}  — fits too, but the more exact host comes first"
    );
}

#[test]
fn what_no_route_takes_is_explained_too() {
    let router = router(vec![
        ("get", node!({ "path": "/a/b", "methods": "GET" })),
        ("put", node!({ "path": "/a/{x}", "methods": ["PUT", "PURGE"] })),
    ]);
    let request = request("POST", "x/a/b", &[]);
    let text = router.explain(&Input::from(&request)).to_string();
    assert!(text.contains("405, Allow: GET, HEAD, PUT, PURGE"), "{text}");
    let request = self::request("GET", "x/a", &[]);
    let text = router.explain(&Input::from(&request)).to_string();
    assert!(text.contains("no route: 404"), "{text}");
    assert!(text.contains("the path ends before segment 2, which is \"b\""), "{text}");
}

#[test]
fn the_rule_of_the_order_is_named() {
    for (first, second, order) in [
        (
            node!({ "path": "/a/{x}", "priority": 1, "methods": "GET" }),
            node!({ "path": "/a/b" }),
            RuleOrder::Priority,
        ),
        (node!({ "host": "h" }), node!({ "path": "/a/b" }), RuleOrder::Host),
        (node!({ "path": "/a/b" }), node!({ "path": "/a/{x}" }), RuleOrder::Segment(2)),
        (node!({ "path": "/{x}/b" }), node!({ "path": "/{*x}" }), RuleOrder::Segment(1)),
        (node!({ "path": "/a/b" }), node!({ "path": { "ant": "/a/*" } }), RuleOrder::Pattern),
        (node!({ "methods": "GET" }), node!({}), RuleOrder::Conditions),
        (
            node!({ "when": { "header": "host" } }),
            node!({ "when": { "scheme": "http" } }),
            RuleOrder::File,
        ),
    ] {
        let router = router(vec![("first", first), ("second", second)]);
        let request = request("GET", "h/a/b", &[]);
        let explanation = router.explain(&Input::from(&request));
        let RuleVerdict::Route(chosen) = &explanation.verdict else { panic!("{explanation}") };
        assert_eq!(chosen.name, "first", "{explanation}");
        assert_eq!(explanation.others[0].why, MismatchReason::Later(order), "{explanation}");
    }
}

#[test]
fn a_long_list_is_cut_to_the_closest() {
    let mut rules: Vec<_> = (0..200)
        .map(|n| (format!("r{n}"), node!({ "host": (format!("h{n}.example")), "path": "/a" })))
        .collect();
    rules.push(("near".to_owned(), node!({ "path": "/a/b", "methods": "PUT" })));
    let rules = rules.iter().map(|(name, node)| (name.as_str(), node.clone())).collect();
    let request = request("GET", "h7.example/a/b", &[]);
    let explanation = router(rules).explain(&Input::from(&request));
    assert_eq!((explanation.others.len(), explanation.left_out), (CANDIDATES_SHOWN, 161));
    let kept = |name| explanation.others.iter().any(|other| other.name == name);
    assert!(kept("near") && kept("r7"), "{explanation}");
    assert!(explanation.to_string().ends_with("and 161 more, farther from this request"));
}
