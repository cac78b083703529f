//! Each setting of `split`, with shares counted.

use std::rc::Rc;

use message::{HandlerResult, Request, Response};
use net::worker::block_on_local;
use plugin::testing::{context, errors, get, plan, route_with};
use plugin::{MaybeFuture, Route, WorkerContext};
use settings::{Node, node};
use telemetry::families;

use super::{KIND, Split};

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Split>().unwrap();
}

fn stable(_: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    Ok(Response::new(200)).into()
}

fn canary(_: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    Ok(Response::new(201)).into()
}

/// The variant `canary` is the handler that responds 201, the route's responds 200.
fn route(node: &Node, context: &WorkerContext) -> Rc<Route> {
    route_with(&KIND, node, context, stable, canary)
}

async fn run(route: &Rc<Route>, headers: &[(&str, &str)]) -> Response {
    route.run(&mut get("/", headers)).await.unwrap()
}

/// The settings of two variants, and others.
macro_rules! two {
    ($canary:expr, $stable:expr $(, $key:literal: $value:tt)*) => {
        node!({
            "variants": [
                { "name": "canary", "weight": ($canary), "handler": { "respond": {} } },
                { "name": "stable", "weight": ($stable) },
            ],
            $($key: $value,)*
        })
    };
}

/// Canary responses among so many requests.
async fn canaries(route: &Rc<Route>, requests: usize) -> usize {
    let mut count = 0;
    for _ in 0..requests {
        count += usize::from(run(route, &[]).await.status == 201);
    }
    count
}

#[test]
fn shares_are_exact_and_counted_by_variant() {
    block_on_local(async {
        let context = context();
        let split = route(&two!(5, 95, "name": "shop"), &context);
        let canaries = canaries(&split, 100_000).await;
        assert!((4_950..=5_050).contains(&canaries), "{canaries}");
        let counted = |variant, class| {
            let labels = ["shop", variant, class];
            context.telemetry.worker_counter(0, &families::SPLIT_RESPONSES, &labels).get() as usize
        };
        assert_eq!(counted("canary", "2xx"), canaries);
        assert_eq!(counted("stable", "2xx"), 100_000 - canaries);
    });
}

#[test]
fn several_variants_have_their_shares() {
    let split = settings::read::<Split>(&node!({ "variants": [
        { "name": "a", "weight": 1 }, { "name": "b", "weight": 0 },
        { "name": "c", "weight": 2 }, { "name": "d", "weight": 7 },
    ] }))
    .unwrap();
    let points = crate::share::Spread::new();
    let mut counts = [0; 4];
    (0..100_000).for_each(|_| counts[split.variant_at(points.next(), 0)] += 1);
    for (count, wanted) in counts.into_iter().zip([10_000, 0, 20_000, 70_000]) {
        assert!(wanted * 99 <= count * 100 && count * 100 <= wanted * 101, "{counts:?}");
    }
    assert_eq!([0, u64::MAX].map(|point| split.variant_at(point, 0)), [0, 3]);
}

#[test]
fn a_cookie_keeps_a_client_on_its_variant_until_its_weight_is_0() {
    block_on_local(async {
        let settings = |canary: u32, stable: u32| two!(canary, stable, "sticky": { "cookie": "v" });
        let split = route(&settings(1, 1), &context());
        for _ in 0..20 {
            let first = run(&split, &[]).await;
            let cookie = first.headers.get_str("set-cookie").unwrap();
            let (pair, attributes) = cookie.split_once("; ").unwrap();
            assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
            let named = if first.status == 201 { "v=canary" } else { "v=stable" };
            assert_eq!(pair, named);
            for _ in 0..5 {
                let again = run(&split, &[("cookie", pair)]).await;
                assert_eq!(again.status, first.status);
                assert!(!again.headers.contains("set-cookie"));
            }
        }
        let unknown = run(&split, &[("cookie", "v=none")]).await;
        assert!(unknown.headers.contains("set-cookie"));
        let rolled_back = route(&settings(0, 1), &context());
        let response = run(&rolled_back, &[("cookie", "v=canary")]).await;
        assert_eq!(response.status, 200);
        assert!(response.headers.get_str("set-cookie").unwrap().starts_with("v=stable;"));
    });
}

