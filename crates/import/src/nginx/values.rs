//! Values of directives: `return`, and texts with variables.

use super::super::writer::quoted;
use super::parser::Directive;

/// What a redirect ends with that has the query of the request.
const WITH_QUERY: [&str; 2] = ["$request_uri", "$uri$is_args$args"];

/// The handler of `return`, in a server of this name.
pub(super) fn returned(directive: &Directive, server_name: Option<&str>) -> Option<String> {
    let (status, text) = match directive.arguments.as_slice() {
        [url] if url.contains("://") => (302, Some(url)),
        [status] => (status.parse().ok()?, None),
        [status, text] => (status.parse::<u16>().ok()?, Some(text)),
        _ => return None,
    };
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(url)) => {
            let before = WITH_QUERY.into_iter().find_map(|end| url.strip_suffix(end));
            let before = before.filter(|before| !before.contains('?'));
            let url = before.map_or(url.clone(), |before| format!("{before}$uri"));
            let query = if before.is_some() { "" } else { ", keep_query: false" };
            let to = template(&url, server_name)?;
            let begins = ["/", "http://", "https://", "{scheme}:", "{path}"];
            begins.iter().any(|begin| to.starts_with(begin)).then_some(())?;
            Some(format!("{{ redirect: {{ to: {}, status: {status}{query} }} }}", quoted(&to)))
        }
        (200..=599, None) if status != 444 => {
            Some(format!("{{ respond: {{ status: {status} }} }}"))
        }
        (200..=599, Some(text)) if status != 444 && !text.contains('$') => {
            Some(format!("{{ respond: {{ status: {status}, body: {} }} }}", quoted(text)))
        }
        _ => None,
    }
}

/// A text with nginx's variables, in a server of this name, as one with ours; `None` if one has no
/// counterpart.
pub(super) fn template(text: &str, server_name: Option<&str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at].replace('{', "{{").replace('}', "}}"));
        rest = &rest[at + 1..];
        let in_braces = rest.strip_prefix('{');
        let start = in_braces.unwrap_or(rest);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = start.find(|c| !is_name(c)).unwrap_or(start.len());
        let (name, after) = start.split_at(end);
        rest = if in_braces.is_some() { after.strip_prefix('}')? } else { after };
        let field = |prefix: &str| name.strip_prefix(prefix).filter(|field| !field.is_empty());
        if name == "server_name" {
            // Not the host, which the client chooses.
            out.push_str(server_name?);
            continue;
        }
        let variable = match name {
            "host" | "http_host" => "host".to_owned(),
            "remote_addr" => "client_ip".to_owned(),
            "scheme" => "scheme".to_owned(),
            "request_method" => "method".to_owned(),
            "uri" | "document_uri" => "path".to_owned(),
            "request_id" => "request_id".to_owned(),
            _ => match (field("http_"), field("arg_"), field("cookie_")) {
                (Some(name), ..) => format!("header.{}", name.replace('_', "-")),
                (_, Some(name), _) => format!("query.{name}"),
                (.., Some(name)) => format!("cookie.{name}"),
                _ => return None,
            },
        };
        out.push_str(&format!("{{{variable}}}"));
    }
    out.push_str(&rest.replace('{', "{{").replace('}', "}}"));
    Some(out)
}
