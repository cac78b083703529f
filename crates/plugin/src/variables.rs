//! The values of `{host}`, `{header.x-user}` and other variables in a request.
//!
//! Owns the meaning of every `settings::Variable`. Promises: a missing value is empty; a variable
//! without other text copies nothing unless it has to be decoded, and allocates nothing for
//! addresses and numbers. Values are bytes as the client sent them: a URL is filled in by
//! [`fill_url`], which encodes them, and `Headers` keeps them on one line of a header.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Deref;

use settings::{AiField, Key, Part, Template, TlsField, Variable};
use wire::Known;
use wire::grpc::Code;

use crate::country_code::UNKNOWN_COUNTRY;
use message::{AiTokens, Request};

/// The text of a variable or template.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// A part of the request, or of the template.
    Slice(&'a [u8]),
    /// Made on the spot: an address, a number.
    Short(Short),
    Owned(Vec<u8>),
}

/// Space for the longest address and the longest number.
#[derive(Clone, Debug)]
pub struct Short {
    bytes: [u8; 48],
    length: u8,
}

impl Short {
    fn show(what: impl std::fmt::Display) -> Short {
        let mut bytes = [0; 48];
        let mut rest = &mut bytes[..];
        // Nothing that is shown here is longer; what did not fit would be cut off.
        let _ = write!(rest, "{what}");
        let length = 48 - rest.len() as u8;
        Short { bytes, length }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Slice(slice) => slice,
            Text::Short(short) => &short.bytes[..usize::from(short.length)],
            Text::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Text<'_> {
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Text::Owned(bytes) => bytes,
            other => other.to_vec(),
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Text<'a> {
    fn from(text: Cow<'a, [u8]>) -> Self {
        match text {
            Cow::Borrowed(slice) => Text::Slice(slice),
            Cow::Owned(bytes) => Text::Owned(bytes),
        }
    }
}

/// The text of a variable.
pub fn value<'a>(variable: &'a Variable, request: &'a Request) -> Text<'a> {
    match variable {
        Variable::ClientIp => Text::Short(Short::show(request.client_ip)),
        Variable::Country => Text::Slice(country(request).as_bytes()),
        Variable::Host => host(request),
        Variable::Method => Text::Slice(request.method.as_bytes()),
        Variable::Scheme => Text::Slice(request.scheme.as_str().as_bytes()),
        Variable::Path => Text::Slice(request.target.path().as_bytes()),
        Variable::PathParam(name) => Text::Slice(
            request.params.get(request.target.routed_path(), name).unwrap_or("").as_bytes(),
        ),
        Variable::Query(name) => query(request, name).next().map_or(Text::Slice(b""), Text::from),
        Variable::Header(name) => Text::Slice(request.headers.get(name).unwrap_or_default()),
        Variable::Cookie(name) => Text::Slice(cookies(request, name).next().unwrap_or_default()),
        Variable::Route => Text::Slice(request.route.as_ref().map_or(b"", |r| r.name.as_bytes())),
        Variable::RequestId => Text::Slice(request.request_id.as_deref().unwrap_or("").as_bytes()),
        Variable::GrpcStatus => {
            let status = request.notes.grpc.as_ref().and_then(|call| call.status());
            Text::Slice(status.map_or("", Code::slug).as_bytes())
        }
        Variable::Consumer => Text::Slice(request.consumer_name().unwrap_or("").as_bytes()),
        Variable::Groups => Text::Owned(groups(request).collect::<Vec<_>>().join(",").into_bytes()),
        Variable::Label(name) => {
            let label = request.consumer.as_ref().and_then(|consumer| consumer.label(name));
            Text::Slice(label.unwrap_or("").as_bytes())
        }
        Variable::Claim(name) => Text::Slice(claims(request, name).next().unwrap_or("").as_bytes()),
        Variable::Tls(TlsField::ClientName) => {
            Text::Owned(client_names(request).collect::<Vec<_>>().join(",").into_bytes())
        }
        Variable::Tls(field) => Text::Slice(tls(*field, request).as_bytes()),
        Variable::Ai(field) => ai(*field, request),
    }
}

/// A property of the AI model that a request was for.
fn ai(field: AiField, request: &Request) -> Text<'_> {
    let Some(call) = &request.notes.ai else { return Text::Slice(b"") };
    let tokens = |of: fn(AiTokens) -> u32| {
        call.tokens().map_or(Text::Slice(b""), |tokens| Text::Short(Short::show(of(tokens))))
    };
    match field {
        AiField::Model => Text::Slice(call.model.as_bytes()),
        AiField::Provider => Text::Slice(call.provider.as_bytes()),
        AiField::InputTokens => tokens(|tokens| tokens.input),
        AiField::OutputTokens => tokens(|tokens| tokens.output),
    }
}

/// The host without port and final dot, in lower case: two spellings of one host are one key.
fn host(request: &Request) -> Text<'_> {
    let host = request.host();
    let host = host.strip_suffix(b".").unwrap_or(host);
    match host.iter().any(u8::is_ascii_uppercase) {
        true => Text::Owned(host.to_ascii_lowercase()),
        false => Text::Slice(host),
    }
}

