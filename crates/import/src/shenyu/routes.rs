//! Routes: each rule of a plugin that responds, combined with the rules of the plugins that filter.
//!
//! ShenYu matches plugin by plugin, Tidegate once. A rule that may or may not apply to the requests
//! of a route becomes a route of its own before it, with the conditions of both. Priorities make
//! the order that of ShenYu.

use serde_json::{Value, json};

use super::super::pike::name_of;
use super::super::writer::{Writer, literal};
use super::ai;
use super::conditions::{Clause, clauses, covers, disjoint, joined, route_match};
use super::filters::{self, Filters};
use super::model::{Entry, Export, Plugin};
use super::responses;
use super::upstreams::Upstreams;

/// The most routes that one rule becomes.
const COMBINATIONS: usize = 64;

/// A route to write.
pub(super) struct Route {
    clauses: Vec<Clause>,
    name: String,
    filters: Vec<Value>,
    handler: Value,
    notes: Vec<String>,
    body: Option<u64>,
}

/// True if a plugin responds.
pub(super) fn responds(plugin: &str) -> bool {
    is_proxy(plugin) || ["mock", "redirect"].contains(&plugin)
}

/// The routes of an export in the order of ShenYu.
pub(super) fn routes(
    plugins: &[Plugin],
    export: &Export,
    upstreams: &mut Upstreams,
    notes: &mut Vec<String>,
) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut responding: Vec<&Plugin> = plugins.iter().filter(|one| responds(&one.name)).collect();
    // A WebSocket upgrade is never for divide.
    responding.sort_by_key(|one| (is_proxy(&one.name), one.name != "websocket", one.sort));
    let all: Vec<(&Plugin, Entry)> = responding
        .iter()
        .flat_map(|plugin| plugin.entries.iter().map(|entry| (*plugin, of_plugin(plugin, entry))))
        .collect();
    unused_ai_settings(plugins, &all, notes);
    for (at, (plugin, entry)) in all.iter().enumerate() {
        let is_last = !all[at + 1..]
            .iter()
            .any(|(_, other)| other.handle.is_some() && !disjoint(&entry.clauses, &other.clauses));
        if entry.handle.is_none() && is_last {
            continue;
        }
        if routes.iter().any(|earlier| covers(&earlier.clauses, &entry.clauses)) {
            if entry.handle.is_some() {
                notes.push(format!(
                    "{} is left out: an earlier one takes its requests",
                    entry.place
                ));
            }
            continue;
        }
        let before = plugins.iter().filter(|other| {
            !responds(&other.name)
                && (is_proxy(&plugin.name) || other.sort < plugin.sort)
                && (plugin.name == ai::PROXY || ai::setting(&other.name).is_none())
        });
        match combined(entry, before) {
            Some(combinations) => {
                for (clauses, applied) in combinations {
                    if !routes.iter().any(|earlier| covers(&earlier.clauses, &clauses)) {
                        let route = route(plugin, entry, clauses, &applied, export, upstreams);
                        routes.push(route);
                    }
                }
            }
            None => notes.push(format!(
                "{} is left out: the rules of other plugins make more than {COMBINATIONS} routes \
                 of it",
                entry.place
            )),
        }
    }
    routes
}

fn is_proxy(plugin: &str) -> bool {
    ["divide", "springCloud", "websocket", ai::PROXY].contains(&plugin)
}

/// Notes about rules for AI models that apply to other requests than those of aiProxy.
fn unused_ai_settings(plugins: &[Plugin], all: &[(&Plugin, Entry)], notes: &mut Vec<String>) {
    for plugin in plugins {
        let Some(setting) = ai::setting(&plugin.name) else { continue };
        for rule in plugin.entries.iter().filter(|rule| rule.handle.is_some()) {
            let meets = |is_ai: bool| {
                all.iter().any(|(responding, entry)| {
                    is_proxy(&responding.name)
                        && (responding.name == ai::PROXY) == is_ai
                        && entry.handle.is_some()
                        && !disjoint(&entry.clauses, &rule.clauses)
                })
            };
            let (place, name) = (&rule.place, &plugin.name);
            if !meets(true) {
                notes.push(format!(
                    "{place}: {name} is not carried over: write `{setting}` of `ai_proxy`"
                ));
            } else if meets(false) {
                notes.push(format!("{place}: {name} is carried over for routes of aiProxy only"));
            }
        }
    }
}

