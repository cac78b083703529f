//! Gateways: their ports become listeners, and say which routes they accept.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::pike::name_of;
use super::super::writer::{Writer, list as yaml_list, quoted};
use super::model::{GATEWAY, Object, Objects, Reference, list, note_others, port, text};

/// A listener of a gateway.
pub(super) struct GatewayListener<'m> {
    /// That of ours, which has all of its port.
    pub(super) listener: String,
    pub(super) port: u16,
    pub(super) protocol: &'m str,
    /// True if TLS is passed through.
    pub(super) passes_tls: bool,
    pub(super) certificates: Vec<(String, String)>,
    hostname: Option<&'m str>,
    section: &'m str,
    namespace: &'m str,
    gateway: &'m str,
    allowed: &'m Value,
}

/// What a route is attached to: listeners of ours, and the hosts of its requests there; none are
/// all hosts.
pub(super) struct Attached<'g, 'm> {
    pub(super) to: Vec<&'g GatewayListener<'m>>,
    pub(super) hosts: Vec<String>,
}

/// All listeners of all gateways that can be converted.
pub(super) fn listeners<'m>(
    objects: &Objects<'m>,
    notes: &mut Vec<String>,
) -> Vec<GatewayListener<'m>> {
    let mut found: Vec<GatewayListener<'m>> = Vec::new();
    for gateway in objects.of("Gateway") {
        let known = ["gatewayClassName", "listeners", "infrastructure"];
        note_others(gateway.spec(), &known, &gateway.place, notes);
        for value in list(&gateway.spec()["listeners"]) {
            let place = format!("{} listener {}", gateway.place, text(&value["name"]));
            match listener(value, gateway, objects, &place, notes) {
                Err(why) => notes.push(format!("{place} is left out: {why}")),
                Ok(listener) => {
                    let other = found.iter().find(|other| {
                        other.port == listener.port
                            && is_datagrams(other.protocol) == is_datagrams(listener.protocol)
                    });
                    let of_other = |other: &GatewayListener<'_>| {
                        (other.namespace, other.gateway) != (gateway.namespace, gateway.name)
                    };
                    if other.is_some_and(of_other) {
                        notes.push(format!(
                            "{place}: another gateway has the port {}, and all have one address \
                             here: set `bind` of one of them, and `listener` of its routes",
                            listener.port
                        ));
                    }
                    let kind =
                        |one: &GatewayListener<'_>| (one.protocol.to_owned(), one.passes_tls);
                    if other.is_some_and(|other| kind(other) != kind(&listener)) {
                        notes.push(format!(
                            "{place} is left out: its port has another protocol already"
                        ));
                        continue;
                    }
                    found.push(listener);
                }
            }
        }
    }
    found
}

fn is_datagrams(protocol: &str) -> bool {
    protocol == "UDP"
}

fn listener<'m>(
    value: &'m Value,
    gateway: &Object<'m>,
    objects: &Objects<'m>,
    place: &str,
    notes: &mut Vec<String>,
) -> Result<GatewayListener<'m>, String> {
    let known = ["name", "hostname", "port", "protocol", "tls", "allowedRoutes"];
    note_others(value, &known, place, notes);
    let port = port(&value["port"]).ok_or("it has no port")?;
    let protocol = text(&value["protocol"]);
    if !["HTTP", "HTTPS", "TLS", "TCP", "UDP"].contains(&protocol) {
        return Err(format!("the protocol \"{protocol}\" has no counterpart"));
    }
    let passes_tls = text(&value["tls"]["mode"]) == "Passthrough";
    if protocol == "HTTPS" && passes_tls {
        return Err("TLS that is passed through has the protocol TLS".to_owned());
    }
    let hostname = value["hostname"].as_str().filter(|name| !name.is_empty());
    if let Some(name) = hostname {
        name.parse::<router::HostPattern>().map_err(|why| format!("\"{name}\" {why}"))?;
    }
    note_others(&value["tls"], &["mode", "certificateRefs"], place, notes);
    let terminates = protocol == "HTTPS" || (protocol == "TLS" && !passes_tls);
    let mut certificates = Vec::new();
    for secret in list(&value["tls"]["certificateRefs"]).iter().filter(|_| terminates) {
        let secret = Reference::read(secret, ("", "Secret"), gateway.namespace);
        if (secret.group, secret.kind) != ("", "Secret") || !objects.permits(gateway, &secret) {
            notes.push(format!("{place}: the certificate {} may not be used", secret.name));
            continue;
        }
        let file = name_of(&format!("{}-{}", secret.namespace, secret.name)).replace('/', "-");
        notes.push(format!(
            "{place}: write tls.crt and tls.key of the Secret {}/{} to {file}.crt and {file}.key, \
             or let `acme` obtain the certificate",
            secret.namespace, secret.name
        ));
        certificates.push((format!("{file}.crt"), format!("{file}.key")));
    }
    if terminates && certificates.is_empty() {
        return Err("it has no certificate".to_owned());
    }
    let listener = format!("{}-{port}", protocol.to_lowercase());
    Ok(GatewayListener {
        listener,
        port,
        protocol,
        passes_tls,
        certificates,
        hostname,
        section: text(&value["name"]),
        namespace: gateway.namespace,
        gateway: gateway.name,
        allowed: &value["allowedRoutes"],
    })
}