/// The country of the client's address: two capital letters (ISO 3166-1), or `unknown`.
pub fn country(request: &Request) -> &str {
    let countries = request.countries.as_deref();
    countries.and_then(|countries| countries.country(request.client_ip)).unwrap_or(UNKNOWN_COUNTRY)
}

/// A property of the client's TLS connection that has one value.
fn tls(field: TlsField, request: &Request) -> &str {
    let Some(tls) = &request.facts.tls else { return "" };
    let certificate = tls.peer.as_ref().map(|peer| &peer.details);
    match field {
        TlsField::Version => tls.version_name(),
        TlsField::Cipher => tls.cipher_name(),
        TlsField::Protocol => tls.protocol.as_deref().unwrap_or(""),
        TlsField::ServerName => tls.server_name.as_deref().unwrap_or(""),
        TlsField::ClientSubject => certificate.map_or("", |certificate| &certificate.subject),
        TlsField::ClientFingerprint => {
            certificate.map_or("", |certificate| &certificate.fingerprint)
        }
        TlsField::ClientName => client_names(request).next().unwrap_or(""),
    }
}

/// The subject alternative names of the client's certificate.
pub fn client_names(request: &Request) -> impl Iterator<Item = &str> {
    let peer = request.facts.tls.as_ref().and_then(|tls| tls.peer.as_ref());
    peer.into_iter().flat_map(|peer| peer.details.names.iter().map(|name| name.as_str()))
}

/// The groups of the authenticated consumer.
pub fn groups(request: &Request) -> impl Iterator<Item = &str> {
    let consumer = request.consumer.as_deref().into_iter();
    consumer.flat_map(|consumer| consumer.groups.iter().map(|group| &**group))
}

/// Every value of a claim of the token that the consumer authenticated with.
pub fn claims<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = &'a str> {
    let claims = request.claims.iter().flat_map(|claims| claims.iter());
    claims.filter(move |(claim, _)| **claim == *name).map(|(_, value)| &**value)
}

/// Every value of a query parameter, decoded, in order.
pub fn query<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    wire::target::query_pairs(request.target.query().unwrap_or_default())
        .filter(move |(written, _)| **written == *name.as_bytes())
        .map(|(_, value)| value)
}

/// Every value of a cookie, over all Cookie fields.
pub fn cookies<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    request
        .headers
        .get_all(Known::Cookie)
        .flat_map(wire::cookie::pairs)
        .filter(move |(written, _)| *written == name.as_bytes())
        .map(|(_, value)| value)
}

/// A template with its variables filled in.
pub fn fill<'a>(template: &'a Template, request: &'a Request) -> Text<'a> {
    match template.parts.as_slice() {
        [] => Text::Slice(b""),
        [Part::Text(text)] => Text::Slice(text.as_bytes()),
        [Part::Var(variable)] => value(variable, request),
        _ => {
            let mut out = Vec::new();
            append(template, request, &mut out);
            Text::Owned(out)
        }
    }
}

/// The text of a key: what requests are distinguished by.
pub fn key<'a>(key: &'a Key, request: &'a Request) -> Text<'a> {
    fill(key.template(), request)
}

/// Adds a filled-in template to a buffer.
pub fn append(template: &Template, request: &Request, out: &mut Vec<u8>) {
    append_with(template, out, |variable, out| out.extend_from_slice(&value(variable, request)));
}

/// A template that is a URL or a part of one: the text stands as written, and whatever a variable
/// holds is percent-encoded (RFC 3986 2.1), so that it can end neither the path nor the query.
/// Slashes and escapes of paths and path parameters stay (see `wire::target`), and the path itself
/// is the one that is forwarded. What a client wrote is never taken for the host: no path begins
/// with two slashes because of a variable, and none continues a host.
pub fn fill_url(template: &Template, request: &Request) -> Vec<u8> {
    let mut out = Vec::new();
    let mut parts = template.parts.iter().peekable();
    while let Some(part) = parts.next() {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Var(name @ (Variable::Path | Variable::PathParam(_))) => {
                append_path(name, parts.peek().copied(), request, &mut out);
            }
            // A host was checked when it was received; brackets and colons belong to it.
            Part::Var(name @ Variable::Host) => {
                percent_encode(&value(name, request), b"[]:!$&'()*+,;=%", &mut out);
            }
            Part::Var(name) => percent_encode(&value(name, request), b"", &mut out),
        }
    }
    out
}

/// Adds a path or a path parameter to what there is of a URL.
fn append_path(variable: &Variable, next: Option<&Part>, request: &Request, out: &mut Vec<u8>) {
    if out.contains(&b'?') {
        // In a query `&`, `+` and `=` would mean something.
        return percent_encode(&value(variable, request), b"/%!$'()*,;:@", out);
    }
    let raw_path = request.target.raw_path();
    let text = match *variable == Variable::Path && raw_path.starts_with(b"/") {
        true => Text::Slice(raw_path),
        false => value(variable, request),
    };
    let mut text = &*text;
    if out.ends_with(b"/") {
        text = text.strip_prefix(b"/").unwrap_or(text);
    }
    if let Some(host) = open_authority(out)
        && !text.is_empty()
        && !text.starts_with(b"/")
    {
        let goes_on = matches!(next, Some(Part::Text(text)) if !text.starts_with(['/', '?', '#']));
        let is_whole = host.contains(&b'.') && host.last().is_some_and(u8::is_ascii_alphanumeric);
        if goes_on || !is_whole {
            return percent_encode(text, b"", out);
        }
        out.push(b'/');
    }
    percent_encode(text, b"/%!$&'()*+,;=:@", out);
}

