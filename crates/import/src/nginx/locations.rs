//! Converts `server` and its locations to routes.

use std::ops::RangeInclusive;

use super::super::writer::{Writer, list, quoted};
use super::closed::{ClosedPaths, PROGRAMS, location_path};
use super::hosts::{HostReturn, hosts, take_returns};
use super::parser::Directive;
use super::upstreams::{UsedUpstream, used};
use super::values::{returned, template};
use super::{Listener, bind};

/// Directives of `http` and `server` that are taken into account at each location.
const INHERITED: [&str; 13] = [
    "root",
    "index",
    "add_header",
    "proxy_set_header",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_read_timeout",
    "client_max_body_size",
    "gzip",
    "gzip_types",
    "gzip_min_length",
    "gzip_comp_level",
    "try_files",
];

/// Directives of `http` and `server` whose filters each location has (`policies`).
const POLICIES: [&str; 19] = [
    "allow",
    "deny",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "auth_jwt",
    "satisfy",
    "ssl_verify_client",
    "limit_req",
    "limit_req_zone",
    "limit_req_status",
    "limit_conn",
    "limit_conn_zone",
    "limit_conn_status",
    "proxy_cache",
    "proxy_cache_path",
    "proxy_cache_valid",
    "rewrite",
];

/// True if a directive of `http` or `server` is taken into account at each location.
pub(super) fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name) || POLICIES.contains(&name)
}

/// Directives of a server that are converted elsewhere.
const OF_SERVER: [&str; 7] = [
    "listen",
    "server_name",
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "location",
    "return",
];

/// Directives of a location that are converted elsewhere.
const OF_LOCATION: [&str; 3] = ["proxy_pass", "return", "alias"];

/// Directives of an internal location that have a counterpart: `auth_request` reads its
/// `proxy_pass`, and sends no body.
const OF_INTERNAL: [&str; 3] = ["internal", "proxy_pass", "proxy_pass_request_body"];

/// The handler of a location that serves nothing.
const NOT_FOUND: &str = "{ respond: { status: 404 } }";

/// Fields that upstreams receive without a setting, with the value that requests this.
const SENT_ANYWAY: [(&str, &str); 5] = [
    ("host", "$host"),
    ("host", "$http_host"),
    ("x-forwarded-for", "$proxy_add_x_forwarded_for"),
    ("x-forwarded-proto", "$scheme"),
    ("x-forwarded-host", "$host"),
];

/// Fields of the connection to an upstream, which are ours to set.
const OF_CONNECTION: [&str; 4] = ["connection", "upgrade", "content-length", "transfer-encoding"];

/// A location with the levels that it inherits from, the innermost first.
pub(super) struct Location<'d> {
    /// Unique, with the line.
    name: String,
    /// The server's own, if it has no location for all paths.
    pub(super) path: Option<String>,
    /// Path and whole-path match, as nginx has it.
    prefix: String,
    is_exact: bool,
    pub(super) levels: [&'d [Directive]; 3],
    /// The filter that rejects what nginx protects elsewhere.
    closed: Option<String>,
}

