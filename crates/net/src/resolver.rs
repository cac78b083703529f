//! Resolves host names to addresses and how long they are valid.
//!
//! Owns the process's DNS client (hickory, which opens its own sockets) and its cache. Sources, in
//! this order: IP literals, the hosts file, `localhost` (RFC 6761 section 6.3), DNS with the search
//! list and ndots of resolv.conf. Both files are read again when they change. Every result,
//! including a negative one, states how long it is valid, within the bounds below, and every lookup
//! ends.
//!
//! For the control thread: nothing here is fast, and a worker is given addresses.

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
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};

use crate::{memory_network, timer};

/// Bounds on lookups and on the validity of their results.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Lower bound of a TTL: limits the rate of queries for one name.
    ttl_min: Duration,
    /// Upper bound of a TTL: an error in a zone is corrected within the hour.
    ttl_max: Duration,
    /// Longest validity of a negative result: the name is often about to be created.
    negative_max: Duration,
    /// Validity of a negative result without an SOA record (RFC 2308 section 5), and of a time-out.
    negative_default: Duration,
    /// Validity of a result from the hosts file; a change takes effect after that.
    hosts: Duration,
    /// Time-out of a whole lookup, with all servers, retries and search domains.
    lookup: Duration,
    /// Most addresses taken from one response.
    addresses: usize,
    /// Responses cached by the DNS client.
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

/// The addresses of a name, and how long they are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedAddresses {
    /// At least one, without duplicates, IPv4 first, otherwise in the order of the response.
    pub addresses: Vec<SocketAddr>,
    pub valid_for: Duration,
}

/// A server of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    /// A host name without its final dot.
    pub target: String,
}

/// The servers of a service, and how long they are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedServices {
    /// At least one, by priority.
    pub records: Vec<ServiceRecord>,
    pub valid_for: Duration,
}

/// Settings that replace those of resolv.conf, which stay where there are none.
#[derive(Clone, Debug, Default)]
pub struct ResolverSettings {
    pub servers: Vec<SocketAddr>,
    /// Domains that are tried for names with fewer dots than `ndots`.
    pub search: Option<Vec<String>>,
    /// Time-out of one attempt with one server.
    pub timeout: Option<Duration>,
    /// Attempts with all servers.
    pub attempts: Option<usize>,
    pub ndots: Option<usize>,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// It is not a host name.
    Malformed,
    /// The name servers report that it does not exist.
    Unknown,
    /// No source could tell; the reason.
    Unanswered(String),
}

/// A failed lookup, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    pub host: String,
    pub reason: NoAddress,
    /// A retry before this has passed gives the same result.
    pub valid_for: Duration,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        match &self.reason {
            NoAddress::Malformed => write!(f, "cannot resolve {host:?}: it is not a host name"),
            NoAddress::Unknown => write!(f, "cannot resolve {host}: it has no address"),
            NoAddress::Unanswered(reason) => write!(f, "cannot resolve {host}: {reason}"),
        }
    }
}

impl std::error::Error for NameError {}

/// Where name servers and static names come from.
#[derive(Clone, Debug)]
struct Sources {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    settings: ResolverSettings,
}

/// The process's resolver.
pub struct Resolver {
    sources: Sources,
    limits: Limits,
    /// Held for moments, by the control thread only.
    files: Mutex<Arc<ResolverFiles>>,
}

/// The content of the files at one time.
struct ResolverFiles {
    modified: [Option<SystemTime>; 2],
    hosts: Hosts,
    resolver: Result<TokioResolver, String>,
}

impl Resolver {
    /// Resolves as configured on this machine: `/etc/resolv.conf` and `/etc/hosts`.
    pub fn system() -> Resolver {
        Resolver::with_settings(ResolverSettings::default())
    }

    /// Resolves with these settings instead of those of `/etc/resolv.conf`.
    pub fn with_settings(settings: ResolverSettings) -> Resolver {
        let (resolv_conf, hosts) = ("/etc/resolv.conf".into(), "/etc/hosts".into());
        Resolver::build(Sources { resolv_conf, hosts, settings }, LIMITS)
    }

    fn build(sources: Sources, limits: Limits) -> Resolver {
        let files = Mutex::new(Arc::new(ResolverFiles::read(&sources, &limits)));
        Resolver { sources, limits, files }
    }

