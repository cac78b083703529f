//! Routes that can never match, and routes that can although it seems otherwise.

use settings::{Node, node};

use crate::testing::errors;

/// The rules that are reported as dead.
fn dead(matches: &[Node]) -> Vec<u32> {
    errors(matches).iter().map(|error| error.rule.0).collect()
}

#[test]
fn a_route_covered_by_an_earlier_one_is_dead() {
    for (first, second) in [
        (node!({ "path": "/a" }), node!({ "path": "/a" })),
        (node!({ "path": "/a/{x}" }), node!({ "path": "/a/{y}" })),
        (node!({ "path": "/a/{*x}" }), node!({ "path": "/a/{*y}" })),
        (node!({}), node!({})),
        (node!({ "path": "/{*x}" }), node!({})),
        (node!({ "methods": ["GET", "PUT"] }), node!({ "methods": "HEAD" })),
        (node!({ "host": "a.x" }), node!({ "host": "A.x." })),
        (node!({ "listener": ["a", "b"] }), node!({ "listener": "b" })),
        (node!({ "path": { "ant": "/a/*" } }), node!({ "path": { "ant": "/a/*" } })),
        (node!({ "path": { "regex": "b" } }), node!({ "path": { "regex": "b" } })),
        // Segments come before Ant patterns and expressions.
        (node!({ "path": "/{*x}" }), node!({ "path": { "regex": "b" } })),
        (node!({ "path": "/a/{*x}" }), node!({ "path": { "regex": "^/a/[0-9]+$" } })),
        (node!({ "path": "/a/{*x}" }), node!({ "path": { "ant": "/a/*/b" } })),
        (
            node!({ "when": { "header": "a", "equals": "1" } }),
            node!({ "when": { "header": "a", "equals": "1" } }),
        ),
        // Wider routes of a higher priority.
        (node!({ "priority": 1 }), node!({ "host": "a.x", "path": "/a", "when": { "ip": "::1" } })),
        (node!({ "path": "/a/{*x}", "priority": 1 }), node!({ "path": "/a" })),
        (node!({ "path": "/a/{*x}", "priority": 1 }), node!({ "path": "/a/{y}/c/{*z}" })),
        (node!({ "path": "/a/{x}", "priority": 1 }), node!({ "path": "/a/b" })),
        (node!({ "host": "*.x", "priority": 1 }), node!({ "host": ["a.x", "*.b.x", "*.x"] })),
    ] {
        assert_eq!(dead(&[first.clone(), second.clone()]), [1], "{first:?} {second:?}");
    }
}

#[test]
fn a_route_that_can_match_is_not_reported() {
    for (first, second) in [
        (node!({ "path": "/a" }), node!({ "path": "/a/" })),
        (node!({ "path": "/a/{x}", "priority": 1 }), node!({ "path": "/a/" })),
        (node!({ "path": "/a/{x}", "priority": 1 }), node!({ "path": "/a/{*y}" })),
        (node!({ "path": "/a/{*x}", "priority": 1 }), node!({ "path": "/{y}" })),
        (node!({ "path": "/a", "when": { "header": "b" } }), node!({ "path": "/a" })),
        (
            node!({ "path": "/a", "when": { "header": "b" } }),
            node!({ "path": "/a", "when": { "header": "c" } }),
        ),
        (node!({ "methods": "PUT", "priority": 1 }), node!({})),
        (node!({ "methods": "HEAD" }), node!({ "methods": "GET" })),
        (node!({ "listener": "a", "priority": 1 }), node!({})),
        (node!({ "host": "a.x", "priority": 1 }), node!({ "host": ["a.x", "b.x"] })),
        (node!({ "host": "*.x", "priority": 1 }), node!({ "host": "x" })),
        (node!({ "path": "/a/{*x}" }), node!({ "path": { "regex": "^/a" } })),
        (node!({ "path": "/a/{*x}" }), node!({ "path": { "regex": "^/a/b|c" } })),
        (node!({ "path": "/a/{x}" }), node!({ "path": { "ant": "/a/*" } })),
        (node!({ "path": ["/a", "/b"] }), node!({ "path": ["/a", "/c"] })),
        (node!({ "path": { "ant": "/a/*" } }), node!({ "path": { "ant": "/a/?" } })),
    ] {
        assert_eq!(dead(&[first.clone(), second.clone()]), [0; 0], "{first:?} {second:?}");
    }
}

#[test]
fn several_routes_may_cover_the_parts_of_one() {
    let rules = [node!({ "path": "/a" }), node!({ "path": "/b" }), node!({ "path": ["/a", "/b"] })];
    assert_eq!(dead(&rules), [2]);
}

#[test]
fn the_error_names_the_other_route_and_the_remedy() {
    let found = errors(&[node!({ "path": "/{*x}" }), node!({ "path": { "regex": "b" } })]);
    assert_eq!(
        found[0].message,
        "this route can never match: \"r0\" takes every such request before it \
         (Ant patterns and regular expressions come last)"
    );
    assert_eq!(found[0].help.as_deref(), Some("give it a higher `priority`"));
    let found = errors(&[node!({ "path": "/a" }), node!({ "path": "/a" })]);
    assert_eq!(found[0].help.as_deref(), Some("move it before \"r0\", or narrow one of the two"));
}

#[test]
fn bits_run_out_with_an_error() {
    let many: Vec<Node> = (0..64).map(|n| node!({ "listener": (format!("l{n}")) })).collect();
    assert_eq!(errors(&many)[0].message, "routes name more than 63 listeners");
    let many: Vec<Node> =
        (0..55).map(|n| node!({ "methods": { "extension": (format!("M{n}")) } })).collect();
    assert_eq!(errors(&many)[0].message, "routes name more than 54 methods of their own");
}
