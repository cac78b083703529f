//! Upstreams that locations use: those of the file, and addresses in `proxy_pass`.

use settings::Duration;

use super::super::pike::name_of;
use super::super::writer::{Writer, list, quoted};
use super::parser::Directive;

/// A time-out of locations: its directive, what nginx has without it, ours, and their maximum.
struct TimeOut {
    directive: &'static str,
    default: Option<Duration>,
    ours: &'static [&'static str],
    max: Duration,
}

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

const TIME_OUTS: [TimeOut; 3] = [
    TimeOut {
        directive: "proxy_connect_timeout",
        // Ours is shorter, so that the next server is tried sooner.
        default: None,
        ours: &["connect"],
        max: Duration::from_secs(300),
    },
    TimeOut { directive: "proxy_send_timeout", default: Some(MINUTE), ours: &["write"], max: DAY },
    TimeOut {
        directive: "proxy_read_timeout",
        default: Some(MINUTE),
        ours: &["response", "read"],
        max: DAY,
    },
];

/// An upstream that a route uses.
pub(super) struct UsedUpstream {
    /// Unique among those in use.
    name: String,
    /// The name of an upstream of the file.
    declared: Option<String>,
    /// Its address, or the scheme of an upstream of the file.
    address: String,
    /// What the locations that use it have for each of the time-outs.
    times: [Vec<String>; TIME_OUTS.len()],
}

impl UsedUpstream {
    /// An upstream of one location, whose `nearest` directive of a name is looked up. The host is
    /// that of an upstream of the file, or an address.
    pub(super) fn new<'d>(
        (host, is_declared): (&str, bool),
        scheme: &str,
        nearest: impl Fn(&str) -> Option<&'d Directive>,
    ) -> UsedUpstream {
        let times = TIME_OUTS.map(|time_out| {
            let written = nearest(time_out.directive).and_then(|one| one.arguments.first());
            let default = time_out.default.map(|default| default.to_string());
            written.cloned().or(default).into_iter().collect()
        });
        let (name, declared, address) = match (is_declared, scheme) {
            (true, "http") => (name_of(host), Some(host.to_owned()), String::new()),
            (true, _) => (name_of(host), Some(host.to_owned()), format!("{scheme}://")),
            (false, _) => (name_of(&host.replace('.', "-")), None, format!("{scheme}://{host}")),
        };
        UsedUpstream { name, declared, address, times }
    }

    /// True if requests go to the same servers in the same way.
    fn is_same(&self, other: &UsedUpstream) -> bool {
        self.declared == other.declared && self.address == other.address
    }

    /// The time-outs as a setting that follows others.
    fn time_outs(&self, out: &mut Writer) -> String {
        let mut settings = Vec::new();
        for (time_out, written) in TIME_OUTS.iter().zip(&self.times) {
            let note = |what: &str, out: &mut Writer| {
                out.note(2, &format!("the upstream {}: {} {what}", self.name, time_out.directive));
            };
            let mut times = Vec::new();
            for one in written {
                match duration(one).filter(|time| !time.is_zero()) {
                    Some(time) if time <= time_out.max => times.push(time),
                    Some(_) => {
                        note(&format!("{one} is longer than {}", time_out.max), out);
                        times.push(time_out.max);
                    }
                    None => note(&format!("{one} is not converted"), out),
                }
            }
            let Some(longest) = times.iter().max() else { continue };
            if times.iter().any(|time| time != longest) {
                note(&format!("differs between locations: {longest} for all of them"), out);
            }
            settings.extend(time_out.ours.iter().map(|name| format!("{name}: {longest}")));
            // That of a tunnel, as of WebSockets.
            if time_out.ours.contains(&"read") && *longest > MINUTE {
                settings.push(format!("idle: {longest}"));
            }
        }
        match settings.is_empty() {
            true => String::new(),
            false => format!(", timeouts: {{ {} }}", settings.join(", ")),
        }
    }
}

/// A time of nginx as ours.
pub(super) fn duration(time: &str) -> Option<Duration> {
    let seconds = |time: &str| time.bytes().all(|b| b.is_ascii_digit()).then(|| format!("{time}s"));
    seconds(time).as_deref().unwrap_or(time).parse().ok()
}