/// The authority that the beginning of a URL ends with.
fn open_authority(url: &[u8]) -> Option<&[u8]> {
    let begin = match url.starts_with(b"//") {
        true => 2,
        false => memchr::memmem::find(url, b"://")? + 3,
    };
    let authority = &url[begin..];
    (!authority.contains(&b'/')).then_some(authority)
}

/// Everything but unreserved characters (RFC 3986 2.3) and those in `kept` becomes `%XX`.
pub fn percent_encode(text: &[u8], kept: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', HEX[high], HEX[low]]);
        }
    }
}

/// Adds text to a page of HTML or XML: the characters of markup become references, so that the text
/// stays text, also within an attribute.
pub fn escape_markup(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

fn append_with(
    template: &Template,
    out: &mut Vec<u8>,
    mut variable: impl FnMut(&Variable, &mut Vec<u8>),
) {
    for part in &template.parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Var(name) => variable(name, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use message::{Consumer, Headers, Params, Target};
    use std::rc::Rc;
    use std::sync::Arc;
    use wire::Method;

    fn request() -> Request {
        let mut headers = Headers::new();
        headers.append("host", "Shop.Example.COM.:8080");
        headers.append("x-user", "ann");
        headers.append("cookie", "a=1; sid = s1 ;b");
        headers.append("cookie", "sid=s2");
        let target = Target::new(Bytes::from_static(b"/a%20b/c?q=x+y&plain=z")).unwrap();
        let mut request = Request::made_up(Method::Get, target, headers);
        request.client_ip = "2001:db8::1".parse().unwrap();
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id")]);
        request.params = Params::new(names, &[(1, 4)]);
        request.request_id = Some("r-1".into());
        request.consumer = Some(Rc::new(Consumer {
            name: "ann".into(),
            groups: vec!["gold".into(), "eu".into()],
            labels: vec![("team".into(), "shop".into())],
            limits: None,
        }));
        let claim = |name: &str, value: &str| (Box::from(name), Box::from(value));
        request.claims = Some([claim("sub", "a-17"), claim("r", "x"), claim("r", "y")].into());
        request
    }

    fn filled(text: &str) -> String {
        let template: Template = text.parse().unwrap();
        String::from_utf8(fill(&template, &request()).into_vec()).unwrap()
    }

    #[test]
    fn every_variable_has_its_text() {
        for (template, wanted) in [
            ("{client_ip}", "2001:db8::1"),
            ("{host}", "shop.example.com"),
            ("{method} {scheme}", "GET http"),
            ("{path}|{path.id}", "/a b/c|a b"),
            ("{query.q}|{query.plain}|{query.none}", "x y|z|"),
            ("{header.X-User}{header.none}", "ann"),
            ("{cookie.sid}|{cookie.none}", "s1|"),
            ("{route}|{request_id}|{consumer}", "|r-1|ann"),
            ("{groups}|{label.team}|{label.none}", "gold,eu|shop|"),
            ("{claim.sub}|{claim.r}|{claim.none}", "a-17|x|"),
            ("plain {{x}}", "plain {x}"),
            ("", ""),
        ] {
            assert_eq!(filled(template), wanted, "{template}");
        }
        assert_eq!(cookies(&request(), "sid").collect::<Vec<_>>(), [b"s1", b"s2"]);
    }

    #[test]
    fn a_variable_alone_is_not_copied() {
        let request = request();
        for name in ["header.x-user", "path", "path.id", "query.plain", "cookie.sid", "method"] {
            let key: Key = name.parse().unwrap();
            assert!(matches!(super::key(&key, &request), Text::Slice(_)), "{name}");
        }
        let key: Key = "client_ip".parse().unwrap();
        assert!(matches!(super::key(&key, &request), Text::Short(_)));
    }

    #[test]
    fn a_value_cannot_leave_its_place_in_a_url() {
        let mut request = request();
        request.headers.set("x-user", "a/b?c#d%\r\n&e");
        request.target = Target::new(Bytes::from_static(b"/a%20b&/c%2f%2B+%e9")).unwrap();
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id")]);
        request.params = Params::new(names, &[(1, 5)]);
        let template: Template =
            "https://{host}{path}/{path.id}?u={header.x-user}&i={path.id}".parse().unwrap();
        let url = String::from_utf8(fill_url(&template, &request)).unwrap();
        let user = "a%2Fb%3Fc%23d%25%20%20%26e";
        let query = format!("u={user}&i=a%20b%26");
        assert_eq!(url, format!("https://shop.example.com/a%20b&/c%2F%2B+%E9/a%20b&?{query}"));
    }
}
