//! Parts of a configuration in their places: a guide shows a filter or a route without the rest.

use serde_json::{Value, json};

/// Where a part may stand, the most likely place first. The first key or list entry decides.
pub(crate) fn placed(part: &str) -> String {
    let first = part.lines().find(|line| !line.trim_start().starts_with('#') && !line.is_empty());
    let first = first.unwrap_or_default().trim();
    let route = |body: &str| format!("routes:\n  - handler: {{ respond: {{}} }}\n{body}");
    let text = if first.starts_with("- name:") || first.starts_with("- match:") {
        format!("routes:\n{}", indented(part, 2))
    } else if first.starts_with("filters:") {
        route(&format!("    match: {{}}\n{}", indented(part, 4)))
    } else if first.starts_with("match:") {
        route(&indented(part, 4))
    } else if first.starts_with("when:") {
        // Two ways to write it stand below each other: a list is the last of them.
        let last = part.rfind("\nwhen:").map_or(0, |at| at + 1);
        route(&format!("    match:\n{}", indented(&part[last..], 6)))
    } else {
        part.to_owned()
    };
    complete(&text)
}

/// Adds the sections that a part of a file leaves out, and the names it refers to.
fn complete(text: &str) -> String {
    let mut whole = text.to_owned();
    let mut add = |key: &str, value: Value| {
        if !has_section(text, key) {
            whole.push_str(&format!("{key}: {value}\n"));
        }
    };
    add("listeners", json!({ "web": { "bind": "127.0.0.1:8080" } }));
    let named = |key: &str| {
        let mark = format!("{key}: ");
        let values = text.split(&mark).skip(1).filter_map(|rest| {
            rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).next()
        });
        values.filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut upstreams = serde_json::Map::new();
    for name in named("upstream") {
        upstreams.insert(name, json!({ "servers": ["127.0.0.1:3000"] }));
    }
    if !upstreams.is_empty() {
        add("upstreams", upstreams.into());
    }
    let mut caches = serde_json::Map::new();
    for name in named("store").into_iter().chain(named("cache")) {
        caches.insert(name, json!({ "memory": "64MiB" }));
    }
    if !caches.is_empty() {
        add("caches", caches.into());
    }
    let listed = serde_json::Map::from_iter(
        text.lines()
            .filter(|line| line.starts_with("upstreams:"))
            .flat_map(|_| upstream_names(text))
            .map(|name| (name.clone(), json!(name))),
    );
    let routes = listed
        .keys()
        .map(|name| {
            json!({ "match": { "path": format!("/{name}") }, "handler": { "upstream": name } })
        })
        .chain([json!({ "match": { "path": "/rest" }, "handler": { "respond": {} } })])
        .collect::<Vec<_>>();
    add("routes", routes.into());
    whole
}

/// The names below `upstreams:` of a text.
fn upstream_names(text: &str) -> Vec<String> {
    let below = text.lines().skip_while(|line| !line.starts_with("upstreams:")).skip(1);
    let entries = below.take_while(|line| line.starts_with(' ') || line.is_empty());
    let names = entries.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())).collect()
}

/// The line that examples leave out: a page shows it once for all of them.
pub(crate) const LISTENER: &str = "listeners: { web: { bind: \"127.0.0.1:8080\" } }\n";

/// An example as a reader runs it.
pub(crate) fn example(text: &str) -> String {
    let listener = if has_section(text, "listeners") { "" } else { LISTENER };
    format!("{listener}{text}")
}

pub(crate) fn is_whole(text: &str) -> bool {
    ["listeners", "routes"].iter().all(|key| has_section(text, key))
}

/// True if a configuration has this section.
pub(crate) fn has_section(text: &str, key: &str) -> bool {
    text.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}

fn indented(text: &str, columns: usize) -> String {
    let shift = |line: &str| match line.is_empty() {
        true => String::from("\n"),
        false => format!("{}{line}\n", " ".repeat(columns)),
    };
    // A part that is indented on the page keeps its depth.
    let own = text.lines().filter(|line| !line.trim().is_empty());
    let depth = own.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    text.lines().map(|line| shift(line.get(depth..).unwrap_or_default())).collect()
}