    /// Returns the addresses of `host` (a name, `localhost` or an IP literal) with `port`.
    ///
    /// DNS runs on the tokio runtime of the first call; call it from one runtime only.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<ResolvedAddresses, NameError> {
        let limits = &self.limits;
        let answer = |addresses: Vec<IpAddr>, valid_for| {
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            Ok(ResolvedAddresses { addresses, valid_for })
        };
        let (files, name) = match self.without_dns(host)? {
            KnownName::Found(addresses, valid_for) => return answer(addresses, valid_for),
            KnownName::Query(files, name) => (files, name),
        };
        let lookup = self
            .query(host, files.resolver(), async |dns: &TokioResolver| dns.lookup_ip(name).await)
            .await?;
        let left = lookup.valid_until().saturating_duration_since(Instant::now());
        let addresses = usable(lookup.iter(), limits.addresses);
        if addresses.is_empty() {
            return Err(self.unknown(host));
        }
        answer(addresses, left.clamp(limits.ttl_min, limits.ttl_max))
    }

    /// Returns the addresses of one family, and queries no others. DNS as in [`Resolver::resolve`].
    pub async fn addresses(&self, host: &str, ipv6: bool) -> Result<Vec<IpAddr>, NameError> {
        let (files, name) = match self.without_dns(host)? {
            KnownName::Found(mut addresses, _) => {
                addresses.retain(|address| address.is_ipv6() == ipv6);
                return if addresses.is_empty() { Err(self.unknown(host)) } else { Ok(addresses) };
            }
            KnownName::Query(files, name) => (files, name),
        };
        let kind = if ipv6 { RecordType::AAAA } else { RecordType::A };
        let lookup = self
            .query(host, files.resolver(), async |dns: &TokioResolver| dns.lookup(name, kind).await)
            .await?;
        let addresses = lookup.answers().iter().filter_map(|record| record.data.ip_addr());
        let addresses = unique(addresses, self.limits.addresses);
        if addresses.is_empty() { Err(self.unknown(host)) } else { Ok(addresses) }
    }

    /// Returns the servers of a service such as `_ldap._tcp.example.com`, by priority.
    pub async fn services(&self, name: &str) -> Result<ResolvedServices, NameError> {
        let parsed = self.name(name)?;
        if memory_network::resolve(name).is_some() {
            return Err(self.unknown(name));
        }
        let files = self.files();
        let lookup = async |dns: &TokioResolver| dns.lookup(parsed, RecordType::SRV).await;
        let lookup = self.query(name, files.resolver(), lookup).await?;
        let record = |record: &Record| match &record.data {
            RData::SRV(srv) => Some(ServiceRecord {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_utf8().trim_end_matches('.').to_owned(),
            }),
            _ => None,
        };
        let limits = &self.limits;
        let mut records: Vec<_> =
            lookup.answers().iter().filter_map(record).take(limits.addresses).collect();
        records.sort_by_key(|service| service.priority);
        if records.is_empty() {
            return Err(self.unknown(name));
        }
        let left = lookup.valid_until().saturating_duration_since(Instant::now());
        Ok(ResolvedServices { records, valid_for: left.clamp(limits.ttl_min, limits.ttl_max) })
    }

    fn unknown(&self, host: &str) -> NameError {
        let valid_for = self.limits.negative_default;
        NameError { host: host.to_owned(), reason: NoAddress::Unknown, valid_for }
    }

    fn name(&self, host: &str) -> Result<Name, NameError> {
        match Name::from_str_relaxed(host) {
            Ok(name) if name.iter().next().is_some() => Ok(name),
            _ => Err(NameError {
                host: host.to_owned(),
                reason: NoAddress::Malformed,
                valid_for: self.limits.ttl_max,
            }),
        }
    }

    /// Resolves a literal, a name of the hosts file, or `localhost`.
    fn without_dns(&self, host: &str) -> Result<KnownName, NameError> {
        if let Some(literal) = literal(host) {
            return Ok(KnownName::Found(vec![literal], self.limits.ttl_max));
        }
        let name = self.name(host)?;
        match memory_network::resolve(host) {
            Some(none) if none.is_empty() => return Err(self.unknown(host)),
            Some(addresses) => return Ok(KnownName::Found(addresses, self.limits.ttl_min)),
            None => {}
        }
        let files = self.files();
        let listed = files.listed(&name);
        if !listed.is_empty() {
            return Ok(KnownName::Found(listed, self.limits.hosts));
        }
        if name.is_localhost() {
            return Ok(KnownName::Found(loopback(), self.limits.hosts));
        }
        Ok(KnownName::Query(files, name))
    }

    /// Queries the name servers within the time-out of a whole lookup.
    async fn query<T>(
        &self,
        host: &str,
        resolver: Result<&TokioResolver, &String>,
        lookup: impl AsyncFnOnce(&TokioResolver) -> Result<T, NetError>,
    ) -> Result<T, NameError> {
        let limits = &self.limits;
        let fail = |reason, valid_for| NameError { host: host.to_owned(), reason, valid_for };
        let unanswered = |why| fail(NoAddress::Unanswered(why), limits.negative_default);
        let resolver = resolver.map_err(|reason| unanswered(reason.clone()))?;
        match timer::within(limits.lookup, lookup(resolver)).await {
            Some(Ok(lookup)) => Ok(lookup),
            Some(Err(error)) => {
                let (reason, valid_for) = explain(error, limits);
                Err(fail(reason, valid_for))
            }
            None => Err(unanswered(format!("no name server answered within {:?}", limits.lookup))),
        }
    }

    /// Returns the current files, read again if one has changed.
    fn files(&self) -> Arc<ResolverFiles> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.modified != modified(&self.sources) {
            *files = Arc::new(ResolverFiles::read(&self.sources, &self.limits));
        }
        files.clone()
    }
}

