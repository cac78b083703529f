//! Filters for access, limits, caching and rewrites of a location.
//!
//! Promises: a directive that protects a location and is not converted closes it, so that nothing
//! becomes public by the conversion.

use super::super::pike::name_of;
use super::super::writer::{list, quoted};
use super::closed::{CLOSED, UNCONVERTED, restricts};
use super::locations::Location;
use super::parser::Directive;
use super::upstreams::{UsedUpstream, duration, used};

impl Location<'_> {
    /// The filters, and notes about what has no counterpart.
    pub(super) fn policies(
        &self,
        upstreams: &mut Vec<UsedUpstream>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let mut filters = Vec::new();
        self.access(&mut filters, notes);
        self.authentication(&mut filters, notes);
        self.auth_request(&mut filters, upstreams, notes);
        self.limits(&mut filters, notes);
        self.cache(&mut filters, notes);
        self.rewrites(&mut filters, notes);
        filters
    }

    fn word(&self, name: &str) -> Option<&String> {
        self.nearest(name).first()?.arguments.first()
    }

    /// `allow` and `deny`: the first that matches decides.
    fn access(&self, filters: &mut Vec<String>, notes: &mut Vec<String>) {
        let has_rules = |level: &&&[super::parser::Directive]| {
            level.iter().any(|one| one.name == "allow" || one.name == "deny")
        };
        let Some(level) = self.levels.iter().find(has_rules) else { return };
        let rules: Vec<&Directive> =
            level.iter().filter(|one| one.name == "allow" || one.name == "deny").collect();
        let is_all = |rule: &Directive| rule.arguments == ["all"];
        let (rest, last) = match rules.split_last() {
            Some((last, rest)) if is_all(last) => (rest, &*last.name),
            _ => (&*rules, "allow"),
        };
        let addresses: Vec<String> =
            rest.iter().flat_map(|rule| &rule.arguments).map(|ip| quoted(ip)).collect();
        let is_address = |rule: &&Directive| {
            rule.arguments.iter().all(|ip| ip.parse::<settings::Cidr>().is_ok())
        };
        // Rules of one kind, and then the other kind for all.
        let is_list = rest.iter().all(|rule| rule.name != last) && rest.iter().all(is_address);
        match (last, is_list) {
            ("deny", true) if rest.is_empty() => filters.push(CLOSED.to_owned()),
            ("deny", true) => filters.push(format!("allow: {{ ip: {} }}", list(&addresses))),
            (_, true) if rest.is_empty() => {}
            (_, true) => filters.push(format!("deny: {{ ip: {} }}", list(&addresses))),
            (_, false) => {
                notes.extend(rules.iter().map(|rule| rule.not_converted()));
                closed(filters, notes, "allow and deny");
            }
        }
    }

    fn authentication(&self, filters: &mut Vec<String>, notes: &mut Vec<String>) {
        if let Some(realm) = self.word("auth_basic").filter(|realm| *realm != "off") {
            match self.word("auth_basic_user_file") {
                Some(file) => filters.push(format!(
                    "basic_auth: {{ htpasswd: {}, realm: {} }}",
                    quoted(file),
                    quoted(realm)
                )),
                None => closed(filters, notes, "auth_basic"),
            }
        }
        for name in UNCONVERTED {
            if let Some(one) = self.nearest(name).first()
                && restricts(one)
            {
                notes.push(one.not_converted());
                closed(filters, notes, name);
            }
        }
        // Blocks that reject some of the requests; those of a server hold in each location.
        let blocks = self.levels.iter().enumerate().flat_map(|(depth, level)| {
            let is_own = depth == 0 && self.path.is_some();
            level.iter().filter(move |one| {
                one.name == "if" || is_own && ["limit_except", "location"].contains(&&*one.name)
            })
        });
        if let Some(one) = blocks.into_iter().find(|one| restricts(one)) {
            closed(filters, notes, &format!("{} of {}", one.name, one.place()));
        }
    }

    /// `auth_request`, if its location passes requests to a server.
    fn auth_request(
        &self,
        filters: &mut Vec<String>,
        upstreams: &mut Vec<UsedUpstream>,
        notes: &mut Vec<String>,
    ) {
        let nearest = self.nearest("auth_request");
        let Some(one) = nearest.first() else { return };
        if one.arguments == ["off"] {
            return;
        }
        let Some((upstream, path)) = self.auth_server(one, upstreams) else {
            notes.push(one.not_converted());
            return closed(filters, notes, "auth_request");
        };
        notes.push(format!(
            "{}: auth_request: its server finds the URI in X-Forwarded-Uri, and responses \
             other than 401 and 403 also go to the client",
            one.place()
        ));
        let mut copy = Vec::new();
        for header in self.nearest("proxy_set_header") {
            if let [name, value] = header.arguments.as_slice()
                && let Some(field) = self.auth_field(&name.to_ascii_lowercase(), value)
                && !copy.contains(&quoted(&field))
            {
                copy.push(quoted(&field));
            }
        }
        let copy = match copy.is_empty() {
            true => String::new(),
            false => format!(", copy: {}", list(&copy)),
        };
        filters.push(format!(
            "forward_auth: {{ to: {{ upstream: {upstream} }}, path: {}{copy} }}",
            quoted(&path)
        ));
    }

    /// The upstream that `auth_request` asks, and the path that it gets.
    fn auth_server(
        &self,
        directive: &Directive,
        upstreams: &mut Vec<UsedUpstream>,
    ) -> Option<(String, String)> {
        let uri = directive.arguments.first()?;
        let is_location = |one: &&Directive| {
            one.name == "location"
                && (one.arguments == ["=", uri] || one.arguments == [uri.as_str()])
        };
        let mut all = self.levels.iter().flat_map(|level| level.iter());
        let pass = all.find(is_location)?.all("proxy_pass").next()?;
        let (upstream, path) = self.proxy_target(pass)?;
        let path = if path.is_empty() { uri } else { path };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let is_path = path.starts_with('/') && path.bytes().all(is_plain);
        is_path.then(|| (used(upstream, upstreams), path.to_owned()))
    }

    /// The name of a header of requests, if its value is the header of this name in the response of
    /// the server of `auth_request`.
    pub(super) fn auth_field(&self, name: &str, value: &str) -> Option<String> {
        let variable = format!("$upstream_http_{}", name.replace('-', "_"));
        let is_set = |one: &&Directive| one.arguments == [value, &*variable];
        let is_on = self.word("auth_request").is_some_and(|uri| uri != "off");
        let is_copied = is_on && self.nearest("auth_request_set").iter().any(is_set);
        let is_copied = is_copied && wire::token::is_token(name.as_bytes());
        is_copied.then(|| name.to_owned())
    }

    /// The zone of a limit, and the argument of its declaration with this prefix.
    fn zone(&self, declaration: &str, name: &str) -> Option<&Directive> {
        let all = self.levels.iter().flat_map(|level| level.iter());
        let is_named = |argument: &String| {
            let zone = argument.strip_prefix("zone=").unwrap_or_default();
            zone.split(':').next() == Some(name)
        };
        all.filter(|one| one.name == declaration).find(|one| one.arguments.iter().any(is_named))
    }

    fn limits(&self, filters: &mut Vec<String>, notes: &mut Vec<String>) {
        for one in self.nearest("limit_req") {
            match self.rate(one) {
                Some(filter) => filters.push(filter),
                None => notes.push(one.not_converted()),
            }
        }
        for one in self.nearest("limit_conn") {
            let limit = one.arguments.get(1).and_then(|limit| limit.parse::<u32>().ok());
            let name = one.arguments.first().map_or("", |name| name);
            let key = self.zone("limit_conn_zone", name).and_then(|zone| self.key(zone));
            let (key, name) = match &key {
                Some(Key::Each(key)) => (Some(format!("key: {key}, ")), name.to_owned()),
                Some(Key::One(key)) => (Some(String::new()), format!("{name}-{key}")),
                None => (None, name.to_owned()),
            };
            match (limit.filter(|limit| *limit > 0), key) {
                (Some(limit), Some(key)) => filters.push(format!(
                    "concurrency: {{ limit: {limit}, {key}name: {}, status: {} }}",
                    quoted(&name),
                    self.status("limit_conn_status")
                )),
                _ => notes.push(one.not_converted()),
            }
        }
    }

    fn status(&self, directive: &str) -> u16 {
        let status = self.word(directive).and_then(|status| status.parse().ok());
        status.filter(|status| (400..=599).contains(status)).unwrap_or(503)
    }

    /// The filter of `limit_req`.
    fn rate(&self, directive: &Directive) -> Option<String> {
        let argument = |of: &Directive, name: &str| {
            of.arguments.iter().find_map(|one| Some(one.strip_prefix(name)?.to_owned()))
        };
        let name = argument(directive, "zone=")?;
        let zone = self.zone("limit_req_zone", &name)?;
        let rate = argument(zone, "rate=")?;
        let (number, unit) = rate.split_once("r/")?;
        let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
        let unit = Some(unit).filter(|unit| ["s", "m"].contains(unit))?;
        // nginx counts the requests above the one that is due.
        let burst =
            argument(directive, "burst=").map_or(Some(0), |burst| burst.parse::<u32>().ok())?;
        let burst = burst.saturating_add(1).min(1_000_000);
        // A limit of ours has a key.
        let Key::Each(key) = self.key(zone)? else { return None };
        let status = self.status("limit_req_status");
        Some(format!(
            "rate_limit: {{ rate: {number}/{unit}, burst: {burst}, key: {key}, name: {}, \
             status: {status} }}",
            quoted(&name)
        ))
    }

    fn key(&self, zone: &Directive) -> Option<Key> {
        let written = zone.arguments.first()?;
        if ["$binary_remote_addr", "$remote_addr"].contains(&&**written) {
            return Some(Key::Each("client_ip".to_owned()));
        }
        let template = self.template(written)?;
        Some(if template.contains('{') { Key::Each(quoted(&template)) } else { Key::One(template) })
    }

    fn cache(&self, filters: &mut Vec<String>, notes: &mut Vec<String>) {
        let Some(zone) = self.word("proxy_cache").filter(|zone| *zone != "off") else { return };
        let mut lifetime = None;
        for one in self.nearest("proxy_cache_valid") {
            let time = one.arguments.last().and_then(|time| duration(time));
            match (one.arguments.len(), one.arguments.first(), time) {
                (1, _, Some(time)) => lifetime = Some(time),
                (2, Some(status), Some(time)) if status == "200" || status == "any" => {
                    lifetime = Some(time);
                }
                _ => notes.push(one.not_converted()),
            }
        }
        let ttl = lifetime.map_or(String::new(), |time| format!(", ttl: {{ default: {time} }}"));
        filters.push(format!("{}{ttl} }}", stored_in(&quoted(&name_of(zone)))));
    }

    /// `rewrite` within a location, if the location handles the new path itself.
    fn rewrites(&self, filters: &mut Vec<String>, notes: &mut Vec<String>) {
        for one in self.levels[0].iter().filter(|one| one.name == "rewrite") {
            let written = match one.arguments.as_slice() {
                [pattern, replace, flag] if flag == "break" => Some((pattern, replace)),
                _ => None,
            };
            let is_plain = |replace: &str| {
                let is_group = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
                replace.starts_with('/') && replace.split('$').skip(1).all(is_group)
            };
            match written.filter(|(pattern, replace)| {
                pattern.parse::<settings::Regex>().is_ok() && is_plain(replace)
            }) {
                Some((pattern, replace)) => filters.push(format!(
                    "rewrite: {{ regex: {{ pattern: {}, replace: {} }} }}",
                    quoted(&whole_path_pattern(pattern)),
                    quoted(replace)
                )),
                None => notes.push(one.not_converted()),
            }
        }
    }
}

