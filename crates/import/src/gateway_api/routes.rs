//! HTTPRoute and GRPCRoute: each match of each rule becomes a route.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};
use settings::Regex;

use super::super::pike::name_of;
use super::super::writer::escaped_regex;
use super::backends::{Backends, Wanted};
use super::filters::Rule;
use super::gateways::{Attached, GatewayListener, attached};
use super::model::{Object, Objects, list, note_others, text};

/// A route to write.
pub(super) struct Route {
    pub(super) name: String,
    pub(super) matched: Value,
    pub(super) filters: Vec<Value>,
    pub(super) handler: Value,
    pub(super) notes: Vec<String>,
}

/// A route for one host, before its place in the order is known.
struct Candidate<'m> {
    host: String,
    condition: Condition,
    age: (bool, &'m str, &'m str, &'m str),
    /// Its index: candidates of the same route differ in their host only.
    route: usize,
}

/// What a match compares.
#[derive(Clone, Default)]
struct Condition {
    /// The form of the path, and its text: in the order of the specification, an exact path comes
    /// before a prefix. The order of expressions is not specified.
    kind: PathKind,
    path: String,
    method: Option<String>,
    headers: Vec<Value>,
    query: Vec<Value>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Exact,
    #[default]
    Prefix,
    Expression,
}

/// The routes in the order of the specification.
pub(super) fn routes<'m>(
    objects: &Objects<'m>,
    gateways: &[GatewayListener<'m>],
    backends: &mut Backends<'_, 'm>,
    notes: &mut Vec<String>,
) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut candidates = Vec::new();
    for object in objects.of("HTTPRoute").chain(objects.of("GRPCRoute")) {
        let known = ["parentRefs", "hostnames", "rules", "useDefaultGateways"];
        note_others(object.spec(), &known, &object.place, notes);
        for attached in attached(object, gateways, notes) {
            for (at, rule) in list(&object.spec()["rules"]).iter().enumerate() {
                let place = format!("{} rule {}", object.place, at + 1);
                let known = ["name", "matches", "filters", "backendRefs", "timeouts"];
                note_others(rule, &known, &place, notes);
                let any = [json!({})];
                let matches = match list(&rule["matches"]) {
                    [] => &any[..],
                    some => some,
                };
                for one in matches {
                    let condition = match condition(one, object.kind, &place) {
                        Ok(condition) => condition,
                        Err(why) => {
                            notes.push(format!("{place}: a match is left out: {why}"));
                            continue;
                        }
                    };
                    let index = routes.len();
                    routes.push(route(object, &place, rule, &condition, &attached, backends));
                    let hosts = match attached.hosts.is_empty() {
                        true => vec![String::new()],
                        false => attached.hosts.clone(),
                    };
                    candidates.extend(hosts.into_iter().map(|host| Candidate {
                        host,
                        condition: condition.clone(),
                        age: object.age(),
                        route: index,
                    }));
                }
            }
        }
    }
    candidates.sort_by_cached_key(|one| {
        let condition = &one.condition;
        let is_below = one.host.starts_with('*');
        let host = (one.host.is_empty(), is_below, Reverse(one.host.len()));
        let path = (condition.kind, Reverse(condition.path.len()));
        let method = condition.method.is_none();
        let counts = (Reverse(condition.headers.len()), Reverse(condition.query.len()));
        let (is_new, created, namespace, name) = one.age;
        let age = (is_new, created.to_owned(), namespace.to_owned(), name.to_owned());
        (host, path, method, counts, age, one.route)
    });
    match is_native(&candidates) {
        true => in_order(routes, &candidates),
        false => with_priorities(routes, &candidates),
    }
}

