//! `rewrite`: changes the path for the filters and the handler after this filter.
//!
//! Prefixes and expressions are compared with the normal form of the path (`wire::target`), so that
//! no spelling of a path escapes a rewrite. The result is made canonical before any other part of
//! the program sees it: it has no dot segment, wherever its parts came from. Text that is not
//! replaced keeps the escapes of the client, and the query stays. Route parameters keep the text
//! they matched. By a variable, a client neither climbs in the path (`..`) nor puts `%2F` into it,
//! unless its listener keeps encoded slashes.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Request, Target};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext, variables};
use settings::{Node, Part, Reader, Regex, Setting, Template};
use wire::target::{PathFault, count_encoded_slashes, encode_path, normal_form, normalize};

pub(crate) const KIND: FilterKind = FilterKind { name: "rewrite", schema: Rewrite::schema, read };

/// Longest resulting target; a request line could not be longer either.
const TARGET_BYTES_MAX: usize = 64 * 1024;

/// Changes the path before the request is forwarded.
///
/// Later filters and handlers see the new path, and an upstream receives it; the route is not
/// chosen again. The order is `strip_prefix`, `regex`, `add_prefix`; a `template` excludes the
/// others. The query is kept. A result that is not a path gets 400.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Rewrite {
    /// The prefix to remove, by whole segments: `/api` is removed from `/api` and `/api/x`, not
    /// from `/apis`.
    #[setting(example = "/api")]
    strip_prefix: Option<String>,
    /// The prefix to add.
    #[setting(example = "/v2")]
    add_prefix: Option<String>,
    /// The whole new path. It may have a query, which is put before the request's own. A request
    /// gets 400 if a variable makes a segment `.` or `..`, or puts `%2F` into the path and its
    /// listener does not have `encoded_slashes: keep`.
    #[setting(example = "/items/{path.id}", example = "/search?q={path.word}")]
    template: Option<Template>,
    /// Replaces the first match of a regular expression.
    regex: Option<Replacement>,
}

/// A pattern and its replacement.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Replacement {
    /// A regular expression over the decoded path; `^` and `$` are its ends.
    #[setting(example = "^/user/([0-9]+)$")]
    pattern: Regex,
    /// The replacement of the match; `$1` and `${name}` are its groups.
    #[setting(example = "/users/$1")]
    replace: String,
}

fn check(settings: &Rewrite, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    let Rewrite { strip_prefix, add_prefix, template, regex } = settings;
    let parts = strip_prefix.is_some() || add_prefix.is_some() || regex.is_some();
    if !parts && template.is_none() {
        let what = "strip_prefix, add_prefix, regex or template";
        reader.error(node.span, format!("this rewrites nothing: give {what}"));
    }
    if parts && template.is_some() {
        reader.error(at("template"), "a template is the whole path: it stands alone");
    }
    for (key, prefix) in [("strip_prefix", strip_prefix), ("add_prefix", add_prefix)] {
        let Some(prefix) = prefix else { continue };
        let is_normal = normalize(prefix.as_bytes()).is_ok_and(|same| same == prefix.as_bytes());
        if !prefix.starts_with('/') || prefix.contains(['?', '#']) || !is_normal {
            let why =
                "is not a prefix: it begins with / and is decoded, without dot segments and query";
            reader.error(at(key), format!("{prefix:?} {why}"));
        }
    }
    if let Some(template) = template
        && !matches!(template.parts.first(), Some(Part::Text(text)) if text.starts_with('/'))
    {
        reader.error(at("template"), "a path begins with /");
    }
    if template.as_ref().is_some_and(|template| has_dot_segment(template.to_string().as_bytes())) {
        reader.error(at("template"), "a path has no segment . or ..");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(RewritePlan(Arc::new(Rewrite::read(node, reader)?))))
}

struct RewritePlan(Arc<Rewrite>);

