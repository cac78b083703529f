//! A method in `match.methods`.
//!
//! Promises that a misspelt method is an error: a route for `GTE` would never match.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Value, tagged};
use wire::Method;

/// The methods of the IANA registry, and unregistered ones of caches and UPnP.
const KNOWN: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "QUERY",
    "PURGE",
    "BAN",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "LABEL",
    "LINK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "ORDERPATCH",
    "REBIND",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
    "M-SEARCH",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
];

/// The key of all other methods.
const EXTENSION: &str = "extension";

/// A method of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName(pub Method);

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let method = Method::parse(text.as_bytes()).ok_or("is not a method")?;
        // Methods are case-sensitive (RFC 9110 9.1), and `get` is always a typing error.
        if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return Err(format!("is in lower case: write {}", text.to_ascii_uppercase()));
        }
        if method == Method::Connect {
            return Err("is refused before routing".to_owned());
        }
        Ok(MethodName(method))
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Setting for MethodName {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        let token = Schema::pattern("method", "^[!#$%&'*+.^_`|~0-9A-Z-]+$");
        let extension = Schema::OneKey { key: EXTENSION, value: Box::new(token) };
        Schema::OneOf(vec![Schema::words("method", KNOWN), extension])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        const WHAT: &str = "a method such as GET";
        if let Value::Map(_) = node.value {
            let (key, name) = tagged(node, reader)?;
            if key.name != EXTENSION {
                reader.report().unknown(key.span, "key", &key.name, [EXTENSION]);
                return None;
            }
            return reader.parse(name, WHAT);
        }
        let method: MethodName = reader.parse(node, WHAT)?;
        if KNOWN.contains(&method.0.as_str()) {
            return Some(method);
        }
        let Value::Scalar(scalar) = &node.value else { return None };
        let shown = scalar.shown();
        reader
            .report()
            .unknown(node.span, "method", shown, KNOWN.iter().copied())
            .help(format!("if it is meant, write {{ {EXTENSION}: {shown} }}"));
        None
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::MethodName;

    #[test]
    fn unknown_methods_are_errors_and_extensions_are_named_as_such() {
        let of = |node| read::<MethodName>(&node).map(|name| name.to_string());
        for known in ["GET", "PURGE", "PROPFIND", "M-SEARCH"] {
            assert_eq!(of(node!(known)), Ok(known.to_owned()));
        }
        assert_eq!(of(node!({ "extension": "BREW" })), Ok("BREW".to_owned()));
        for (node, why) in [
            (node!("GTE"), "unknown method \"GTE\", did you mean \"GET\"?"),
            (node!("BREW"), "if it is meant, write { extension: BREW }"),
            (node!({ "extension": "B REW" }), "is not a method"),
            (node!({ "extnsion": "BREW" }), "did you mean \"extension\"?"),
            (node!({ "extension": "CONNECT" }), "is refused before routing"),
        ] {
            let out = of(node).unwrap_err();
            assert!(out.contains(why), "{out}\nwanted {why}");
        }
    }
}
