//! Host names to addresses, with how long the answer may be used.
//!
//! Owns the process's DNS client (hickory, whose sockets are its own) and its cache. Answers, in
//! this order: IP literals, the hosts file, `localhost` (RFC 6761 section 6.3), DNS with the search
//! list and ndots of resolv.conf. Both files are read again when they change. Promises that every
//! answer, also a negative one, says how long it holds, within the bounds below, and that a lookup
//! ends.
//!
//! For the control thread: nothing here is fast, and a worker that needs an address is given one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};

/// Bounds on what is believed and kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// A shorter TTL is taken for this: a name is not asked for on every breath.
    ttl_min: Duration,
    /// A longer TTL is taken for this: a mistake in a zone is forgotten within the hour.
    ttl_max: Duration,
    /// Longest life of "there is no such name": it is often a name that is about to exist.
    negative_max: Duration,
    /// Life of a negative answer without an SOA record to say it (RFC 2308 section 5), and of a
    /// name server's silence.
    negative_default: Duration,
    /// Life of an answer from the hosts file; a change is seen after that.
    hosts: Duration,
    /// A whole lookup, with all servers, retries and search domains.
    lookup: Duration,
    /// Addresses taken from one answer.
    addresses: usize,
    /// Responses kept by the DNS client.
    cache: u64,
}

const LIMITS: Limits = Limits {
    ttl_min: Duration::from_secs(1),
    ttl_max: Duration::from_secs(3600),
    negative_max: Duration::from_secs(30),
    negative_default: Duration::from_secs(5),
    hosts: Duration::from_secs(30),
    lookup: Duration::from_secs(15),
    addresses: 128,
    cache: 1024,
};

/// What a name stands for, and how long to believe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedAddresses {
    /// At least one, without repeats, IPv4 first; else in the order they came.
    pub addresses: Vec<SocketAddr>,
    pub valid_for: Duration,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// It is no host name at all.
    Malformed,
    /// The name servers say that there is none.
    Unknown,
    /// Nobody could say.
    Unanswered(String),
}

/// A failed lookup, as one clear sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    pub host: String,
    pub reason: NoAddress,
    /// Asking again sooner gives the same answer.
    pub valid_for: Duration,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        match &self.reason {
            NoAddress::Malformed => write!(f, "cannot resolve {host:?}: it is not a host name"),
            NoAddress::Unknown => write!(f, "cannot resolve {host}: it has no address"),
            NoAddress::Unanswered(why) => write!(f, "cannot resolve {host}: {why}"),
        }
    }
}

impl std::error::Error for NameError {}

/// Where name servers and static names come from.
#[derive(Clone, Debug)]
struct Sources {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    /// Instead of those of resolv.conf, which cannot name a port.
    servers: Vec<SocketAddr>,
}

/// The process's resolver.
pub struct Resolver {
    sources: Sources,
    limits: Limits,
    /// Held for moments, by the control thread only.
    view: Mutex<Arc<View>>,
}

/// The files as they were at one time.
struct View {
    stamp: [Option<SystemTime>; 2],
    hosts: Hosts,
    resolver: Result<TokioResolver, String>,
}

impl Resolver {
    /// Resolves as this machine is configured to: `/etc/resolv.conf` and `/etc/hosts`.
    pub fn system() -> Resolver {
        Resolver::new(Vec::new())
    }

    /// Asks these name servers instead of those of `/etc/resolv.conf`.
    pub fn with_servers(servers: &[SocketAddr]) -> Resolver {
        Resolver::new(servers.to_vec())
    }

    fn new(servers: Vec<SocketAddr>) -> Resolver {
        let (resolv_conf, hosts) = ("/etc/resolv.conf".into(), "/etc/hosts".into());
        Resolver::build(Sources { resolv_conf, hosts, servers }, LIMITS)
    }

    fn build(sources: Sources, limits: Limits) -> Resolver {
        let view = Mutex::new(Arc::new(View::read(&sources, &limits)));
        Resolver { sources, limits, view }
    }

    /// The addresses of `host`, which may be a name, `localhost` or an IP literal, at `port`.
    ///
    /// DNS runs on the tokio runtime that asks first; ask from one only.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<ResolvedAddresses, NameError> {
        let limits = &self.limits;
        let answer = |addresses: Vec<IpAddr>, valid_for| {
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            Ok(ResolvedAddresses { addresses, valid_for })
        };
        let fail = |reason, valid_for| Err(NameError { host: host.to_owned(), reason, valid_for });
        if let Some(literal) = literal(host) {
            return answer(vec![literal], limits.ttl_max);
        }
        let name = match Name::from_str_relaxed(host) {
            Ok(name) if name.iter().next().is_some() => name,
            _ => return fail(NoAddress::Malformed, limits.ttl_max),
        };
        let view = self.view();
        let listed = view.listed(&name);
        if !listed.is_empty() {
            return answer(listed, limits.hosts);
        }
        if name.is_localhost() {
            return answer(loopback(), limits.hosts);
        }
        let resolver = match &view.resolver {
            Ok(resolver) => resolver,
            Err(why) => {
                return fail(NoAddress::Unanswered(why.clone()), limits.negative_default);
            }
        };
        match tokio::time::timeout(limits.lookup, resolver.lookup_ip(name)).await {
            Ok(Ok(lookup)) => {
                let left = lookup.valid_until().saturating_duration_since(Instant::now());
                let addresses = usable(lookup.iter(), limits.addresses);
                if addresses.is_empty() {
                    return fail(NoAddress::Unknown, limits.negative_default);
                }
                answer(addresses, left.clamp(limits.ttl_min, limits.ttl_max))
            }
            Ok(Err(error)) => {
                let (reason, valid_for) = explain(error, limits);
                fail(reason, valid_for)
            }
            Err(_) => {
                let why = format!("no name server answered within {:?}", limits.lookup);
                fail(NoAddress::Unanswered(why), limits.negative_default)
            }
        }
    }

    /// The current view, read anew if a file has changed since.
    fn view(&self) -> Arc<View> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if view.stamp != stamp(&self.sources) {
            *view = Arc::new(View::read(&self.sources, &self.limits));
        }
        view.clone()
    }
}

