//! The hosts of a server, and those that it responds to before it looks for a location.

use super::super::writer::{Writer, quoted};
use super::closed::restricts;
use super::parser::Directive;
use super::values::returned;

/// The names of a server as we write them.
pub(super) fn hosts(server: &Directive, out: &mut Writer) -> Vec<String> {
    let mut hosts = Vec::new();
    let is_host = |name: &str| name.parse::<router::HostPattern>().is_ok();
    for directive in server.all("server_name") {
        for name in &directive.arguments {
            match name.strip_prefix('.') {
                _ if name == "_" || name.is_empty() => {}
                Some(domain) if is_host(domain) => {
                    hosts.extend([quoted(domain), quoted(&format!("*.{domain}"))]);
                }
                None if is_host(name) => hosts.push(quoted(name)),
                _ => out.note(2, &directive.part_not_converted(name)),
            }
        }
    }
    hosts
}

/// The name in the first `server_name`, as in nginx's `$server_name`, if it is one host.
pub(super) fn first_name(server_name: Option<&Directive>) -> Option<&str> {
    let name = server_name?.arguments.first()?;
    let name = name.strip_prefix('.').unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['.', '-'].contains(&c);
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

/// `if ($host = name) { return … }` of a server, as Certbot writes it.
pub(super) struct HostReturn<'d> {
    pub(super) written: &'d Directive,
    /// As we write it.
    host: String,
    handler: String,
}

/// What a server returns for some of its hosts, and the other hosts.
pub(super) fn take_returns(
    server: &Directive,
    mut hosts: Vec<String>,
) -> (Vec<HostReturn<'_>>, Vec<String>) {
    // What follows `return` is not reached.
    let before_return = server.block.iter().take_while(|one| one.name != "return");
    let mut returns = Vec::new();
    let name = first_name(server.all("server_name").next());
    for one in before_return.filter_map(|one| host_return(one, name)) {
        if let Some(at) = hosts.iter().position(|host| *host == one.host) {
            hosts.remove(at);
            returns.push(one);
        }
    }
    (returns, hosts)
}

fn host_return<'d>(written: &'d Directive, server_name: Option<&str>) -> Option<HostReturn<'d>> {
    let [inner] = written.block.as_slice() else { return None };
    if written.name != "if" || inner.name != "return" || restricts(inner) {
        return None;
    }
    let condition = written.arguments.join(" ");
    let condition = condition.strip_prefix('(')?.strip_suffix(')')?;
    match condition.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["$host", "=", host] => {
            Some(HostReturn { written, host: quoted(host), handler: returned(inner, server_name)? })
        }
        _ => None,
    }
}

impl HostReturn<'_> {
    /// Writes the route. A host comes before all paths, as `if` before locations.
    pub(super) fn write(&self, name: &str, listeners: &str, out: &mut Writer) {
        let HostReturn { host, handler, .. } = self;
        out.line(2, &format!("- name: {name}"));
        out.line(4, &format!("match: {{ {listeners}, host: {host}, path: \"/{{*rest}}\" }}"));
        out.line(4, &format!("handler: {handler}"));
    }
}
