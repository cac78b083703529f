//! Routes: names, references, filters and handler, and the router's table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use message::{RouteBounds, RouteLog};
use plugin::{Condition, FilterPlan};
use router::{Router, Rule};
use settings::{Reader, Report, Span, Spanned, quote};

use super::caches;
use super::chains::Chains;
use super::check_name;
use super::handlers::Declared;
use crate::records::{AccessFormatSetting, RouteSettings, Settings};
use crate::server_plan::RoutePlan;
use crate::source::version_of;

/// A route that is whole.
pub(super) struct Compiled {
    pub(super) plan: RoutePlan,
    /// The listeners it is for; all without any.
    pub(super) listeners: Vec<String>,
}

pub(super) fn compile(
    declared: Declared<'_>,
    chains: &mut Chains,
    reader: &mut Reader<'_>,
) -> (Option<Router>, Vec<Compiled>, Vec<Arc<dyn FilterPlan>>) {
    let settings = declared.settings;
    let names = names(settings, reader);
    // Paths read so far (of matches) are none of a filter's business.
    reader.take_path_variables();
    let defaults = chains.filters(&settings.defaults.filters, declared, reader);
    let mut rules = Vec::new();
    let mut routes = Vec::new();
    let mut shared_state = HashSet::new();
    for (route, name) in settings.routes.iter().zip(names) {
        let own = chains.filters(&route.filters, declared, reader);
        let entry = &route.handler;
        let handler = declared.handler(&entry.name, &entry.settings, reader);
        let of_handler = reader.take_path_variables();
        let wanted = defaults.path_variables.iter().chain(&own.path_variables).chain(&of_handler);
        check_path_variables(route, &name, wanted, reader.report());
        check_listeners(route, settings, reader.report());
        if route.r#match.value.when.as_ref().is_some_and(Condition::needs_authentication) {
            reader
                .error(route.r#match.span, "a route is chosen before its filters authenticate")
                .help("test consumers, groups, labels and claims with the filters allow and deny");
        }
        // A route without `match` is shown as a whole.
        let unwritten = route.r#match.span == Span::NOWHERE;
        // An invalid `match` contains defaults, which match more than intended.
        if route.r#match.complete {
            rules.push(Rule {
                name: name.clone(),
                span: if unwritten { route.span } else { route.r#match.span },
                matches: route.r#match.value.clone(),
            });
        }
        let Some(handler) = handler else { continue };
        let filters: Vec<_> = defaults.filters.iter().cloned().chain(own.filters).collect();
        let filter_spans: Vec<Span> = defaults.spans.iter().copied().chain(own.spans).collect();
        caches::check_order(&filters, reader);
        check_state(&filters, &filter_spans, &mut shared_state, reader);
        routes.push(Compiled {
            listeners: route.r#match.listener.iter().map(|name| name.value.clone()).collect(),
            plan: RoutePlan {
                identity: identity(route),
                name,
                filters,
                filter_spans,
                handler,
                bounds: bounds(route).boxed(),
                log: route_log(route, settings, reader),
            },
        });
    }
    let unrouted = defaults.filters.into_iter().filter(|filter| filter.changes_generated());
    (table(rules, reader.report()), routes, unrouted.collect())
}

/// Reports filters without a name that would share their state with another one of their route.
/// One that several routes have is reported once.
fn check_state(
    filters: &[Arc<dyn FilterPlan>],
    spans: &[Span],
    reported: &mut HashSet<Span>,
    reader: &mut Reader<'_>,
) {
    let mut known = HashSet::new();
    for (filter, span) in filters.iter().zip(spans) {
        let Some(state) = filter.route_state() else { continue };
        if !known.insert((filter.name(), state)) && reported.insert(*span) {
            let why = format!("another {} of the route has the same state", filter.name());
            reader.error(*span, why).help("give it a `name`");
        }
    }
}

/// The bounds of a route that differ from its listener's.
fn bounds(route: &RouteSettings) -> RouteBounds {
    let (limits, timeouts) = (&route.limits, &route.timeouts);
    RouteBounds {
        body: limits.body.map(|size| size.bytes()),
        body_pause: timeouts.body.map(|span| span.get()),
        body_rate: timeouts.body_rate.map(|rate| rate.bytes()),
        body_total: timeouts.body_total.map(|span| span.get()),
        write_pause: timeouts.write.map(|span| span.get()),
        write_rate: timeouts.write_rate.map(|rate| rate.bytes()),
        call: timeouts.grpc.map(|span| span.get()),
    }
}

