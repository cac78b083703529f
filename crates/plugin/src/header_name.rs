//! A header name in the configuration: checked and looked up once, when it is read.

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};
use wire::Known;

use message::{Body, Name, Request};

/// A valid field name (RFC 9110 5.1), in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderName {
    known: Option<Known>,
    text: Box<str>,
}

impl HeaderName {
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Removes headers of a client, also those that its trailers would become.
pub fn remove_headers(request: &mut Request, names: &Rc<[HeaderName]>) {
    for name in &**names {
        request.headers.remove(name);
    }
    remove_trailers(request, names);
}

/// Removes the trailers of a client that would become headers of these names.
pub fn remove_trailers(request: &mut Request, names: &Rc<[HeaderName]>) {
    if !names.is_empty() && matches!(request.body, Body::Stream(_)) {
        let names = names.clone();
        let body = std::mem::take(&mut request.body);
        request.body = body.without_trailers(move |field| {
            names.iter().any(|name| wire::alias::same(name.as_str().as_bytes(), field.name))
        });
    }
}

impl<'a> From<&'a HeaderName> for Name<'a> {
    fn from(name: &'a HeaderName) -> Self {
        name.known.map_or(Name::Other(name.text.as_bytes()), Name::Known)
    }
}

impl FromStr for HeaderName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !wire::token::is_token(text.as_bytes()) {
            return Err("is not a valid header name".to_owned());
        }
        let known = Known::from_bytes(text.as_bytes());
        Ok(HeaderName { known, text: text.to_ascii_lowercase().into() })
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for HeaderName {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("header name", "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a header name such as x-user")
    }
}

#[cfg(test)]
mod tests {
    use super::HeaderName;
    use message::Headers;

    #[test]
    fn names_are_found_whatever_their_case() {
        let mut headers = Headers::new();
        headers.append("X-Own", "1");
        headers.append("accept", "2");
        for (name, value) in [("x-own", b"1"), ("ACCEPT", b"2")] {
            let name: HeaderName = name.parse().unwrap();
            assert_eq!(headers.get(&name), Some(&value[..]));
        }
        assert!("a b".parse::<HeaderName>().is_err() && "".parse::<HeaderName>().is_err());
    }
}
