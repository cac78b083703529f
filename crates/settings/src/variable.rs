//! The names that a template or a key may mention: one list for headers, redirects, keys and
//! hashes.

use std::fmt;

use crate::nearest::nearest;
use crate::{Node, Reader, Schema, SchemaBuilder, Setting, Value};

/// Something of the exchange that has a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    ClientIp,
    /// The country of the client's address, by the file that `geo` names.
    Country,
    Host,
    Method,
    Scheme,
    /// The path of the request.
    Path,
    /// A parameter of the route's path: `{path.id}`.
    PathParam(String),
    /// The first query parameter of this name.
    Query(String),
    /// A request header; the name is in lower case.
    Header(String),
    Cookie(String),
    /// The name of the route.
    Route,
    RequestId,
    /// The identity that the request was authenticated as.
    Consumer,
    /// The status of a gRPC call, once it is known: that of a response that is only trailers.
    GrpcStatus,
    /// Its groups.
    Groups,
    /// One of its labels.
    Label(String),
    /// A claim of the token it authenticated with.
    Claim(String),
    /// What the TLS handshake with the client has agreed on; empty in the clear.
    Tls(TlsField),
    /// A property of the AI model that the request was for; empty until it is known.
    Ai(AiField),
}

/// A property of a request to an AI model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AiField {
    /// The client's name for the model.
    Model,
    /// The provider that responded.
    Provider,
    InputTokens,
    OutputTokens,
}

/// A property of the TLS connection with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsField {
    Version,
    Cipher,
    /// The protocol of ALPN.
    Protocol,
    /// The name that the client asked for (SNI).
    ServerName,
    /// The subject of the client's certificate.
    ClientSubject,
    /// Its subject alternative names.
    ClientName,
    /// Its SHA-256 fingerprint.
    ClientFingerprint,
}

const PLAIN: &[(&str, Variable)] = &[
    ("client_ip", Variable::ClientIp),
    ("country", Variable::Country),
    ("host", Variable::Host),
    ("method", Variable::Method),
    ("scheme", Variable::Scheme),
    ("path", Variable::Path),
    ("route", Variable::Route),
    ("request_id", Variable::RequestId),
    ("consumer", Variable::Consumer),
    ("grpc_status", Variable::GrpcStatus),
    ("groups", Variable::Groups),
    ("ai.model", Variable::Ai(AiField::Model)),
    ("ai.provider", Variable::Ai(AiField::Provider)),
    ("ai.input_tokens", Variable::Ai(AiField::InputTokens)),
    ("ai.output_tokens", Variable::Ai(AiField::OutputTokens)),
    ("tls.version", Variable::Tls(TlsField::Version)),
    ("tls.cipher", Variable::Tls(TlsField::Cipher)),
    ("tls.protocol", Variable::Tls(TlsField::Protocol)),
    ("tls.server_name", Variable::Tls(TlsField::ServerName)),
    ("tls.client_subject", Variable::Tls(TlsField::ClientSubject)),
    ("tls.client_name", Variable::Tls(TlsField::ClientName)),
    ("tls.client_fingerprint", Variable::Tls(TlsField::ClientFingerprint)),
];
const FAMILIES: &[&str] = &["path", "query", "header", "cookie", "label", "claim"];

impl Variable {
    /// True if only the filters that authenticate set it.
    pub fn needs_authentication(&self) -> bool {
        use Variable::{Claim, Consumer, Groups, Label};
        matches!(self, Consumer | Groups | Label(_) | Claim(_))
    }

    /// The variable of this name, or why there is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        if let Some((_, variable)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Ok(variable.clone());
        }
        if let Some((family, part)) = name.split_once('.')
            && FAMILIES.contains(&family)
        {
            return member(family, part);
        }
        Err(unknown(name))
    }
}

fn member(family: &str, part: &str) -> Result<Variable, String> {
    if part.is_empty() {
        return Err(format!("{{{family}.}} lacks the name after the dot"));
    }
    if part.chars().any(|c| c.is_control() || c == '{' || c == '}' || c.is_whitespace()) {
        return Err(format!("{{{family}.…}} has a name with characters that cannot stand in one"));
    }
    Ok(match family {
        "path" => Variable::PathParam(part.to_owned()),
        "query" => Variable::Query(part.to_owned()),
        "cookie" => Variable::Cookie(part.to_owned()),
        "label" => Variable::Label(part.to_owned()),
        "claim" => Variable::Claim(part.to_owned()),
        _ => {
            // RFC 9110 5.1: a field name is a token and its case does not count.
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if !part.bytes().all(token) {
                return Err(format!("{{header.{part}}} is not a valid header name"));
            }
            Variable::Header(part.to_ascii_lowercase())
        }
    })
}

