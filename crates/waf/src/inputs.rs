//! The inputs of a request: parameters, cookies, the path, headers and texts of the body.

use message::Request;
use wire::Known;

use crate::rules::Part;
use crate::score::Scanner;

/// Parameters that are looked at; more are an attack by themselves.
pub(crate) const PARAMETERS_MAX: usize = 512;

/// Headers whose values applications and their loggers read.
const HEADERS: [Known; 3] = [Known::Referer, Known::XForwardedFor, Known::Origin];

/// How a body is inspected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BodyKind {
    Form,
    Json,
    Text,
}

/// The kind of a body that is inspected: not a compressed one, nor one of another media type.
pub(crate) fn body_kind(request: &Request) -> Option<BodyKind> {
    let headers = &request.headers;
    if request.body.is_empty() || headers.contains(Known::ContentEncoding) {
        return None;
    }
    let media_type = headers.get(Known::ContentType)?.to_ascii_lowercase();
    let media_type = media_type.split(|byte| *byte == b';').next()?.trim_ascii();
    match media_type {
        b"application/x-www-form-urlencoded" => Some(BodyKind::Form),
        b"application/json" => Some(BodyKind::Json),
        b"application/xml" => Some(BodyKind::Text),
        other if other.ends_with(b"+json") => Some(BodyKind::Json),
        other if other.ends_with(b"+xml") || other.starts_with(b"text/") => Some(BodyKind::Text),
        _ => None,
    }
}

/// Inspects everything but the body.
pub(crate) fn inspect_head(request: &Request, scanner: &mut Scanner<'_>) {
    scanner.inspect(Part::Path, b"", request.target.received_path());
    if let Some(query) = request.target.query() {
        inspect_form(query, scanner);
    }
    for cookies in request.headers.get_all(Known::Cookie) {
        for (name, value) in wire::cookie::pairs(cookies) {
            scanner.inspect(Part::Cookie, name, value);
        }
    }
    for name in HEADERS {
        for value in request.headers.get_all(name) {
            scanner.inspect(Part::Header, name.as_str().as_bytes(), value);
        }
    }
    for agent in request.headers.get_all(Known::UserAgent) {
        scanner.inspect(Part::UserAgent, b"User-Agent", agent);
    }
}

pub(crate) fn inspect_body(kind: BodyKind, content: &[u8], scanner: &mut Scanner<'_>) {
    match kind {
        BodyKind::Form => inspect_form(content, scanner),
        BodyKind::Json => inspect_json(content, scanner),
        BodyKind::Text => scanner.inspect(Part::Argument, b"", content),
    }
}

fn inspect_form(form: &[u8], scanner: &mut Scanner<'_>) {
    for (name, value) in wire::target::query_pairs(form).take(PARAMETERS_MAX) {
        scanner.inspect(Part::Argument, &name, &name);
        scanner.inspect(Part::Argument, &name, &value);
    }
}

/// Inspects the strings of a JSON text, also of one that ends early or is damaged.
fn inspect_json(content: &[u8], scanner: &mut Scanner<'_>) {
    let mut rest = content;
    let mut strings = 0;
    while let Some(from) = rest.iter().position(|byte| *byte == b'"') {
        let inside = &rest[from + 1..];
        let mut at = 0;
        while at < inside.len() && inside[at] != b'"' {
            at += if inside[at] == b'\\' { 2 } else { 1 };
        }
        let end = at.min(inside.len());
        let quoted = &rest[from..(from + end + 2).min(rest.len())];
        match serde_json::from_slice::<String>(quoted) {
            Ok(text) => scanner.inspect(Part::Argument, b"", text.as_bytes()),
            Err(_) => scanner.inspect(Part::Argument, b"", &inside[..end]),
        }
        rest = inside.get(end + 1..).unwrap_or_default();
        strings += 1;
        if strings == 2 * PARAMETERS_MAX {
            return;
        }
    }
}
