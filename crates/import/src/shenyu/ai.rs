//! The plugins for AI models: a rule of aiProxy becomes the handler `ai_proxy`, those of aiPrompt
//! and aiTokenLimiter become settings of it.
//!
//! aiProxy sends each request to the chat completions of one model, whatever path and model the
//! client names. The routes do the same, so that clients stay as they are.

use serde_json::{Map, Value, json};

use super::super::pike::name_of;
use super::model::{Entry, Plugin, embedded, escaped, number, short_hash, text};

/// The plugin that responds.
pub(super) const PROXY: &str = "aiProxy";

/// The end of ShenYu's base URLs of older versions, which `ai_proxy` adds itself.
const CHAT: &str = "/chat/completions";
/// The largest body of both filter and handler.
const BODY_MAX: &str = "4MiB";
/// The longest window of a limit in minutes: a year.
const WINDOW_MINUTES_MAX: u64 = 366 * 1440;

/// The setting of `ai_proxy` that the rules of a plugin become.
pub(super) fn setting(plugin: &str) -> Option<&'static str> {
    match plugin {
        "aiPrompt" => Some("prompt"),
        "aiTokenLimiter" => Some("token_limits"),
        _ => None,
    }
}

/// Adds what a rule of aiPrompt or aiTokenLimiter says to the settings of a handler.
pub(super) fn add_setting(
    settings: &mut Map<String, Value>,
    plugin: &Plugin,
    rule: &Entry,
    notes: &mut Vec<String>,
) {
    let handle = rule.handle.as_ref().filter(|handle| handle.is_object());
    let value = match setting(&plugin.name) {
        Some("prompt") => prompt(handle.unwrap_or(&plugin.config), rule, notes),
        _ => handle.and_then(|handle| token_limit(handle, rule, notes)).map(|limit| json!([limit])),
    };
    if let (Some(name), Some(value)) = (setting(&plugin.name), value) {
        settings.insert(name.to_owned(), value);
    }
}

/// The messages that are added to a prompt.
fn prompt(handle: &Value, rule: &Entry, notes: &mut Vec<String>) -> Option<Value> {
    let mut prompt = Map::new();
    for (role, content, side) in
        [("preRole", "prepend", "prepend"), ("postRole", "append", "append")]
    {
        let (role, content) = (text(handle, role).to_lowercase(), text(handle, content));
        if role.is_empty() || content.is_empty() {
            continue;
        }
        if !["system", "developer", "user", "assistant"].contains(&&*role) {
            notes.push(format!("{}: a message of the role {role:?} is left out", rule.place));
            continue;
        }
        prompt.insert(side.to_owned(), json!([{ "role": role, "content": content }]));
    }
    (!prompt.is_empty()).then(|| prompt.into())
}

fn token_limit(handle: &Value, rule: &Entry, notes: &mut Vec<String>) -> Option<Value> {
    let place = &rule.place;
    let Some(limit) = number(handle, "tokenLimit").filter(|limit| *limit >= 0.0) else {
        notes.push(format!("{place}: a limit without a number of tokens is left out"));
        return None;
    };
    let window_s = number(handle, "timeWindowSeconds").unwrap_or(60.0);
    let minutes = ((window_s / 60.0).ceil() as u64).clamp(1, WINDOW_MINUTES_MAX);
    if minutes as f64 * 60.0 != window_s {
        notes.push(format!("{place}: the window of {window_s} s becomes {minutes} m"));
    }
    notes.push(format!("{place}: input tokens count too, ShenYu counts those of the output only"));
    let name = text(handle, "keyName");
    let key = match &*text(handle, "aiTokenLimitType").to_lowercase() {
        "ip" => "client_ip".to_owned(),
        "uri" => "path".to_owned(),
        "header" => format!("header.{name}"),
        "parameter" => format!("query.{name}"),
        "cookie" => format!("cookie.{name}"),
        _ => "route".to_owned(),
    };
    let key = match settings::Variable::parse(&key) {
        Ok(_) => key,
        Err(_) => {
            notes.push(format!("{place}: {name:?} cannot be a key, tokens are counted by client"));
            "client_ip".to_owned()
        }
    };
    Some(json!({
        "name": format!("tokens-{:x}", short_hash(place)),
        "limit": limit as u32,
        "period": format!("{minutes}m"),
        "key": key,
    }))
}