/// An entry, with the condition that its plugin has.
fn of_plugin(plugin: &Plugin, entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    if plugin.name == "websocket" {
        let upgrade = json!({ "paramType": "header", "paramName": "upgrade", "operator": "regex",
            "paramValue": "(?i)websocket" });
        let upgrade = clauses(&[upgrade], false).unwrap_or_default();
        entry.clauses = joined(&entry.clauses, &upgrade);
    }
    entry
}

type Applied<'p> = Vec<(&'p Plugin, &'p Entry)>;

/// Each combination of rules that can apply to the requests of an entry, the first that matches
/// first; `None` if there are too many.
fn combined<'p>(
    entry: &Entry,
    plugins: impl Iterator<Item = &'p Plugin>,
) -> Option<Vec<(Vec<Clause>, Applied<'p>)>> {
    let mut all: Vec<(Vec<Clause>, Applied<'p>)> = vec![(entry.clauses.clone(), Vec::new())];
    if entry.handle.is_none() {
        return Some(all);
    }
    for plugin in plugins.filter(|plugin| filters::is_known(&plugin.name)) {
        let mut next = Vec::new();
        for (clauses, applied) in all {
            let mut is_covered = false;
            for rule in &plugin.entries {
                if is_covered || disjoint(&clauses, &rule.clauses) {
                    continue;
                }
                is_covered = covers(&rule.clauses, &clauses);
                let mut applied = applied.clone();
                if rule.handle.is_some() {
                    applied.push((plugin, rule));
                }
                next.push((joined(&clauses, &rule.clauses), applied));
            }
            if !is_covered {
                next.push((clauses, applied));
            }
        }
        if next.len() > COMBINATIONS {
            return None;
        }
        all = next;
    }
    Some(all)
}

fn route(
    plugin: &Plugin,
    entry: &Entry,
    clauses: Vec<Clause>,
    applied: &Applied<'_>,
    export: &Export,
    upstreams: &mut Upstreams,
) -> Route {
    let mut filters = Filters::default();
    for (plugin, rule) in applied {
        filters.add(plugin, rule);
    }
    let handle = entry.handle.as_ref().unwrap_or(&Value::Null);
    let mut notes = std::mem::take(&mut filters.notes);
    let handler = match (&*plugin.name, entry.handle.is_some()) {
        (_, false) => json!({ "respond": { "status": 404 } }),
        ("mock", _) => {
            filters.list.push(json!({ "mock": responses::mock(handle, &entry.place, &mut notes) }));
            json!({ "respond": { "status": 200 } })
        }
        ("redirect", _) => responses::redirect(handle, &entry.place, &mut notes),
        (ai::PROXY, _) => match ai::handler(plugin, entry, filters.ai, &mut notes) {
            Some((before, handler)) => {
                filters.list.extend(before);
                handler
            }
            None => {
                notes.push(format!("{} has no provider", entry.place));
                json!({ "respond": { "status": 503 } })
            }
        },
        _ => match upstreams.name(entry, export, filters.keeps_host, &mut notes) {
            Some(name) => json!({ "upstream": name }),
            None => {
                notes.push(format!("{} has no servers", entry.place));
                json!({ "respond": { "status": 503 } })
            }
        },
    };
    let body = handle["requestMaxSize"].as_u64().filter(|size| *size > 0);
    Route { clauses, name: name_of(&entry.name), filters: filters.list, handler, notes, body }
}

/// True if a route has a filter of this name.
pub(super) fn use_filter(routes: &[Route], name: &str) -> bool {
    routes.iter().flat_map(|route| &route.filters).any(|filter| !filter[name].is_null())
}

/// Writes the routes, with priorities in their order.
pub(super) fn write(routes: &[Route], out: &mut Writer) {
    let mut names: Vec<String> = Vec::new();
    let mut noted: Vec<&String> = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        let numbered = (2..).map(|number| format!("{}-{number}", route.name));
        let mut candidates = [route.name.clone()].into_iter().chain(numbered);
        let name = candidates.find(|name| !names.contains(name)).unwrap_or_default();
        for note in &route.notes {
            if !noted.contains(&note) {
                out.note(2, note);
                noted.push(note);
            }
        }
        out.line(2, &format!("- name: {}", literal(&name.clone().into())));
        let rule = route_match(&route.clauses, routes.len() - at);
        out.line(4, &format!("match: {}", literal(&rule)));
        if !route.filters.is_empty() {
            out.line(4, "filters:");
            for filter in &route.filters {
                out.line(6, &format!("- {}", literal(filter)));
            }
        }
        if let Some(body) = route.body {
            out.line(4, &format!("limits: {{ body: {body}B }}"));
        }
        out.line(4, &format!("handler: {}", literal(&route.handler)));
        names.push(name);
    }
}
