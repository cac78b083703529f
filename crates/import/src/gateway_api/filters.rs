//! The filters of a rule.

use serde_json::{Map, Value, json};
use wire::Known;

use super::backends::{Backends, Wanted};
use super::model::{Object, list, note_others, port, text};

/// What the filters of a rule become.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) filters: Vec<Value>,
    /// A redirect, in place of the backends.
    pub(super) handler: Option<Value>,
    pub(super) notes: Vec<String>,
    /// A filter has no counterpart: it must not be passed over, so its requests get 500.
    has_failed: bool,
}

impl Filters {
    fn fail(&mut self, note: String) {
        self.notes.push(format!("{note}: its requests get 500"));
        self.has_failed = true;
    }
}

/// Where the filters are.
pub(super) struct Rule<'r, 'm> {
    pub(super) route: &'r Object<'m>,
    pub(super) place: &'r str,
    /// The prefix that the match has, for replacements.
    pub(super) prefix: Option<&'r str>,
    /// The port of the listener.
    pub(super) port: u16,
}

impl Rule<'_, '_> {
    pub(super) fn filters(&self, written: &[Value], backends: &mut Backends<'_, '_>) -> Filters {
        let mut all = Filters::default();
        for filter in written {
            match text(&filter["type"]) {
                "RequestHeaderModifier" => {
                    self.headers("request_headers", &filter["requestHeaderModifier"], &mut all);
                }
                "ResponseHeaderModifier" => {
                    self.headers("response_headers", &filter["responseHeaderModifier"], &mut all);
                }
                "URLRewrite" => self.rewrite(&filter["urlRewrite"], &mut all),
                "RequestRedirect" => self.redirect(&filter["requestRedirect"], &mut all),
                "RequestMirror" => self.mirror(&filter["requestMirror"], backends, &mut all),
                "CORS" => self.cors(&filter["cors"], &mut all),
                other => {
                    all.fail(format!("{}: the filter {other} has no counterpart", self.place));
                }
            }
        }
        if all.has_failed {
            all.handler = Some(json!({ "respond": { "status": 500 } }));
        }
        all
    }

    /// The filter that changes headers.
    fn headers(&self, filter: &str, modifier: &Value, all: &mut Filters) {
        let mut settings = json!({});
        for action in ["set", "add"] {
            let mut fields = Map::new();
            for field in list(&modifier[action]) {
                let (name, value) = (text(&field["name"]), text(&field["value"]));
                if !is_changeable(name) || value.chars().any(char::is_control) {
                    all.fail(format!("{}: the header \"{name}\" cannot be set", self.place));
                } else if !fields.keys().any(|known| known.eq_ignore_ascii_case(name)) {
                    // Of the same name, the first is used.
                    fields.insert(name.to_owned(), json!(plain(value)));
                }
            }
            if !fields.is_empty() {
                settings[action] = Value::Object(fields);
            }
        }
        let removed = list(&modifier["remove"]).iter().map(text);
        let (removed, odd): (Vec<&str>, Vec<&str>) = removed.partition(|name| is_changeable(name));
        if !removed.is_empty() {
            settings["remove"] = json!(removed);
        }
        for name in odd {
            all.fail(format!("{}: the header \"{name}\" cannot be removed", self.place));
        }
        if settings != json!({}) {
            all.filters.push(json!({ filter: settings }));
        }
    }

    fn cors(&self, settings: &Value, all: &mut Filters) {
        let mut cors = json!({});
        let origins = list(&settings["allowOrigins"]).iter().map(text).collect::<Vec<_>>();
        for (theirs, ours) in [
            ("allowOrigins", "origins"),
            ("allowMethods", "methods"),
            ("allowHeaders", "headers"),
            ("exposeHeaders", "expose"),
        ] {
            let is_valid = |word: &str| match ours {
                "origins" => is_origin(word),
                "methods" => wire::Method::parse(word.as_bytes())
                    .is_some_and(|method| method.as_str() == word),
                _ => is_token(word),
            };
            let words: Vec<&str> = list(&settings[theirs]).iter().map(text).collect();
            match &words[..] {
                [] => {}
                // All that we know are the default.
                ["*"] if ours == "methods" => {}
                ["*"] => cors[ours] = json!(["*"]),
                words if words.iter().all(|word| is_valid(word)) => cors[ours] = json!(words),
                _ => all.fail(format!("{}: {theirs} of CORS has no counterpart", self.place)),
            }
        }
        if settings["allowCredentials"] == true {
            match origins == ["*"] {
                true => all.fail(format!(
                    "{}: CORS with credentials for every origin would let any page act as its \
                     visitor",
                    self.place
                )),
                false => cors["credentials"] = json!(true),
            }
        }
        if let Some(seconds) = settings["maxAge"].as_u64() {
            cors["max_age"] = json!(format!("{}s", seconds.min(86_400)));
        }
        match cors["origins"].is_null() {
            true => all.fail(format!("{}: CORS allows no origin", self.place)),
            false => all.filters.push(json!({ "cors": cors })),
        }
    }

    fn rewrite(&self, settings: &Value, all: &mut Filters) {
        note_others(settings, &["hostname", "path"], self.place, &mut all.notes);
        match settings["hostname"].as_str() {
            None => {}
            Some(host) if is_host(host) => {
                all.filters.push(json!({ "request_headers": { "set": { "host": host } } }));
            }
            Some(host) => all.fail(format!("{}: \"{host}\" is not a host name", self.place)),
        }
        self.path(&settings["path"], all);
    }

