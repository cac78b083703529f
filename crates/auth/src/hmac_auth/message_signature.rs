//! HTTP Message Signatures of requests (RFC 9421): which signatures a request has, and the text
//! that each of them signs. Pure functions of the request, the rules and the time.
//!
//! Promises that a component which cannot be reproduced without doubt makes the signature invalid:
//! one that is named twice, a query parameter that the request repeats, trailers, a parameter that
//! is not known.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::{Headers, Request, Scheme};
use plugin::variables::percent_encode;
use sfv::{BareItem, Dictionary, FieldType, InnerList, Item, List, ListEntry, Parser};
use wire::target::query_pairs;

use super::Invalid;

/// Signatures that are read of one request.
const SIGNATURES_MAX: usize = 8;
/// Components that one signature may cover.
const COMPONENTS_MAX: usize = 64;
/// The longest nonce.
const NONCE_BYTES_MAX: usize = 256;
/// The component that protects the body (RFC 9530 2).
pub(crate) const DIGEST: &str = "content-digest";

/// The required components and parameters of a signature.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Names of components.
    pub(crate) components: Vec<Box<str>>,
    pub(crate) max_age_s: u64,
    pub(crate) leeway_s: u64,
    pub(crate) tag: Option<Box<str>>,
    pub(crate) needs_nonce: bool,
}

/// A signature of a request, before it is verified.
pub(crate) struct MessageSignature {
    pub(crate) key_id: String,
    /// The algorithm that it names, which has to be that of the key.
    pub(crate) algorithm: Option<String>,
    pub(crate) nonce: Option<String>,
    /// The second, since 1970, from which it is invalid.
    pub(crate) expires_s: u64,
    pub(crate) covers_digest: bool,
    /// The signature base (RFC 9421 2.5).
    pub(crate) base: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// The signatures of a request that fulfil the rules; none if it has no signature with the tag.
pub(crate) fn signatures(
    request: &Request,
    rules: &Rules,
    now_s: u64,
) -> Result<Vec<MessageSignature>, Invalid> {
    let Some(inputs) = request.headers.joined("signature-input") else { return Ok(Vec::new()) };
    let dictionary = |value: &[u8]| Parser::new(value).parse::<Dictionary>();
    let inputs = dictionary(&inputs).map_err(|_| "Signature-Input is not a dictionary")?;
    let values = request.headers.joined("signature").unwrap_or_default();
    let values = dictionary(&values).map_err(|_| "Signature is not a dictionary")?;
    if inputs.len() > SIGNATURES_MAX {
        return Err("the request has too many signatures");
    }
    let (mut found, mut reason) = (Vec::new(), None);
    for (label, input) in &inputs {
        let ListEntry::InnerList(input) = input else {
            return Err("a member of Signature-Input is not a list of components");
        };
        if rules.tag.is_some() && text(input, "tag")?.as_deref() != rules.tag.as_deref() {
            continue;
        }
        match signature(request, input, values.get(label), rules, now_s) {
            Ok(signature) => found.push(signature),
            Err(why) => reason = reason.or(Some(why)),
        }
    }
    match reason {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

fn signature(
    request: &Request,
    input: &InnerList,
    value: Option<&ListEntry>,
    rules: &Rules,
    now_s: u64,
) -> Result<MessageSignature, Invalid> {
    let Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(value), .. })) = value else {
        return Err("a member of Signature-Input has no signature");
    };
    let nonce = text(input, "nonce")?;
    match &nonce {
        None if rules.needs_nonce => return Err("the signature has no nonce"),
        Some(nonce) if nonce.len() > NONCE_BYTES_MAX => return Err("the nonce is too long"),
        _ => {}
    }
    let expires_s = check_time(input, rules, now_s)?;
    let uncovered = rules.components.iter().find(|name| !covers(input, name));
    if uncovered.is_some() {
        return Err("the signature does not cover all required components");
    }
    Ok(MessageSignature {
        key_id: text(input, "keyid")?.ok_or("the signature names no key")?,
        algorithm: text(input, "alg")?,
        nonce,
        expires_s,
        covers_digest: covers(input, DIGEST),
        base: base(request, input)?,
        signature: value.clone(),
    })
}

