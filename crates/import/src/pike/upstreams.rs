//! Converts `upstreams` of Pike and their servers.

use settings::Duration;

use super::super::writer::{Writer, list, quoted};
use super::model::Entry;

/// Writes one upstream; returns `false` if no server of it is supported.
pub(super) fn write(
    upstream: &mut Entry<'_>,
    name: &str,
    response: Option<Duration>,
    out: &mut Writer,
) -> bool {
    upstream.expect(&[
        "name",
        "healthCheck",
        "policy",
        "enableH2C",
        "acceptEncoding",
        "servers",
        "remark",
    ]);
    if upstream.flag("enableH2C") {
        upstream.note("enableH2C: HTTP/2 to upstreams is not supported yet, HTTP/1.1 is used");
    }
    let policy = upstream.text("policy");
    let mut servers = Vec::new();
    for (at, mut server) in upstream.children("servers").into_iter().enumerate() {
        server.expect(&["addr", "backup", "healthy"]);
        let backup = server.flag("backup") || (policy == "first" && at > 0);
        match address(&server.text("addr")) {
            Ok(address) if backup => {
                servers.push(format!("{{ address: {}, backup: true }}", quoted(&address)));
            }
            Ok(address) => servers.push(quoted(&address)),
            Err(why) => server.note(why),
        }
        upstream.notes.append(&mut server.notes);
    }
    let balance = match policy.as_str() {
        "first" => {
            upstream.note("policy: first becomes one server with all others as backups");
            "round_robin"
        }
        "" | "roundRobin" => "round_robin",
        "random" => "random",
        "leastconn" => "least_requests",
        other => {
            upstream.note(format!("policy: {other} is unknown and becomes round_robin"));
            "round_robin"
        }
    };
    if servers.is_empty() {
        out.comment(2, &format!("{name} has no supported server"));
        out.notes(2, &upstream.notes);
        return false;
    }
    let remark = upstream.text("remark");
    if !remark.is_empty() {
        out.comment(2, &remark);
    }
    out.notes(2, &upstream.notes);
    out.line(2, &format!("{name}:"));
    out.line(4, &format!("servers: {}", list(&servers)));
    out.line(4, &format!("balance: {balance}"));
    // Pike checks every five seconds with a time-out of three; two failures make a server
    // unhealthy.
    let path = upstream.text("healthCheck");
    let path = if path.is_empty() { String::new() } else { format!("path: {}, ", quoted(&path)) };
    out.line(4, &format!("health: {{ {path}interval: 5s, timeout: 3s, unhealthy_after: 2 }}"));
    if let Some(response) = response {
        out.line(4, &format!("timeouts: {{ response: {response} }}"));
    }
    true
}

/// Converts the URL of a server to an address.
fn address(url: &str) -> Result<String, String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    if rest.split_once('/').is_some_and(|(_, path)| !path.is_empty()) {
        return Err(format!("{url}: servers cannot have a path, so it is left out: use rewrite"));
    }
    // Without a scheme, Pike's port is that of http.
    let has_scheme = url.len() > rest.len();
    let written = if has_scheme { url.to_owned() } else { format!("http://{url}") };
    match crate::server_address(&written) {
        Ok(address) => Ok(address.to_string()),
        Err(why) => Err(format!("{url} {why}, so it is left out")),
    }
}