impl FilterPlan for RewritePlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        let own_slashes = own_encoded_slashes(&self.0);
        Stage::Filter(Rc::new(RewriteFilter { settings: self.0.clone(), own_slashes }))
    }

    fn needs_authentication(&self) -> bool {
        self.0.template.as_ref().is_some_and(Template::needs_authentication)
    }

    fn describe(&self) -> String {
        let Rewrite { strip_prefix, add_prefix, template, regex } = &*self.0;
        let regex =
            regex.as_ref().map(|regex| format!("{} → {}", regex.pattern.as_str(), regex.replace));
        let words = [
            template.as_ref().map(|template| format!("to {template}")),
            strip_prefix.as_ref().map(|prefix| format!("strip {prefix}")),
            regex,
            add_prefix.as_ref().map(|prefix| format!("add {prefix}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Returns how many `%2F` the settings themselves write into a path.
fn own_encoded_slashes(settings: &Rewrite) -> usize {
    let Rewrite { strip_prefix: _, add_prefix, template, regex } = settings;
    let template = template.as_ref().map(ToString::to_string);
    // The rest is a query.
    let template = template.as_ref().and_then(|template| template.split('?').next());
    let replacement = regex.as_ref().map(|regex| &*regex.replace);
    let texts = [template, add_prefix.as_deref(), replacement].into_iter().flatten();
    texts.map(|text| count_encoded_slashes(text.as_bytes())).sum()
}

struct RewriteFilter {
    settings: Arc<Rewrite>,
    /// The encoded slashes that the configuration writes into a path.
    own_slashes: usize,
}

impl Filter for RewriteFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        // The target of OPTIONS may be `*`, which is not a path.
        if !request.target.raw_path().starts_with(b"/") {
            return Step::Continue.into();
        }
        let slashes_max = self.own_slashes + count_encoded_slashes(request.target.raw_path());
        let replaced = match self.rewritten(request) {
            Ok(None) => return Step::Continue.into(),
            Ok(Some(raw)) if raw.len() > TARGET_BYTES_MAX => Err("the target is too long"),
            Ok(Some(raw)) => request.target.replace(raw).map_err(PathFault::as_str),
            Err(why) => Err(why),
        };
        match replaced {
            Ok(()) if obeys_listener(&request.target, slashes_max) => Step::Continue.into(),
            Ok(()) => {
                let detail = "a rewrite puts %2F of the client into the path";
                Step::Fail(Fault::new(FaultKind::EncodedSlash, detail)).into()
            }
            Err(why) => {
                let detail = format!("the result of a rewrite is not a path: {why}");
                Step::Fail(Fault::new(FaultKind::InvalidTarget, detail)).into()
            }
        }
    }
}

impl RewriteFilter {
    /// The new target; `None` if nothing changes.
    fn rewritten(&self, request: &Request) -> Result<Option<Vec<u8>>, &'static str> {
        let (path, own_query) = match &self.settings.template {
            Some(template) => {
                let mut url = variables::fill_url(template, request);
                let query = url.iter().position(|byte| *byte == b'?').map(|at| {
                    let query = url.split_off(at);
                    query[1..].to_vec()
                });
                if has_dot_segment(&url) {
                    return Err("a variable makes a segment . or ..");
                }
                (url, query)
            }
            None => match self.changed(request.target.raw_path()) {
                Some(path) => (path, None),
                None => return Ok(None),
            },
        };
        let mut raw = Vec::with_capacity(path.len() + 16);
        encode_path(&path, &mut raw);
        for query in [own_query.as_deref(), request.target.query()].into_iter().flatten() {
            raw.push(if raw.contains(&b'?') { b'&' } else { b'?' });
            raw.extend_from_slice(query);
        }
        Ok(Some(raw))
    }

    /// The raw path after prefixes and expression; `None` if none of them applies.
    fn changed(&self, before: &[u8]) -> Option<Vec<u8>> {
        let Rewrite { strip_prefix, add_prefix, regex, .. } = &*self.settings;
        let mut raw = Cow::Borrowed(before);
        if let Some(rest) = strip_prefix.as_ref().and_then(|prefix| stripped(before, prefix)) {
            raw = Cow::Borrowed(if rest.is_empty() { b"/" } else { rest });
        }
        if let Some(Replacement { pattern, replace }) = regex
            && let Ok(path) = normal_form(&raw)
            && let Cow::Owned(replaced) = pattern.replace(&path, replace.as_str())
        {
            let mut encoded = Vec::with_capacity(replaced.len());
            encode_path(replaced.as_bytes(), &mut encoded);
            raw = Cow::Owned(encoded);
        }
        if let Some(prefix) = add_prefix {
            raw = Cow::Owned([prefix.trim_end_matches('/').as_bytes(), &raw].concat());
        }
        (raw != before).then(|| raw.into_owned())
    }
}

/// True if a segment of the path before any query is `.` or `..`.
fn has_dot_segment(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

/// False if a variable brought an encoded slash into the path and the listener does not keep them.
/// Read as a slash it would let the client leave its part of the path.
fn obeys_listener(target: &Target, slashes_max: usize) -> bool {
    target.keeps_encoded_slashes() || count_encoded_slashes(target.raw_path()) <= slashes_max
}

/// The rest of a canonical path after the segments of a prefix; `None` if it begins otherwise.
fn stripped<'r>(raw: &'r [u8], prefix: &str) -> Option<&'r [u8]> {
    let prefix = prefix.trim_end_matches('/').as_bytes();
    let segments = prefix.iter().filter(|byte| **byte == b'/').count();
    let mut slashes = raw.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let (head, rest) = raw.split_at(slashes.nth(segments).map_or(raw.len(), |(at, _)| at));
    normal_form(head).is_ok_and(|head| head.as_bytes() == prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{errors, filter, get, passed, plan};
    use message::Params;
    use settings::node;

    fn rewritten(settings: &Node, target: &str) -> Result<String, u16> {
        rewritten_on(settings, target, true)
    }

    fn rewritten_on(settings: &Node, target: &str, keeps: bool) -> Result<String, u16> {
        let mut request = get(target, &[("x-user", "a/../b?c#d"), ("x-up", "..")]);
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id")]);
        if keeps {
            request.target.keep_encoded_slashes();
        }
        let from = target.find("ID").unwrap_or(0) as u16;
        request.params = Params::new(names, &[(from, from + 2)]);
        let rewrite = filter(&KIND, settings);
        passed(rewrite.on_request(&mut request)).map_err(|fault| fault.status)?;
        Ok(String::from_utf8(request.target.raw().to_vec()).unwrap())
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Rewrite>().unwrap();
    }

    #[test]
    fn a_prefix_is_stripped_by_segments() {
        for prefix in ["/api", "/api/"] {
            let settings = node!({ "strip_prefix": prefix });
            for (before, after) in [
                ("/api/x/y?q=1", "/x/y?q=1"),
                ("/api", "/"),
                ("/api?q", "/?q"),
                ("/api/", "/"),
                ("/apis/x", "/apis/x"),
                ("/x/api/y", "/x/api/y"),
                ("/%61pi/x", "/x"),
                ("/y/../api/x", "/x"),
                ("/api/a%20b%2Fc%25", "/a%20b%2Fc%25"),
                ("/api/%E9", "/%E9"),
                ("/api//evil", "/evil"),
                ("/%61pi/a%2Bb+c%2c;d", "/a%2Bb+c%2C;d"),
                ("/api/x//../y", "/x/y"),
            ] {
                assert_eq!(rewritten(&settings, before).as_deref(), Ok(after), "{before}");
            }
        }
    }

    #[test]
    fn a_prefix_is_added() {
        for prefix in ["/v2", "/v2/"] {
            let settings = node!({ "add_prefix": prefix });
            assert_eq!(rewritten(&settings, "/x?q").as_deref(), Ok("/v2/x?q"));
            assert_eq!(rewritten(&settings, "/").as_deref(), Ok("/v2/"));
            assert_eq!(rewritten(&settings, "/%2Bx/%E9").as_deref(), Ok("/v2/%2Bx/%E9"));
        }
        let both = node!({ "strip_prefix": "/api", "add_prefix": "/v2" });
        assert_eq!(rewritten(&both, "/api/x").as_deref(), Ok("/v2/x"));
    }

    #[test]
    fn an_expression_replaces_what_it_finds() {
        let settings = node!({
            "regex": {
                "pattern": "^/user/([0-9]+)(?P<rest>/.*)?$",
                "replace": "/users/$1/of$rest"
            },
            "add_prefix": "/v1"
        });
        for (before, after) in [
            ("/user/7", "/v1/users/7/of"),
            ("/user/7/a%20b?q", "/v1/users/7/of/a%20b?q"),
            ("/user/x", "/v1/user/x"),
        ] {
            assert_eq!(rewritten(&settings, before).as_deref(), Ok(after), "{before}");
        }
        let away = node!({ "regex": { "pattern": "^/+", "replace": "" } });
        assert_eq!(rewritten(&away, "/x"), Err(400), "no path");
        let star = node!({ "regex": { "pattern": "^/x$", "replace": "*" } });
        assert_eq!(rewritten(&star, "/x"), Err(400), "no path either");
        let back = node!({ "regex": { "pattern": "^/x", "replace": "/.." } });
        assert_eq!(rewritten(&back, "/x/y").as_deref(), Ok("/y"));
        let query = node!({ "regex": { "pattern": "x", "replace": "y?z" } });
        assert_eq!(rewritten(&query, "/x?q").as_deref(), Ok("/y%3Fz?q"));
    }

    #[test]
    fn a_template_is_the_whole_path() {
        for (template, before, after) in [
            ("/items/{path.id}", "/a/ID?q=1", Ok("/items/ID?q=1")),
            ("/find?word={path.id}", "/a/ID?q=1", Ok("/find?word=ID&q=1")),
            ("/find?word={path.id}", "/a/ID", Ok("/find?word=ID")),
            ("/u/{header.x-user}", "/", Ok("/u/a%2F..%2Fb%3Fc%23d")),
            ("/u/{header.x-up}/x", "/", Err(400)),
            ("/u/{header.x-up}", "/", Err(400)),
            ("/u/.{query.q}/x", "/?q=.", Err(400)),
            ("/u/{header.x-up}x?{header.x-up}/", "/", Ok("/u/..x?../")),
            ("/u/{query.q}", "/?q=%2e%2e%2fx", Ok("/u/..%2Fx?q=%2e%2e%2fx")),
            ("/u/{query.q}", "/?q=%00", Err(400)),
        ] {
            let after = after.map(str::to_owned);
            assert_eq!(rewritten(&node!({ "template": template }), before), after, "{template}");
        }
    }

    /// On a listener that refuses or decodes `%2F`, no variable brings one into the path. Those of
    /// the configuration stay.
    #[test]
    fn a_variable_brings_no_encoded_slash_past_the_listener() {
        let template = |text: &str| node!({ "template": text });
        for (settings, before, after) in [
            (template("/u/{header.x-user}"), "/", Err(400)),
            (template("/u/{query.q}"), "/?q=a/b", Err(400)),
            (template("/a%2Fb/{query.q}"), "/?q=a/b", Err(400)),
            (template("/x%2{query.q}"), "/?q=F", Err(400)),
            (template("/u/{query.q}?%2F"), "/?q=a/b", Err(400)),
            (template("/u/{query.q}"), "/?q=a", Ok("/u/a?q=a")),
            (template("/u?{query.q}"), "/?q=a/b", Ok("/u?a%2Fb&q=a/b")),
            (template("/a%2Fb/{query.q}"), "/?q=c", Ok("/a%2Fb/c?q=c")),
            (node!({ "add_prefix": "/a%2Fb" }), "/c", Ok("/a%2Fb/c")),
            (node!({ "regex": { "pattern": "^/x", "replace": "/a%2Fb" } }), "/x/c", Ok("/a%2Fb/c")),
        ] {
            let after = after.map(str::to_owned);
            assert_eq!(rewritten_on(&settings, before, false), after, "{settings:?} {before}");
        }
        let mut request = get("/c", &[]);
        for settings in [node!({ "add_prefix": "/a%2Fb" }), node!({ "add_prefix": "/v2" })] {
            passed(filter(&KIND, &settings).on_request(&mut request)).unwrap();
        }
        assert_eq!(request.target.raw(), b"/v2/a%2Fb/c");
    }

    #[test]
    fn parameters_keep_their_text_after_a_rewrite() {
        let mut request = get("/long/prefix/ID", &[]);
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id")]);
        request.params = Params::new(names, &[(13, 15)]);
        for settings in [node!({ "strip_prefix": "/long" }), node!({ "template": "/x/{path.id}" })]
        {
            passed(filter(&KIND, &settings).on_request(&mut request)).unwrap();
        }
        assert_eq!(request.target.path(), "/x/ID");
    }

    #[test]
    fn the_asterisk_is_not_a_path() {
        let mut request = get("/", &[]);
        request.target = message::Target::asterisk();
        passed(filter(&KIND, &node!({ "add_prefix": "/v2" })).on_request(&mut request)).unwrap();
        assert!(request.target.is_asterisk());
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({}), "rewrites nothing"),
            (node!({ "template": "/x", "add_prefix": "/y" }), "stands alone"),
            (node!({ "template": "{path}" }), "begins with /"),
            (node!({ "template": "/a/../{path.id}" }), "no segment . or .."),
            (node!({ "add_prefix": "v2" }), "is not a prefix"),
            (node!({ "strip_prefix": "/a/../b" }), "is not a prefix"),
            (node!({ "strip_prefix": "/a?b" }), "is not a prefix"),
            (node!({ "regex": { "pattern": "(", "replace": "" } }), "unclosed group"),
            (node!({ "regex": { "pattern": "x" } }), "\"replace\" is missing"),
        ] {
            let report = errors(&KIND, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
        }
        let settings = node!({ "strip_prefix": "/api", "add_prefix": "/v2" });
        assert_eq!(plan(&KIND, &settings).unwrap().describe(), "strip /api, add /v2");
    }
}