/// A parameter that is a text (RFC 9421 2.3).
fn text(input: &InnerList, name: &str) -> Result<Option<String>, Invalid> {
    match input.params.get(name) {
        None => Ok(None),
        Some(BareItem::String(text)) => Ok(Some(text.as_str().to_owned())),
        Some(_) => Err("a parameter of the signature is not text"),
    }
}

/// A parameter that is a time in seconds since 1970.
fn time(input: &InnerList, name: &str) -> Result<Option<u64>, Invalid> {
    match input.params.get(name) {
        None => Ok(None),
        Some(BareItem::Integer(seconds)) => {
            let seconds = u64::try_from(i64::from(*seconds));
            seconds.map(Some).map_err(|_| "a time of the signature is before 1970")
        }
        Some(_) => Err("a time of the signature is not a number of seconds"),
    }
}

/// Checks `created` and `expires`; returns the second from which the signature is invalid.
fn check_time(input: &InnerList, rules: &Rules, now_s: u64) -> Result<u64, Invalid> {
    let created =
        time(input, "created")?.ok_or("the signature does not say when it was created")?;
    if created > now_s + rules.leeway_s {
        return Err("the signature was created in the future");
    }
    let until = created + rules.max_age_s;
    let until = time(input, "expires")?.map_or(until, |expires| expires.min(until));
    let until = until + rules.leeway_s;
    if now_s >= until { Err("the signature has expired") } else { Ok(until) }
}

/// True if a signature protects a component as a whole.
fn covers(input: &InnerList, name: &str) -> bool {
    input.items.iter().any(|item| {
        let BareItem::String(covered) = &item.bare_item else { return false };
        let is_whole = item.params.keys().all(|name| ["sf", "bs"].contains(&name.as_str()));
        let includes = match covered.as_str() {
            "@target-uri" => ["@scheme", "@authority", "@path", "@query"].contains(&name),
            "@request-target" => ["@path", "@query"].contains(&name),
            _ => false,
        };
        is_whole && (covered.as_str() == name || includes)
    })
}

/// The text that a signature with these components signs (RFC 9421 2.5).
fn base(request: &Request, input: &InnerList) -> Result<Vec<u8>, Invalid> {
    if input.items.len() > COMPONENTS_MAX {
        return Err("the signature covers too many components");
    }
    let (mut base, mut seen) = (Vec::new(), Vec::new());
    for item in &input.items {
        let identifier = item.serialize();
        let value = component(request, item)?;
        base.extend_from_slice(identifier.as_bytes());
        base.extend_from_slice(b": ");
        base.extend_from_slice(&value);
        base.push(b'\n');
        if seen.contains(&identifier) {
            return Err("the signature names a component twice");
        }
        seen.push(identifier);
    }
    let parameters = vec![ListEntry::InnerList(input.clone())].serialize();
    base.extend_from_slice(b"\"@signature-params\": ");
    base.extend_from_slice(parameters.unwrap_or_default().as_bytes());
    Ok(base)
}

/// The value of a component (RFC 9421 2.1, 2.2).
fn component<'r>(request: &'r Request, item: &Item) -> Result<Cow<'r, [u8]>, Invalid> {
    let BareItem::String(name) = &item.bare_item else { return Err("a component has no name") };
    let name = name.as_str();
    if !name.starts_with('@') {
        return field(&request.headers, name, item);
    }
    if name == "@query-param" {
        return query_parameter(request, item);
    }
    if !item.params.is_empty() {
        return Err("a component has a parameter that is not supported");
    }
    let target = &request.target;
    let path = target.received_path();
    let query = || match target.query() {
        Some(query) => [b"?", query].concat(),
        None => Vec::new(),
    };
    Ok(match name {
        "@method" => request.method.as_bytes().into(),
        "@scheme" => request.scheme.as_str().as_bytes().into(),
        "@authority" => authority(request).into(),
        "@path" => path.into(),
        "@query" => match target.query() {
            Some(_) => query().into(),
            None => b"?".as_slice().into(),
        },
        "@request-target" => [path, &query()].concat().into(),
        "@target-uri" => {
            let scheme = request.scheme.as_str().as_bytes();
            [scheme, b"://", &authority(request), path, &query()].concat().into()
        }
        _ => return Err("the signature covers a component that a request does not have"),
    })
}

