//! Filters of a route from the handles of ShenYu's plugins.
//!
//! Promises: a plugin that authenticates and has no counterpart closes the route, so that nothing
//! becomes public by the conversion.

mod limits;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::super::pike::name_of;
use super::ai;
use super::model::{Entry, Plugin, escaped, number, short_hash, text};

/// The filters of one route, and what its notes say.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) list: Vec<Value>,
    pub(super) notes: Vec<String>,
    /// The upstream receives the client's Host.
    pub(super) keeps_host: bool,
    /// Settings of the handler `ai_proxy`.
    pub(super) ai: Map<String, Value>,
}

/// True if rules of the plugin become filters.
pub(super) fn is_known(plugin: &str) -> bool {
    KNOWN.contains(&plugin) || ai::setting(plugin).is_some()
}

const KNOWN: [&str; 18] = [
    "sign",
    "jwt",
    "oauth2",
    "casdoor",
    "keyAuth",
    "basicAuth",
    "waf",
    "rateLimiter",
    "resilience4j",
    "hystrix",
    "sentinel",
    "contextPath",
    "rewrite",
    "request",
    "modifyResponse",
    "paramMapping",
    "cache",
    "generalContext",
];

impl Filters {
    /// Adds what a rule of a plugin does.
    pub(super) fn add(&mut self, plugin: &Plugin, rule: &Entry) {
        let handle = rule.handle.as_ref().unwrap_or(&Value::Null);
        match &*plugin.name {
            "keyAuth" => self.key_auth(handle, rule),
            "jwt" => self.jwt(&plugin.config, handle, rule),
            "sign" => self.sign(handle, rule),
            "oauth2" | "casdoor" | "basicAuth" => self.closed(&plugin.name, rule),
            "waf" => self.waf(handle),
            "rateLimiter" => self.rate_limiter(handle, rule),
            "resilience4j" => self.resilience4j(handle, rule),
            "hystrix" => self.hystrix(handle, rule),
            "sentinel" => self.sentinel(handle, rule),
            "contextPath" => self.context_path(handle, rule),
            "rewrite" => self.rewrite(handle, rule),
            "request" => self.request(handle, rule),
            "modifyResponse" => self.modify_response(handle, rule),
            "paramMapping" => {
                let operations = self.body_operations(handle, "ParameterKeys", rule);
                if !operations.is_empty() {
                    self.push("json_body", json!({ "request": operations }));
                }
            }
            "cache" => {
                let seconds = handle["timeoutSeconds"].as_u64().unwrap_or(60).max(1);
                let ttl = json!({ "default": format!("{seconds}s") });
                self.push("cache", json!({ "store": "shenyu", "ttl": ttl }));
            }
            name if ai::setting(name).is_some() => {
                ai::add_setting(&mut self.ai, plugin, rule, &mut self.notes);
            }
            _ => self.not_converted(rule, "values for RPC plugins"),
        }
    }

    fn push(&mut self, name: &str, settings: Value) {
        self.list.push(json!({ name: settings }));
    }

    /// Adds a filter whose state would be that of another one of the route without a name.
    fn push_own(&mut self, filter: &str, mut settings: Value, rule: &Entry) {
        if self.list.iter().any(|other| other.get(filter).is_some()) {
            settings["name"] = own_name(rule).into();
        }
        self.push(filter, settings);
    }

    fn note(&mut self, rule: &Entry, text: &str) {
        self.notes.push(format!("{}: {text}", rule.place));
    }

    fn not_converted(&mut self, rule: &Entry, what: &str) {
        self.note(rule, &format!("{what} are not carried over"));
    }

    /// Rejects all requests where authentication has no counterpart.
    fn closed(&mut self, plugin: &str, rule: &Entry) {
        let instead = match plugin {
            "basicAuth" => "write `basic_auth` with the hash of the password (htpasswd -nB)",
            _ => "write `jwt` with the keys of the provider",
        };
        self.note(rule, &format!("{plugin} is not carried over, the route is closed: {instead}"));
        self.push("deny", json!({ "ip": ["0.0.0.0/0", "::/0"] }));
    }