/// Writes the routes of a server. Their names have its number in the file.
pub(super) fn write(
    server: &Directive,
    http: &[Directive],
    listeners: &[Listener<'_>],
    upstreams: &mut Vec<UsedUpstream>,
    out: &mut Writer,
    server_number: usize,
) {
    let binds: Vec<String> = server.all("listen").filter_map(bind).collect();
    let of_server: Vec<&Listener<'_>> =
        listeners.iter().filter(|one| binds.contains(&one.bind)).collect();
    let is_default = of_server.iter().all(|one| std::ptr::eq(one.default, server));
    let names: Vec<String> = of_server.iter().map(|one| one.name.clone()).collect();
    let mut matched = vec![format!("listener: {}", list(&names))];
    let hosts = hosts(server, out);
    if names.is_empty() || (!is_default && hosts.is_empty()) {
        let place = server.place();
        out.note(2, &format!("{place}: the server has no listen or name of its own"));
        return;
    }
    let (returns, hosts) = take_returns(server, hosts);
    for (number, one) in (1..).zip(&returns) {
        one.write(&format!("server-{server_number}-host-{number}"), &matched[0], out);
    }
    if !is_default {
        matched.push(format!("host: {}", list(&hosts)));
        if hosts.is_empty() {
            // All that reaches the server has its response.
            return;
        }
    }
    note_other_directives(server, &returns, out);
    // `return` of a server comes before its locations.
    let has_return = server.all("return").next().is_some();
    let locations: Vec<&Directive> = server.all("location").filter(|_| !has_return).collect();
    let closed = ClosedPaths::of(&locations, server, http);
    let prefixes: Vec<String> = (locations.iter())
        .filter_map(|one| location_path(one))
        .filter_map(|(_, prefix, is_exact)| (!is_exact).then_some(prefix))
        .collect();
    let mut has_root = false;
    let mut paths = Vec::new();
    for location in locations {
        let Some((mut path, prefix, is_exact)) = location_path(location) else {
            out.note(2, &closed.note(location));
            continue;
        };
        // The paths below are those of the other location.
        if !is_exact && prefixes.contains(&format!("{prefix}/")) {
            path.clone_from(&prefix);
        }
        if paths.contains(&path) {
            out.note(2, &location.not_converted());
            continue;
        }
        paths.push(path.clone());
        has_root |= prefix == "/" && !is_exact;
        out.notes(2, &closed.notes_of_prefix(&prefix));
        let levels = [&*location.block, &*server.block, http];
        let name = format!("server-{server_number}-{}-line-{}", paths.len(), location.line);
        let closed = closed.filter(location, &prefix, is_exact);
        let one = Location { name, path: Some(path), prefix, is_exact, levels, closed };
        one.write(&matched, upstreams, out);
    }
    if !has_root {
        let levels = [&*server.block, http, &[]];
        let prefix = "/".to_owned();
        let name = format!("server-{server_number}-line-{}", server.line);
        let closed = closed.filter(server, &prefix, false);
        let one = Location { name, path: None, prefix, is_exact: false, levels, closed };
        one.write(&matched, upstreams, out);
    }
}

/// Names the directives of a server that are not converted.
fn note_other_directives(server: &Directive, returns: &[HostReturn<'_>], out: &mut Writer) {
    for directive in &server.block {
        let name = &*directive.name;
        let is_return = returns.iter().any(|one| std::ptr::eq(one.written, directive));
        let is_inherited = is_inherited(name) && name != "rewrite";
        let is_known = is_inherited || directive.has_no_effect() || OF_SERVER.contains(&name);
        if !is_return && !is_known {
            out.note(2, &directive.not_converted());
        }
    }
}

impl<'d> Location<'d> {
    /// The directives of this name at the innermost level that has any.
    pub(super) fn nearest(&self, name: &str) -> Vec<&'d Directive> {
        let at = |level: &&'d [Directive]| level.iter().any(|one| one.name == name);
        let level = self.levels.iter().find(|level| at(level));
        level.into_iter().flat_map(|level| level.iter().filter(|one| one.name == name)).collect()
    }

    fn own(&self, name: &str) -> Option<&'d Directive> {
        self.levels[0].iter().find(|one| one.name == name)
    }

    fn write(&self, matched: &[String], upstreams: &mut Vec<UsedUpstream>, out: &mut Writer) {
        let mut notes = Vec::new();
        let mut filters = Vec::new();
        let is_internal = self.own("internal").is_some();
        let handler = if is_internal {
            // Clients get 404 from nginx, too.
            NOT_FOUND.to_owned()
        } else {
            filters.extend(self.closed.clone());
            filters.extend(self.policies(upstreams, &mut notes));
            filters.extend(self.headers(&mut notes));
            self.handler(&mut filters, upstreams, &mut notes)
        };
        if self.path.is_some() {
            let known: &[&str] = if is_internal { &OF_INTERNAL } else { &OF_LOCATION };
            let other = |one: &&Directive| {
                !known.contains(&&*one.name)
                    && (is_internal || !is_inherited(&one.name) && !one.has_no_effect())
            };
            notes.extend(self.levels[0].iter().filter(other).map(Directive::not_converted));
        }
        out.notes(2, &notes);
        let path = self.path.clone().unwrap_or_else(|| "/{*rest}".to_owned());
        let matched = [matched, &[format!("path: {}", quoted(&path))]].concat();
        out.line(2, &format!("- name: {}", self.name));
        out.line(4, &format!("match: {{ {} }}", matched.join(", ")));
        if !filters.is_empty() {
            out.line(4, "filters:");
            filters.iter().for_each(|filter| out.line(6, &format!("- {filter}")));
        }
        if let Some(size) = self.body_limit(out) {
            out.line(4, &format!("limits: {{ body: {size} }}"));
        }
        out.line(4, &format!("handler: {handler}"));
    }

    fn body_limit(&self, out: &mut Writer) -> Option<String> {
        let directive = self.nearest("client_max_body_size").into_iter().next()?;
        let written = directive.arguments.first()?.to_ascii_lowercase();
        let (number, unit) = match written.strip_suffix(['k', 'm', 'g']) {
            Some(number) => (number, &written[written.len() - 1..]),
            None => (&*written, ""),
        };
        let unit = [("k", "KiB"), ("m", "MiB"), ("g", "GiB")].iter().find(|(u, _)| *u == unit);
        let size = format!("{number}{}", unit.map_or("B", |(_, ours)| ours));
        if number == "0" || size.parse::<settings::Size>().is_err() {
            out.note(4, &directive.not_converted());
            return None;
        }
        Some(size)
    }

    /// What is compressed, as settings that follow others.
    fn compression(&self, notes: &mut Vec<String>) -> String {
        let mut settings = String::new();
        for one in self.nearest("gzip_types") {
            let is_type = |name: &&String| name.parse::<plugin::MediaPattern>().is_ok();
            let (types, others): (Vec<&String>, Vec<&String>) =
                one.arguments.iter().partition(is_type);
            notes.extend(others.iter().map(|name| one.part_not_converted(name)));
            if others.is_empty() {
                // nginx compresses HTML in any case.
                let html = ["text/html"].into_iter();
                let types = html.chain(types.iter().map(|name| &***name)).map(quoted);
                settings.push_str(&format!(", types: {}", list(&types.collect::<Vec<_>>())));
            }
        }
        let number = |name: &str, range: RangeInclusive<u32>| {
            let written = self.nearest(name).first()?.arguments.first()?.parse::<u32>().ok()?;
            range.contains(&written).then_some(written)
        };
        if let Some(bytes) = number("gzip_min_length", 0..=u32::MAX) {
            settings.push_str(&format!(", min_size: {bytes}B"));
        }
        if let Some(level) = number("gzip_comp_level", 1..=9) {
            settings.push_str(&format!(", levels: {{ gzip: {level} }}"));
        }
        settings
    }

    /// The filters for headers and compression.
    fn headers(&self, notes: &mut Vec<String>) -> Vec<String> {
        let mut filters = Vec::new();
        if self.nearest("gzip").iter().any(|one| one.arguments.first().is_some_and(|a| a == "on")) {
            filters.push(format!("compress: {{ codings: [gzip]{} }}", self.compression(notes)));
        }
        for (directive, filter) in
            [("proxy_set_header", "request_headers"), ("add_header", "response_headers")]
        {
            let mut set: Vec<(String, String)> = Vec::new();
            // The client's own value must not pass where nginx replaces it.
            let mut remove: Vec<String> = Vec::new();
            let mut always = false;
            for one in self.nearest(directive) {
                let [name, value, rest @ ..] = one.arguments.as_slice() else {
                    notes.push(one.not_converted());
                    continue;
                };
                let lower = name.to_ascii_lowercase();
                let is_sent =
                    |known: &(&str, &str)| known.0 == lower && known.1.eq_ignore_ascii_case(value);
                let is_needless =
                    SENT_ANYWAY.iter().any(is_sent) || ["connection", "upgrade"].contains(&&*lower);
                if filter == "request_headers" && is_needless {
                    continue;
                }
                if filter == "request_headers" && self.auth_field(&lower, value).is_some() {
                    continue;
                }
                let is_repeated = set.iter().any(|(known, _)| *known == lower);
                let is_name =
                    wire::token::is_token(lower.as_bytes()) && !OF_CONNECTION.contains(&&*lower);
                match template(value).filter(|_| is_name && !is_repeated) {
                    Some(value) => set.push((lower, value)),
                    None => {
                        notes.push(one.not_converted());
                        let name = quoted(&lower);
                        if filter == "request_headers"
                            && is_name
                            && lower != "host"
                            && !remove.contains(&name)
                        {
                            remove.push(name);
                        }
                    }
                }
                always |= rest.iter().any(|word| word == "always");
            }
            let set: Vec<String> =
                set.iter().map(|(name, v)| format!("{}: {}", quoted(name), quoted(v))).collect();
            let mut settings = Vec::new();
            if !set.is_empty() {
                settings.push(format!("set: {{ {} }}", set.join(", ")));
                settings.extend(always.then(|| "always: true".to_owned()));
            }
            if !remove.is_empty() {
                settings.push(format!("remove: {}", list(&remove)));
            }
            if !settings.is_empty() {
                filters.push(format!("{filter}: {{ {} }}", settings.join(", ")));
            }
        }
        filters
    }

    fn handler(
        &self,
        filters: &mut Vec<String>,
        upstreams: &mut Vec<UsedUpstream>,
        notes: &mut Vec<String>,
    ) -> String {
        let nothing = NOT_FOUND.to_owned();
        if let Some(one) = self.own("return") {
            return returned(one).unwrap_or_else(|| {
                notes.push(one.not_converted());
                nothing
            });
        }
        if let Some(one) = self.own("proxy_pass") {
            return self.proxied(one, filters, upstreams).unwrap_or_else(|| {
                notes.push(one.not_converted());
                "{ respond: { status: 502 } }".to_owned()
            });
        }
        if PROGRAMS.iter().any(|name| self.own(name).is_some()) {
            // Not the files: they are the source text of the program.
            return "{ respond: { status: 502 } }".to_owned();
        }
        let alias = self.own("alias");
        let Some(root) = alias.or(self.nearest("root").into_iter().next()) else { return nothing };
        let Some(directory) = root.arguments.first() else { return nothing };
        let mut settings = vec![format!("root: {}", quoted(directory))];
        if let Some(index) = self.nearest("index").first() {
            let names: Vec<String> = index.arguments.iter().map(|name| quoted(name)).collect();
            settings.push(format!("index: {}", list(&names)));
        }
        if let Some(tried) = self.nearest("try_files").first() {
            match tried.arguments.last().map(|last| (&**last, last.strip_prefix('/'))) {
                Some(("=404", _)) => {}
                Some((_, Some(page))) if !page.contains(['$', '?']) && !page.is_empty() => {
                    settings.push(format!("spa: {}", quoted(page)));
                }
                _ => notes.push(tried.not_converted()),
            }
        }
        if alias.is_some() && self.prefix != "/" {
            let prefix = self.prefix.trim_end_matches('/');
            filters.push(format!("rewrite: {{ strip_prefix: {} }}", quoted(prefix)));
        }
        let handler = format!("{{ files: {{ {} }} }}", settings.join(", "));
        if std::path::Path::new(directory).is_dir() {
            return handler;
        }
        let place = root.place();
        notes.push(format!("{place}: {directory} does not exist here, use handler: {handler}"));
        nothing
    }

    /// The handler of `proxy_pass`, and the rewrite that its path makes.
    fn proxied(
        &self,
        directive: &Directive,
        filters: &mut Vec<String>,
        upstreams: &mut Vec<UsedUpstream>,
    ) -> Option<String> {
        let (upstream, path) = self.proxy_target(directive)?;
        if !path.is_empty() && path != self.prefix {
            if self.is_exact || self.prefix.ends_with('/') != path.ends_with('/') {
                return None;
            }
            let (from, to) = (self.prefix.trim_end_matches('/'), path.trim_end_matches('/'));
            let strip = (!from.is_empty()).then(|| format!("strip_prefix: {}", quoted(from)));
            let add = (!to.is_empty()).then(|| format!("add_prefix: {}", quoted(to)));
            let parts: Vec<String> = strip.into_iter().chain(add).collect();
            filters.push(format!("rewrite: {{ {} }}", parts.join(", ")));
        }
        Some(format!("{{ upstream: {} }}", used(upstream, upstreams)))
    }

    /// The upstream of `proxy_pass`, and the path of its URL.
    pub(super) fn proxy_target<'p>(
        &self,
        directive: &'p Directive,
    ) -> Option<(UsedUpstream, &'p str)> {
        let url = directive.arguments.first().filter(|url| !url.contains('$'))?;
        let (scheme, rest) = url.split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_address = crate::server_address(&format!("{scheme}://{host}")).is_ok();
        if !["http", "https"].contains(&scheme) || host.is_empty() || !is_address {
            return None;
        }
        let nearest = |name: &str| self.nearest(name).into_iter().next();
        let target = (host, self.declares(host));
        Some((UsedUpstream::new(target, scheme, nearest), path))
    }

    /// True if the file has an upstream of this name.
    fn declares(&self, name: &str) -> bool {
        let all = self.levels.iter().flat_map(|level| level.iter());
        let mut upstreams = all.filter(|one| one.name == "upstream");
        upstreams.any(|one| one.arguments.first().is_some_and(|own| own == name))
    }
}
