//! `query`: changes the query of requests.
//!
//! Promises that a value of a client or a variable becomes the value of one parameter and nothing
//! else: every new value is encoded. Parameters that no setting names keep their spelling and their
//! order.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Request};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext, variables};
use settings::{Named, Node, OneOrMany, Reader, Setting, Template};
use wire::target::query_pairs;

pub(crate) const KIND: FilterKind = FilterKind { name: "query", schema: Query::schema, read };

/// Changes the query parameters of requests before they are forwarded.
///
/// First parameters are removed, then renamed, then set, then added. A value whose variables are
/// all empty sets nothing: the parameter is removed instead. Variables have the values that the
/// request had before this filter.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Query {
    /// Parameters to remove.
    #[setting(default = [], example = ["utm_source", "debug"])]
    remove: Vec<String>,
    /// Parameters to rename: the old name, then the new one.
    #[setting(default = {}, example = { "q": "search" })]
    rename: Named<String>,
    /// Parameters to set: existing ones are replaced.
    #[setting(default = {}, example = { "client": "{client_ip}" })]
    set: Named<Template>,
    /// Parameters to add to the existing ones; one value or several.
    #[setting(default = {}, example = { "tag": ["edge", "{host}"] })]
    add: Named<OneOrMany<Template>>,
}

fn check(settings: &Query, node: &Node, reader: &mut Reader<'_>) {
    let Query { remove, rename, set, add } = settings;
    let edits = remove.len() + rename.entries.len() + set.entries.len() + add.entries.len();
    if edits == 0 {
        reader.error(node.span, "this changes no parameter: give remove, rename, set or add");
    }
    let names = remove.iter().chain(rename.entries.iter().map(|(_, new)| new));
    if names.chain(rename.entries.iter().map(|(old, _)| &old.value)).any(String::is_empty) {
        reader.error(node.span, "a parameter has a name");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(QueryPlan(Arc::new(Query::read(node, reader)?))))
}

struct QueryPlan(Arc<Query>);

impl FilterPlan for QueryPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(QueryFilter(self.0.clone())))
    }

    fn needs_authentication(&self) -> bool {
        let Query { set, add, .. } = &*self.0;
        let added = add.entries.iter().flat_map(|(_, values)| &values.0);
        let mut values = set.entries.iter().map(|(_, value)| value).chain(added);
        values.any(Template::needs_authentication)
    }

    fn describe(&self) -> String {
        let Query { remove, rename, set, add } = &*self.0;
        let removed = remove.iter().map(|name| format!("-{name}"));
        let renamed = rename.entries.iter().map(|(old, new)| format!("{}→{new}", old.value));
        let set = set.entries.iter().map(|(name, _)| format!("={}", name.value));
        let added = add.entries.iter().map(|(name, _)| format!("+{}", name.value));
        removed.chain(renamed).chain(set).chain(added).collect::<Vec<_>>().join(" ")
    }
}

struct QueryFilter(Arc<Query>);

impl QueryFilter {
    /// The new query.
    fn changed(&self, request: &Request) -> Vec<u8> {
        let Query { remove, rename, set, add } = &*self.0;
        let query = request.target.query().unwrap_or_default();
        let mut out = Vec::with_capacity(query.len() + 32);
        for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = query_pairs(pair).next() else { continue };
            if remove.iter().any(|known| known.as_bytes() == &*name) {
                continue;
            }
            let new = rename.entries.iter().find(|(old, _)| old.value.as_bytes() == &*name);
            let name = new.map_or(&*name, |(_, new)| new.as_bytes());
            if set.entries.iter().any(|(known, _)| known.value.as_bytes() == name) {
                continue;
            }
            match new {
                Some(_) => push_pair(name, &value, &mut out),
                None => {
                    separate(&mut out);
                    out.extend_from_slice(pair);
                }
            }
        }
        let added =
            add.entries.iter().flat_map(|(name, many)| many.0.iter().map(move |v| (name, v)));
        for (name, template) in set.entries.iter().map(|(name, value)| (name, value)).chain(added) {
            let value = variables::fill(template, request);
            if !value.is_empty() || template.as_literal().is_some() {
                push_pair(name.value.as_bytes(), &value, &mut out);
            }
        }
        out
    }
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b'&');
    }
}