    fn sign(&mut self, handle: &Value, rule: &Entry) {
        let is_body_signed = handle["signRequestBody"] == true;
        if !is_body_signed {
            self.note(rule, "bodies are not signed, as in ShenYu: anyone may change them");
        }
        self.push("hmac_auth", json!({ "format": "shenyu", "body": is_body_signed }));
    }

    fn key_auth(&mut self, handle: &Value, rule: &Entry) {
        let (name, key) = (text(handle, "keyName"), text(handle, "key"));
        if name.is_empty() || key.is_empty() {
            return self.closed("keyAuth", rule);
        }
        let digest: String =
            Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        self.push(
            "key_auth",
            json!({
                "keys": [{ "consumer": name_of(&rule.name), "sha256": digest }],
                "from": [{ "header": name }, { "query": name }],
            }),
        );
    }

    fn jwt(&mut self, config: &Value, handle: &Value, rule: &Entry) {
        let secret = text(config, "secretKey");
        let algorithms = [("HS256", 32), ("HS384", 48), ("HS512", 64)];
        let fitting = algorithms.iter().filter(|(_, length)| secret.len() >= *length);
        let keys: Vec<Value> = fitting
            .map(|(algorithm, _)| json!({ "algorithm": algorithm, "secret": secret }))
            .collect();
        if keys.is_empty() {
            return self.closed("jwt", rule);
        }
        let kind = [text(handle, "handleType"), text(config, "handleType")];
        if kind.iter().any(|kind| !kind.is_empty() && kind != "default") {
            self.note(rule, "handleType is not carried over: only `converter` is");
        }
        self.note(rule, "the secret is in clear text below: move it to a file, `secret: { file }`");
        let from = json!(["bearer", { "header": "token" }]);
        self.push("jwt", json!({ "keys": keys, "allow_without_expiry": true, "from": from }));
        let converted = handle["converter"].as_array().into_iter().flatten();
        let set: Map<String, Value> = converted
            .map(|one| {
                (text(one, "headerVal"), format!("{{claim.{}}}", text(one, "jwtVal")).into())
            })
            .filter(|(name, _)| !name.is_empty())
            .collect();
        if !set.is_empty() {
            self.push("request_headers", json!({ "set": set }));
        }
    }

    fn waf(&mut self, handle: &Value) {
        // A rule that allows ends the search, and the request continues.
        if text(handle, "permission") != "reject" {
            return;
        }
        let status = number(handle, "statusCode").map_or(403, |status| status as u64);
        let status = if (400..=599).contains(&status) { status } else { 403 };
        let rule = json!({ "when": { "variable": "path" }, "action": "reject", "status": status });
        self.push("waf", json!({ "builtin": false, "rules": [rule] }));
    }

    fn context_path(&mut self, handle: &Value, rule: &Entry) {
        let mut rewrite = Map::new();
        let rewritten = text(handle, "rewriteContextPath");
        let add = [text(handle, "addPrefix"), rewritten].into_iter().find(|path| is_prefix(path));
        let path = text(handle, "contextPath");
        if is_prefix(&path) {
            rewrite.insert("strip_prefix".to_owned(), path.into());
        }
        add.into_iter().for_each(|add| {
            rewrite.insert("add_prefix".to_owned(), add.into());
        });
        if !rewrite.is_empty() {
            self.push("rewrite", rewrite.into());
        }
        self.share(handle, rule);
    }

    fn rewrite(&mut self, handle: &Value, rule: &Entry) {
        let (pattern, replace) = (text(handle, "regex"), text(handle, "replace"));
        let is_expression = pattern.parse::<settings::Regex>().is_ok();
        if pattern.is_empty() || !is_expression || replace.contains('{') {
            return self.not_converted(rule, "rewrites by this expression");
        }
        self.push("rewrite", json!({ "regex": { "pattern": pattern, "replace": replace } }));
        self.share(handle, rule);
    }

    fn share(&mut self, handle: &Value, rule: &Entry) {
        if number(handle, "percentage").is_some_and(|share| share < 100.0) {
            self.note(rule, "the percentage is not carried over, use `split`");
        }
    }