/// The authority in lower case and without a port that the scheme implies (RFC 9421 2.2.3).
fn authority(request: &Request) -> Vec<u8> {
    let port: &[u8] = match request.scheme {
        Scheme::Http => b":80",
        Scheme::Https => b":443",
    };
    let authority = request.authority().to_ascii_lowercase();
    authority.strip_suffix(port).map_or(authority.clone(), <[u8]>::to_vec)
}

/// The only query parameter of a name (RFC 9421 2.2.8).
fn query_parameter<'r>(request: &'r Request, item: &Item) -> Result<Cow<'r, [u8]>, Invalid> {
    let (Some(BareItem::String(name)), 1) = (item.params.get("name"), item.params.len()) else {
        return Err("a query parameter has no name");
    };
    let pairs = query_pairs(request.target.query().unwrap_or_default());
    let mut values = pairs.filter(|(written, _)| encoded(written) == name.as_str().as_bytes());
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Ok(encoded(&value).into()),
        (Some(_), Some(_)) => Err("the request repeats a query parameter that is signed"),
        (None, _) => Err("the request has not all query parameters that are signed"),
    }
}

/// Names and values of a query in the encoding of forms, but with `%20` for a space.
fn encoded(text: &[u8]) -> Vec<u8> {
    let mut pieces = Vec::new();
    for piece in text.split(|byte| *byte == b'~') {
        let mut encoded = Vec::with_capacity(piece.len());
        percent_encode(piece, b"*", &mut encoded);
        pieces.push(encoded);
    }
    pieces.join(&b"%7E"[..])
}

/// A header field (RFC 9421 2.1).
fn field<'r>(headers: &'r Headers, name: &str, item: &Item) -> Result<Cow<'r, [u8]>, Invalid> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("the name of a component is not in lower case");
    }
    let values: Vec<&[u8]> = headers.get_all(name.as_bytes()).map(<[u8]>::trim_ascii).collect();
    if values.is_empty() {
        return Err("the request has not all headers that are signed");
    }
    let joined = values.join(&b", "[..]);
    let strict = "a header that is signed is not a structured field";
    let parameter = item.params.iter().map(|(name, value)| (name.as_str(), value));
    let serialized = match parameter.collect::<Vec<_>>()[..] {
        [] => return Ok(joined.into()),
        [("bs", BareItem::Boolean(true))] => {
            let encoded = values.iter().map(|value| format!(":{}:", STANDARD.encode(value)));
            Some(encoded.collect::<Vec<_>>().join(", "))
        }
        [("sf", BareItem::Boolean(true))] => structured(&joined),
        [("key", BareItem::String(key))] => {
            let members = Parser::new(&joined).parse::<Dictionary>().map_err(|_| strict)?;
            let member = members.get(key.as_str()).ok_or("a header has not the member signed")?;
            vec![member.clone()].serialize()
        }
        _ => return Err("a component has a parameter that is not supported"),
    };
    serialized.map(|text| text.into_bytes().into()).ok_or(strict)
}

/// A structured field in its canonical form. A text that is both a list and a dictionary has the
/// same form as either, unless it repeats a name: then a signature of the dictionary is wrong.
fn structured(value: &[u8]) -> Option<String> {
    match Parser::new(value).parse::<List>() {
        Ok(list) => list.serialize(),
        Err(_) => Parser::new(value).parse::<Dictionary>().ok()?.serialize(),
    }
}