/// What is known of a name before DNS is queried.
enum KnownName {
    /// Addresses, and how long they are valid.
    Found(Vec<IpAddr>, Duration),
    Query(Arc<ResolverFiles>, Name),
}

impl ResolverFiles {
    fn resolver(&self) -> Result<&TokioResolver, &String> {
        self.resolver.as_ref()
    }

    fn read(sources: &Sources, limits: &Limits) -> ResolverFiles {
        // Taken before reading: a change during the read is noticed next time.
        let modified = modified(sources);
        let mut hosts = Hosts::default();
        if let Ok(file) = std::fs::File::open(&sources.hosts) {
            // An unreadable line ends the file; the lines before it count.
            let _ = hosts.read_hosts_conf(file);
        }
        let resolver = resolver(sources, limits)
            .map_err(|error| format!("{} is not usable: {error}", sources.resolv_conf.display()));
        ResolverFiles { modified, hosts, resolver }
    }

    /// Returns the entries of the hosts file. A name listed for one family is not looked up in DNS
    /// for the other: the file takes precedence and needs no network.
    fn listed(&self, name: &Name) -> Vec<IpAddr> {
        let of = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let (v4, v6) = (of(RecordType::A), of(RecordType::AAAA));
        let addresses = |lookup: &Lookup| {
            lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>()
        };
        unique(v4.iter().chain(v6.iter()).flat_map(addresses), LIMITS.addresses)
    }
}

fn modified(sources: &Sources) -> [Option<SystemTime>; 2] {
    [&sources.resolv_conf, &sources.hosts]
        .map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

fn resolver(sources: &Sources, limits: &Limits) -> Result<TokioResolver, NetError> {
    let mut text = std::fs::read(&sources.resolv_conf).unwrap_or_default();
    let names_a_server = text.split(|byte| *byte == b'\n').any(|line| {
        line.trim_ascii_start().starts_with(b"nameserver") // "#" and ";" begin comments
    });
    if !names_a_server {
        // resolv.conf(5): without an entry, the name server on this machine is used.
        text.extend_from_slice(b"\nnameserver 127.0.0.1\n");
    }
    let (mut config, mut options): (ResolverConfig, ResolverOpts) = parse_resolv_conf(&text)?;
    let settings = &sources.settings;
    if !settings.servers.is_empty() {
        // These may specify a port, which resolv.conf cannot.
        config.name_servers = settings.servers.iter().map(|server| at_port(*server)).collect();
    }
    if let Some(search) = &settings.search {
        config.domain = None;
        config.search = search.iter().map(Name::from_str_relaxed).collect::<Result<_, _>>()?;
    }
    options.timeout = settings.timeout.unwrap_or(options.timeout);
    options.attempts = settings.attempts.unwrap_or(options.attempts);
    options.ndots = settings.ndots.unwrap_or(options.ndots);
    options.edns0 = true;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Never; // see `ResolverFiles::listed`
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

/// Parses `192.0.2.1`, `2001:db8::1` and `[2001:db8::1]`.
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

/// Drops addresses without a route (a container without IPv6), unless no other is left: RFC 6724
/// section 6, rule 1.
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
            let soa_ttl = none.negative_ttl.map(|ttl| Duration::from_secs(ttl.into()));
            let valid_for = soa_ttl
                .unwrap_or(limits.negative_default)
                .clamp(limits.ttl_min, limits.negative_max);
            (NoAddress::Unknown, valid_for)
        }
        error => (NoAddress::Unanswered(error.to_string()), limits.negative_default),
    }
}

#[cfg(test)]
mod tests;