impl GatewayListener<'_> {
    /// True if a route may be attached.
    fn accepts(&self, route: &Object<'_>, notes: &mut Vec<String>) -> bool {
        let fits = match self.protocol {
            "HTTP" | "HTTPS" => ["HTTPRoute", "GRPCRoute"].contains(&route.kind),
            "TLS" if self.passes_tls => route.kind == "TLSRoute",
            "TLS" | "TCP" => route.kind == "TCPRoute",
            _ => route.kind == "UDPRoute",
        };
        let kinds = list(&self.allowed["kinds"]);
        let is_kind = kinds.is_empty() || kinds.iter().any(|one| text(&one["kind"]) == route.kind);
        let is_near = match text(&self.allowed["namespaces"]["from"]) {
            "All" => true,
            "Selector" => {
                notes.push(format!(
                    "{}: the listener {} selects namespaces by labels, which are not known here: \
                     it is attached",
                    route.place, self.section
                ));
                true
            }
            "None" => false,
            _ => route.namespace == self.namespace,
        };
        fits && is_kind && is_near
    }

    /// The hosts of a route that this listener has; `None` if there are none. An empty list is all.
    fn hosts(&self, hostnames: &[&str]) -> Option<Vec<String>> {
        let Some(own) = self.hostname else {
            return Some(hostnames.iter().map(|name| (*name).to_owned()).collect());
        };
        if hostnames.is_empty() {
            return Some(vec![own.to_owned()]);
        }
        let both: Vec<String> =
            hostnames.iter().filter_map(|name| intersection(own, name)).collect();
        (!both.is_empty()).then_some(both)
    }
}

/// The more special of two host names, if it is part of the other.
fn intersection(one: &str, other: &str) -> Option<String> {
    let covers = |wide: &str, name: &str| {
        let below = wide.strip_prefix('*').is_some_and(|suffix| {
            name.strip_prefix('*').unwrap_or(name).ends_with(suffix) && name.len() > suffix.len()
        });
        below || wide.eq_ignore_ascii_case(name)
    };
    match (covers(one, other), covers(other, one)) {
        (true, _) => Some(other.to_owned()),
        (_, true) => Some(one.to_owned()),
        _ => None,
    }
}

/// The listeners that a route is attached to, those with the same hosts together.
pub(super) fn attached<'g, 'm>(
    route: &Object<'m>,
    gateways: &'g [GatewayListener<'m>],
    notes: &mut Vec<String>,
) -> Vec<Attached<'g, 'm>> {
    let is_host = |name: &&str| name.parse::<router::HostPattern>().is_ok();
    let names = list(&route.spec()["hostnames"]);
    let hostnames: Vec<&str> = names.iter().map(text).filter(is_host).collect();
    if hostnames.len() < names.len() {
        notes.push(format!("{}: hostnames that are not names are left out", route.place));
    }
    if list(&route.spec()["parentRefs"]).is_empty() {
        notes.push(format!("{} is left out: it names no Gateway", route.place));
    }
    let mut by_hosts: BTreeMap<Vec<String>, Vec<&'g GatewayListener<'m>>> = BTreeMap::new();
    for value in list(&route.spec()["parentRefs"]) {
        let parent = Reference::read(value, GATEWAY, route.namespace);
        let wanted = |listener: &&GatewayListener<'m>| {
            (listener.namespace, listener.gateway) == (parent.namespace, parent.name)
                && value["sectionName"].as_str().is_none_or(|name| name == listener.section)
                && value["port"].as_u64().is_none_or(|port| port == u64::from(listener.port))
        };
        let mut is_attached = false;
        for listener in gateways.iter().filter(wanted) {
            if (names.is_empty() || !hostnames.is_empty())
                && listener.accepts(route, notes)
                && let Some(hosts) = listener.hosts(&hostnames)
            {
                let to = by_hosts.entry(hosts).or_default();
                if !to.iter().any(|other| std::ptr::eq(*other, listener)) {
                    to.push(listener);
                }
                is_attached = true;
            }
        }
        if !is_attached {
            let parent = format!("{} {}/{}", parent.kind, parent.namespace, parent.name);
            notes.push(format!("{}: no listener of {parent} accepts it", route.place));
        }
    }
    by_hosts.into_iter().map(|(hosts, to)| Attached { to, hosts }).collect()
}

/// Writes the listeners of HTTP; those of streams are written with their upstreams.
pub(super) fn write(gateways: &[GatewayListener<'_>], out: &mut Writer) {
    let mut ports: BTreeMap<&str, (u16, Vec<String>)> = BTreeMap::new();
    for listener in gateways.iter().filter(|one| one.protocol.starts_with("HTTP")) {
        let (port, certificates) = ports.entry(&listener.listener).or_default();
        *port = listener.port;
        for (cert, key) in &listener.certificates {
            let certificate = format!("{{ cert: {}, key: {} }}", quoted(cert), quoted(key));
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
    }
    if ports.is_empty() {
        return;
    }
    out.line(0, "listeners:");
    for (name, (port, certificates)) in ports {
        let tls = match certificates.is_empty() {
            true => String::new(),
            false => format!(", tls: {{ certificates: {} }}", yaml_list(&certificates)),
        };
        out.line(2, &format!("{name}: {{ bind: \":{port}\"{tls} }}"));
    }
    out.empty_line();
}
