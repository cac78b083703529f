//! Converts manifests of the Kubernetes Gateway API (v1): `Gateway`, `HTTPRoute`, `GRPCRoute`,
//! `TLSRoute`, `TCPRoute`, `UDPRoute`, with the `Service`, `EndpointSlice`, `ReferenceGrant` and
//! `BackendTLSPolicy` objects that they refer to, as far as they are given.
//!
//! A port of the gateways becomes a listener or a stream, each match of a rule a route. The order
//! of the routes is that of the specification; where ours differs they get priorities. What has no
//! counterpart is named in a comment with the file and the line of its object.

mod backends;
mod filters;
mod gateways;
mod model;
mod routes;
mod streams;

use serde_json::Value;

use super::writer::{Writer, literal, quoted};
use backends::Backends;
use model::Objects;

const HEAD: &str = "\
Lines that begin with \"note:\" name what the manifests have and this configuration has not, or \
what means something else here.";

/// A document of a file.
pub struct Manifest {
    /// The file and the line where it begins, for notes.
    pub place: String,
    pub value: Value,
}

/// The documents of a YAML file, each with the number of its first line, from 1. Each begins with
/// as many empty lines as there are before it, so that errors have the lines of the file.
pub fn split(text: &str) -> Vec<(usize, String)> {
    let is_mark = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let mut documents = Vec::new();
    let mut current = (1, String::new());
    for (at, line) in text.lines().enumerate() {
        if is_mark(line) {
            let next = (at + 2, "\n".repeat(at + 1));
            documents.push(std::mem::replace(&mut current, next));
        } else {
            current.1.push_str(line);
            current.1.push('\n');
        }
    }
    documents.push(current);
    let has_content = |text: &str| {
        let is_content = |line: &&str| !line.trim().is_empty() && !line.starts_with(['#', '%']);
        text.lines().find(is_content).is_some_and(|line| line.trim() != "...")
    };
    documents.retain(|(_, text)| has_content(text));
    documents
}

/// Returns our configuration as YAML, or why the manifests have no gateway with a route.
pub fn convert(manifests: &[Manifest], from: &str) -> Result<String, String> {
    let mut notes = Vec::new();
    let objects = Objects::new(manifests, &mut notes);
    let gateways = gateways::listeners(&objects, &mut notes);
    if gateways.is_empty() {
        return Err(format!("{from} has no Gateway with a listener that can be converted"));
    }
    let mut backends = Backends::new(&objects);
    let routes = routes::routes(&objects, &gateways, &mut backends, &mut notes);
    let streams = streams::streams(&objects, &gateways, &mut backends, &mut notes);
    if routes.is_empty() && streams.is_empty() {
        return Err(format!("{from} has no route that is attached to a Gateway"));
    }
    let mut out = Writer::default();
    let origin = format!("Converted from {from} by `tidegate import gateway-api`.");
    out.comment(0, &origin);
    out.comment(0, HEAD);
    notes.append(&mut backends.notes);
    out.notes(0, &notes);
    out.empty_line();
    gateways::write(&gateways, &mut out);
    backends.write(&mut out);
    if !streams.is_empty() {
        out.line(0, "streams:");
        for stream in &streams {
            out.line(2, &format!("- {}", literal(stream)));
        }
        out.empty_line();
    }
    if !routes.is_empty() {
        out.line(0, "routes:");
    }
    for route in &routes {
        out.notes(2, &route.notes);
        out.line(2, &format!("- name: {}", quoted(&route.name)));
        out.line(4, &format!("match: {}", literal(&route.matched)));
        if !route.filters.is_empty() {
            out.line(4, "filters:");
            for filter in &route.filters {
                out.line(6, &format!("- {}", literal(filter)));
            }
        }
        out.line(4, &format!("handler: {}", literal(&route.handler)));
    }
    Ok(out.finish())
}

#[cfg(test)]
mod tests;
