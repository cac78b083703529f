//! Converts an OpenAPI document, version 3.0 or 3.1.
//!
//! Each operation becomes a route with the filter `validate`. Schemas of components that an
//! operation refers to are copied into its schemas, because each of them is self-contained. Notes
//! name the parts without a counterpart, with their position in the document.

mod schema;
mod security;

use serde_json::{Map, Value, json};

use super::pike::name_of;
use super::writer::{Writer, literal, quoted};
use schema::{Dialect, converted, resolve};
use security::Security;

const HEAD: &str = "\
Lines that begin with \"note:\" name what the document has and these routes have not. Requests are \
validated, responses are not.";

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Returns our configuration as YAML, or why the input is not an OpenAPI document.
pub fn convert(document: &Value, from: &str) -> Result<String, String> {
    let version = document["openapi"].as_str().unwrap_or_default();
    let dialect = match version {
        _ if version.starts_with("3.0") => Dialect::V30,
        _ if version.starts_with("3.1") => Dialect::V31,
        "" => {
            return Err(format!(
                "{from} is not an OpenAPI document: that is a map with `openapi: 3.x` and `paths`"
            ));
        }
        other => return Err(format!("{from}: OpenAPI {other} is not supported: 3.0 and 3.1 are")),
    };
    let mut out = Writer::default();
    let title = document["info"]["title"].as_str().unwrap_or("an API");
    let origin = format!("Converted from {from} ({title}) by `tidegate import openapi`.");
    out.comment(0, &origin);
    out.comment(0, HEAD);
    for key in ["webhooks", "jsonSchemaDialect"] {
        if !document[key].is_null() {
            out.note(0, reason(key));
        }
    }
    out.empty_line();
    out.line(0, "listeners:");
    out.line(2, "web: { bind: \":8080\" }");
    out.empty_line();
    let base = upstream(document, &mut out);
    let mut security = Security::default();
    let routes = routes(document, dialect, &base, &mut security);
    let Some(routes) = routes else {
        return Err(format!("{from} has no operation under `paths`"));
    };
    if security.uses_consumers {
        out.note(0, "write the consumers with their keys, passwords or certificates:");
        out.line(0, "consumers: []");
        out.empty_line();
    }
    if !security.identity.is_empty() {
        out.line(0, "identity:");
        for (name, provider) in &security.identity {
            out.line(2, &format!("{}: {}", quoted(name), literal(provider)));
        }
        out.empty_line();
    }
    Ok(out.finish() + &routes.finish())
}

/// The routes of all operations; `None` if there are none.
fn routes(
    document: &Value,
    dialect: Dialect,
    base: &str,
    security: &mut Security,
) -> Option<Writer> {
    let mut out = Writer::default();
    out.line(0, "routes:");
    let mut names: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let item = resolve(item, document);
        let Some(pattern) = pattern(base, path) else {
            let why = "is left out: a parameter is a whole segment here, use a regex path";
            out.note(2, &format!("paths {path} {why}"));
            continue;
        };
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                let place = format!("{} {path}", method.to_uppercase());
                let operation = Operation { document, dialect, item, operation, place };
                let mut name = operation.name();
                if names.contains(&name) {
                    name = format!("{name}-{}", names.len());
                }
                operation.write(&name, &pattern, method, security, &mut out);
                names.push(name);
            }
        }
    }
    (!names.is_empty()).then_some(out)
}

fn reason(key: &str) -> &str {
    match key {
        "webhooks" => "webhooks: these are requests of the API, not to it",
        "jsonSchemaDialect" => "jsonSchemaDialect: schemas are read as draft 2020-12",
        other => other,
    }
}

/// Writes the upstream of the first server and returns the path of its URL.
fn upstream(document: &Value, out: &mut Writer) -> String {
    let servers = document["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let url = servers.first().map(url_of).unwrap_or_default();
    let (authority, path) = match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(format!("{scheme}://{host}")), path)
        }
        None => (None, &*url),
    };
    out.line(0, "upstreams:");
    for other in servers.iter().skip(1) {
        out.note(2, &format!("servers: {} is not used", url_of(other)));
    }
    let address =
        authority.filter(|text| super::server_address(text).is_ok()).unwrap_or_else(|| {
            out.note(2, "servers: there is no absolute URL, write the address of the API here");
            "http://127.0.0.1:8000".to_owned()
        });
    out.line(2, &format!("api: {{ servers: [{}] }}", quoted(&address)));
    out.empty_line();
    path.trim_end_matches('/').to_owned()
}

/// The URL of a server with the defaults of its variables.
fn url_of(server: &Value) -> String {
    let mut url = server["url"].as_str().unwrap_or_default().to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten() {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
    }
    url
}

/// The path of a route, if each parameter is a whole segment with a name of letters.
fn pattern(base: &str, path: &str) -> Option<String> {
    let path = format!("{base}{path}");
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut names = Vec::new();
    for segment in path.split('/').filter(|segment| segment.contains(['{', '}', '*'])) {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))?;
        if !is_name(name) || names.contains(&name) {
            return None;
        }
        names.push(name);
    }
    path.starts_with('/').then_some(path)
}

/// One operation of the document.
struct Operation<'d> {
    document: &'d Value,
    dialect: Dialect,
    /// The path item.
    item: &'d Value,
    operation: &'d Value,
    /// `GET /path`, for notes.
    place: String,
}