/// nginx replaces the whole path, whatever part of it the expression matches.
fn whole_path_pattern(pattern: &str) -> String {
    let begin = if pattern.starts_with('^') { "" } else { "^.*?" };
    let end = if pattern.ends_with('$') { "" } else { ".*$" };
    format!("{begin}{pattern}{end}")
}

fn closed(filters: &mut Vec<String>, notes: &mut Vec<String>, name: &str) {
    notes.push(format!("the location is closed, because {name} is not converted"));
    filters.push(CLOSED.to_owned());
}

/// The key of a zone.
enum Key {
    /// As we write it.
    Each(String),
    /// The same for all requests of a server.
    One(String),
}

/// The first part of the filter of a location with a cache.
pub(super) fn stored_in(cache: &str) -> String {
    format!("cache: {{ store: {cache}")
}

/// The names of caches that locations use.
pub(super) fn caches(directives: &[Directive]) -> Vec<String> {
    let mut names = Vec::new();
    for one in directives {
        if let (true, Some(zone)) = (one.name == "proxy_cache", one.arguments.first()) {
            let name = quoted(&name_of(zone));
            if zone != "off" && !names.contains(&name) {
                names.push(name);
            }
        }
        let inside = caches(&one.block).into_iter().filter(|name| !names.contains(name));
        names.extend(inside.collect::<Vec<_>>());
    }
    names
}
