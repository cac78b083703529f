//! The meaning of a decoded head: a request (RFC 9113 8.3.1, 8.5; RFC 8441) or a response (8.3.2).

use super::section::Section;
use crate::h1::{Expectation, Framing, RequestHead, Span, TargetForm};
use crate::{Method, Reject, Version, authority, token};

/// The parts of a request head that HTTP/1.1 does not have.
pub(super) struct Request {
    pub(super) head: RequestHead,
    /// `:protocol` of an extended CONNECT (RFC 8441 4).
    pub(super) protocol: Option<Span>,
    /// The content that is announced.
    pub(super) length: Option<u64>,
}

/// Interprets the section of a request; `ends` is true if no content follows.
pub(super) fn request(
    section: &mut Section<'_>,
    ends: bool,
    extended_connect: bool,
) -> Result<Request, Reject> {
    section.finish()?;
    let method = section.pseudo.method.take().ok_or(Reject::MissingPseudoHeader)?;
    let protocol = section.pseudo.protocol;
    let is_connect = method == Method::Connect;
    if protocol.is_some() && !(extended_connect && is_connect) {
        return Err(Reject::ForbiddenPseudoHeader);
    }
    let (target, form, path, query) = if is_connect && protocol.is_none() {
        let target = connect_target(section)?;
        (target, TargetForm::Authority, target, None)
    } else {
        let path = section.pseudo.path.filter(|_| section.pseudo.has_scheme);
        let target = path.ok_or(Reject::MissingPseudoHeader)?;
        let (form, path, query) = split_target(target, target.of(&section.fields.text), &method)?;
        (target, form, path, query)
    };
    let authority = section.authority().ok_or(Reject::MissingHost)?;
    if section.expects_more() {
        return Err(Reject::UnknownExpectation);
    }
    let length = section.facts.content_length;
    if ends && length.is_some_and(|length| length > 0) {
        return Err(Reject::LengthMismatch);
    }
    let framing = match length {
        _ if ends => Framing::None,
        Some(length) if !is_connect => Framing::Length(length),
        _ => Framing::Chunked,
    };
    let head = RequestHead {
        method,
        target,
        form,
        authority: Some(authority),
        path,
        query,
        version: Version::Http2,
        framing,
        keep_alive: true,
        expect_continue: !ends && section.facts.expect == Expectation::Continue,
        upgrade: false,
        names_fields: false,
        forwarding: section.facts.forwarding,
        len: section.fields.text.len(),
    };
    Ok(Request { head, protocol, length: length.filter(|_| !is_connect) })
}

/// RFC 9113 8.5: CONNECT has neither scheme nor path, and an authority with a port.
#[cold]
fn connect_target(section: &Section<'_>) -> Result<Span, Reject> {
    if section.pseudo.has_scheme || section.pseudo.path.is_some() {
        return Err(Reject::ForbiddenPseudoHeader);
    }
    let authority = section.pseudo.authority.ok_or(Reject::MissingPseudoHeader)?;
    match authority::is_valid_with_port(authority.of(&section.fields.text)) {
        true => Ok(authority),
        false => Err(Reject::InvalidHost),
    }
}

/// RFC 9113 8.3.1: `:path` is origin-form, or `*` for OPTIONS.
fn split_target(
    target: Span,
    text: &[u8],
    method: &Method,
) -> Result<(TargetForm, Span, Option<Span>), Reject> {
    if text == b"*" && *method == Method::Options {
        return Ok((TargetForm::Asterisk, target, None));
    }
    if text.first() != Some(&b'/') {
        return Err(Reject::InvalidTarget);
    }
    let mut query = None;
    for (at, &byte) in text.iter().enumerate() {
        if !token::is_target_byte(byte) {
            return Err(Reject::InvalidTarget);
        }
        if byte == b'?' && query.is_none() {
            query = Some(at);
        }
    }
    let path_len = query.unwrap_or(text.len()) as u32;
    let path = Span { at: target.at, len: path_len };
    let query =
        query.map(|_| Span { at: target.at + path_len + 1, len: target.len - path_len - 1 });
    Ok((TargetForm::Origin, path, query))
}

/// A response head: its status, and the length of its content if it is announced and will be sent.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
}

/// Interprets the section of a response.
pub(super) fn response(
    section: &mut Section<'_>,
    ends: bool,
    to_head: bool,
) -> Result<Response, Reject> {
    section.finish()?;
    let status = section.pseudo.status.ok_or(Reject::MissingPseudoHeader)?;
    let is_interim = status < 200;
    // RFC 9113 8.6: 101 has no meaning here; an interim response never ends the stream (8.1).
    if status == 101 || (is_interim && ends) {
        return Err(Reject::InvalidStatus);
    }
    let announced = section.facts.content_length;
    let bodiless = is_interim || status == 204;
    if bodiless && announced.is_some_and(|length| length > 0) {
        return Err(Reject::ForbiddenBody);
    }
    let empty = bodiless || to_head || status == 304;
    let length = if empty { Some(0) } else { announced };
    if ends && length.is_some_and(|length| length > 0) {
        return Err(Reject::LengthMismatch);
    }
    Ok(Response { status, length: length.filter(|_| !is_interim) })
}