impl Operation<'_> {
    /// A name for its route, without spaces.
    fn name(&self) -> String {
        name_of(self.operation["operationId"].as_str().unwrap_or(&self.place))
    }

    fn write(
        &self,
        name: &str,
        path: &str,
        method: &str,
        security: &mut Security,
        out: &mut Writer,
    ) {
        let mut notes = Vec::new();
        let required = security.filters(self.document, self.operation, &self.place, &mut notes);
        let mut settings = self.parameters(&mut notes);
        self.body(&mut settings, &mut notes);
        for key in ["callbacks", "servers"] {
            if !self.operation[key].is_null() {
                notes.push(format!("{}: {key} is not converted", self.place));
            }
        }
        let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        out.notes(2, &notes);
        out.line(2, &format!("- name: {}", quoted(name)));
        let methods = method.to_uppercase();
        out.line(4, &format!("match: {{ path: {}, methods: [{methods}] }}", quoted(path)));
        if !required.is_empty() || !settings.is_empty() {
            out.line(4, "filters:");
        }
        for filter in &required {
            out.line(6, &format!("- {}", literal(filter)));
        }
        if !settings.is_empty() {
            out.line(6, "- validate:");
        }
        for (key, value) in &settings {
            out.line(10, &format!("{key}: {}", literal(value)));
        }
        out.line(4, "handler: { upstream: api }");
    }

    /// Schemas of the parameters, as settings of `validate`.
    fn parameters(&self, notes: &mut Vec<String>) -> Map<String, Value> {
        let mut parts: Vec<(&str, Map<String, Value>, Vec<Value>)> =
            ["path", "query", "headers"].map(|part| (part, Map::new(), Vec::new())).into();
        let mut defs = Map::new();
        let own = self.operation["parameters"].as_array().into_iter().flatten();
        let of_path = self.item["parameters"].as_array().into_iter().flatten();
        // The parameters of an operation replace those of its path.
        for parameter in own.chain(of_path) {
            let parameter = resolve(parameter, self.document);
            let name = parameter["name"].as_str().unwrap_or_default();
            let part = match parameter["in"].as_str() {
                Some("header") => "headers",
                Some(part @ ("query" | "path")) => part,
                other => {
                    let place = other.unwrap_or("nowhere");
                    notes.push(format!("{}: {name} in {place} is not checked", self.place));
                    continue;
                }
            };
            let Some((_, properties, required)) = parts.iter_mut().find(|(p, ..)| *p == part)
            else {
                continue;
            };
            if name.is_empty() || properties.contains_key(name) {
                continue;
            }
            let style = parameter["style"].as_str().unwrap_or("form");
            let schema = resolve(&parameter["schema"], self.document);
            let is_list = schema["type"] == "array" || schema["type"] == "object";
            let is_plain = part == "query" && style == "form" && parameter["explode"] != false;
            let schema = if schema.is_null() || is_list && !(is_plain && schema["type"] == "array")
            {
                notes.push(format!("{}: the form of {name} is not checked", self.place));
                json!({})
            } else {
                let schema = &parameter["schema"];
                converted(schema, self.document, self.dialect, &mut defs, &self.place, notes)
            };
            properties.insert(name.to_owned(), schema);
            if parameter["required"] == true && part != "path" {
                required.push(name.into());
            }
        }
        let mut settings = Map::new();
        for (part, properties, required) in parts {
            if !properties.is_empty() {
                let mut schema = json!({ "properties": properties });
                if !required.is_empty() {
                    schema["required"] = required.into();
                }
                settings.insert(part.to_owned(), with_defs(schema, &defs));
            }
        }
        settings
    }

    /// The schema of the body, as settings of `validate`.
    fn body(&self, settings: &mut Map<String, Value>, notes: &mut Vec<String>) {
        let body = resolve(&self.operation["requestBody"], self.document);
        let Some(content) = body["content"].as_object() else { return };
        let is_json = |name: &str| {
            let name = name.split(';').next().unwrap_or_default().trim();
            name == "application/json" || name.ends_with("+json")
        };
        let others: Vec<&str> =
            content.keys().map(String::as_str).filter(|name| !is_json(name)).collect();
        if !others.is_empty() {
            let others = others.join(", ");
            notes.push(format!("{}: bodies are not checked, because of {others}", self.place));
            return;
        }
        let mut schemas = content.values().map(|media| &media["schema"]);
        let first = schemas.next().cloned().unwrap_or_default();
        if schemas.any(|other| *other != first) || first.is_null() {
            notes.push(format!("{}: bodies have several schemas or none", self.place));
            return;
        }
        let mut defs = Map::new();
        let schema = converted(&first, self.document, self.dialect, &mut defs, &self.place, notes);
        settings.insert("body".to_owned(), with_defs(schema, &defs));
        if body["required"] != true {
            settings.insert("body_required".to_owned(), false.into());
        }
    }
}

/// A schema with the definitions that it refers to.
fn with_defs(schema: Value, defs: &Map<String, Value>) -> Value {
    // A bare truth value refers to nothing.
    let Value::Object(mut schema) = schema else { return json!({ "allOf": [schema] }) };
    if !defs.is_empty() {
        schema.insert("$defs".to_owned(), defs.clone().into());
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests;
