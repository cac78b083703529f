//! The inputs of a request: parameters, cookies, the path, headers and texts of the body.

use coding::{Coding, Decode, Decoder};
use memchr::memmem;
use message::Request;
use wire::{Known, charset};

use crate::normalize::{is_ordinary_form, without_references};
use crate::rules::Part;
use crate::score::{Scanner, WafVerdict};

/// The families of media types whose content is not text. A type of none of them is read as text:
/// whatever the client wrote there, an application may guess.
const FAMILIES: [&[u8]; 6] =
    [b"application/", b"image/", b"audio/", b"video/", b"font/", b"model/"];

/// How a body is inspected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyKind {
    Form,
    /// A form in parts, with the delimiter between them.
    Multipart(Vec<u8>),
    Json,
    Xml,
    Text,
}

/// Why the type of a body is an attack by itself: recipients read different things in it.
pub(crate) type Ambiguous = &'static str;

/// The beginnings of the names of character encodings in which ASCII is ASCII, or in which it has
/// bytes that the rules find.
const CHARSETS: [&[u8]; 18] = [
    b"utf-8",
    b"utf8",
    b"us-ascii",
    b"ascii",
    b"iso-8859-",
    b"iso8859",
    b"latin",
    b"windows-",
    b"cp125",
    b"gbk",
    b"gb2312",
    b"gb18030",
    b"big5",
    b"shift",
    b"euc-",
    b"koi8-",
    b"utf-16",
    b"utf-32",
];

/// An XML declaration with more bytes is an attack by itself.
const XML_DECLARATION_BYTES_MAX: usize = 1024;

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

/// The kind of a body that is inspected; `None` for another media type. A body without a type is
/// text: applications guess.
pub(crate) fn body_kind(request: &Request) -> Result<Option<BodyKind>, Ambiguous> {
    if request.body.is_empty() {
        return Ok(None);
    }
    let mut types = request.headers.get_all(Known::ContentType);
    let (content_type, second) = (types.next().unwrap_or(b"text/plain"), types.next());
    if second.is_some() {
        return Err("content-type");
    }
    // PHP ends a media type at a comma and a space too.
    let is_end = |byte: &u8| matches!(*byte, b';' | b',' | b' ' | b'\t');
    let media_type = content_type.trim_ascii().split(is_end).next().unwrap_or_default();
    let media_type = media_type.to_ascii_lowercase();
    let has = |word: &[u8]| memmem::find(&media_type, word).is_some();
    let kind = match &*media_type {
        b"application/x-www-form-urlencoded" => BodyKind::Form,
        b"application/graphql" => BodyKind::Text,
        other if other.starts_with(b"multipart/") => match delimiter(content_type) {
            Some(delimiter) => BodyKind::Multipart(delimiter),
            None => BodyKind::Text,
        },
        _ if has(b"json") => BodyKind::Json,
        _ if has(b"xml") && !has(b"openxml") => BodyKind::Xml,
        other if FAMILIES.iter().any(|family| other.starts_with(family)) => return Ok(None),
        _ => BodyKind::Text,
    };
    check_charset(content_type, b"charset")?;
    Ok(Some(kind))
}

/// Requires that the text declares, after this word, none or one of [`CHARSETS`].
fn check_charset(text: &[u8], word: &[u8]) -> Result<(), Ambiguous> {
    let begins = |name: &[u8], known: &[u8]| {
        name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
    };
    match charset::declared(text, word) {
        Ok(Some(name)) if CHARSETS.iter().any(|known| begins(name, known)) => Ok(()),
        Ok(None) => Ok(()),
        _ => Err("charset"),
    }
}

