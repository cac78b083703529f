//! The key rules of a route.

use message::{Field, Request, Scheme};
use plugin::variables;
use settings::Variable;
use wire::Known;

use super::{KeyBuffer, KeyError, cookie, path, query, write_joined};
use crate::limits::KEY_BYTES_MAX;

/// The key rules of a route.
#[derive(Clone, Debug)]
pub struct KeyRules {
    path: KeyPath,
    query: KeyQuery,
    /// Variables that count in addition to the URL, in order.
    parts: Box<[Variable]>,
    /// The text after the URL: NUL, the route, and a hash of these rules unless they are the
    /// defaults.
    route: Box<[u8]>,
}

/// The form in which paths are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyPath {
    /// In canonical form; a path with an encoded slash has no key.
    #[default]
    Normal,
    /// In canonical form; an encoded slash is part of a segment.
    Raw,
}

/// The form in which queries are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyQuery {
    /// Whether the order of parameters is ignored.
    pub sorted: bool,
    pub significant: SignificantParams,
}

impl Default for KeyQuery {
    fn default() -> KeyQuery {
        KeyQuery { sorted: false, significant: SignificantParams::All }
    }
}

/// The parameters that count, by decoded name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SignificantParams {
    All,
    Only(Box<[Box<[u8]>]>),
    Except(Box<[Box<[u8]>]>),
}

impl KeyRules {
    /// Each variable of a declared key becomes a component of its own, so that its end is never
    /// ambiguous.
    pub fn new<'k>(
        route: &str,
        path: KeyPath,
        query: KeyQuery,
        keys: impl IntoIterator<Item = &'k settings::Key>,
    ) -> KeyRules {
        let parts: Box<[Variable]> =
            keys.into_iter().flat_map(|key| key.template().variables().cloned()).collect();
        let mut text = [b"\0", route.as_bytes()].concat();
        if path != KeyPath::Normal || query != KeyQuery::default() || !parts.is_empty() {
            // Keys of other rules may have the same text with another meaning.
            let hash = fnv1a(&identity(path, &query, &parts));
            text.extend_from_slice(format!("\u{1}{hash:08x}").as_bytes());
        }
        KeyRules { path, query, parts, route: text.into() }
    }

    /// Writes the primary key of a request, the same for GET and HEAD.
    pub fn write(&self, request: &Request, buffer: &mut KeyBuffer) -> Result<(), KeyError> {
        self.write_with(request, request.target.query(), buffer)
    }

    /// Writes the primary key as if the request had another query.
    pub fn write_with(
        &self,
        request: &Request,
        query: Option<&[u8]>,
        buffer: &mut KeyBuffer,
    ) -> Result<(), KeyError> {
        let target = &request.target;
        if target.raw().len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong);
        }
        self.url(request.scheme, request.authority(), (target.raw_path(), query), buffer)?;
        let text = &mut buffer.text;
        text.extend_from_slice(&self.route);
        for part in &self.parts {
            text.push(0);
            write_component(part, request, text)?;
        }
        write_forwarding(request, text)?;
        buffer.primary_len = buffer.text.len();
        buffer.bounded().map(drop)
    }

    /// Begins a key with the normalised URL. The authority must be valid, the path canonical.
    fn url(
        &self,
        scheme: Scheme,
        authority: &[u8],
        (raw_path, raw_query): (&[u8], Option<&[u8]>),
        buffer: &mut KeyBuffer,
    ) -> Result<(), KeyError> {
        if path::is_ambiguous(raw_path, self.path) {
            return Err(KeyError::AmbiguousPath);
        }
        let text = &mut buffer.text;
        text.clear();
        // One reservation: names of routes are short.
        let query_len = raw_query.map_or(0, |query| query.len() + 1);
        text.reserve(authority.len() + raw_path.len() + query_len + self.route.len() + 64);
        text.extend_from_slice(scheme.as_str().as_bytes());
        text.extend_from_slice(b"://");
        let begin = text.len();
        write_authority(authority, scheme, text);
        text[begin..].make_ascii_lowercase();
        text.extend_from_slice(raw_path);
        query::write(raw_query, &self.query, text)?;
        (buffer.url_len, buffer.primary_len) = (text.len(), text.len());
        buffer.bounded().map(drop)
    }

    /// Returns an absolute URL in the form that keys of these rules begin with; `None` if no key
    /// can begin with it. For purges, and for URLs in responses.
    pub fn normalised_url(&self, url: &[u8]) -> Option<Box<[u8]>> {
        let colon = memchr::memmem::find(url, b"://")?;
        let scheme = [Scheme::Http, Scheme::Https]
            .into_iter()
            .find(|scheme| scheme.as_str().as_bytes().eq_ignore_ascii_case(&url[..colon]))?;
        let rest = &url[colon + 3..];
        let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
        let (authority, rest) =
            rest.split_at(memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len()));
        if !wire::authority::is_valid(authority) {
            return None;
        }
        let question = memchr::memchr(b'?', rest).unwrap_or(rest.len());
        let path = if question == 0 { b"/" } else { &rest[..question] };
        let path = wire::target::canonical(path).ok()?;
        let mut buffer = KeyBuffer::default();
        self.url(scheme, authority, (&path, rest.get(question + 1..)), &mut buffer).ok()?;
        Some(buffer.url().into())
    }
}

