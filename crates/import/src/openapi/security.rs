//! Security schemes and requirements, as filters that authenticate.
//!
//! Promises: an operation that the document protects is protected here, or closed, whatever the
//! scheme is; a note says what is missing for it to open.

use serde_json::{Map, Value, json};

use super::super::pike::name_of;
use super::super::writer::escaped_regex;
use super::schema::resolve;

/// A place for keys that are not known: until it is replaced, requests get 503.
const NO_KEYS: &str = "https://id.invalid/keys";
/// Where a provider is discovered, below its issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What the requirements of operations need besides filters.
#[derive(Default)]
pub(super) struct Security {
    /// The section `identity`.
    pub(super) identity: Map<String, Value>,
    /// True if a filter accepts credentials of consumers.
    pub(super) uses_consumers: bool,
}

/// A requirement: the scheme and the scopes that it demands.
type Scheme<'d> = (&'d str, Vec<&'d str>);

impl Security {
    /// The filters that an operation requires, in their order.
    pub(super) fn filters(
        &mut self,
        document: &Value,
        operation: &Value,
        place: &str,
        notes: &mut Vec<String>,
    ) -> Vec<Value> {
        let own = &operation["security"];
        let required = if own.is_null() { &document["security"] } else { own };
        let alternatives: Vec<Vec<Scheme<'_>>> =
            required.as_array().into_iter().flatten().map(schemes).collect();
        if alternatives.is_empty() {
            return Vec::new();
        }
        if alternatives.iter().any(Vec::is_empty) {
            notes.push(format!("{place}: authentication is optional, so that none is required"));
            return Vec::new();
        }
        let filters = filters_of(document, &alternatives, place, notes);
        for filter in &filters {
            let any = filter["auth"]["any"].as_array();
            any.map_or(std::slice::from_ref(filter), Vec::as_slice)
                .iter()
                .for_each(|method| self.note_use(document, method));
        }
        filters
    }

    /// Adds the sections that a method of authentication needs.
    fn note_use(&mut self, document: &Value, method: &Value) {
        match method["jwt"]["identity"].as_str() {
            Some(name) => {
                let schemes = document["components"]["securitySchemes"].as_object();
                let mut schemes = schemes.into_iter().flatten();
                let scheme = schemes.find(|(known, _)| name_of(known) == name);
                let scheme = scheme.map_or(&Value::Null, |(_, scheme)| resolve(scheme, document));
                let mut provider = json!({ "jwks": NO_KEYS });
                if let Some(issuer) = discovery(scheme).strip_suffix(DISCOVERY) {
                    provider["issuer"] = issuer.into();
                }
                self.identity.insert(name.to_owned(), provider);
            }
            None => {
                let is_method = |name: &&str| !method[*name].is_null();
                self.uses_consumers |=
                    ["key_auth", "basic_auth", "cert_auth"].iter().any(is_method);
            }
        }
    }
}

/// The filters of alternatives, none of which is empty.
fn filters_of(
    document: &Value,
    alternatives: &[Vec<Scheme<'_>>],
    place: &str,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let mut methods = Vec::new();
    for alternative in alternatives {
        let converted: Option<Vec<Value>> =
            alternative.iter().map(|scheme| method(document, scheme, notes)).collect();
        match converted {
            Some(all) if alternatives.len() == 1 => {
                return with_scopes(all, alternative, place, notes);
            }
            Some(all) if all.len() == 1 => methods.extend(all),
            _ => {
                let names: Vec<&str> = alternative.iter().map(|(name, _)| *name).collect();
                let names = names.join(" and ");
                notes.push(format!("{place}: {names} as an alternative is not accepted"));
            }
        }
    }
    let scopes: Vec<&str> =
        alternatives.iter().flatten().flat_map(|(_, scopes)| scopes.iter().copied()).collect();
    if !scopes.is_empty() {
        let scopes = scopes.join(" ");
        notes.push(format!("{place}: scopes of alternatives are not checked: {scopes}"));
    }
    if methods.is_empty() {
        notes.push(format!("{place}: no scheme has a counterpart, the route is closed"));
        return vec![json!({ "deny": { "ip": ["0.0.0.0/0", "::/0"] } })];
    }
    vec![match methods.len() {
        1 => methods.remove(0),
        _ => json!({ "auth": { "any": methods } }),
    }]
}

/// The filter of a scheme; `None` if it has no counterpart.
fn method(document: &Value, (name, _): &Scheme<'_>, notes: &mut Vec<String>) -> Option<Value> {
    let scheme = resolve(&document["components"]["securitySchemes"][*name], document);
    let word = |key: &str| scheme[key].as_str().unwrap_or_default();
    let lower = |key: &str| word(key).to_ascii_lowercase();
    let mut note = |text: &str| push(notes, format!("securitySchemes {name}: {text}"));
    match (word("type"), word("in"), &*lower("scheme")) {
        ("apiKey", place @ ("header" | "query"), _) if is_name(word("name")) => {
            Some(json!({ "key_auth": { "from": { place: word("name") } } }))
        }
        ("http", _, "basic") => Some(json!({ "basic_auth": {} })),
        ("http", _, "bearer") if lower("bearerFormat") != "jwt" => {
            note(
                "tokens are keys of consumers: if they have an issuer, write jwt or introspection",
            );
            Some(json!({ "key_auth": { "from": "bearer" } }))
        }
        ("mutualTLS", ..) => Some(json!({ "cert_auth": {} })),
        ("oauth2" | "openIdConnect", ..) | ("http", _, "bearer") => {
            let at = match discovery(scheme) {
                "" => String::new(),
                url => format!(", which is jwks_uri in {url}"),
            };
            note(&format!(
                "write its issuer, the audience and the URL of its keys in identity{at}"
            ));
            Some(json!({ "jwt": { "identity": name_of(name) } }))
        }
        (kind, ..) => {
            let kind = if kind.is_empty() { "a scheme that is not declared" } else { kind };
            note(&format!("{kind} has no counterpart"));
            None
        }
    }
}

/// Where the provider of a scheme is discovered.
fn discovery(scheme: &Value) -> &str {
    scheme["openIdConnectUrl"].as_str().unwrap_or_default()
}

/// The schemes of one alternative.
fn schemes(alternative: &Value) -> Vec<Scheme<'_>> {
    let schemes = alternative.as_object().into_iter().flatten();
    schemes.map(|(name, list)| (name.as_str(), texts(list))).collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Filters of schemes that are all required, with those of the scopes of tokens.
fn with_scopes(
    mut filters: Vec<Value>,
    schemes: &[Scheme<'_>],
    place: &str,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let tokens: Vec<bool> = filters.iter().map(|filter| !filter["jwt"].is_null()).collect();
    for ((name, scopes), is_token) in schemes.iter().zip(tokens) {
        match is_token {
            true => filters.extend(scopes.iter().map(|scope| allow(scope))),
            false if scopes.is_empty() => {}
            false => {
                let roles = scopes.join(" ");
                notes.push(format!("{place}: roles of {name} are not checked: {roles}"));
            }
        }
    }
    filters
}

/// Allows tokens whose claim `scope` has a scope (RFC 8693 4.2).
fn allow(scope: &str) -> Value {
    let pattern = format!("(^| ){}( |$)", escaped_regex(scope));
    json!({ "allow": { "when": { "variable": "claim.scope", "regex": pattern } } })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn push(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}