#[test]
fn a_cookie_is_stored_for_as_long_as_is_set() {
    let settings = |max_age: &str| {
        node!({
            "variants": [{ "name": "a" }],
            "sticky": { "cookie": { "name": "v", "max_age": max_age } },
        })
    };
    let response = block_on_local(async {
        let split = route(&settings("30d"), &context());
        run(&split, &[]).await
    });
    let cookie = response.headers.get_str("set-cookie");
    assert_eq!(cookie, Some("v=a; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"));
    for (max_age, why) in [("0s", "1s"), ("401d", "400d"), ("long", "long")] {
        let report = errors(&KIND, &settings(max_age));
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}

#[test]
fn a_key_decides_and_a_ramp_moves_only_the_keys_in_between() {
    let split = |weight: u32| {
        let settings = two!(weight, 100 - weight, "sticky": { "key": "header.x-user" });
        route(&settings, &context())
    };
    block_on_local(async {
        let (few, many) = (split(10), split(40));
        let mut counts = [0, 0];
        for user in 0..2000 {
            let user = format!("user-{user}");
            let field = [("x-user", user.as_str())];
            let before = run(&few, &field).await.status;
            assert_eq!(before, run(&few, &field).await.status);
            let after = run(&many, &field).await.status;
            assert!(before != 201 || after == 201, "{user} left the canary");
            counts[0] += i32::from(before == 201);
            counts[1] += i32::from(after == 201);
        }
        // Keys are random: four standard deviations.
        assert!((146..=254).contains(&counts[0]) && (712..=888).contains(&counts[1]), "{counts:?}");
    });
}

#[test]
fn a_ramp_changes_the_weight_evenly() {
    let settings = node!({ "variants": [
        {
            "name": "canary",
            "weight": 5,
            "ramp": { "start": "2027-01-11T09:00:00Z", "over": "1h", "weight": 50 },
        },
        { "name": "stable", "weight": 50 },
    ] });
    let split = settings::read::<Split>(&settings).unwrap();
    let start = split.variants[0].ramp.as_ref().unwrap().start.unix_s() as u64;
    assert_eq!(start, 1_799_658_000);
    let weight = |after_s: u64| split.variants[0].weight_at(start - 60 + after_s);
    assert_eq!([0, 60, 60 + 1800, 60 + 3600, 90_000].map(weight), [5.0, 5.0, 27.5, 50.0, 50.0]);
    let at_once = settings::read::<Split>(&node!({ "variants": [
        { "name": "a", "weight": 1, "ramp": { "start": "2027-01-11T09:00:00Z", "weight": 9 } },
    ] }));
    let at_once = at_once.unwrap();
    assert_eq!([start - 1, start].map(|at| at_once.variants[0].weight_at(at)), [1.0, 9.0]);
}

#[test]
fn conditions_select_a_variant_or_leave_the_route_alone() {
    block_on_local(async {
        let settings = node!({
            "variants": [
                {
                    "name": "canary",
                    "weight": 0,
                    "handler": { "respond": {} },
                    "when": { "header": "x-canary" },
                },
                { "name": "stable" },
            ],
            "when": { "not": { "header": "x-internal" } },
        });
        let split = route(&settings, &context());
        assert_eq!(run(&split, &[("x-canary", "1")]).await.status, 201);
        assert_eq!(run(&split, &[]).await.status, 200);
        assert_eq!(run(&split, &[("x-canary", "1"), ("x-internal", "1")]).await.status, 200);
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "\"variants\" is missing"),
        (node!({ "variants": [] }), "1 to 32 variants"),
        (node!({ "variants": [{ "name": "a b" }] }), "the name is"),
        (
            node!({ "variants": [{ "name": "a" }, { "name": "a" }] }),
            "another variant is named \"a\"",
        ),
        (node!({ "variants": [{ "name": "a", "weight": 0 }] }), "nowhere to go"),
        (
            node!({ "variants": [
                { "name": "a", "ramp": { "start": "2027-01-11T09:00:00Z", "weight": 0 } },
                {
                    "name": "b",
                    "weight": 0,
                    "ramp": { "start": "2027-01-11T09:00:01Z", "weight": 1 },
                },
            ] }),
            "nowhere to go",
        ),
        (
            node!({ "variants": [{ "name": "a" }], "sticky": { "cookei": "v" } }),
            "did you mean \"cookie\"?",
        ),
        (node!({ "variants": [{ "name": "a" }], "sticky": { "cookie": "a b" } }), "a cookie has"),
        (
            node!({ "variants": [{ "name": "a", "ramp": { "start": "soon", "weight": 1 } }] }),
            "2027-01-11T09:00:00Z",
        ),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = plan(&KIND, &two!(5, 95)).unwrap().describe();
    assert_eq!(shown, "canary 5 to respond, stable 95");
}