/// Returns how the requests of a route are logged, if it says so.
fn route_log(
    route: &RouteSettings,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<Arc<RouteLog>> {
    let log = route.log.as_ref()?;
    if settings.log.access.is_none() {
        reader.error(log.span, "there is no access log: set `log.access`");
    }
    let reserved = |name: &str| http_server::JSON_MEMBERS.contains(&name);
    for name in log.fields.keys() {
        if reserved(name) {
            let why = format!("{} is a member of each line already", quote(name));
            reader.error(log.span, why);
        }
    }
    let fields = log.fields.iter();
    Some(Arc::new(RouteLog {
        format: log.format.as_ref().map(AccessFormatSetting::line_format),
        sample: log.sample,
        fields: fields.map(|(name, value)| (name.clone(), Arc::new(value.clone()))).collect(),
    }))
}

fn table(rules: Vec<Rule>, report: &mut Report) -> Option<Router> {
    match Router::compile(rules) {
        Ok(router) => Some(router),
        Err(errors) => {
            for error in errors {
                let said = report.error(error.span, error.message);
                said.help = error.help;
            }
            None
        }
    }
}

/// Every route's name: its own, or else its path, made different where that is taken.
fn names(settings: &Settings, reader: &mut Reader<'_>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    for route in &settings.routes {
        let Some(name) = &route.name else { continue };
        check_name("route", name, reader);
        if !taken.insert(name.value.clone()) {
            reader
                .error(name.span, format!("another route is named {}", quote(name)))
                .help("names of routes tell them apart in logs and metrics");
        }
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    let name = |route: &Spanned<RouteSettings>| {
        if let Some(name) = &route.name {
            return name.value.clone();
        }
        let path = first_path(route);
        // Counted from where the last one ended: thousands may have the same path.
        let count = counts.entry(path.clone()).or_insert(0_usize);
        loop {
            *count += 1;
            let name = if *count == 1 { path.clone() } else { format!("{path}#{count}") };
            if taken.insert(name.clone()) {
                return name;
            }
        }
    };
    settings.routes.iter().map(name).collect()
}

fn first_path(route: &RouteSettings) -> String {
    route.r#match.path.first().map_or_else(|| "*".to_owned(), ToString::to_string)
}

/// What tells a route without a name from those of other configurations: its path with a digest of
/// all that it matches. No name has a control character.
fn identity(route: &RouteSettings) -> Option<String> {
    if route.name.is_some() {
        return None;
    }
    let matches = route.r#match.describe();
    Some(format!("{}\u{1}{}", first_path(route), version_of([matches.as_str()])))
}

fn check_path_variables<'v>(
    route: &RouteSettings,
    name: &str,
    wanted: impl Iterator<Item = &'v Spanned<String>>,
    report: &mut Report,
) {
    let params = route.r#match.params();
    let mut seen: HashSet<(Span, &str)> = HashSet::new();
    for variable in wanted {
        if params.contains(&variable.as_str()) || !seen.insert((variable.span, variable.as_str())) {
            continue;
        }
        let message =
            format!("the path of route {} has no parameter {}", quote(name), quote(variable));
        report.with_nearest(variable.span, message, variable, params.iter().copied());
    }
}

fn check_listeners(route: &RouteSettings, settings: &Settings, report: &mut Report) {
    for listener in route.r#match.listener.iter() {
        if !settings.listeners.names().any(|declared| declared == listener.value) {
            report.dangling(listener.span, "listener", listener, settings.listeners.names());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Kinds, TextSource, load};

    #[test]
    fn routes_without_a_name_are_named_by_their_path() {
        let text = "
listeners: { web: { bind: ':80' } }
routes:
  - { match: { path: /a, methods: GET }, handler: { respond: {} } }
  - { match: { path: /a, methods: PUT }, handler: { respond: {} } }
  - { name: '/a#2', match: { path: /b }, handler: { respond: {} } }
  - { handler: { respond: {} } }
";
        let loaded = load(&TextSource::new("t", text), &|_| None, &Kinds::all());
        let plan = loaded.unwrap_or_else(|report| panic!("{report}")).plan;
        let names: Vec<_> = plan.routes.iter().map(|route| route.name.as_str()).collect();
        assert_eq!(names, ["/a", "/a#3", "/a#2", "*"]);
    }

    #[test]
    fn a_route_without_a_name_is_the_same_wherever_it_is_written() {
        let identities = |routes: &[&str]| -> Vec<String> {
            let text = format!("listeners: {{ web: {{ bind: ':80' }} }}\nroutes: {routes:?}");
            let text = text.replace('"', "");
            let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
            let plan = loaded.unwrap_or_else(|report| panic!("{report}")).plan;
            plan.routes.iter().map(|route| route.names().identity.to_owned()).collect()
        };
        let one = "{ match: { path: /a, when: { ip: 10.0.0.0/8 } }, handler: { respond: {} } }";
        let two = "{ match: /a, handler: { respond: {} } }";
        let named = "{ name: /a, match: { path: /a, methods: PUT }, handler: { respond: {} } }";
        let all = identities(&[named, one, two]);
        assert_eq!(all[0], "/a");
        assert!(all[1] != all[2] && all[1..].iter().all(|text| text.starts_with("/a\u{1}")));
        assert_eq!(identities(&[two]), all[2..]);
        assert_eq!(identities(&[one]), all[1..2]);
    }

    #[test]
    fn filters_of_defaults_come_first_and_chains_are_put_in_place() {
        let text = "
listeners: { web: { bind: ':80' } }
chains: { c: [{ rate_limit: { rate: 2/s } }, { rate_limit: { rate: 3/s } }] }
defaults: { filters: [{ rate_limit: { rate: 1/s } }] }
routes:
  - filters: [{ chain: c }, { rate_limit: { rate: 4/s } }]
    handler: { respond: {} }
";
        let loaded = load(&TextSource::new("t", text), &|_| None, &Kinds::all());
        let plan = loaded.unwrap_or_else(|report| panic!("{report}")).plan;
        let said: Vec<_> = plan.routes[0].filters.iter().map(|f| f.describe()).collect();
        let rates: Vec<_> = ["1/s", "2/s", "3/s", "4/s"].into_iter().zip(&said).collect();
        assert!(rates.iter().all(|(rate, said)| said.contains(rate)), "{said:?}");
    }
}