fn push_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    separate(out);
    variables::percent_encode(name, b"", out);
    out.push(b'=');
    variables::percent_encode(value, b"", out);
}

impl Filter for QueryFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        // The target of OPTIONS may be `*`, which has no query.
        if !request.target.raw_path().starts_with(b"/") {
            return Step::Continue.into();
        }
        let Query { set, add, .. } = &*self.0;
        let is_empty = request.target.query().is_none_or(<[u8]>::is_empty);
        if is_empty && set.entries.is_empty() && add.entries.is_empty() {
            return Step::Continue.into();
        }
        let query = self.changed(request);
        if query == request.target.query().unwrap_or_default() {
            return Step::Continue.into();
        }
        let mut raw = request.target.raw_path().to_vec();
        if !query.is_empty() {
            raw.push(b'?');
            raw.extend_from_slice(&query);
        }
        match request.target.replace(raw) {
            Ok(()) => Step::Continue.into(),
            Err(why) => {
                let detail = format!("a changed query makes no target: {}", why.as_str());
                Step::Fail(Fault::new(FaultKind::InvalidTarget, detail)).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{errors, filter, get, passed};
    use settings::node;

    fn changed(settings: &Node, target: &str) -> String {
        let filter = filter(&KIND, settings);
        let mut request = get(target, &[("x-user", "a&b=c d"), ("host", "h")]);
        passed(filter.on_request(&mut request)).unwrap();
        String::from_utf8(request.target.raw().to_vec()).unwrap()
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Query>().unwrap();
    }

    #[test]
    fn parameters_are_removed_renamed_set_and_added() {
        let settings = node!({
            "remove": ["utm", "a b"],
            "rename": { "q": "search" },
            "set": { "user": "{header.x-user}", "none": "{header.none}", "fixed": "" },
            "add": { "tag": ["x", "{host}"] },
        });
        for (target, wanted) in [
            ("/p", "/p?user=a%26b%3Dc%20d&fixed=&tag=x&tag=h"),
            (
                "/p%20?x=%7e&utm=1&a+b=2&%75tm=3&q=1+2&q=3&user=me&none=1&y",
                "/p%20?x=%7e&search=1%202&search=3&y&user=a%26b%3Dc%20d&fixed=&tag=x&tag=h",
            ),
        ] {
            assert_eq!(changed(&settings, target), wanted);
        }
        assert_eq!(changed(&node!({ "remove": ["a"] }), "/p?a=1&a"), "/p");
        assert_eq!(changed(&node!({ "remove": ["a"] }), "/p?&b=%zz&&"), "/p?b=%zz");
        assert_eq!(changed(&node!({ "set": { "a": "2" } }), "/p?a=1"), "/p?a=2");
        assert_eq!(changed(&node!({ "set": { "a": "2" } }), "/p"), "/p?a=2");
        assert_eq!(changed(&node!({ "add": { "a": "2" } }), "/p?"), "/p?a=2");
        assert_eq!(changed(&node!({ "remove": ["a"] }), "/p"), "/p");
    }

    #[test]
    fn the_path_stays_as_it_was_received() {
        let filter = filter(&KIND, &node!({ "remove": ["a"] }));
        let mut request = get("/x%2Fy/../z?a=1", &[]);
        let (raw, received) =
            (request.target.raw_path().to_vec(), request.target.received_path().to_vec());
        passed(filter.on_request(&mut request)).unwrap();
        assert_eq!(request.target.raw_path(), raw);
        assert_eq!(request.target.received_path(), received);
        request.target = message::Target::asterisk();
        passed(filter.on_request(&mut request)).unwrap();
        assert!(request.target.is_asterisk());
    }

    #[test]
    fn errors_are_named() {
        assert!(errors(&KIND, &node!({})).contains("changes no parameter"));
        assert!(errors(&KIND, &node!({ "remove": [""] })).contains("has a name"));
        assert!(errors(&KIND, &node!({ "set": { "a": "{hots}" } })).contains("variable"));
    }
}
