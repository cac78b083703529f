//! By which request fields a response was chosen, and what a request says in them (RFC 9111 4.1).
//!
//! Accept-Encoding is never one of them: the origin is asked with a value of our own, and codings
//! are derived here. The values become a part of the key, so equal text is a match and nothing else
//! is: the same fields, each absent, or with the same members in the same order.

use exchange::{Headers, Name};
use wire::{Known, token};

use super::{Policy, UncachedReason, Vary, language};
use crate::limits::VARY_FIELDS_MAX;

/// Fields in which the origin is sent the address of the client that caused the fetch, whatever the
/// client's request has: a response that varies by one is for that client.
const CLIENT_FIELDS: [&[u8]; 2] = [b"x-forwarded-for", b"forwarded"];

/// What a response varies by; `None` if by nothing.
pub(crate) fn of_response(headers: &Headers) -> Result<Option<Vary>, UncachedReason> {
    let mut fields: Vec<Box<[u8]>> = Vec::new();
    let mut by_coding = false;
    for name in headers.get_all(Known::Vary).flat_map(token::list) {
        if !token::is_token(name) || name == b"*" {
            // What cannot be read may mean anything, as `*` does.
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

/// Whether a client that does not take the content's coding can be served all the same.
fn is_undoable(headers: &Headers) -> bool {
    let mut codings = headers.get_all(Known::ContentEncoding).flat_map(token::list);
    let Some(coding) = codings.next() else { return true };
    let known = std::str::from_utf8(coding).ok().and_then(coding::Coding::parse).is_some();
    codings.next().is_none() && (known || coding.eq_ignore_ascii_case(b"identity"))
}

/// Appends what a request says in these fields. Begins with a line feed, as every further field
/// does: neither a name nor a value has one.
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
    // An absent field matches an absent one only.
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

/// Puts the language that counts in the place of those that the client listed, so that the origin
/// answers for all who share the answer.
pub fn normalise(request: &mut Headers, policy: &Policy) {
    if !policy.languages.is_empty() {
        let language = language::choose(request, &policy.languages).to_owned();
        request.set(Known::AcceptLanguage, language);
    }
}

/// Fields that are known to be lists whose members have no case and no white space of their own. Of
/// others only the lines are joined: what white space means in them is not known (RFC 9111 4.1).
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

/// The members of a list without the white space between them and in lower case, which is also what
/// joining several lines leaves.
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