/// Key rules as text. Its hash is part of the keys of objects on disk, so it must not change
/// between releases: it contains the spellings of the configuration, and no name of this code.
fn identity(path: KeyPath, query: &KeyQuery, parts: &[Variable]) -> Vec<u8> {
    let mut text = match path {
        KeyPath::Normal => b"path normal".to_vec(),
        KeyPath::Raw => b"path raw".to_vec(),
    };
    text.extend_from_slice(if query.sorted { b"\0query sorted" } else { b"\0query as received" });
    let (sign, names) = match &query.significant {
        SignificantParams::All => (b'*', &[][..]),
        SignificantParams::Only(names) => (b'+', &names[..]),
        SignificantParams::Except(names) => (b'-', &names[..]),
    };
    text.extend_from_slice(&[0, sign]);
    for name in names {
        text.push(0);
        text.extend_from_slice(name);
    }
    for part in parts {
        text.extend_from_slice(format!("\0{{{part}}}").as_bytes());
    }
    text
}

/// Appends an authority without a default port and without the final dot of a fully qualified name,
/// which routing ignores too.
fn write_authority(authority: &[u8], scheme: Scheme, out: &mut Vec<u8>) {
    let authority = without_default_port(authority, scheme);
    let host_len = memchr::memrchr(b':', authority).unwrap_or(authority.len());
    let (host, port) = authority.split_at(host_len);
    let name = host.strip_suffix(b".").filter(|name| !name.is_empty());
    out.extend_from_slice(name.unwrap_or(host));
    out.extend_from_slice(port);
}

/// Removes an empty port or the default one (RFC 9110 4.2.3).
fn without_default_port(authority: &[u8], scheme: Scheme) -> &[u8] {
    let port: &[u8] = match scheme {
        Scheme::Http => b":80",
        Scheme::Https => b":443",
    };
    authority.strip_suffix(port).or(authority.strip_suffix(b":")).unwrap_or(authority)
}

/// Appends what a trusted proxy states about the request as it received it, such as
/// X-Forwarded-Prefix: the origin gets these fields and may answer by them. Addresses of clients
/// are not part of a key.
fn write_forwarding(request: &Request, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let counts = |field: &Field<'_>| {
        field.is_forwarding() && !field.known.is_some_and(Known::is_client_address)
    };
    for field in request.headers.iter().filter(counts) {
        write_named(b"\0f:", &field, out)?;
    }
    Ok(())
}

fn write_named(sign: &[u8], field: &Field<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    out.extend_from_slice(sign);
    out.extend(field.name.iter().map(u8::to_ascii_lowercase));
    write_joined([field.value], b"", out)
}

/// Appends a component: nothing if the request has no such value, else `=` and all its values,
/// since the origin may read any of them.
fn write_component(part: &Variable, request: &Request, out: &mut Vec<u8>) -> Result<(), KeyError> {
    match part {
        // RFC 9110 5.3: lines of one name are one list.
        Variable::Header(name) => {
            write_joined(request.headers.get_all(name), b", ", out)?;
            // The origin may take such a field for the one that counts.
            request.headers.aliases(name).try_for_each(|alias| write_named(b"\0a:", &alias, out))
        }
        Variable::Cookie(name) => cookie::write(request, name, out),
        Variable::Query(name) => write_joined(variables::query(request, name), b"\x01", out),
        Variable::Consumer if request.consumer.is_none() => Ok(()),
        other => write_joined([variables::value(other, request)], b"", out),
    }
}

/// A hash that stays the same over processes and releases.
fn fnv1a(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
