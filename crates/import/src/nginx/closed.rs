//! Paths that nginx protects and that have no route of their own here: locations that are not
//! converted, and paths that begin with a protected prefix, but not with its whole segments.
//!
//! Promises that the routes that would serve them instead reject them, so that nothing becomes
//! public by the conversion. Where the paths cannot be written as an expression of ours, these
//! routes reject every request.

use super::super::writer::{escaped_regex, list, quoted};
use super::parser::Directive;

/// Rejects every request.
pub(super) const CLOSED: &str = "deny: { ip: [\"0.0.0.0/0\", \"::/0\"] }";

/// Directives of access control without a counterpart.
pub(super) const UNCONVERTED: [&str; 12] = [
    "auth_jwt",
    "ssl_verify_client",
    "satisfy",
    "auth_digest",
    "auth_gss",
    "auth_ldap",
    "auth_pam",
    "js_access",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "auth_oidc",
];

/// Directives of access control that are converted.
const CONVERTED: [&str; 4] = ["allow", "deny", "auth_basic", "auth_request"];

/// Handlers that run a program: its files are not for clients.
pub(super) const PROGRAMS: [&str; 3] = ["fastcgi_pass", "scgi_pass", "uwsgi_pass"];

/// True if a directive, or one in its block, rejects requests.
pub(super) fn restricts(one: &Directive) -> bool {
    let first = one.arguments.first().map_or("", |word| word);
    match &*one.name {
        "deny" | "internal" => true,
        "return" => first.starts_with('4'),
        "auth_basic" | "auth_request" => first != "off",
        "if" | "limit_except" | "location" => one.block.iter().any(restricts),
        name => UNCONVERTED.contains(&name) && first != "off" && first != "all",
    }
}

/// `allow` and `deny` are one list.
fn kind_of(name: &str) -> &str {
    if name == "allow" { "deny" } else { name }
}

fn is_access_control(one: &Directive) -> bool {
    CONVERTED.contains(&&*one.name) || UNCONVERTED.contains(&&*one.name)
}

/// Why paths are closed.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    /// Their location rejects requests.
    Own,
    /// Their location inherits what rejects requests: routes that do not inherit it reject them.
    Inherited,
    /// Their location runs a program: routes that serve files reject them.
    Program,
}

/// Which routes would serve them.
enum Served {
    /// Those that an expression of nginx comes before.
    AfterExpressions,
    /// Those for more than one path.
    Anywhere,
    /// Those of a prefix of this one.
    Above(String),
}

struct Closed {
    /// The place of the location.
    place: String,
    /// `None` for an expression that is not one of ours.
    pattern: Option<String>,
    served: Served,
    why: Vec<Why>,
}

/// The closed paths of a server.
pub(super) struct ClosedPaths(Vec<Closed>);

impl ClosedPaths {
    pub(super) fn of(
        locations: &[&Directive],
        server: &Directive,
        http: &[Directive],
    ) -> ClosedPaths {
        let inherited: Vec<&Directive> = (server.block.iter().chain(http))
            .filter(|one| is_access_control(one) && restricts(one))
            .collect();
        let closed = |location: &&Directive| {
            let location = *location;
            let overrides = |one: &Directive| {
                location.block.iter().any(|own| kind_of(&own.name) == kind_of(&one.name))
            };
            let has = |is: &dyn Fn(&Directive) -> bool| location.block.iter().any(is);
            let is_program = |one: &Directive| PROGRAMS.contains(&&*one.name);
            let reasons = [
                (has(&restricts), Why::Own),
                (has(&is_program), Why::Program),
                (inherited.iter().any(|one| !overrides(one)), Why::Inherited),
            ];
            let reasons = reasons.iter().filter(|(applies, _)| *applies);
            let mut why: Vec<Why> = reasons.map(|(_, why)| *why).collect();
            let place = location.place();
            let Some((_, prefix, is_exact)) = location_path(location) else {
                let (modifier, path) = modifier_and_path(location)?;
                let (pattern, served) = match modifier {
                    "~" => (path.to_owned(), Served::AfterExpressions),
                    "~*" => (format!("(?i){path}"), Served::AfterExpressions),
                    // Named locations have no paths.
                    _ if path.starts_with('@') => return None,
                    "=" => (format!("^{}$", escaped_regex(path)), Served::Anywhere),
                    _ => (format!("^{}", escaped_regex(path)), Served::Anywhere),
                };
                let pattern = pattern.parse::<settings::Regex>().is_ok().then_some(pattern);
                return (!why.is_empty()).then_some(Closed { place, pattern, served, why });
            };
            // A prefix with a program has a route, which does not serve files.
            why.retain(|why| *why != Why::Program);
            if is_exact || prefix.ends_with('/') || why.is_empty() {
                return None;
            }
            let pattern = Some(format!("^{}[^/]", escaped_regex(&prefix)));
            Some(Closed { place, pattern, served: Served::Above(prefix), why })
        };
        ClosedPaths(locations.iter().filter_map(closed).collect())
    }