fn unknown(name: &str) -> String {
    let words = PLAIN.iter().map(|(word, _)| *word);
    let (head, part) = name.split_once('.').unwrap_or((name, ""));
    let near = nearest(name, words).map(str::to_owned).or_else(|| {
        let family = nearest(head, FAMILIES.iter().copied())?;
        Some(format!("{family}.{}", if part.is_empty() { "NAME" } else { part }))
    });
    let shown = crate::node::quote(name);
    match near {
        Some(near) => format!("unknown variable {shown}, did you mean \"{near}\"?"),
        None => format!("unknown variable {shown}"),
    }
}

/// The names that exist, for help texts.
const NAMES: &str = "client_ip, country, host, method, scheme, path, path.NAME, \
     query.NAME, header.NAME, cookie.NAME, route, request_id, consumer, groups, label.NAME, \
     claim.NAME, grpc_status, ai.model, ai.provider, ai.input_tokens, ai.output_tokens, \
     tls.version, tls.cipher, tls.protocol, tls.server_name, tls.client_subject, \
     tls.client_name, tls.client_fingerprint";

/// Reports the `message` of [`Variable::parse`], which quotes the text. A text from the environment
/// may be secret: the report does not show it.
pub(crate) fn report_invalid(message: String, node: &Node, reader: &mut Reader<'_>) {
    let hidden = matches!(&node.value, Value::Scalar(scalar) if scalar.typed.is_some());
    let message =
        if hidden { format!("{} has an invalid variable", node.found()) } else { message };
    reader.error(node.span, message).help(format!("the variables are {NAMES}"));
}

impl Setting for Variable {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("variable")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = reader.scalar(node, "the name of a variable")?;
        match Variable::parse(&scalar.text) {
            Ok(variable) => {
                reader.uses_variable(&variable, node.span);
                Some(variable)
            }
            Err(why) => {
                report_invalid(why, node, reader);
                None
            }
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::PathParam(name) => write!(f, "path.{name}"),
            Variable::Query(name) => write!(f, "query.{name}"),
            Variable::Header(name) => write!(f, "header.{name}"),
            Variable::Cookie(name) => write!(f, "cookie.{name}"),
            Variable::Label(name) => write!(f, "label.{name}"),
            Variable::Claim(name) => write!(f, "claim.{name}"),
            plain => {
                let named = PLAIN.iter().find(|(_, variable)| variable == plain);
                f.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Variable;

    #[test]
    fn names_round_trip() {
        for name in [
            "client_ip",
            "country",
            "host",
            "method",
            "scheme",
            "path",
            "path.id",
            "query.q",
            "header.x-user",
            "cookie.sid",
            "route",
            "request_id",
            "consumer",
            "grpc_status",
            "groups",
            "ai.output_tokens",
            "label.team",
            "claim.realm_access.roles",
        ] {
            assert_eq!(Variable::parse(name).unwrap().to_string(), name);
        }
        let header = Variable::parse("header.X-User");
        assert_eq!(header, Ok(Variable::Header("x-user".to_owned())));
    }

    #[test]
    fn strangers_are_named() {
        for (name, why) in [
            ("clientip", "did you mean \"client_ip\"?"),
            ("headers.x", "did you mean \"header.x\"?"),
            ("header", "did you mean \"header.NAME\"?"),
            ("quux", "unknown variable \"quux\""),
            ("header.", "lacks the name"),
            ("header.a b", "characters"),
            ("header.a:b", "not a valid header name"),
            ("client.ip", "unknown variable \"client.ip\", did you mean \"client_ip\"?"),
            ("tls.versoin", "did you mean \"tls.version\"?"),
            ("", "unknown variable"),
        ] {
            let out = Variable::parse(name).unwrap_err();
            assert!(out.contains(why), "{name}: {out}");
        }
    }
}
