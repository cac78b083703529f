//! Plugins, selectors and rules of an export, in the order in which ShenYu applies them.
//!
//! Of several selectors that match, the one with the most conditions under `and` is used, then the
//! one with the lowest `sort`; its rules likewise. If no rule of it matches, other selectors are
//! not tried: such an entry has no handle.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::archive::Document;
use super::conditions::{Clause, clauses, joined};

/// The objects of an export by kind.
pub(super) struct Export {
    documents: Vec<Document>,
}

/// A plugin with its entries.
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) sort: i64,
    pub(super) config: Value,
    pub(super) entries: Vec<Entry>,
}

/// A selector with one of its rules.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) clauses: Vec<Clause>,
    /// For the name of the route: that of the rule, or of the selector.
    pub(super) name: String,
    /// `rule.json: rule "name" (id)`, for notes.
    pub(super) place: String,
    /// `None` where a selector matches and none of its rules.
    pub(super) handle: Option<Value>,
    pub(super) selector: Value,
}

impl Export {
    pub(super) fn new(documents: Vec<Document>) -> Self {
        Export { documents }
    }

    /// The objects of files of these names.
    pub(super) fn objects<'e>(&'e self, files: &'e [&str]) -> impl Iterator<Item = &'e Value> {
        let documents = self.documents.iter().filter(|one| files.contains(&&*one.file));
        documents.flat_map(|document| &document.objects)
    }

    /// The names of the files, with the number of their objects.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.documents.iter().map(|one| (&*one.file, one.objects.len()))
    }

    /// The enabled plugins in the order of ShenYu, with notes about the others.
    pub(super) fn plugins(&self, notes: &mut Vec<String>) -> Vec<Plugin> {
        let mut plugins: Vec<Plugin> = Vec::new();
        for plugin in self.objects(&["plugin.json", "namespace_plugin.json"]) {
            let name = text(plugin, "name");
            if plugin["enabled"] == false {
                let used = self.selectors(plugin, &name).count();
                if used > 0 {
                    notes.push(format!("plugin.json: {name} is disabled, with {used} selectors"));
                }
            } else if !plugins.iter().any(|known| known.name == name) {
                let config = embedded(&plugin["config"]);
                let mut entries = self.entries(plugin, &name, notes);
                if name == "waf" && config["model"] == "mixed" {
                    reject_others(&mut entries);
                }
                let sort = plugin["sort"].as_i64().unwrap_or(0);
                plugins.push(Plugin { name, sort, config, entries });
            }
        }
        plugins.sort_by_key(|plugin| plugin.sort);
        plugins
    }

    fn selectors<'e>(
        &'e self,
        plugin: &'e Value,
        name: &'e str,
    ) -> impl Iterator<Item = &'e Value> {
        self.objects(&["selector.json"]).filter(move |selector| {
            let ids = [&plugin["id"], &plugin["pluginId"]];
            selector["pluginName"] == name
                || !selector["pluginId"].is_null() && ids.contains(&&selector["pluginId"])
        })
    }

    fn entries(&self, plugin: &Value, name: &str, notes: &mut Vec<String>) -> Vec<Entry> {
        let mut selectors: Vec<&Value> = self.selectors(plugin, name).collect();
        selectors.sort_by_key(|selector| rank(selector, &conditions(selector)));
        let mut entries = Vec::new();
        for selector in selectors {
            let place = object_label("selector", selector);
            if selector["enabled"] == false {
                notes.push(format!("{place} is disabled"));
                continue;
            }
            let is_full = selector["type"] == 0;
            let own = if is_full { Vec::new() } else { conditions(selector) };
            if own.is_empty() && !is_full {
                notes.push(format!("{place} has no conditions, so that it matches nothing"));
                continue;
            }
            match clauses(&own, selector["matchMode"] == 1) {
                Ok(clauses) => self.rules(name, selector, is_full, &clauses, &mut entries, notes),
                Err(reason) => match is_protection(name) {
                    // Rather too many requests are rejected than too few.
                    true => {
                        notes.push(format!("{place} is applied to every request: {reason}"));
                        self.rules(name, selector, is_full, &[], &mut entries, notes);
                    }
                    false => notes.push(format!("{place} is not carried over: {reason}")),
                },
            }
        }
        entries
    }

    fn rules(
        &self,
        plugin: &str,
        selector: &Value,
        is_full: bool,
        of_selector: &[Clause],
        entries: &mut Vec<Entry>,
        notes: &mut Vec<String>,
    ) {
        let name = text(selector, "name");
        let entry = |clauses, name, place, handle| Entry {
            clauses,
            name,
            place,
            handle,
            selector: selector.clone(),
        };
        let of_all = object_label("selector", selector);
        if selector["continued"] == false {
            let handle = Some(Value::Null);
            entries.push(entry(of_selector.to_vec(), name, of_all, handle));
            return;
        }
        let mut rules: Vec<&Value> = self
            .objects(&["rule.json"])
            .filter(|rule| rule["selectorId"] == selector["id"])
            .collect();
        match is_full {
            // A selector for all requests uses its last rule, whatever its conditions.
            true => rules = rules.pop().into_iter().collect(),
            false => rules.sort_by_key(|rule| rank(rule, &conditions(rule))),
        }
        for rule in rules {
            let place = object_label("rule", rule);
            if rule["enabled"] == false {
                notes.push(format!("{place} is disabled"));
                continue;
            }
            let own = if is_full { Vec::new() } else { conditions(rule) };
            match clauses(&own, rule["matchMode"] == 1) {
                Ok(clauses) => {
                    let clauses = joined(of_selector, &clauses);
                    let handle = Some(embedded(&rule["handle"]));
                    entries.push(entry(clauses, text(rule, "name"), place, handle));
                }
                Err(reason) if is_protection(plugin) => {
                    notes.push(format!("{place} is applied to its whole selector: {reason}"));
                    let handle = Some(embedded(&rule["handle"]));
                    entries.push(entry(of_selector.to_vec(), text(rule, "name"), place, handle));
                }
                Err(reason) => notes.push(format!("{place} is not carried over: {reason}")),
            }
        }
        if !is_full {
            entries.push(entry(of_selector.to_vec(), name, of_all, None));
        }
    }
}

