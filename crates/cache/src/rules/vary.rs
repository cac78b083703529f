//! The request fields that select a variant, and their values (RFC 9111 4.1).
//!
//! Accept-Encoding is never one of them: the cache requests codings of its own choice and
//! transcodes. The values become part of the key, so that only equal text matches: the same fields,
//! each absent, or with the same members in the same order.

use message::{Headers, Name};
use wire::{Known, token};

use super::{Policy, UncachedReason, Vary, language};
use crate::limits::VARY_FIELDS_MAX;

/// Fields that carry the address of the client that caused the fetch: a response that varies by one
/// is for that client alone.
const CLIENT_FIELDS: [&[u8]; 2] = [b"x-forwarded-for", b"forwarded"];

/// The fields that a response varies by; `None` without any.
pub(crate) fn of_response(headers: &Headers) -> Result<Option<Vary>, UncachedReason> {
    let mut fields: Vec<Box<[u8]>> = Vec::new();
    let mut by_coding = false;
    for name in headers.get_all(Known::Vary).flat_map(token::list) {
        if !token::is_token(name) || name == b"*" {
            // An invalid name may mean anything, as `*` does.
            return Err(UncachedReason::VaryAny);
        }
        if CLIENT_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(UncachedReason::VaryAny);
        }
        if name.eq_ignore_ascii_case(b"accept-encoding") {
            by_coding = true;
        } else {
            fields.push(name.to_ascii_lowercase().into());
        }
    }
    if by_coding && !is_undoable(headers) {
        return Err(UncachedReason::Coding);
    }
    fields.sort_unstable();
    fields.dedup();
    if fields.len() > VARY_FIELDS_MAX {
        return Err(UncachedReason::VaryFields);
    }
    Ok((!fields.is_empty()).then(|| Vary { fields: fields.into() }))
}

/// True if clients that do not accept the content's coding can be served.
fn is_undoable(headers: &Headers) -> bool {
    let mut codings = headers.get_all(Known::ContentEncoding).flat_map(token::list);
    let Some(coding) = codings.next() else { return true };
    let known = std::str::from_utf8(coding).ok().and_then(coding::Coding::parse).is_some();
    codings.next().is_none() && (known || coding.eq_ignore_ascii_case(b"identity"))
}

/// Appends the values of a request in these fields. Each field begins with a line feed, which
/// neither a name nor a value contains.
pub fn values(vary: &Vary, request: &Headers, policy: &Policy, out: &mut Vec<u8>) {
    for field in &vary.fields {
        out.push(b'\n');
        out.extend_from_slice(field);
        let name = Name::from(&**field);
        value(name, request, policy, out);
        // The origin may take such a field for the one that it names.
        for alias in request.aliases(name) {
            out.push(b'\n');
            out.extend(alias.name.iter().map(u8::to_ascii_lowercase));
            out.push(b':');
            out.extend_from_slice(alias.value);
        }
    }
}

fn value(name: Name<'_>, request: &Headers, policy: &Policy, out: &mut Vec<u8>) {
    if let (Name::Known(Known::AcceptLanguage), false) = (name, policy.languages.is_empty()) {
        out.push(b':');
        out.extend_from_slice(language::choose(request, &policy.languages).as_bytes());
        return;
    }
    // An absent field matches only an absent one.
    if !request.contains(name) {
        return;
    }
    out.push(b':');
    let list = is_list(name);
    for (at, value) in request.get_all(name).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match list {
            true => members(value, out),
            false => out.extend_from_slice(value),
        }
    }
}

/// Replaces Accept-Language by the selected language, so that the response suits all clients that
/// share it.
pub fn normalise(request: &mut Headers, policy: &Policy) {
    if !policy.languages.is_empty() {
        let language = language::choose(request, &policy.languages).to_owned();
        request.set(Known::AcceptLanguage, language);
    }
}

/// True for lists whose members have neither case nor white space of their own. Other fields are
/// only joined: the meaning of white space in them is unknown (RFC 9111 4.1).
fn is_list(name: Name<'_>) -> bool {
    matches!(
        name,
        Name::Known(
            Known::Accept
                | Known::AcceptCharset
                | Known::AcceptLanguage
                | Known::AccessControlRequestHeaders
                | Known::SaveData
        )
    )
}

/// Appends the members of a list without white space and in lower case, so that several lines equal
/// one.
fn members(value: &[u8], out: &mut Vec<u8>) {
    for (at, member) in token::list(value).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(
            member.iter().filter(|byte| !matches!(byte, b' ' | b'\t')).map(u8::to_ascii_lowercase),
        );
    }
}