/// The last filters and the handler of a rule of aiProxy. `None` if a provider or the model is not
/// named; notes say which.
pub(super) fn handler(
    plugin: &Plugin,
    entry: &Entry,
    settings: Map<String, Value>,
    notes: &mut Vec<String>,
) -> Option<([Value; 2], Value)> {
    let place = &entry.place;
    let own = embedded(&entry.selector["handle"]);
    let primary = Target::new(&[&own, &plugin.config], place, notes)?;
    let given = Some(&own["fallbackConfig"]).filter(|config| is_given(config));
    let fallback =
        given.and_then(|given| Target::new(&[given, &own, &plugin.config], place, notes));
    let is_true = |field: &str| {
        let mut given = [&own, &plugin.config].map(|from| &from[field]).into_iter();
        given.find(|value| !value.is_null()).is_some_and(|value| *value == true || *value == "true")
    };
    if is_true("proxyEnabled") {
        notes.push(format!("{place}: proxy keys are not part of an export, write `key_auth`"));
    }
    let is_set = |field: &str| number(&own, field).is_some();
    if ["temperature", "maxTokens"].into_iter().any(is_set) {
        notes.push(format!("{place}: temperature and maxTokens are those of the client"));
    }
    notes.push(format!(
        "{place}: each request is a chat completion of one model, as in ShenYu; without `rewrite` \
         and `json_body` clients choose"
    ));
    let model = primary.model.clone();
    let mut providers = Map::new();
    let mut targets = Vec::new();
    for (at, target) in [Some(primary), fallback].into_iter().flatten().enumerate() {
        let name = match providers.contains_key(&target.name) {
            true => format!("{}-fallback", target.name),
            false => target.name,
        };
        targets.push(json!({ "provider": name, "model": target.model, "backup": at > 0 }));
        providers.insert(name, target.provider);
    }
    let mut edits = vec![json!({ "add": "/model", "value": escaped(&model) })];
    if is_true("stream") {
        edits.push(json!({ "add": "/stream", "value": true }));
    }
    let mut proxy = settings;
    proxy.insert("providers".to_owned(), providers.into());
    proxy.insert("models".to_owned(), json!({ model: { "providers": targets } }));
    let before = [
        json!({ "rewrite": { "template": format!("/v1{CHAT}") } }),
        json!({ "json_body": { "request": edits, "max_size": BODY_MAX } }),
    ];
    Some((before, json!({ "ai_proxy": proxy })))
}

/// A provider and its model.
struct Target {
    name: String,
    provider: Value,
    model: String,
}

impl Target {
    /// Reads each field where it is first given.
    fn new(from: &[&Value], place: &str, notes: &mut Vec<String>) -> Option<Target> {
        let find = |field: &str| {
            let found = from.iter().enumerate().map(|(at, from)| (at, text(from, field)));
            found.into_iter().find(|(_, text)| !text.is_empty())
        };
        let (named_from, name) = find("provider").unwrap_or((from.len(), "OpenAI".to_owned()));
        let (url_from, typed) = find("baseUrl").unwrap_or((named_from, String::new()));
        let Some(url) = base_url(&typed, &name) else {
            notes.push(format!("{place}: {name} has no valid baseUrl and is left out"));
            return None;
        };
        let Some((_, model)) = find("model") else {
            notes.push(format!("{place}: {name} has no model and is left out"));
            return None;
        };
        let mut provider = json!({ "url": url });
        // A key is not for another server than the one it is given with.
        match find("apiKey").filter(|(key_from, _)| *key_from <= url_from) {
            Some((_, key)) if is_sendable(&key) => {
                provider["key"] = key.into();
                notes.push(format!(
                    "{place}: the key of {name} is in clear text below: move it to a file, \
                     `key: {{ file }}`"
                ));
            }
            _ => notes.push(format!("{place}: write the `key` of {name}")),
        }
        Some(Target { name: name_of(&name).to_lowercase(), provider, model })
    }
}

/// True if a key can be in a header, and is none that was masked.
fn is_sendable(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic()) && !key.contains("***")
}

/// True if a configuration says anything.
fn is_given(config: &Value) -> bool {
    let said = |value: &Value| !value.is_null() && *value != "";
    config.as_object().is_some_and(|members| members.values().any(said))
}

/// The base of a provider's paths, with `/v1`.
fn base_url(typed: &str, provider: &str) -> Option<String> {
    let typed = match (typed, &*provider.to_lowercase()) {
        ("", "openai") => "https://api.openai.com/v1",
        ("", "deepseek") => "https://api.deepseek.com/v1",
        ("", "moonshot") => "https://api.moonshot.cn/v1",
        ("", "aliyun") => "https://dashscope.aliyuncs.com/compatible-mode/v1",
        (typed, _) => typed.trim_end_matches('/'),
    };
    let base = typed.strip_suffix(CHAT).unwrap_or(typed);
    let (scheme, rest) = base.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    crate::server_address(&format!("{scheme}://{authority}")).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.~-".contains(c);
    let is_path = path.chars().all(is_plain) && !path.contains("//") && !path.contains("/.");
    let is_http = ["http", "https"].contains(&scheme);
    let version = if path.is_empty() { "/v1" } else { "" };
    (is_http && is_path).then(|| format!("{base}{version}"))
}