/// Adds an upstream to those in use and returns its name.
pub(super) fn used(mut upstream: UsedUpstream, upstreams: &mut Vec<UsedUpstream>) -> String {
    if let Some(known) = upstreams.iter_mut().find(|one| one.is_same(&upstream)) {
        for (all, times) in known.times.iter_mut().zip(upstream.times) {
            all.extend(times.into_iter().filter(|time| !all.contains(time)).collect::<Vec<_>>());
        }
        return known.name.clone();
    }
    let name = upstream.name.clone();
    let is_taken = |name: &String| upstreams.iter().any(|one| one.name == *name);
    let tls = upstream.address.starts_with("https").then(|| format!("{name}-tls"));
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = [name.clone()].into_iter().chain(tls).chain(numbered);
    upstream.name = names.find(|name| !is_taken(name)).unwrap_or(name.clone());
    upstreams.push(upstream);
    upstreams.last().map_or(name, |one| one.name.clone())
}

/// Writes the upstreams that routes use.
pub(super) fn write(level: &[Directive], used: &[UsedUpstream], out: &mut Writer) {
    let declared = level.iter().filter(|one| one.name == "upstream");
    let is_of = |one: &UsedUpstream, declared: &Directive| {
        one.declared.is_some() && one.declared.as_ref() == declared.arguments.first()
    };
    let (declared, unused): (Vec<&Directive>, Vec<&Directive>) =
        declared.partition(|declared| used.iter().any(|one| is_of(one, declared)));
    out.notes(0, &unused.iter().map(|one| one.not_converted()).collect::<Vec<_>>());
    if used.is_empty() {
        return;
    }
    out.line(0, "upstreams:");
    for upstream in &declared {
        for one in used.iter().filter(|one| is_of(one, upstream)) {
            write_upstream(upstream, one, out);
        }
    }
    for one in used.iter().filter(|one| one.declared.is_none()) {
        let time_outs = one.time_outs(out);
        let UsedUpstream { name, address, .. } = one;
        out.line(2, &format!("{name}: {{ servers: [{}]{time_outs} }}", quoted(address)));
    }
    out.empty_line();
}

fn write_upstream(upstream: &Directive, used: &UsedUpstream, out: &mut Writer) {
    let UsedUpstream { name, address: scheme, .. } = used;
    let time_outs = used.time_outs(out);
    let (mut servers, mut known) = (Vec::new(), Vec::new());
    let mut balance = "round_robin".to_owned();
    let has = |one: &Directive, word: &str| one.arguments.iter().any(|own| own == word);
    for directive in &upstream.block {
        match (&*directive.name, directive.arguments.first()) {
            ("server", Some(address)) => {
                let address = format!("{scheme}{address}");
                let mut settings = vec![format!("address: {}", quoted(&address))];
                let mut is_backup = false;
                for option in &directive.arguments[1..] {
                    match option.split_once('=') {
                        Some(("weight", weight))
                            if weight
                                .parse()
                                .is_ok_and(|weight: u32| (1..=1000).contains(&weight)) =>
                        {
                            settings.push(format!("weight: {weight}"));
                        }
                        None if option == "backup" => is_backup = true,
                        _ => out.note(2, &directive.part_not_converted(option)),
                    }
                }
                let is_down = has(directive, "down");
                let parsed = crate::server_address(&address).ok();
                let Some(parsed) = parsed.filter(|one| !is_down && !known.contains(&one.address))
                else {
                    out.note(2, &directive.not_converted());
                    continue;
                };
                known.push(parsed.address);
                servers.push((settings.join(", "), is_backup));
            }
            ("least_conn", _) => balance = "least_requests".to_owned(),
            ("ip_hash", _) => balance = "{ hash: client_ip }".to_owned(),
            ("random", None) => balance = "random".to_owned(),
            ("keepalive", _) => {}
            _ => out.note(2, &directive.not_converted()),
        }
    }
    if servers.is_empty() {
        out.note(2, &format!("the upstream {name} has no server that can be converted"));
        servers.push(("address: \"127.0.0.1:1\"".to_owned(), false));
    }
    // Without another server the backups serve all requests.
    let has_first_choice = servers.iter().any(|(_, is_backup)| !is_backup);
    let show = |(settings, is_backup): &(String, bool)| match *is_backup && has_first_choice {
        true => format!("{{ {settings}, backup: true }}"),
        false => format!("{{ {settings} }}"),
    };
    let servers: Vec<String> = servers.iter().map(show).collect();
    out.line(
        2,
        &format!("{name}: {{ servers: {}, balance: {balance}{time_outs} }}", list(&servers)),
    );
}