    fn request(&mut self, handle: &Value, rule: &Entry) {
        let mut members = handle.as_object().into_iter().flatten();
        let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if members.any(|(name, value)| name.to_lowercase().contains("unique") && is_set(value)) {
            self.not_converted(rule, "strategies for repeated headers");
        }
        self.keeps_host |= handle["preserveHost"] == true;
        let header = &handle["header"];
        self.renamed("request_headers", "header", &header["replaceHeaderKeys"]);
        self.changes("request_headers", header, ["Headers", "HeaderKeys"]);
        let parameter = &handle["parameter"];
        let mut query = changes(parameter, ["Parameters", "ParameterKeys"]);
        if let Some(renamed) = parameter["replaceParameterKeys"].as_object()
            && !renamed.is_empty()
        {
            query.insert("rename".to_owned(), renamed.clone().into());
        }
        if !query.is_empty() {
            self.push("query", query.into());
        }
        let cookie = &handle["cookie"];
        self.renamed("cookies", "cookie", &cookie["replaceCookieKeys"]);
        let mut cookies = changes(cookie, ["Cookies", "CookieKeys"]);
        if let Some(Value::Object(added)) = cookies.remove("add") {
            let set = cookies.entry("set").or_insert_with(|| json!({}));
            set.as_object_mut().into_iter().for_each(|set| set.extend(added.clone()));
        }
        if !cookies.is_empty() {
            self.push("cookies", cookies.into());
        }
    }

    /// Renames: the new name has the value of the old one, which is then removed.
    fn renamed(&mut self, filter: &str, variable: &str, names: &Value) {
        let names = names.as_object().into_iter().flatten();
        let names: Vec<(&String, &str)> =
            names.filter_map(|(old, new)| Some((old, new.as_str()?))).collect();
        if names.is_empty() {
            return;
        }
        let set: Map<String, Value> = names
            .iter()
            .map(|(old, new)| ((*new).to_owned(), format!("{{{variable}.{old}}}").into()))
            .collect();
        self.push(filter, json!({ "set": set }));
        let remove: Vec<&String> = names.iter().map(|(old, _)| *old).collect();
        self.push(filter, json!({ "remove": remove }));
    }

    fn changes(&mut self, filter: &str, handle: &Value, suffixes: [&str; 2]) {
        let changes = changes(handle, suffixes);
        if !changes.is_empty() {
            self.push(filter, changes.into());
        }
    }

    fn modify_response(&mut self, handle: &Value, rule: &Entry) {
        self.changes("response_headers", handle, ["Headers", "HeaderKeys"]);
        if handle["replaceHeaderKeys"].as_object().is_some_and(|names| !names.is_empty()) {
            self.not_converted(rule, "renamed headers of responses");
        }
        if number(handle, "statusCode").is_some_and(|status| status > 0.0) {
            self.not_converted(rule, "changed statuses of responses");
        }
        let operations = self.body_operations(handle, "BodyKeys", rule);
        if !operations.is_empty() {
            self.push("json_body", json!({ "response": operations }));
        }
    }

    /// Operations of `json_body` for lists of JSON paths.
    fn body_operations(&mut self, handle: &Value, suffix: &str, rule: &Entry) -> Vec<Value> {
        let mut operations = Vec::new();
        let list = |name: &str| handle[format!("{name}{suffix}")].as_array().cloned();
        for change in list("add").unwrap_or_default() {
            let (path, key) = (text(&change, "path"), text(&change, "key"));
            match pointer(&path).filter(|_| !key.is_empty()) {
                Some(at) => {
                    let value = escaped(&text(&change, "value"));
                    let key = key.replace('~', "~0").replace('/', "~1");
                    operations.push(json!({ "add": format!("{at}/{key}"), "value": value }));
                }
                None => self.not_converted(rule, &format!("additions at {path:?}")),
            }
        }
        for change in list("replace").unwrap_or_default() {
            let (path, new) = (text(&change, "path"), text(&change, "value"));
            // The path is that of the parent of `key`, which is renamed.
            let key = text(&change, "key");
            let old = pointer(&path).map(|at| match key.is_empty() {
                true => at,
                false => format!("{at}/{key}"),
            });
            match old.as_deref().and_then(|old| Some((old, old.rsplit_once('/')?.0))) {
                Some((old, parent)) if !new.is_empty() => {
                    let new = format!("{parent}/{new}");
                    operations.push(json!({ "copy": new, "from": old }));
                    operations.push(json!({ "remove": old }));
                }
                _ => self.not_converted(rule, &format!("renames at {path:?}")),
            }
        }
        for path in list("remove").unwrap_or_default() {
            let path = path.as_str().unwrap_or_default();
            match pointer(path).filter(|at| !at.is_empty()) {
                Some(at) => operations.push(json!({ "remove": at })),
                None => self.not_converted(rule, &format!("removals at {path:?}")),
            }
        }
        operations
    }
}

