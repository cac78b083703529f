//! No-Vary-Search (draft-ietf-httpbis-no-vary-search): the query parameters that are significant.
//!
//! A rule turns a query into a canonical one: URLs are equivalent if their canonical queries are
//! equal. Queries are read as forms are (`+` and percent-encoding decoded, `a` is `a=`). A field
//! that is invalid, or has a member of another type, is ignored as a whole: then every byte is
//! significant.

use std::borrow::Cow;

use message::Headers;
use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};
use wire::Known;

use super::SearchRule;

/// The rule of a response; `None` if all parameters and their order are significant.
pub(crate) fn of_response(headers: &Headers) -> Option<SearchRule> {
    let joined = headers.joined(Known::NoVarySearch).unwrap_or_default();
    parse(&joined)
}

/// Reads a field value.
pub fn parse(value: &[u8]) -> Option<SearchRule> {
    let mut rule = SearchRule { key_order: false, params: Box::default(), all: false };
    let mut except = None;
    for (key, member) in Parser::new(value).parse::<Dictionary>().ok()? {
        match (key.as_str(), member) {
            ("key-order", ListEntry::Item(Item { bare_item: BareItem::Boolean(value), .. })) => {
                rule.key_order = value;
            }
            ("params", ListEntry::Item(Item { bare_item: BareItem::Boolean(value), .. })) => {
                rule.all = value
            }
            ("params", ListEntry::InnerList(list)) => rule.params = decode_names(list.items)?,
            ("except", ListEntry::InnerList(list)) => except = Some(decode_names(list.items)?),
            ("key-order" | "params" | "except", _) => return None,
            _ => {}
        }
    }
    if let Some(except) = except {
        // `except` needs `params`.
        if !rule.all {
            return None;
        }
        rule.params = except;
    }
    (rule.key_order || rule.all || !rule.params.is_empty()).then_some(rule)
}

fn decode_names(items: Vec<Item>) -> Option<Box<[Box<[u8]>]>> {
    let names = items.into_iter().map(|item| match item.bare_item {
        BareItem::String(text) => Some(decode(text.as_str().as_bytes()).into_owned().into()),
        _ => None,
    });
    names.collect()
}

/// A parameter and its value, decoded.
type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Appends the canonical form of a query (without its `?`).
pub fn canonical(query: &[u8], rule: &SearchRule, out: &mut Vec<u8>) {
    let mut kept: Vec<Pair<'_>> = query
        .split(|&byte| byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
        })
        .filter(|(name, _)| rule.params.iter().any(|listed| **listed == **name) == rule.all)
        .collect();
    if rule.key_order {
        // A stable sort: the order of one parameter's values is significant.
        kept.sort_by(|a, b| a.0.cmp(&b.0));
    }
    for (at, (name, value)) in kept.iter().enumerate() {
        if at > 0 {
            out.push(b'&');
        }
        encode(name, out);
        out.push(b'=');
        encode(value, out);
    }
}

/// Decodes as forms do: `+` is a space, then percent-encoding, then UTF-8 with U+FFFD for invalid
/// bytes. An incomplete escape stands for itself.
fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() && !text.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, encoded(after)) {
            (b'+', _) => out.push(b' '),
            (b'%', Some(decoded)) => {
                out.push(decoded);
                rest = &after[2..];
            }
            _ => out.push(byte),
        }
    }
    match String::from_utf8_lossy(&out) {
        Cow::Borrowed(_) => Cow::Owned(out),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The byte that two hexadecimal digits at the front encode.
fn encoded(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (&high, &low) = (text.first()?, text.get(1)?);
    Some(digit(high)? << 4 | digit(low)?)
}

fn encode(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}