impl View {
    fn read(sources: &Sources, limits: &Limits) -> View {
        // Taken before reading: a change in between is then seen next time.
        let stamp = stamp(sources);
        let mut hosts = Hosts::default();
        if let Ok(file) = std::fs::File::open(&sources.hosts) {
            // A line that cannot be read ends the file; what came before it counts.
            let _ = hosts.read_hosts_conf(file);
        }
        let resolver = resolver(sources, limits)
            .map_err(|error| format!("{} is not usable: {error}", sources.resolv_conf.display()));
        View { stamp, hosts, resolver }
    }

    /// What the hosts file says. A name listed for one family is not asked for in DNS for the
    /// other: the file is the machine owner's last word, and the answer needs no network.
    fn listed(&self, name: &Name) -> Vec<IpAddr> {
        let of = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let (v4, v6) = (of(RecordType::A), of(RecordType::AAAA));
        let addresses = |lookup: &Lookup| {
            lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>()
        };
        unique(v4.iter().chain(v6.iter()).flat_map(addresses), LIMITS.addresses)
    }
}

fn stamp(sources: &Sources) -> [Option<SystemTime>; 2] {
    [&sources.resolv_conf, &sources.hosts]
        .map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

fn resolver(sources: &Sources, limits: &Limits) -> Result<TokioResolver, NetError> {
    let mut text = std::fs::read(&sources.resolv_conf).unwrap_or_default();
    let names_a_server = text.split(|byte| *byte == b'\n').any(|line| {
        line.trim_ascii_start().starts_with(b"nameserver") // "#" and ";" begin comments
    });
    if !names_a_server {
        // resolv.conf(5): without an entry, the server on this machine is asked.
        text.extend_from_slice(b"\nnameserver 127.0.0.1\n");
    }
    let (mut config, mut options): (ResolverConfig, ResolverOpts) = parse_resolv_conf(&text)?;
    if !sources.servers.is_empty() {
        config.name_servers = sources.servers.iter().map(|server| at_port(*server)).collect();
    }
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Never; // asked before, see `View::listed`
    options.cache_size = limits.cache;
    options.positive_min_ttl = Some(limits.ttl_min);
    options.positive_max_ttl = Some(limits.ttl_max);
    options.negative_min_ttl = Some(limits.ttl_min);
    options.negative_max_ttl = Some(limits.negative_max);
    hickory_resolver::Resolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
}

fn at_port(server: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.to_vec())
}

/// `192.0.2.1`, `2001:db8::1` and `[2001:db8::1]`.
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

fn loopback() -> Vec<IpAddr> {
    usable([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into_iter(), 2)
}

/// Leaves out addresses that this machine has no way to (a container without IPv6), unless that is
/// all there is: RFC 6724 section 6, rule 1.
fn usable(addresses: impl Iterator<Item = IpAddr>, at_most: usize) -> Vec<IpAddr> {
    let mut addresses = unique(addresses, at_most);
    addresses.sort_by_key(IpAddr::is_ipv6); // stable: the server's order stays inside a family
    if addresses.iter().any(|address| has_route(*address)) {
        addresses.retain(|address| has_route(*address));
    }
    addresses
}

/// Connecting a UDP socket sends nothing; it only asks the kernel for a route.
fn has_route(address: IpAddr) -> bool {
    let unspecified: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    std::net::UdpSocket::bind((unspecified, 0))
        .and_then(|socket| socket.connect((address, 53)))
        .is_ok()
}

fn unique(addresses: impl Iterator<Item = IpAddr>, at_most: usize) -> Vec<IpAddr> {
    let mut seen = Vec::new();
    for address in addresses {
        if seen.len() < at_most && !seen.contains(&address) {
            seen.push(address);
        }
    }
    seen
}

fn explain(error: NetError, limits: &Limits) -> (NoAddress, Duration) {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            let said = none.negative_ttl.map(|ttl| Duration::from_secs(ttl.into()));
            let valid_for =
                said.unwrap_or(limits.negative_default).clamp(limits.ttl_min, limits.negative_max);
            (NoAddress::Unknown, valid_for)
        }
        error => (NoAddress::Unanswered(error.to_string()), limits.negative_default),
    }
}

#[cfg(test)]
mod tests;
