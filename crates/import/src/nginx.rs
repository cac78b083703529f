//! Converts the common subset of nginx's configuration: servers, prefix and exact locations,
//! upstreams, files, redirects, headers, access, limits and caching.
//!
//! Every directive that is not converted is named in a note with its line.

mod closed;
mod headers;
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
        let known = ["server", "upstream", "ssl", "ssl_certificate", "ssl_certificate_key"];
        let is_known = |name: &str| known.contains(&name) || locations::is_inherited(name);
        let other = |one: &&Directive| !is_known(&one.name) && !one.has_no_effect();
        for directive in level.iter().filter(other) {
            out.note(0, &directive.not_converted());
        }
    }
    out.empty_line();
    let listeners = listeners(&servers, level, &mut out);
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
    let all = ["*:", "0.0.0.0:", "[::]:"];
    let bind = match all.into_iter().find_map(|all| written.strip_prefix(all)) {
        Some(port) => format!(":{port}"),
        None if written.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{written}"),
        None => written.clone(),
    };
    bind.parse::<settings::Address>().ok().filter(|address| address.port().is_some())?;
    Some(bind)
}

fn has(listen: &Directive, flag: &str) -> bool {
    listen.arguments.iter().any(|argument| argument == flag)
}

fn listeners<'d>(
    servers: &[&'d Directive],
    http: &[Directive],
    out: &mut Writer,
) -> Vec<Listener<'d>> {
    let mut listeners: Vec<Listener<'d>> = Vec::new();
    // The certificates of those with TLS.
    let mut tls: Vec<Option<Vec<String>>> = Vec::new();
    let all = servers.iter().flat_map(|server| server.all("listen"));
    let binds: Vec<String> = all.filter(|one| !has(one, "quic")).filter_map(bind).collect();
    out.line(0, "listeners:");
    for server in servers {
        for listen in server.all("listen") {
            let Some(bind) = bind(listen).filter(|_| !has(listen, "quic")) else {
                out.note(2, &listen.not_converted());
                continue;
            };
            let of_all = format!(":{}", bind.rsplit(':').next().unwrap_or_default());
            if bind != of_all && binds.contains(&of_all) {
                // What nginx serves on this address only must not be served on all.
                out.note(2, &format!("{}: {of_all} has this port", listen.not_converted()));
                continue;
            }
            let at = listeners.iter().position(|one| one.bind == bind).unwrap_or_else(|| {
                let name = format!("web-{}", bind.rsplit(':').next().unwrap_or_default());
                let taken = listeners.iter().filter(|one| one.name.starts_with(&name)).count();
                let name = if taken == 0 { name } else { format!("{name}-{taken}") };
                listeners.push(Listener { bind: bind.clone(), name, default: server });
                tls.push(None);
                listeners.len() - 1
            });
            if has(listen, "default_server") {
                listeners[at].default = server;
            }
            let is_on = nearest(server, http, "ssl").is_some_and(|ssl| ssl.arguments == ["on"]);
            if is_on || has(listen, "ssl") {
                let certificates = tls[at].get_or_insert_default();
                let own = certificate(server, http).filter(|own| !certificates.contains(own));
                certificates.extend(own);
            }
        }
    }
    for (listener, certificates) in listeners.iter().zip(tls) {
        let Listener { bind, name, .. } = listener;
        let tls = certificates.map_or(String::new(), |certificates| {
            format!(", tls: {{ certificates: {} }}", list(&certificates))
        });
        out.line(2, &format!("{name}: {{ bind: {}{tls} }}", quoted(bind)));
    }
    out.empty_line();
    listeners
}

/// The directive of a server, or the one that it inherits.
fn nearest<'d>(server: &'d Directive, http: &'d [Directive], name: &str) -> Option<&'d Directive> {
    server.block.iter().chain(http).find(|one| one.name == name)
}

/// The certificate of a server. `check` names its files if they cannot be read, and a listener
/// that has none: without them it must not start, least of all without TLS.
fn certificate(server: &Directive, http: &[Directive]) -> Option<String> {
    let file = |name| nearest(server, http, name).and_then(|one| one.arguments.first());
    let (cert, key) = (file("ssl_certificate")?, file("ssl_certificate_key")?);
    Some(format!("{{ cert: {}, key: {} }}", quoted(cert), quoted(key)))
}

#[cfg(test)]
mod tests;