/// A JSON path of names (`$.a.b`) as JSON Pointer.
fn pointer(path: &str) -> Option<String> {
    let path = path.strip_prefix('$')?;
    let names = path.split('.').skip(1);
    let is_name = |name: &&str| !name.is_empty() && !name.contains(['[', ']', '*', '?', '/', '~']);
    let names = names.map(|name| Some(name).filter(is_name)).collect::<Option<Vec<_>>>()?;
    (path.is_empty() || path.starts_with('.')).then_some(())?;
    Some(names.iter().map(|name| format!("/{name}")).collect())
}

/// `set`, `add` and `remove` of a filter.
fn changes(handle: &Value, [plural, keys]: [&str; 2]) -> Map<String, Value> {
    let mut changes = Map::new();
    for name in ["set", "add"] {
        let values = handle[format!("{name}{plural}")].as_object().into_iter().flatten();
        let values: Map<String, Value> = values
            .map(|(name, value)| (name.clone(), escaped(value.as_str().unwrap_or_default()).into()))
            .collect();
        if !values.is_empty() {
            changes.insert(name.to_owned(), values.into());
        }
    }
    if let Some(names) = handle[format!("remove{keys}")].as_array()
        && !names.is_empty()
    {
        changes.insert("remove".to_owned(), names.clone().into());
    }
    changes
}

/// A name for what a rule counts alone: it depends on the id.
fn own_name(rule: &Entry) -> String {
    format!("{}-{:x}", name_of(&rule.name), short_hash(&rule.place))
}

fn is_prefix(path: &str) -> bool {
    path.len() > 1 && path.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(plugins: &[(&str, Value)]) -> Filters {
        let mut filters = Filters::default();
        for (name, handle) in plugins {
            let rule = Entry {
                clauses: Vec::new(),
                name: "shop".to_owned(),
                place: format!("rule.json: rule \"shop\" ({name})"),
                handle: Some(handle.clone()),
                selector: Value::Null,
            };
            let config = json!({ "secretKey": "0123456789abcdef0123456789abcdef" });
            let name = (*name).to_owned();
            filters.add(&Plugin { name, sort: 0, config, entries: Vec::new() }, &rule);
        }
        filters
    }

    #[test]
    fn limits_and_breakers_of_one_route_count_alone() {
        let sentinel = json!({
            "flowRuleEnable": 1, "flowRuleGrade": 0, "flowRuleCount": 5,
            "degradeRuleEnable": 1, "degradeRuleGrade": 1, "degradeRuleCount": 0.5
        });
        let filters = converted(&[("hystrix", json!({})), ("sentinel", sentinel)]);
        let names = |kind: &str| -> Vec<bool> {
            let of_kind = filters.list.iter().filter_map(|filter| filter.get(kind));
            of_kind.map(|settings| settings["name"].is_string()).collect()
        };
        assert_eq!(
            (names("concurrency"), names("circuit_breaker")),
            (vec![false, true], vec![false, true])
        );
    }

    #[test]
    fn strategies_for_repeated_headers_and_kinds_of_tokens_are_noted() {
        let notes = |plugin: &str, handle: Value| converted(&[(plugin, handle)]).notes.join("\n");
        let unique = json!({ "requestHeaderUniqueStrategy": "RETAIN_FIRST" });
        assert!(notes("request", unique).contains("strategies for repeated headers"));
        assert_eq!(notes("request", json!({ "requestUniqueHeaders": "" })), "");
        assert!(notes("jwt", json!({ "handleType": "custom" })).contains("handleType"));
        assert!(!notes("jwt", json!({ "handleType": "default" })).contains("handleType"));
    }
}
