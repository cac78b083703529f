//! The circuit breakers in front of each upstream, for the admin API.

use std::collections::{BTreeMap, HashMap};

use admin::BreakerStatus;
use admin::limits::{BREAKER_ROUTES, BREAKERS};
use config::{RoutePlan, ServerPlan};

/// The filter whose handlers respond in place of the route's.
const SPLIT: &str = "split";

/// Returns the breakers of the routes that lead to each upstream, by its name. A limited number of
/// each, those that are not closed first.
pub(crate) fn of_upstreams(
    plan: &ServerPlan,
    of_routes: Vec<(String, traffic::BreakerStatus)>,
) -> BTreeMap<String, Vec<BreakerStatus>> {
    if of_routes.is_empty() {
        return BTreeMap::new();
    }
    let routes: HashMap<&str, &RoutePlan> =
        plan.routes.iter().map(|route| (&*route.name, route)).collect();
    let mut found: BTreeMap<&str, BTreeMap<String, BreakerStatus>> = BTreeMap::new();
    for (route, breaker) in of_routes {
        // Without a route it belongs to a plan that is being replaced.
        let upstreams = routes.get(&*route).into_iter().flat_map(|route| upstreams_of(route));
        for upstream in upstreams {
            let status = || BreakerStatus { breaker: breaker.clone(), routes: vec![], uses: 0 };
            let known = found.entry(upstream).or_default();
            let known = known.entry(breaker.name.clone()).or_insert_with(status);
            known.uses += 1;
            known.routes.push(route.clone());
        }
    }
    let limited = |breakers: BTreeMap<String, BreakerStatus>| {
        let mut breakers: Vec<_> = breakers.into_values().collect();
        breakers.sort_by_key(|status| status.breaker.state == "closed");
        breakers.truncate(BREAKERS);
        for status in &mut breakers {
            status.routes.sort_unstable();
            status.routes.truncate(BREAKER_ROUTES);
        }
        breakers
    };
    found.into_iter().map(|(name, breakers)| (name.to_owned(), limited(breakers))).collect()
}

/// The upstreams that the requests of a route are sent to, once each.
fn upstreams_of(route: &RoutePlan) -> Vec<&str> {
    let splits = route.filters.iter().filter(|filter| filter.name() == SPLIT);
    let variants = splits.flat_map(|filter| filter.handlers()).filter_map(|one| one.plan());
    let handlers = std::iter::once(&route.handler).chain(variants);
    let names = handlers.filter_map(|handler| handler.upstream());
    let mut names: Vec<&str> = names.map(|name| name.value.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::of_upstreams;
    use crate::changes::plan_of;
    use admin::limits::{BREAKER_ROUTES, BREAKERS};

    fn breaker(name: &str, state: &'static str) -> traffic::BreakerStatus {
        traffic::BreakerStatus {
            name: name.to_owned(),
            state,
            since_ms: Some(1_000),
            requests: 20,
            failed: 10,
            slow: 0,
            window_ms: 10_000,
        }
    }

    #[test]
    fn breakers_belong_to_the_upstreams_that_their_routes_lead_to() {
        let plan = plan_of(
            r#"
listeners: { web: { bind: "127.0.0.1:0" } }
upstreams: { one: { servers: ["127.0.0.1:1"] }, two: { servers: ["127.0.0.1:2"] } }
routes:
- name: a
  match: { path: /a }
  filters:
  - circuit_breaker: { name: shared, fallback: { upstream: two } }
  handler: { upstream: one }
- { name: b, match: { path: /b }, filters: [{ circuit_breaker: { name: shared } }],
    handler: { upstream: one } }
- name: c
  match: { path: /c }
  filters:
  - circuit_breaker: {}
  - split: { variants: [{ name: x, weight: 1, handler: { upstream: two } }] }
  handler: { upstream: one }
- { name: d, match: { path: /d }, filters: [{ circuit_breaker: {} }], handler: { respond: {} } }
"#,
        );
        let listed = vec![
            ("a".to_owned(), breaker("shared", "closed")),
            ("b".to_owned(), breaker("shared", "closed")),
            ("c".to_owned(), breaker("c", "open")),
            ("d".to_owned(), breaker("d", "open")),
            ("of an earlier plan".to_owned(), breaker("gone", "open")),
        ];
        let found = of_upstreams(&plan, listed);
        let shown = |upstream: &str| -> Vec<(&str, &[String], usize)> {
            let breakers = found[upstream].iter();
            breakers.map(|one| (&*one.breaker.name, &*one.routes, one.uses)).collect()
        };
        let routes = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let (shared, own) = (routes(&["a", "b"]), routes(&["c"]));
        assert_eq!(shown("one"), [("c", &*own, 1), ("shared", &*shared, 2)]);
        assert_eq!(shown("two"), [("c", &*own, 1)]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn number_of_breakers_and_routes_is_limited() {
        let many = |name: fn(usize) -> String, count: usize| {
            let route = |n| {
                let found = format!("match: {{ path: /{n} }}, handler: {{ upstream: u }}");
                format!("- {{ name: r{n}, {found} }}\n")
            };
            let routes: String = (0..count).map(route).collect();
            let plan = plan_of(&format!(
                "listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}
upstreams: {{ u: {{ servers: [\"127.0.0.1:1\"] }} }}
routes:
{routes}"
            ));
            let listed = (0..count).map(|n| (format!("r{n}"), breaker(&name(n), "closed")));
            of_upstreams(&plan, listed.collect()).remove("u").unwrap_or_default()
        };
        assert_eq!(many(|n| format!("r{n}"), BREAKERS + 5).len(), BREAKERS);
        let shared = many(|_| "shared".to_owned(), BREAKER_ROUTES + 5);
        let shown = (shared.len(), shared[0].routes.len(), shared[0].uses);
        assert_eq!(shown, (1, BREAKER_ROUTES, BREAKER_ROUTES + 5));
    }
}
