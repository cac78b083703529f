//! Upstreams of the plugins divide, springCloud and websocket.

use serde_json::{Value, json};

use super::super::pike::name_of;
use super::model::{Entry, Export, embedded, number, text};

/// The upstreams that are used so far, by name.
#[derive(Default)]
pub(super) struct Upstreams {
    pub(super) all: Vec<(String, Value)>,
}

impl Upstreams {
    /// The name of an upstream with the servers of the entry's selector and the settings of its
    /// rule; `None` if it has no servers.
    pub(super) fn name(
        &mut self,
        entry: &Entry,
        export: &Export,
        keeps_host: bool,
        notes: &mut Vec<String>,
    ) -> Option<String> {
        let servers = servers(entry, export, notes);
        if servers.is_empty() {
            return None;
        }
        let handle = entry.handle.as_ref().unwrap_or(&Value::Null);
        for what in without_counterpart(handle) {
            let note = format!("{}: {what}", entry.place);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let mut upstream = json!({ "servers": servers });
        let balance = match &*text(handle, "loadBalance") {
            "hash" => Some(json!({ "hash": "client_ip" })),
            "random" => Some("random".into()),
            "roundRobin" => Some("round_robin".into()),
            "leastActive" => Some("least_requests".into()),
            "p2c" | "shortestResponse" => Some("p2c".into()),
            _ => None,
        };
        balance.into_iter().for_each(|balance| upstream["balance"] = balance);
        if let Some(ms @ 1..=86_400_000) = handle["timeout"].as_u64() {
            upstream["timeouts"] = json!({ "response": format!("{ms}ms") });
        }
        if let Some(retry) = handle["retry"].as_u64() {
            upstream["retries"] = json!({ "attempts": retry.saturating_add(1).min(10) });
        }
        if !keeps_host {
            upstream["host"] = "server".into();
        }
        if let Some((name, _)) = self.all.iter().find(|(_, known)| *known == upstream) {
            return Some(name.clone());
        }
        let base = name_of(&text(&entry.selector, "name"));
        let taken = |name: &str| self.all.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name = [base.clone()].into_iter().chain(numbered).find(|name| !taken(name))?;
        self.all.push((name.clone(), upstream));
        Some(name)
    }
}

/// What of a rule is not carried over.
fn without_counterpart(handle: &Value) -> Vec<String> {
    let mut notes = Vec::new();
    if text(handle, "loadBalance") == "shortestResponse" {
        notes.push("loadBalance shortestResponse becomes p2c, which prefers fast servers".into());
    }
    if !["", "current"].contains(&&*text(handle, "retryStrategy")) {
        notes.push("retryStrategy is not carried over: a retry is sent to another server".into());
    }
    // 10240 is the default of ShenYu's admin.
    let size = number(handle, "headerMaxSize").map(|size| size as u64);
    if size.is_some_and(|size| ![0, 10_240].contains(&size)) {
        notes.push("headerMaxSize is not carried over, use `limits` of the listener".into());
    }
    notes
}

/// The id of what discovers the servers of a selector. An export has it in `discovery.json`, the
/// admin's pages in the selector.
fn discovery_handler<'e>(selector: &'e Value, export: &'e Export) -> Option<&'e Value> {
    let own = &selector["discoveryHandler"]["id"];
    let links = export.objects(&["discovery.json"]).map(|discovery| &discovery["discoveryRel"]);
    let mut linked = links.filter(|link| link["selectorId"] == selector["id"]);
    let id = if own.is_null() { &linked.next()?["discoveryHandlerId"] } else { own };
    id.is_string().then_some(id)
}

fn servers(entry: &Entry, export: &Export, notes: &mut Vec<String>) -> Vec<Value> {
    let selector = &entry.selector;
    let handle = embedded(&selector["handle"]);
    let discovered = || {
        let handler = discovery_handler(selector, export);
        let objects = export.objects(&["discovery_upstream.json"]);
        let of_selector = objects.filter(move |one| {
            handler.is_some_and(|handler| one["discoveryHandlerId"] == *handler)
                || one["selectorId"] == selector["id"]
        });
        of_selector.flat_map(|one| match one["upstreamDataList"].as_array() {
            Some(list) => list.clone(),
            None => vec![one.clone()],
        })
    };
    let lists = [&handle, &handle["divideUpstreams"], &selector["discoveryUpstreams"]];
    let listed = lists.into_iter().find_map(|list| list.as_array().filter(|list| !list.is_empty()));
    let listed = listed.cloned().unwrap_or_else(|| discovered().collect());
    let (mut servers, mut known) = (Vec::new(), Vec::new());
    for server in &listed {
        let url = ["upstreamUrl", "url"].map(|field| text(server, field));
        let url = url.into_iter().find(|url| !url.is_empty()).unwrap_or_default();
        let scheme = match &*text(server, "protocol") {
            "https://" | "wss://" => "https://",
            _ => "http://",
        };
        let address = format!("{scheme}{url}");
        if url.is_empty() {
            notes.push(format!("{}: a server has no address", entry.place));
            continue;
        }
        let parsed = match crate::server_address(&address) {
            Ok(parsed) => parsed,
            Err(error) => {
                notes.push(format!("{}: the server {url:?} {error}", entry.place));
                continue;
            }
        };
        // `status` is true or 0 for a server in use.
        if server["status"] == false || server["status"] == 1 || server["weight"] == 0 {
            notes.push(format!("{}: the server {url} is not in use", entry.place));
            continue;
        }
        let props = embedded(&server["props"]);
        if [&server["gray"], &props["gray"]].iter().any(|gray| **gray == true || **gray == "true") {
            let place = &entry.place;
            notes.push(format!("{place}: the server {url} is for grey releases, use `split`"));
            continue;
        }
        if [server, &props].iter().any(|from| number(from, "warmup").is_some_and(|ms| ms > 0.0)) {
            let place = &entry.place;
            notes.push(format!("{place}: the warm-up of the server {url} is not carried over"));
        }
        if known.contains(&parsed.address) {
            notes.push(format!("{}: the server {url} is listed twice", entry.place));
            continue;
        }
        known.push(parsed.address);
        let weight = server["weight"].as_u64().unwrap_or(1).clamp(1, 1000);
        servers.push(json!({ "address": address, "weight": weight }));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upstream_does_not_carry_over_is_noted() {
        let entry = |handle: Value, server: Value| Entry {
            clauses: Vec::new(),
            name: "shop".to_owned(),
            place: "rule.json: rule \"shop\" (1)".to_owned(),
            handle: Some(handle),
            selector: json!({ "name": "shop", "handle": json!([server]).to_string() }),
        };
        let noted = |handle: Value, server: Value| {
            let (mut upstreams, mut notes) = (Upstreams::default(), Vec::new());
            let export = Export::new(Vec::new());
            upstreams.name(&entry(handle, server), &export, true, &mut notes).expect("a server");
            (upstreams.all.remove(0).1, notes)
        };
        let server = json!({ "upstreamUrl": "10.0.0.1:80", "warmup": "0" });
        let handle = json!({
            "loadBalance": "p2c", "retryStrategy": "current", "headerMaxSize": "10240"
        });
        let (upstream, notes) = noted(handle, server.clone());
        assert_eq!((&upstream["balance"], notes), (&json!("p2c"), Vec::new()));
        for (handle, what) in [
            (json!({ "loadBalance": "shortestResponse" }), "shortestResponse becomes p2c"),
            (json!({ "retryStrategy": "failover" }), "retryStrategy is not carried over"),
            (json!({ "headerMaxSize": 4096 }), "headerMaxSize is not carried over"),
        ] {
            let (_, notes) = noted(handle, server.clone());
            assert!(notes.len() == 1 && notes[0].contains(what), "{notes:?}");
            assert!(notes[0].starts_with("rule.json: rule \"shop\" (1): "), "{notes:?}");
        }
        let (_, notes) = noted(json!({}), json!({ "upstreamUrl": "10.0.0.1:80", "warmup": 10 }));
        assert!(notes.len() == 1 && notes[0].contains("warm-up"), "{notes:?}");
    }
}
