//! Converts `server` and its locations to routes.

use super::super::writer::{Writer, escaped_regex, list, quoted};
use super::closed::{ClosedPaths, PROGRAMS, location_path};
use super::hosts::{HostReturn, first_name, hosts, take_returns};
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

    /// A text with nginx's variables as one with ours.
    pub(super) fn template(&self, text: &str) -> Option<String> {
        template(text, self.server_name())
    }

    fn server_name(&self) -> Option<&'d str> {
        first_name(self.nearest("server_name").into_iter().next())
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

    fn handler(
        &self,
        filters: &mut Vec<String>,
        upstreams: &mut Vec<UsedUpstream>,
        notes: &mut Vec<String>,
    ) -> String {
        let nothing = NOT_FOUND.to_owned();
        if let Some(one) = self.own("return") {
            return returned(one, self.server_name()).unwrap_or_else(|| {
                notes.push(one.not_converted());
                nothing
            });
        }
        if let Some(one) = self.own("proxy_pass") {
            return self.proxied(one, filters, upstreams, notes).unwrap_or_else(|| {
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
            match self.page_for_missing(tried) {
                Some("") => {}
                Some(page) => settings.push(format!("spa: {}", quoted(page))),
                None => notes.push(tried.not_converted()),
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

    /// The file of `try_files` for missing paths, below the directory of the location; empty if
    /// they get 404.
    fn page_for_missing<'t>(&self, tried: &'t Directive) -> Option<&'t str> {
        let (last, files) = tried.arguments.split_last()?;
        let is_path = |one: &String| one == "$uri" || one == "$uri/";
        if !files.iter().all(is_path) || !files.iter().any(|one| one == "$uri") {
            return None;
        }
        if last == "=404" {
            return Some("");
        }
        let is_alias = self.own("alias").is_some();
        // A page of another location has the directory of that one.
        let is_elsewhere = self.own("root").is_some() && !last.starts_with(&self.prefix);
        let directory = if is_alias { self.prefix.trim_end_matches('/') } else { "" };
        let page = last.strip_prefix(directory)?.strip_prefix('/')?;
        let is_plain = !page.contains(['$', '?']) && !page.is_empty() && !is_elsewhere;
        is_plain.then_some(page)
    }

    /// The handler of `proxy_pass`, and the rewrite that its path makes.
    fn proxied(
        &self,
        directive: &Directive,
        filters: &mut Vec<String>,
        upstreams: &mut Vec<UsedUpstream>,
        notes: &mut Vec<String>,
    ) -> Option<String> {
        let (upstream, path) = self.proxy_target(directive)?;
        let is_rewritten = filters.iter().any(|filter| filter.starts_with("rewrite: "));
        if !path.is_empty() && is_rewritten {
            let place = directive.place();
            notes.push(format!(
                "{place}: the path {path} of proxy_pass is not converted: nginx has it for paths \
                 that `rewrite` does not change"
            ));
        } else if !path.is_empty() && path != self.prefix {
            if self.is_exact || self.prefix.ends_with('/') != path.ends_with('/') {
                return None;
            }
            let (from, to) = (self.prefix.trim_end_matches('/'), path.trim_end_matches('/'));
            if !path.ends_with('/') {
                // Without a prefix `/api` itself would be `/`, and add a slash.
                let pattern = quoted(&format!("^{}", escaped_regex(from)));
                let replace = format!("pattern: {pattern}, replace: {}", quoted(to));
                filters.push(format!("rewrite: {{ regex: {{ {replace} }} }}"));
                return Some(format!("{{ upstream: {} }}", used(upstream, upstreams)));
            }
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
