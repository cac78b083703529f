//! The inputs of a request: parameters, cookies, the path, headers and texts of the body.

use coding::{Coding, Decode, Decoder};
use memchr::memmem;
use message::Request;
use wire::Known;

use crate::normalize::is_ordinary_form;
use crate::rules::Part;
use crate::score::Scanner;

/// Parameters that are looked at; more are an attack by themselves.
pub(crate) const PARAMETERS_MAX: usize = 512;

/// How a body is inspected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyKind {
    Form,
    /// A form in parts, with the delimiter between them.
    Multipart(Vec<u8>),
    Json,
    Text,
}

/// A content coding that can be decoded for inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyCoding {
    Identity,
    /// `deflate`, which only requests of some clients have.
    Deflate,
    Other(Coding),
}

impl BodyCoding {
    /// Of a request; `None` for one that cannot be decoded here.
    pub(crate) fn of(request: &Request) -> Option<BodyCoding> {
        let Some(value) = request.headers.joined(Known::ContentEncoding) else {
            return Some(BodyCoding::Identity);
        };
        match std::str::from_utf8(&value).ok()?.trim() {
            "" => Some(BodyCoding::Identity),
            token if token.eq_ignore_ascii_case("identity") => Some(BodyCoding::Identity),
            token if token.eq_ignore_ascii_case("deflate") => Some(BodyCoding::Deflate),
            token => Coding::parse(token).map(BodyCoding::Other),
        }
    }

    /// The first `max` bytes that a received body stands for; `None` if it is damaged.
    pub(crate) fn decode(self, content: Vec<u8>, max: usize) -> Option<Vec<u8>> {
        match self {
            BodyCoding::Identity => Some(content),
            BodyCoding::Deflate => coding::decode_deflate(&content, max).ok(),
            BodyCoding::Other(coding) => {
                // Decoding stops at `max` bytes of output, however dense the body is.
                let allowed = Decode { output_bytes: u64::MAX, ratio: u64::MAX };
                let mut out = Vec::new();
                Decoder::new(coding, allowed).ok()?.decode_some(&content, &mut out, max).ok()?;
                Some(out)
            }
        }
    }
}

/// The kind of a body that is inspected; `None` for another media type.
pub(crate) fn body_kind(request: &Request) -> Option<BodyKind> {
    let headers = &request.headers;
    if request.body.is_empty() {
        return None;
    }
    let content_type = headers.get(Known::ContentType)?;
    let media_type = content_type.split(|byte| *byte == b';').next()?.trim_ascii();
    match &*media_type.to_ascii_lowercase() {
        b"multipart/form-data" => Some(match parameter(content_type, b"boundary") {
            Some(boundary) => BodyKind::Multipart([b"--", boundary].concat()),
            None => BodyKind::Text,
        }),
        b"application/x-www-form-urlencoded" => Some(BodyKind::Form),
        b"application/json" => Some(BodyKind::Json),
        b"application/xml" => Some(BodyKind::Text),
        other if other.ends_with(b"+json") => Some(BodyKind::Json),
        other if other.ends_with(b"+xml") || other.starts_with(b"text/") => Some(BodyKind::Text),
        _ => None,
    }
}

/// Inspects everything but the body.
pub(crate) fn inspect_head(request: &Request, scanner: &mut Scanner) {
    scanner.inspect(Part::Path, b"", request.target.received_path());
    if let Some(query) = request.target.query() {
        inspect_form(query, scanner);
    }
    for field in request.headers.iter() {
        match field.known {
            Some(Known::Cookie) => {
                for (name, value) in wire::cookie::pairs(field.value) {
                    scanner.inspect(Part::Cookie, name, value);
                }
            }
            // Applications and their loggers read these values.
            Some(name @ (Known::Referer | Known::XForwardedFor | Known::Origin)) => {
                scanner.inspect(Part::Header, name.as_str().as_bytes(), field.value);
            }
            Some(Known::UserAgent) => scanner.inspect_agent(field.value),
            _ => {}
        }
    }
}

pub(crate) fn inspect_body(kind: &BodyKind, content: &[u8], scanner: &mut Scanner) {
    match kind {
        BodyKind::Form => inspect_form(content, scanner),
        BodyKind::Multipart(delimiter) => inspect_multipart(delimiter, content, scanner),
        BodyKind::Json => inspect_json(content, scanner),
        BodyKind::Text => scanner.inspect(Part::Argument, b"", content),
    }
}

fn inspect_form(form: &[u8], scanner: &mut Scanner) {
    if is_ordinary_form(form) {
        return;
    }
    for (name, value) in wire::target::query_pairs(form).take(PARAMETERS_MAX) {
        scanner.inspect(Part::Argument, &name, &name);
        scanner.inspect(Part::Argument, &name, &value);
    }
}

/// Inspects names, values and names of files; not the content of files.
fn inspect_multipart(delimiter: &[u8], content: &[u8], scanner: &mut Scanner) {
    let mut starts =
        memmem::find_iter(content, delimiter).map(|at| at + delimiter.len()).peekable();
    let mut count = 0;
    while let Some(start) = starts.next() {
        // A part with more delimiters than parameters is the end: the rest is one value.
        let is_last = count == PARAMETERS_MAX;
        let end =
            starts.peek().filter(|_| !is_last).map_or(content.len(), |at| at - delimiter.len());
        inspect_part(&content[start..end], scanner);
        if is_last {
            return;
        }
        count += 1;
    }
}

/// Inspects a part: header lines, an empty line, and the value.
fn inspect_part(part: &[u8], scanner: &mut Scanner) {
    let mut rest = part.trim_ascii_start();
    let (mut name, mut is_file) = (Vec::new(), false);
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let field = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !field.eq_ignore_ascii_case(b"content-disposition") {
            continue;
        }
        name = parameter(line, b"name").unwrap_or_default().to_vec();
        scanner.inspect(Part::Argument, &name, &name);
        for key in [&b"filename"[..], b"filename*"] {
            if let Some(file) = parameter(line, key) {
                is_file = true;
                scanner.inspect(Part::Argument, &name, file);
            }
        }
    }
    if !is_file {
        scanner.inspect(Part::Argument, &name, rest.trim_ascii_end());
    }
}

/// A parameter of a header field (RFC 9110 5.6.6), without its quotes.
fn parameter<'h>(field: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    let mut rest = field;
    let mut is_quoted = false;
    loop {
        let end = rest.iter().position(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b';' && !is_quoted
        });
        let piece = rest[..end.unwrap_or(rest.len())].trim_ascii();
        if let Some(equals) = memchr::memchr(b'=', piece)
            && piece[..equals].trim_ascii().eq_ignore_ascii_case(name)
        {
            let value = piece[equals + 1..].trim_ascii();
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            return Some(value.strip_suffix(b"\"").unwrap_or(value));
        }
        rest = &rest[end? + 1..];
    }
}

/// Inspects the strings of a JSON text, also of one that ends early or is damaged.
fn inspect_json(content: &[u8], scanner: &mut Scanner) {
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
