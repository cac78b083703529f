//! The settings under a route's `match:`.
//!
//! Owns the declaration and the checks of one route; `table` checks several routes together.

use plugin::Condition;
use settings::{Node, OneOrMany, Reader, Setting, Spanned, quote};

use crate::{HostPattern, MethodName, PathPattern};

/// The conditions of a route: a request must meet all of them. A missing condition is met by every
/// request; of a list, one entry has to match.
///
/// If several routes match, the order decides: `priority`; then the host (exact, the longest `*.`,
/// any); then the path, segment by segment (literal, `{param}`, `{*rest}`), Ant patterns and
/// regular expressions after those; then the one with more conditions; then the one written first.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = path, check = check, default)]
pub struct Match {
    /// The listeners of the route, by name.
    #[setting(default = [], example = "web")]
    pub listener: OneOrMany<Spanned<String>>,
    /// Hosts: a name, or `*.example.com` for every name below. Case and port are ignored.
    #[setting(default = [], example = "shop.example.com")]
    pub host: OneOrMany<HostPattern>,
    /// Paths: `/a/b`, `/a/{id}` with a parameter, `/a/{*rest}` for `/a` and all below it,
    /// `{ ant: "/a/**/b" }` or `{ regex: "^/x/[0-9]+$" }`.
    #[setting(default = [], example = "/api/{*rest}")]
    pub path: OneOrMany<PathPattern>,
    /// Methods; GET includes HEAD. If only the method of a request matches no route, the response
    /// is 405. A method that is neither registered nor widely used is written `{ extension: NAME
    /// }`.
    #[setting(default = [], example = ["GET", "POST"])]
    pub methods: OneOrMany<MethodName>,
    /// Conditions on headers, query, cookies, client address, scheme or time. A route whose
    /// conditions fail is skipped.
    pub when: Option<Condition>,
    /// Routes of a higher priority come first, whatever else they match.
    #[setting(default = 0, range = "-1000000"..=1000000)]
    pub priority: i64,
}

impl Match {
    /// The parameters that all paths of the route have: the valid names of `{path.NAME}`.
    pub fn params(&self) -> Vec<&str> {
        let Some((first, others)) = self.path.split_first() else { return Vec::new() };
        let mut params = first.params();
        params.retain(|name| others.iter().all(|other| other.params().contains(name)));
        params
    }

    /// Number of conditions, for the order: the tests of `when`, and one each for listeners and
    /// methods.
    pub(crate) fn conditions(&self) -> usize {
        self.when.as_ref().map_or(0, Condition::tests)
            + usize::from(!self.listener.is_empty())
            + usize::from(!self.methods.is_empty())
    }
}

fn check(written: &Match, node: &Node, reader: &mut Reader<'_>) {
    let mut repeated = |key: &str, items: Vec<String>| {
        let Some(value) = node.get(key) else { return };
        for (at, item) in items.iter().enumerate() {
            if items[..at].contains(item) {
                let span =
                    value.list().and_then(|list| list.get(at)).map_or(value.span, |n| n.span);
                reader.error(span, format!("{} is listed twice", quote(item)));
            }
        }
    };
    repeated("listener", written.listener.iter().map(|name| name.value.clone()).collect());
    repeated("host", written.host.iter().map(ToString::to_string).collect());
    repeated("path", written.path.iter().map(ToString::to_string).collect());
    repeated("methods", written.methods.iter().map(ToString::to_string).collect());
}

#[cfg(test)]
mod tests {
    use super::Match;
    use settings::{node, read};

    #[test]
    fn one_or_many() {
        let one: Match =
            read(&node!({ "host": "a.example", "path": "/x", "methods": "GET" })).unwrap();
        let many = node!({ "host": ["a.example"], "path": ["/x"], "methods": ["GET"] });
        assert_eq!(read(&many), Ok(one));
        assert_eq!(read(&node!(null)), Ok(Match::default()));
        let short: Match = read(&node!({ "path": ["/a", "/b"] })).unwrap();
        assert_eq!(read(&node!(["/a", "/b"])), Ok(short));
    }

    #[test]
    fn parameters_that_every_path_has() {
        let written: Match = read(&node!({ "path": ["/a/{id}/{*rest}", "/b/{id}"] })).unwrap();
        assert_eq!(written.params(), ["id"]);
        assert_eq!(Match::default().params(), Vec::<&str>::new());
    }

    #[test]
    fn conditions_are_counted() {
        let written: Match = read(&node!({
            "listener": ["web", "other"],
            "methods": ["GET", "POST"],
            "when": [{ "header": "a", "prefix": "x", "suffix": "y" }, { "ip": "::1" }]
        }))
        .unwrap();
        assert_eq!(written.conditions(), 5);
    }

    #[test]
    fn errors_say_what_was_meant() {
        for (node, why) in [
            (node!({ "methods": ["GET", "GET"] }), "\"GET\" is listed twice"),
            (node!({ "host": ["A.example", "a.example."] }), "\"a.example\" is listed twice"),
            (node!({ "methods": "get" }), "write GET"),
            (node!({ "methods": "CONNECT" }), "refused before routing"),
            (node!({ "methods": "G ET" }), "is not a method"),
            (node!({ "pth": "/a" }), "did you mean \"path\"?"),
            (node!({ "priority": 5000000 }), "is not between"),
        ] {
            let out = read::<Match>(&node).unwrap_err();
            assert!(out.contains(why), "{out}\nwanted {why}");
        }
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Match>().unwrap();
    }
}
