//! The table as text: the routes in the order in which they are tried, one per line.

use crate::Match;
use crate::table::{RouteId, Router};

impl Router {
    /// Every route once, in the order in which they are tried; one with several hosts or paths is
    /// listed at its first.
    pub fn in_order(&self) -> Vec<RouteId> {
        let mut seen = vec![false; self.rules().len()];
        let rules = self.table.entries.iter().map(|entry| entry.rule);
        rules
            .filter(|rule| !std::mem::replace(&mut seen[*rule as usize], true))
            .map(RouteId)
            .collect()
    }

    /// What a route matches, in one line.
    pub fn describe(&self, route: RouteId) -> String {
        self.rules()[route.index()].matches.describe()
    }
}

impl Match {
    /// All conditions, in one line.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                parts.push(format!("{name} {}", values.join(", ")));
            }
        };
        part("listener", self.listener.iter().map(|name| name.value.clone()).collect());
        part("host", self.host.iter().map(ToString::to_string).collect());
        part("path", self.path.iter().map(ToString::to_string).collect());
        part("methods", self.methods.iter().map(ToString::to_string).collect());
        part("when", self.when.iter().map(ToString::to_string).collect());
        if self.priority != 0 {
            part("priority", vec![self.priority.to_string()]);
        }
        if parts.is_empty() { "everything".to_owned() } else { parts.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Router, Rule};
    use settings::{Span, node};

    #[test]
    fn routes_are_listed_in_the_order_they_are_tried() {
        let rule = |name: &str, matches| Rule {
            name: name.to_owned(),
            span: Span::NOWHERE,
            matches: settings::read(&matches).unwrap(),
        };
        let router = Router::compile(vec![
            rule("rest", node!({ "path": "/{*rest}" })),
            rule("one", node!({ "path": ["/one", "/uno"], "methods": ["GET"] })),
        ])
        .unwrap();
        let order: Vec<usize> = router.in_order().iter().map(|id| id.index()).collect();
        assert_eq!(order, [1, 0]);
        assert_eq!(router.describe(router.in_order()[0]), "path /one, /uno; methods GET");
    }
}
