//! What a new Plan changes, for the log and for whoever asked for the change.

use std::collections::BTreeMap;

use config::Plan;
use router::RouteId;

/// One line per thing that came, went or is another: `route "shop" added`.
pub(crate) fn changes(before: &Plan, after: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if before.version == after.version {
        return lines;
    }
    let listeners = |plan: &Plan| -> BTreeMap<String, String> {
        let named = plan.listeners.iter().map(|l| (l.name.clone(), format!("{l:?}")));
        named.collect()
    };
    compare("listener", &listeners(before), &listeners(after), &mut lines);
    let upstreams = |plan: &Plan| -> BTreeMap<String, String> {
        let named = plan.upstreams.iter().map(|(name, u)| (name.clone(), format!("{u:?}")));
        named.collect()
    };
    compare("upstream", &upstreams(before), &upstreams(after), &mut lines);
    compare("route", &routes(before), &routes(after), &mut lines);
    lines
}

/// Routes by name, with what `explain` would say of them.
fn routes(plan: &Plan) -> BTreeMap<String, String> {
    let described = plan.routes.iter().enumerate().map(|(index, route)| {
        let filters: Vec<String> =
            route.filters.iter().map(|f| format!("{} {}", f.name(), f.describe())).collect();
        let rule = plan.router.describe(RouteId(index as u32));
        let handler = format!("{} {}", route.handler.name(), route.handler.describe());
        (route.name.clone(), format!("{rule} {filters:?} {handler}"))
    });
    described.collect()
}

fn compare(
    kind: &str,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    lines: &mut Vec<String>,
) {
    for (name, text) in after {
        match before.get(name) {
            None => lines.push(format!("{kind} \"{name}\" added")),
            Some(old) if old != text => lines.push(format!("{kind} \"{name}\" changed")),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    lines.extend(gone.map(|name| format!("{kind} \"{name}\" removed")));
}

/// A Plan of no importance, shared by tests of this room.
#[cfg(test)]
pub(crate) fn plan_of(text: &str) -> std::sync::Arc<Plan> {
    let source = config::TextSource::new("test.yaml", text);
    match config::load(&source, &|_| None, &config::Kinds::all()) {
        Ok(loaded) => loaded.plan,
        Err(report) => panic!("{}", report.render()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "
listeners: { web: { bind: \"127.0.0.1:0\" } }
routes:
  - { name: kept, match: { path: /kept }, handler: { respond: { body: a } } }
  - { name: gone, match: { path: /gone }, handler: { respond: { body: b } } }
  - { name: other, match: { path: /other }, handler: { respond: { body: c } } }
";

    #[test]
    fn what_came_went_and_changed_is_named() {
        let after = BEFORE
            .replace("name: gone, match: { path: /gone }", "name: new, match: { path: /new }")
            .replace("path: /other", "path: /elsewhere");
        let lines = changes(&plan_of(BEFORE), &plan_of(&after));
        assert_eq!(
            lines,
            ["route \"new\" added", "route \"other\" changed", "route \"gone\" removed"]
        );
        assert!(changes(&plan_of(BEFORE), &plan_of(BEFORE)).is_empty());
    }
}