/// The same for an XML text, which begins with `<` in all of these encodings, and may declare its
/// own.
fn check_xml_charset(content: &[u8]) -> Result<(), Ambiguous> {
    // Before it, white space and a byte order mark.
    let is_mark = |byte: &u8| b"\0\t\r\n \xef\xbb\xbf\xfe\xff".contains(byte);
    let text = content.iter().copied().skip_while(is_mark);
    // UTF-16 has a zero in each character of ASCII.
    let text = text.filter(|byte| *byte != 0).take(XML_DECLARATION_BYTES_MAX);
    let text: Vec<u8> = text.collect();
    match text.strip_prefix(b"<?xml") {
        Some(declaration) => match memmem::find(declaration, b"?>") {
            Some(end) => check_charset(&declaration[..end], b"encoding"),
            None => Err("charset"),
        },
        None if text.first().is_none_or(|first| *first == b'<') => Ok(()),
        None => Err("charset"),
    }
}

/// What separates the parts of a form; `None` if that is not certain: recipients differ in where
/// they end a boundary with other characters, and in what they do with a second one (also of RFC
/// 2231, `boundary*0`).
fn delimiter(content_type: &[u8]) -> Option<Vec<u8>> {
    let mut boundaries = parameters(content_type, b"boundary");
    let (boundary, None) = (boundaries.next()?, boundaries.next()) else { return None };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.'()+/:=?".contains(byte);
    let is_certain = !boundary.is_empty()
        && boundary.iter().all(is_plain)
        && memchr::memchr2(b'\\', b'*', content_type).is_none();
    is_certain.then(|| [b"--", boundary].concat())
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
                for pair in field.value.split(|byte| *byte == b';') {
                    // A cookie without a name is a value for some recipients.
                    let end = memchr::memchr(b'=', pair);
                    let (name, value) = end.map_or((&b""[..], pair), |at| pair.split_at(at));
                    let value = match value.strip_prefix(b"=").unwrap_or(value).trim_ascii() {
                        [b'"', quoted @ .., b'"'] => quoted,
                        plain => plain,
                    };
                    scanner.inspect(Part::Cookie, name.trim_ascii(), value);
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

/// What the rules find in the body of a request, as the filter inspects it; `None` for a type that
/// is not inspected, or is rejected.
pub fn inspect_content(request: &Request, content: &[u8]) -> Option<WafVerdict> {
    let kind = body_kind(request).ok()??;
    let mut scanner = Scanner::default();
    inspect_body(&kind, content, &mut scanner).ok()?;
    Some(scanner.finish())
}

pub(crate) fn inspect_body(
    kind: &BodyKind,
    content: &[u8],
    scanner: &mut Scanner,
) -> Result<(), Ambiguous> {
    match kind {
        BodyKind::Form => inspect_form(content, scanner),
        BodyKind::Multipart(delimiter) => inspect_multipart(delimiter, content, scanner)?,
        BodyKind::Json => inspect_json(content, scanner),
        BodyKind::Text => scanner.inspect(Part::Argument, b"", content),
        BodyKind::Xml => {
            check_xml_charset(content)?;
            scanner.inspect(Part::Argument, b"", content);
            if let Some(text) = without_references(content) {
                scanner.inspect(Part::Argument, b"", &text);
            }
            // The application reads the texts one by one: some rules look at their ends.
            for text in content.split(|byte| b"<>".contains(byte)) {
                let decoded = without_references(text);
                scanner.inspect(Part::Argument, b"", decoded.as_deref().unwrap_or(text));
            }
        }
    }
    Ok(())
}

fn inspect_form(form: &[u8], scanner: &mut Scanner) {
    if is_ordinary_form(form) {
        return;
    }
    for (name, value) in wire::target::query_pairs(form) {
        scanner.inspect(Part::Argument, &name, &name);
        scanner.inspect(Part::Argument, &name, &value);
    }
}

/// Inspects names, values and names of files; not the content of files. What stands before the
/// first part is a value, and so is a body without parts.
fn inspect_multipart(
    delimiter: &[u8],
    content: &[u8],
    scanner: &mut Scanner,
) -> Result<(), Ambiguous> {
    let mut start = 0;
    let mut is_line = false;
    for at in memmem::find_iter(content, delimiter) {
        inspect_part(&content[start..at], is_line, scanner)?;
        start = at + delimiter.len();
        // Others take a delimiter for a part of the value unless it is a line of its own.
        is_line =
            (at == 0 || content[..at].ends_with(b"\r\n")) && content[start..].starts_with(b"\r\n");
    }
    inspect_part(&content[start..], is_line, scanner)
}

/// Inspects a part: header lines, an empty line, and the value. The content of a file is not
/// inspected, if it is certain to be one.
fn inspect_part(part: &[u8], mut is_certain: bool, scanner: &mut Scanner) -> Result<(), Ambiguous> {
    let mut rest = part.trim_ascii_start();
    let (mut name, mut is_file, mut dispositions) = (Vec::new(), false, 0);
    let mut charset = Ok(());
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let field = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if field.eq_ignore_ascii_case(b"content-type") {
            charset = charset.and(check_charset(line, b"charset"));
        }
        if !field.eq_ignore_ascii_case(b"content-disposition") {
            scanner.inspect(Part::Argument, &name, line);
            continue;
        }
        dispositions += 1;
        // Recipients differ in whether these begin or end a text.
        let is_odd = |quote: &[u8]| memmem::find(line, quote).is_some();
        is_certain &= !(is_odd(b"\\\"") || is_odd(b"='"));
        name = parameter(line, b"name").unwrap_or_default().to_vec();
        scanner.inspect(Part::Argument, &name, &name);
        for file in parameters(line, b"filename").chain(parameters(line, b"filename*")) {
            scanner.inspect(Part::Argument, &name, file);
        }
        // Without a name it is a value for some recipients, and PHP does not know `filename*`.
        let mut files = parameters(line, b"filename");
        is_file = files.next().is_some_and(|file| !file.is_empty()) && files.next().is_none();
    }
    if !is_certain || !is_file || dispositions > 1 {
        scanner.inspect(Part::Argument, &name, rest.trim_ascii_end());
        return charset;
    }
    Ok(())
}

/// The first parameter of this name in a header field (RFC 9110 5.6.6), without its quotes.
fn parameter<'h>(field: &'h [u8], name: &'h [u8]) -> Option<&'h [u8]> {
    parameters(field, name).next()
}

fn parameters<'h>(field: &'h [u8], name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
    let mut is_quoted = false;
    let pieces = field.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == b';' && !is_quoted
    });
    pieces.filter_map(move |piece| {
        let equals = memchr::memchr(b'=', piece)?;
        let value = piece[equals + 1..].trim_ascii();
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let value = value.strip_suffix(b"\"").unwrap_or(value);
        piece[..equals].trim_ascii().eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Inspects the strings of a JSON text, also of one that ends early or is damaged.
fn inspect_json(content: &[u8], scanner: &mut Scanner) {
    let mut rest = content;
    while let Some(from) = memchr::memchr(b'"', rest) {
        let inside = &rest[from + 1..];
        let (mut at, mut has_escapes) = (0, false);
        while at < inside.len() && inside[at] != b'"' {
            has_escapes |= inside[at] == b'\\';
            at += if inside[at] == b'\\' { 2 } else { 1 };
        }
        let text = &inside[..at.min(inside.len())];
        match has_escapes {
            true => scanner.inspect(Part::Argument, b"", &unescaped(text)),
            false => scanner.inspect(Part::Argument, b"", text),
        }
        rest = inside.get(text.len() + 1..).unwrap_or_default();
    }
}

/// The text of a JSON string, also of one that a strict parser refuses: most accept half of a pair
/// of surrogates, and some any control character or escape.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let Some(escape) = rest.get(at + 1) else { return out };
        rest = &rest[at + 2..];
        match escape {
            b'u' => {
                let digits = rest.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
                let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                // Half of a pair is not a character, and no rule looks for those beyond it.
                let character =
                    unit.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = if unit.is_some() { &rest[4..] } else { rest };
            }
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            other => out.push(*other),
        }
    }
    out.extend_from_slice(rest);
    out
}
