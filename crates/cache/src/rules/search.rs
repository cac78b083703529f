//! No-Vary-Search (draft-ietf-httpbis-no-vary-search): which parameters of the query matter.
//!
//! A rule turns a query into a canonical one: two URLs are the same if their canonical queries are.
//! A field that cannot be read, or has a member of another type, is ignored as a whole: then every
//! parameter matters.

use exchange::Headers;
use wire::Known;
use wire::structured::{Bare, Item, Member, parse_dictionary};

use super::SearchRule;

/// What a response says; `None` if every parameter and their order matters.
pub(crate) fn of_response(headers: &Headers) -> Option<SearchRule> {
    let joined = headers.get_all(Known::NoVarySearch).collect::<Vec<_>>().join(&b", "[..]);
    parse(&joined)
}

/// Reads a value.
pub fn parse(value: &[u8]) -> Option<SearchRule> {
    let mut rule = SearchRule { key_order: false, params: Box::default(), all: false };
    let mut except = None;
    for (key, member) in parse_dictionary(value)? {
        match (key.as_str(), member) {
            ("key-order", Member::Item(Item { bare: Bare::Boolean(value), .. })) => {
                rule.key_order = value;
            }
            ("params", Member::Item(Item { bare: Bare::Boolean(value), .. })) => rule.all = value,
            ("params", Member::Inner(items, _)) => rule.params = names(items)?,
            ("except", Member::Inner(items, _)) => except = Some(names(items)?),
            ("key-order" | "params" | "except", _) => return None,
            _ => {}
        }
    }
    if let Some(except) = except {
        // Exceptions are made of all only.
        if !rule.all {
            return None;
        }
        rule.params = except;
    }
    (rule.key_order || rule.all || !rule.params.is_empty()).then_some(rule)
}

fn names(items: Vec<Item>) -> Option<Box<[Box<[u8]>]>> {
    let names = items.into_iter().map(|item| match item.bare {
        Bare::String(text) => Some(text.into_bytes().into()),
        _ => None,
    });
    names.collect()
}

/// Appends the canonical form of a query (without its `?`).
pub fn canonical(query: &[u8], rule: &SearchRule, out: &mut Vec<u8>) {
    let mut kept: Vec<&[u8]> = query
        .split(|&byte| byte == b'&')
        .filter(|pair| !pair.is_empty() && matters(pair, rule))
        .collect();
    if rule.key_order {
        // Stable: the order of one parameter's values is its own.
        kept.sort_by(|a, b| name(a).cmp(name(b)));
    }
    for (at, pair) in kept.iter().enumerate() {
        if at > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(pair);
    }
}

fn name(pair: &[u8]) -> &[u8] {
    pair.split(|&byte| byte == b'=').next().unwrap_or_default()
}

fn matters(pair: &[u8], rule: &SearchRule) -> bool {
    let listed = rule.params.iter().any(|listed| **listed == *name(pair));
    listed == rule.all
}