    /// The filter that replaces the path.
    fn path(&self, path: &Value, all: &mut Filters) {
        match text(&path["type"]) {
            "" => {}
            "ReplaceFullPath" => match rooted(text(&path["replaceFullPath"])) {
                Some(to) => all.filters.push(json!({ "rewrite": { "template": plain(&to) } })),
                None => all.fail(format!("{}: the new path is not a path", self.place)),
            },
            "ReplacePrefixMatch" if self.prefix.is_some() => {
                let prefix = self.prefix.unwrap_or_default().trim_end_matches('/');
                let Some(to) = rooted(text(&path["replacePrefixMatch"])) else {
                    return all.fail(format!("{}: the new prefix is not a path", self.place));
                };
                let to = to.trim_end_matches('/');
                let mut rewrite = json!({});
                if !prefix.is_empty() {
                    rewrite["strip_prefix"] = json!(prefix);
                }
                if !to.is_empty() {
                    rewrite["add_prefix"] = json!(to);
                }
                if rewrite != json!({}) {
                    all.filters.push(json!({ "rewrite": rewrite }));
                }
            }
            other => {
                all.fail(format!("{}: {other} needs a match of the type PathPrefix", self.place));
            }
        }
    }

    fn redirect(&self, settings: &Value, all: &mut Filters) {
        let known = ["scheme", "hostname", "path", "port", "statusCode"];
        note_others(settings, &known, self.place, &mut all.notes);
        let scheme = settings["scheme"].as_str().map(str::to_ascii_lowercase);
        let scheme = scheme.filter(|scheme| ["http", "https"].contains(&scheme.as_str()));
        let host = settings["hostname"].as_str().map(str::to_owned);
        if host.as_deref().is_some_and(|host| !is_host(host)) {
            return all.fail(format!("{}: the redirect has no host name", self.place));
        }
        // Without a port: that of the scheme, or that of the listener.
        let port = match (port(&settings["port"]), scheme.as_deref()) {
            (Some(port), _) => Some(port),
            (None, Some(_)) => None,
            (None, None) => Some(self.port),
        };
        let known = match scheme.as_deref() {
            Some("http") => port == Some(80),
            Some(_) => port == Some(443),
            None => [Some(80), Some(443)].contains(&port),
        };
        let port = port.filter(|_| !known).map(|port| format!(":{port}")).unwrap_or_default();
        self.path(&settings["path"], all);
        let scheme = scheme.unwrap_or_else(|| "{scheme}".to_owned());
        let host = host.unwrap_or_else(|| "{host}".to_owned());
        let status = settings["statusCode"].as_u64().unwrap_or(302);
        let status = if [301, 302, 303, 307, 308].contains(&status) { status } else { 302 };
        let to = format!("{scheme}://{host}{port}{{path}}");
        all.handler = Some(json!({ "redirect": { "to": to, "status": status } }));
    }

    fn mirror(&self, settings: &Value, backends: &mut Backends<'_, '_>, all: &mut Filters) {
        note_others(settings, &["backendRef", "percent", "fraction"], self.place, &mut all.notes);
        let wanted = Wanted { grpc: self.route.kind == "GRPCRoute", response_ms: None, raw: false };
        let upstream = match backends.upstream(self.route, &settings["backendRef"], wanted) {
            Ok(upstream) => upstream,
            // The response of a mirror is not used: without one, requests are served.
            Err(why) => {
                backends.notes.push(format!("{}: {why}: it gets no copies", self.place));
                return;
            }
        };
        let fraction = &settings["fraction"];
        let share = match (settings["percent"].as_u64(), fraction["numerator"].as_u64()) {
            (Some(percent), _) => percent as f64,
            (None, Some(part)) => {
                let whole = fraction["denominator"].as_u64().unwrap_or(100).max(1);
                part as f64 * 100.0 / whole as f64
            }
            _ => 100.0,
        };
        let share = format!("{}%", (share.clamp(0.0, 100.0) * 100.0).round() / 100.0);
        all.filters.push(json!({ "mirror": { "to": { "upstream": upstream }, "share": share } }));
    }
}

/// True if a filter may change a header of this name.
fn is_changeable(name: &str) -> bool {
    let known = Known::from_bytes(name.as_bytes());
    let is_of_connection = |known: Known| {
        known.is_hop_by_hop() || matches!(known, Known::ContentLength | Known::Expect)
    };
    is_token(name) && !known.is_some_and(is_of_connection)
}

fn is_token(name: &str) -> bool {
    wire::token::is_token(name.as_bytes())
}

/// True for an origin such as `https://*.example.com:8443`.
fn is_origin(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => host,
    };
    ["http", "https"].contains(&scheme) && host.parse::<router::HostPattern>().is_ok()
}

fn is_host(name: &str) -> bool {
    !name.contains('*') && name.parse::<router::HostPattern>().is_ok()
}

/// A text in which braces mean themselves.
fn plain(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A path with its slash, if it is one in which each character means itself.
fn rooted(path: &str) -> Option<String> {
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    };
    let is_plain = !path.contains(['{', '}', '*', '?', '#', '%', ' ']);
    (is_plain && path.parse::<router::Segments>().is_ok()).then_some(path)
}