/// In the mode `mixed`, waf rejects what no rule of it decides.
fn reject_others(entries: &mut Vec<Entry>) {
    let reject = || Some(json!({ "permission": "reject", "statusCode": "403" }));
    for entry in entries.iter_mut().filter(|entry| entry.handle.is_none()) {
        entry.handle = reject();
    }
    entries.push(Entry {
        clauses: Vec::new(),
        name: "waf".to_owned(),
        place: "plugin.json: waf".to_owned(),
        handle: reject(),
        selector: Value::Null,
    });
}

/// True if a plugin rejects requests, so that a missing condition must not open a route.
pub(super) fn is_protection(plugin: &str) -> bool {
    ["sign", "jwt", "oauth2", "casdoor", "keyAuth", "basicAuth", "waf"].contains(&plugin)
}

/// Sorts selectors and rules: more conditions under `and` first, then the lower `sort`.
fn rank(object: &Value, conditions: &[Value]) -> (i64, i64) {
    let count = if object["matchMode"] == 1 { 0 } else { conditions.len() as i64 };
    (-count, object["sort"].as_i64().unwrap_or(0))
}

fn conditions(object: &Value) -> Vec<Value> {
    let names = ["selectorConditions", "ruleConditions", "conditionList", "conditionDataList"];
    names.iter().find_map(|name| object[*name].as_array()).cloned().unwrap_or_default()
}

pub(super) fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().trim().to_owned()
}

fn object_label(kind: &str, object: &Value) -> String {
    let (name, id) = (text(object, "name"), text(object, "id"));
    format!("{kind}.json: {kind} {name:?} ({id})")
}

/// JSON within a text, as handles and configurations are stored.
pub(super) fn embedded(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        other => other.clone(),
    }
}

/// A number, also one that is written as a text.
pub(super) fn number(handle: &Value, field: &str) -> Option<f64> {
    handle[field].as_f64().or_else(|| handle[field].as_str()?.trim().parse().ok())
}

/// A text that means itself where variables are allowed.
pub(super) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Four bytes that depend on the text.
pub(super) fn short_hash(text: &str) -> u32 {
    Sha256::digest(text.as_bytes()).iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}