    /// The filter that rejects closed paths in the route of a location or of a whole server.
    pub(super) fn filter(
        &self,
        location: &Directive,
        prefix: &str,
        is_exact: bool,
    ) -> Option<String> {
        let has_rules = location.block.iter().any(is_access_control);
        let has = |name: &str| location.all(name).next().is_some();
        let serves_files = !has("proxy_pass") && !has("return");
        let is_preferred =
            modifier_and_path(location).is_some_and(|(modifier, _)| modifier == "^~");
        let below = format!("{}/", prefix.trim_end_matches('/'));
        let applies = |closed: &&Closed| {
            let is_served = match &closed.served {
                Served::AfterExpressions => !is_preferred,
                Served::Anywhere => true,
                Served::Above(longer) => longer.starts_with(&below),
            };
            let is_less_protected = closed.why.iter().any(|why| match why {
                Why::Own => true,
                Why::Inherited => has_rules,
                Why::Program => serves_files,
            });
            !is_exact && is_served && is_less_protected
        };
        let mut conditions = Vec::new();
        for closed in self.0.iter().filter(applies) {
            let Some(pattern) = &closed.pattern else { return Some(CLOSED.to_owned()) };
            let condition = format!("{{ variable: path, regex: {} }}", quoted(pattern));
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        (!conditions.is_empty()).then(|| format!("deny: {{ when: {} }}", list(&conditions)))
    }

    /// The note about a location without a route.
    pub(super) fn note(&self, location: &Directive) -> String {
        let note = location.not_converted();
        let is_closed =
            |closed: &&Closed| closed.place == location.place() && closed.why != [Why::Inherited];
        match self.0.iter().find(is_closed) {
            Some(Closed { pattern: Some(_), .. }) => note + ": other routes reject its paths",
            Some(Closed { pattern: None, .. }) => {
                note + ": its expression is not supported, and routes that could serve its paths \
                        reject every request"
            }
            None => note,
        }
    }

    /// The note about a prefix whose other paths are closed.
    pub(super) fn notes_of_prefix(&self, prefix: &str) -> Vec<String> {
        let is_of =
            |closed: &&Closed| matches!(&closed.served, Served::Above(own) if own == prefix);
        let note = |closed: &Closed| {
            let place = &closed.place;
            format!("{place}: other paths that begin with {prefix}, such as {prefix}.x, get 403")
        };
        let of_prefix = self.0.iter().filter(is_of);
        of_prefix.filter(|one| one.why.contains(&Why::Own)).map(note).collect()
    }
}

/// The modifier of a location, and its path, expression or name.
fn modifier_and_path(location: &Directive) -> Option<(&str, &str)> {
    let arguments: Vec<&str> = location.arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [modifier, path] => Some((*modifier, *path)),
        // The space may be missing.
        [written] => {
            let split = |modifier: &'static str| Some((modifier, written.strip_prefix(modifier)?));
            let mut modifiers = ["^~", "~*", "~", "="].into_iter();
            Some(modifiers.find_map(split).unwrap_or(("", *written)))
        }
        _ => None,
    }
}

/// Our path, nginx's, and whether it is the whole path. `None` for expressions and named ones.
pub(super) fn location_path(location: &Directive) -> Option<(String, String, bool)> {
    let (modifier, path) = modifier_and_path(location)?;
    let is_special = |c: char| "{}*?#%".contains(c) || c.is_control();
    let is_plain = path.starts_with('/') && !path.contains(is_special);
    if !is_plain || !["", "=", "^~"].contains(&modifier) {
        return None;
    }
    let is_exact = modifier == "=";
    let ours = match is_exact {
        true => path.to_owned(),
        false => format!("{}/{{*rest}}", path.trim_end_matches('/')),
    };
    Some((ours, path.to_owned(), is_exact))
}