/// True if our order of the candidates is that of the specification: with equal hosts and paths,
/// ours asks for the number of conditions, and then for the position.
fn is_native(candidates: &[Candidate<'_>]) -> bool {
    let count =
        |one: &Condition| usize::from(one.method.is_some()) + one.headers.len() + one.query.len();
    let is_expression = |one: &Candidate<'_>| one.condition.kind == PathKind::Expression;
    candidates.iter().enumerate().all(|(at, one)| {
        candidates[at + 1..].iter().all(|later| {
            later.host != one.host
                || later.condition.path != one.condition.path && !is_expression(later)
                || count(&later.condition) <= count(&one.condition)
        })
    })
}

/// One route for all hosts of a match.
fn in_order(mut routes: Vec<Route>, candidates: &[Candidate<'_>]) -> Vec<Route> {
    let mut order: Vec<usize> = Vec::new();
    for candidate in candidates {
        if !order.contains(&candidate.route) {
            order.push(candidate.route);
        }
        let hosts = &mut routes[candidate.route].matched["host"];
        if !candidate.host.is_empty() {
            match hosts {
                Value::Array(hosts) => hosts.push(json!(candidate.host)),
                _ => *hosts = json!([candidate.host]),
            }
        }
    }
    let mut slots: Vec<Option<Route>> = routes.into_iter().map(Some).collect();
    let ordered = order.into_iter().filter_map(|at| slots[at].take());
    named(ordered.map(without_nulls).collect())
}

/// One route for each host, with a priority that makes the order.
fn with_priorities(routes: Vec<Route>, candidates: &[Candidate<'_>]) -> Vec<Route> {
    let ordered = candidates.iter().enumerate().map(|(at, candidate)| {
        let route = &routes[candidate.route];
        let mut matched = route.matched.clone();
        if !candidate.host.is_empty() {
            matched["host"] = json!([candidate.host]);
        }
        matched["priority"] = json!(candidates.len() - at);
        without_nulls(Route {
            name: route.name.clone(),
            matched,
            filters: route.filters.clone(),
            handler: route.handler.clone(),
            notes: route.notes.clone(),
        })
    });
    named(ordered.collect())
}

fn without_nulls(mut route: Route) -> Route {
    if let Value::Object(members) = &mut route.matched {
        members.retain(|_, value| !value.is_null());
    }
    route
}

/// Gives routes of the same name different ones.
fn named(mut routes: Vec<Route>) -> Vec<Route> {
    let mut counts = std::collections::HashMap::<String, usize>::new();
    let mut taken: std::collections::HashSet<String> =
        routes.iter().map(|route| route.name.clone()).collect();
    for route in &mut routes {
        let count = counts.entry(route.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let mut name = format!("{}-{count}", route.name);
            while !taken.insert(name.clone()) {
                name.push('x');
            }
            route.name = name;
        }
    }
    routes
}

fn route(
    object: &Object<'_>,
    place: &str,
    rule: &Value,
    condition: &Condition,
    attached: &Attached<'_, '_>,
    backends: &mut Backends<'_, '_>,
) -> Route {
    let mut matched = Map::new();
    let mut listeners: Vec<&str> = attached.to.iter().map(|one| &*one.listener).collect();
    listeners.sort_unstable();
    listeners.dedup();
    matched.insert("listener".to_owned(), json!(listeners));
    // Its hosts are known when all routes are in order.
    matched.insert("host".to_owned(), Value::Null);
    let path = match condition.kind {
        PathKind::Exact => json!(condition.path),
        PathKind::Prefix => {
            json!(format!("{}/{{*rest}}", condition.path.trim_end_matches('/')))
        }
        PathKind::Expression => json!({ "regex": condition.path }),
    };
    matched.insert("path".to_owned(), path);
    if let Some(method) = &condition.method {
        matched.insert("methods".to_owned(), json!([method]));
    }
    let when: Vec<&Value> = condition.headers.iter().chain(&condition.query).collect();
    if !when.is_empty() {
        matched.insert("when".to_owned(), json!(when));
    }
    let prefix = (condition.kind == PathKind::Prefix).then_some(&*condition.path);
    let port = attached.to.first().map_or(80, |one| one.port);
    let own = Rule { route: object, place, prefix, port };
    let mut own = own.filters(list(&rule["filters"]), backends);
    let mut filters = std::mem::take(&mut own.filters);
    let handler = own.handler.unwrap_or_else(|| {
        let times = &rule["timeouts"];
        let wanted = Wanted {
            grpc: object.kind == "GRPCRoute",
            response_ms: milliseconds(&times["backendRequest"])
                .or_else(|| milliseconds(&times["request"])),
            raw: false,
        };
        if !times["request"].is_null() {
            own.notes
                .push(format!("{place}: timeouts.request ends at the head of the response here"));
        }
        let (split, handler) = backends.handler(object, place, list(&rule["backendRefs"]), wanted);
        filters.extend(split);
        handler
    });
    let name = name_of(&format!("{}-{}", object.namespace, object.name));
    Route { name, matched: Value::Object(matched), filters, handler, notes: own.notes }
}

/// Reads a match.
fn condition(value: &Value, kind: &str, place: &str) -> Result<Condition, String> {
    let mut condition = match kind {
        "GRPCRoute" => of_call(&value["method"])?,
        _ => of_path(&value["path"])?,
    };
    if kind == "HTTPRoute" {
        condition.method = value["method"].as_str().map(str::to_owned);
        condition.query = compared(list(&value["queryParams"]), "query", place)?;
    }
    condition.headers = compared(list(&value["headers"]), "header", place)?;
    Ok(condition)
}

fn of_path(path: &Value) -> Result<Condition, String> {
    let written = path["value"].as_str().unwrap_or("/");
    let kind = match text(&path["type"]) {
        "Exact" => PathKind::Exact,
        "" | "PathPrefix" => PathKind::Prefix,
        "RegularExpression" => return expression(written),
        other => return Err(format!("{other} is not a type of a path")),
    };
    let pattern = match kind {
        PathKind::Prefix => format!("{}/{{*rest}}", written.trim_end_matches('/')),
        _ => written.to_owned(),
    };
    let is_plain = !written.contains(['{', '}', '*']);
    match pattern.parse::<router::Segments>() {
        Ok(_) if is_plain => {
            Ok(Condition { kind, path: written.to_owned(), ..Condition::default() })
        }
        Ok(_) => Err(format!("\"{written}\" has braces")),
        Err(why) => Err(format!("\"{written}\" {why}")),
    }
}

fn expression(written: &str) -> Result<Condition, String> {
    let path = format!("^(?:{written})$");
    path.parse::<Regex>().map_err(|why| format!("\"{written}\" {why}"))?;
    Ok(Condition { kind: PathKind::Expression, path, ..Condition::default() })
}

/// The path of a gRPC call.
fn of_call(method: &Value) -> Result<Condition, String> {
    let (service, name) = (text(&method["service"]), text(&method["method"]));
    let exact = |path: String, kind| {
        let path = json!({ "type": kind, "value": path });
        of_path(&path)
    };
    match (text(&method["type"]), service, name) {
        (_, "", "") => exact("/".to_owned(), "PathPrefix"),
        ("" | "Exact", service, "") => exact(format!("/{service}"), "PathPrefix"),
        ("" | "Exact", "", name) => expression(&format!("/[^/]+/{}", escaped_regex(name))),
        ("" | "Exact", service, name) => exact(format!("/{service}/{name}"), "Exact"),
        ("RegularExpression", service, name) => {
            let or_any = |text: &str| match text {
                "" => "[^/]+".to_owned(),
                text => format!("(?:{text})"),
            };
            expression(&format!("/{}/{}", or_any(service), or_any(name)))
        }
        (other, ..) => Err(format!("{other} is not a type of a method")),
    }
}

/// Conditions on headers or query parameters. Of several with the same name, the first counts.
fn compared(values: &[Value], subject: &str, place: &str) -> Result<Vec<Value>, String> {
    let mut seen: Vec<String> = Vec::new();
    let mut conditions = Vec::new();
    for value in values {
        let (name, wanted) = (text(&value["name"]), text(&value["value"]));
        let key = match subject {
            "header" => name.to_ascii_lowercase(),
            _ => name.to_owned(),
        };
        if seen.contains(&key) {
            continue;
        }
        let is_token = wire::token::is_token(name.as_bytes());
        if name.is_empty() || subject == "header" && !is_token {
            return Err(format!("\"{name}\" is not a valid name of a {subject}"));
        }
        conditions.push(match text(&value["type"]) {
            "" | "Exact" => json!({ subject: name, "equals": wanted }),
            "RegularExpression" => {
                let expression = format!("^(?:{wanted})$");
                expression.parse::<Regex>().map_err(|why| format!("\"{wanted}\" {why}"))?;
                json!({ subject: name, "regex": expression })
            }
            other => return Err(format!("{other} is not a type of a match ({place})")),
        });
        seen.push(key);
    }
    Ok(conditions)
}

/// A duration such as `1h30m` or `500ms` (GEP-2257); none if it is zero, which means no limit.
fn milliseconds(value: &Value) -> Option<u64> {
    let mut rest = text(value);
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return None,
        };
        total = total.saturating_add(number.saturating_mul(unit));
        rest = &rest[end..];
    }
    // The limit of our setting.
    (total > 0).then_some(total.min(86_400_000))
}
