//! Converts the common subset of nginx's configuration: servers, prefix and exact locations,
//! upstreams, files, redirects, headers, access, limits and caching.
//!
//! Every directive that is not converted is named in a note with its line.

mod closed;
mod hosts;
mod includes;
mod locations;
mod parser;
mod policies;
mod upstreams;
mod values;

use super::writer::{Writer, list, quoted};
pub use includes::{Included, ReadFiles};
use parser::{Directive, parse};

const HEAD: &str = "\
Lines that begin with \"note:\" name what is not converted, with its line. Everywhere: prefixes \
match whole segments; upstreams receive the client's Host, X-Forwarded-For and X-Forwarded-Proto \
without a setting; upgrades to WebSocket pass; connections to upstreams are kept; time-outs are \
those of an upstream, not of a location.";

/// Returns our configuration as YAML, or why the input is not a configuration of nginx. `read`
/// reads what it includes.
pub fn convert(text: &str, from: &str, read: ReadFiles<'_>) -> Result<String, String> {
    let main = parse(text, "").map_err(|error| format!("{from}:{error}"))?;
    let main = includes::Includes::new(read).resolve(main)?;
    let mut out = Writer::default();
    let origin = format!("Converted from {from} by `tidegate import nginx`.");
    out.comment(0, &origin);
    out.comment(0, HEAD);
    // A file of sites-enabled has servers without `http` around them.
    let http = main.iter().find(|directive| directive.name == "http");
    let level = http.map_or(&*main, |http| &*http.block);
    let servers: Vec<&Directive> = level.iter().filter(|one| one.name == "server").collect();
    if servers.is_empty() {
        return Err(format!("{from} has no server: it is not a configuration of nginx"));
    }
    let known = ["http", "server", "upstream", "events"];
    let other = |one: &&Directive| !known.contains(&&*one.name) && !one.has_no_effect();
    for directive in main.iter().filter(other) {
        out.note(0, &directive.not_converted());
    }
    if http.is_some() {
        let known = ["server", "upstream"];
        let is_known = |name: &str| known.contains(&name) || locations::is_inherited(name);
        let other = |one: &&Directive| !is_known(&one.name) && !one.has_no_effect();
        for directive in level.iter().filter(other) {
            out.note(0, &directive.not_converted());
        }
    }
    out.empty_line();
    let listeners = listeners(&servers, &mut out);
    let mut upstreams = Vec::new();
    let mut routes = Writer::default();
    for (number, server) in servers.iter().enumerate() {
        locations::write(server, level, &listeners, &mut upstreams, &mut routes, number + 1);
    }
    upstreams::write(level, &upstreams, &mut out);
    let routes = routes.finish();
    if !routes.contains("- name: ") {
        return Err(format!("{from} has no server with an address that can be converted"));
    }
    let mut caches = policies::caches(level);
    caches.retain(|name| routes.contains(&policies::stored_in(name)));
    if !caches.is_empty() {
        out.line(0, "caches:");
        caches.iter().for_each(|name| out.line(2, &format!("{name}: {{}}")));
        out.empty_line();
    }
    out.line(0, "routes:");
    Ok(out.finish() + &routes)
}

/// A listener, and the server that gets requests for unknown hosts.
struct Listener<'d> {
    bind: String,
    name: String,
    default: &'d Directive,
}

/// The address to bind for `listen`, in our form.
fn bind(directive: &Directive) -> Option<String> {
    let written = directive.arguments.first()?;
    let bind = match written.strip_prefix("*:").or(written.strip_prefix("[::]:")) {
        Some(port) => format!(":{port}"),
        None if written.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{written}"),
        None => written.clone(),
    };
    bind.parse::<settings::Address>().ok().filter(|address| address.port().is_some())?;
    Some(bind)
}

fn listeners<'d>(servers: &[&'d Directive], out: &mut Writer) -> Vec<Listener<'d>> {
    let mut listeners: Vec<Listener<'d>> = Vec::new();
    let mut tls: Vec<Vec<String>> = Vec::new();
    out.line(0, "listeners:");
    for server in servers {
        for listen in server.all("listen") {
            let has = |flag: &str| listen.arguments.iter().any(|argument| argument == flag);
            let Some(bind) = bind(listen).filter(|_| !has("quic")) else {
                out.note(2, &listen.not_converted());
                continue;
            };
            let at = listeners.iter().position(|one| one.bind == bind).unwrap_or_else(|| {
                let name = format!("web-{}", bind.rsplit(':').next().unwrap_or_default());
                let taken = listeners.iter().filter(|one| one.name.starts_with(&name)).count();
                let name = if taken == 0 { name } else { format!("{name}-{taken}") };
                listeners.push(Listener { bind: bind.clone(), name, default: server });
                tls.push(Vec::new());
                listeners.len() - 1
            });
            if has("default_server") {
                listeners[at].default = server;
            }
            if has("ssl")
                && let Some(pair) = certificate(server)
                && !tls[at].contains(&pair)
            {
                tls[at].push(pair);
            }
        }
    }
    for (listener, certificates) in listeners.iter().zip(tls) {
        let Listener { bind, name, .. } = listener;
        let tls = match certificates.is_empty() {
            true => String::new(),
            false => format!(", tls: {{ certificates: {} }}", list(&certificates)),
        };
        out.line(2, &format!("{name}: {{ bind: {}{tls} }}", quoted(bind)));
    }
    out.empty_line();
    listeners
}

/// The certificate of a server. `check` names its files if they cannot be read: without them the
/// listener must not start, least of all without TLS.
fn certificate(server: &Directive) -> Option<String> {
    let file = |name| server.all(name).next().and_then(|one| one.arguments.first());
    let (cert, key) = (file("ssl_certificate")?, file("ssl_certificate_key")?);
    Some(format!("{{ cert: {}, key: {} }}", quoted(cert), quoted(key)))
}

#[cfg(test)]
mod tests;
