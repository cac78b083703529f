//! The settings under `upstreams.NAME.discover`: the source of an upstream's servers.

use std::fmt;
use std::str::FromStr;

use etcd::parse_endpoint;
use http_client::Url;
use settings::{
    Address, Duration, FilePath, Host, Node, OneOrMany, Reader, Schema, SchemaBuilder, Secret,
    Setting, Spanned,
};
use tls_settings::UpstreamTlsSettings;

use crate::server_address::ServerProtocol;

/// A source of servers, which come and go without a change of the configuration.
///
/// One of `dns`, `etcd`, `consul`, `file`, `http` and `registration`. The last known servers stay
/// in use while the source fails. A response of more than 1024 servers or 4 MiB is rejected.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_discover)]
pub struct DiscoverSettings {
    /// A name in DNS: a service (SRV records), or a host and a port. It is resolved again when its
    /// TTL ends.
    #[setting(example = "_api._tcp.example.com", example = "api.internal:8080")]
    pub dns: Option<DnsName>,
    /// Keys in etcd (version 3), each the address of a server. Changes are watched.
    #[setting(example = { "endpoints": ["10.0.0.5:2379"], "prefix": "/services/api/" })]
    pub etcd: Option<EtcdSourceSettings>,
    /// The healthy instances of a service in Consul, by blocking queries.
    #[setting(example = { "url": "http://127.0.0.1:8500", "service": "api" })]
    pub consul: Option<ConsulSourceSettings>,
    /// A file with a list of servers.
    #[setting(example = "servers.json")]
    pub file: Option<FileSourceSettings>,
    /// A URL that responds with a list of servers.
    #[setting(example = "https://inventory.internal/api")]
    pub http: Option<HttpSourceSettings>,
    /// Servers register themselves: `PUT /v1/upstreams/NAME/servers` of the admin API.
    #[setting(example = { "ttl": "30s" })]
    pub registration: Option<RegistrationSettings>,
    /// The protocol of the servers. An address with another one is rejected; `https` requires
    /// `tls.server_name`, because the source chooses the addresses.
    #[setting(default = "http")]
    pub protocol: ServerProtocol,
    /// The effect of a response without servers.
    #[setting(default = "keep", example = "remove")]
    pub on_empty: OnEmpty,
}

/// The effect of a response without servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum OnEmpty {
    /// The last known servers stay in use.
    Keep,
    /// All discovered servers are removed.
    Remove,
}

/// Keys in etcd.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct EtcdSourceSettings {
    /// The members of the cluster: `HOST:PORT`, or URLs; the port is 2379 unless given.
    #[setting(example = ["10.0.0.5:2379", "https://10.0.0.6:2379"])]
    pub endpoints: OneOrMany<EtcdEndpoint>,
    /// The beginning of the keys. Each value is an address, or a JSON object with `address` and
    /// more, as under `servers`. Keys with leases are removed when their leases end.
    #[setting(example = "/services/api/")]
    pub prefix: String,
    /// The user.
    #[setting(example = "gateway")]
    pub user: Option<String>,
    /// The password of the user.
    pub password: Option<Secret>,
    /// TLS to the members whose URLs begin with `https://`.
    #[setting(example = { "ca": "internal.pem" })]
    pub tls: Option<Spanned<UpstreamTlsSettings>>,
}

/// A service in Consul.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ConsulSourceSettings {
    /// The agent or server.
    #[setting(default = "http://127.0.0.1:8500")]
    pub url: Url,
    /// The name of the service. Its instances whose checks pass are used.
    #[setting(example = "api")]
    pub service: String,
    /// Only instances with this tag.
    #[setting(example = "v2")]
    pub tag: Option<String>,
    /// The data center; that of the agent unless set.
    #[setting(example = "dc1")]
    pub datacenter: Option<String>,
    /// The token, sent as `X-Consul-Token`.
    pub token: Option<Secret>,
    /// Allows any Consul server to respond, not only the leader.
    #[setting(default = true)]
    pub stale: bool,
    /// How long a query waits for a change.
    #[setting(default = "55s", range = "1s"..="10m")]
    pub wait: Duration,
    /// TLS to a URL of `https`.
    #[setting(example = { "ca": "internal.pem" })]
    pub tls: Option<Spanned<UpstreamTlsSettings>>,
}

/// A file with servers.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = path)]
pub struct FileSourceSettings {
    /// Its path: a JSON list as under `servers`, or one address a line. Replace it by renaming
    /// another file, so that it is never read half written.
    #[setting(example = "servers.json")]
    pub path: FilePath,
    /// Interval of the checks whether it has changed.
    #[setting(default = "1s", range = "100ms"..="1h")]
    pub interval: Duration,
}

/// A URL that responds with servers.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = url)]
pub struct HttpSourceSettings {
    /// The URL. It responds 200 with a JSON list as under `servers`, or with one address a line;
    /// with an `ETag`, it may respond 304.
    #[setting(example = "https://inventory.internal/api")]
    pub url: Url,
    /// Interval of the requests.
    #[setting(default = "10s", range = "100ms"..="1h")]
    pub interval: Duration,
    /// Time-out of a request.
    #[setting(default = "5s", range = "10ms"..="1m")]
    pub timeout: Duration,
    /// A token, sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// TLS to a URL of `https`.
    #[setting(example = { "ca": "internal.pem" })]
    pub tls: Option<Spanned<UpstreamTlsSettings>>,
}

/// Registration over the admin API.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RegistrationSettings {
    /// A server that has not registered again for this time is removed. Servers register three
    /// times as often.
    #[setting(default = "30s", range = "1s"..="1d")]
    pub ttl: Duration,
}

/// A name in DNS: that of a service, which begins with `_`, or a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsName {
    Service(String),
    Host { host: String, port: u16 },
}

impl FromStr for DnsName {
    type Err = String;

    fn from_str(text: &str) -> Result<DnsName, String> {
        let (is_service, address): (bool, Address) =
            match text.starts_with('_') && !text.contains(':') {
                true => (true, format!("{text}:1").parse()?),
                false => (false, text.parse()?),
            };
        match address {
            Address::Tcp { host: Host::Name(host), .. } if is_service => Ok(DnsName::Service(host)),
            Address::Tcp { host: Host::Name(host), port } if port > 0 => {
                Ok(DnsName::Host { host, port })
            }
            _ => Err("is not a name to resolve".to_owned()),
        }
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DnsName::Service(name) => f.write_str(name),
            DnsName::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Setting for DnsName {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("name in DNS")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a service such as _api._tcp.example.com, or a host and a port")
    }
}

/// A member of an etcd cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct EtcdEndpoint(pub(crate) Url);

impl Setting for EtcdEndpoint {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("member of etcd")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what = "a member such as 10.0.0.5:2379 or https://etcd.internal";
        let scalar = reader.scalar(node, what)?;
        match parse_endpoint(&scalar.text) {
            Ok(url) => Some(EtcdEndpoint(url)),
            Err(why) => {
                // A text from the environment is not shown.
                let is_shown = scalar.typed.is_none();
                let why = if is_shown { why } else { "not a member of etcd".to_owned() };
                reader.error(node.span, why).help(format!("expected {what}"));
                None
            }
        }
    }
}

/// The source that is set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiscoverSource<'a> {
    Dns(&'a DnsName),
    Etcd(&'a EtcdSourceSettings),
    Consul(&'a ConsulSourceSettings),
    File(&'a FileSourceSettings),
    Http(&'a HttpSourceSettings),
    Registration,
}

impl DiscoverSettings {
    fn sources(&self) -> Vec<DiscoverSource<'_>> {
        let sources = [
            self.dns.as_ref().map(DiscoverSource::Dns),
            self.etcd.as_ref().map(DiscoverSource::Etcd),
            self.consul.as_ref().map(DiscoverSource::Consul),
            self.file.as_ref().map(DiscoverSource::File),
            self.http.as_ref().map(DiscoverSource::Http),
            self.registration.as_ref().map(|_| DiscoverSource::Registration),
        ];
        sources.into_iter().flatten().collect()
    }

    /// The only source of checked settings.
    pub(crate) fn source(&self) -> Option<DiscoverSource<'_>> {
        self.sources().first().copied()
    }

    /// True if a response means the same servers with the other settings.
    pub(crate) fn is_same_source(&self, other: &DiscoverSettings) -> bool {
        *self == DiscoverSettings { on_empty: self.on_empty, ..other.clone() }
    }
}

impl<'a> DiscoverSource<'a> {
    fn kind(&self) -> &'static str {
        match self {
            DiscoverSource::Dns(_) => "dns",
            DiscoverSource::Etcd(_) => "etcd",
            DiscoverSource::Consul(_) => "consul",
            DiscoverSource::File(_) => "file",
            DiscoverSource::Http(_) => "http",
            DiscoverSource::Registration => "registration",
        }
    }

    /// True if the source reports each change at once, so that silence means that there is none.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, DiscoverSource::Etcd(_) | DiscoverSource::Registration)
    }

    /// Its settings for TLS.
    fn tls(self) -> Option<&'a Spanned<UpstreamTlsSettings>> {
        match self {
            DiscoverSource::Etcd(etcd) => etcd.tls.as_ref(),
            DiscoverSource::Consul(consul) => consul.tls.as_ref(),
            DiscoverSource::Http(http) => http.tls.as_ref(),
            DiscoverSource::Dns(_) | DiscoverSource::File(_) | DiscoverSource::Registration => None,
        }
    }

    /// The settings for TLS if a connection to the source uses it.
    pub(crate) fn used_tls(self) -> Option<Option<&'a Spanned<UpstreamTlsSettings>>> {
        let is_secure = match self {
            DiscoverSource::Etcd(etcd) => etcd.endpoints.iter().any(|member| member.0.is_secure),
            DiscoverSource::Consul(consul) => consul.url.is_secure,
            DiscoverSource::Http(http) => http.url.is_secure,
            DiscoverSource::Dns(_) | DiscoverSource::File(_) | DiscoverSource::Registration => {
                false
            }
        };
        is_secure.then(|| self.tls())
    }
}

/// The source in a few words, for logs and the admin API. A query of a URL, which may be a secret,
/// is left out.
impl fmt::Display for DiscoverSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            DiscoverSource::Dns(name) => write!(f, " {name}"),
            DiscoverSource::Etcd(etcd) => write!(f, " {}", etcd.prefix),
            DiscoverSource::Consul(consul) => write!(f, " {}", consul.service),
            DiscoverSource::File(file) => write!(f, " {}", file.path),
            DiscoverSource::Http(http) => {
                let url = http.url.to_string();
                write!(f, " {}", url.split('?').next().unwrap_or_default())
            }
            DiscoverSource::Registration => Ok(()),
        }
    }
}

fn check_discover(discover: &DiscoverSettings, node: &Node, reader: &mut Reader<'_>) {
    let sources = discover.sources();
    if sources.len() != 1 {
        let written: Vec<&str> = sources.iter().map(DiscoverSource::kind).collect();
        let message = match written.as_slice() {
            [] => "no source of servers".to_owned(),
            many => format!("one source of servers is possible, not {}", many.join(" and ")),
        };
        let help = "write one of dns, etcd, consul, file, http and registration";
        reader.error(node.span, message).help(help);
        return;
    }
    let source = sources[0];
    if let (Some(tls), None) = (source.tls(), source.used_tls()) {
        reader.error(tls.span, "`tls` has no effect: no URL of this source begins with https://");
    }
    let place = |key: &str| {
        let written = node.get(source.kind()).and_then(|source| source.get(key));
        written.unwrap_or(node).span
    };
    match source {
        DiscoverSource::Etcd(etcd) => {
            if etcd.prefix.is_empty() {
                reader.error(place("prefix"), "the prefix is empty: every key would be a server");
            }
            if etcd.endpoints.is_empty() {
                reader.error(place("endpoints"), "no member of etcd");
            }
            if etcd.user.is_some() != etcd.password.is_some() {
                reader.error(place("user"), "`user` and `password` belong together");
            }
        }
        DiscoverSource::Consul(consul) => {
            if consul.service.is_empty() {
                reader.error(place("service"), "the name of the service is empty");
            }
            if consul.url.target.raw() != b"/" {
                let help = "write http://HOST:8500, and the name of the service under `service`";
                reader.error(place("url"), "the URL of Consul has no path").help(help);
            }
        }
        _ => {}
    }
    for token in [
        discover.consul.as_ref().and_then(|consul| consul.token.as_ref()),
        discover.http.as_ref().and_then(|http| http.token.as_ref()),
    ] {
        if token.is_some_and(|token| !wire::token::is_field_value(token.expose())) {
            reader.error(place("token"), "the token has characters that a header cannot have");
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::*;

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<DiscoverSettings>().unwrap();
    }

    #[test]
    fn every_source_is_read_and_shown() {
        for (node, shown) in [
            (node!({ "dns": "_api._tcp.Example.com." }), "dns _api._tcp.example.com"),
            (node!({ "dns": "api.internal:80" }), "dns api.internal:80"),
            (node!({ "etcd": { "endpoints": "a", "prefix": "/s/" } }), "etcd /s/"),
            (node!({ "consul": { "service": "api" } }), "consul api"),
            (node!({ "file": "/etc/s.json" }), "file /etc/s.json"),
            (node!({ "http": "http://a/x?key=1" }), "http http://a/x"),
            (node!({ "registration": {} }), "registration"),
        ] {
            let discover: DiscoverSettings = read(&node).unwrap();
            assert_eq!(discover.source().unwrap().to_string(), shown);
            assert_eq!(
                (discover.on_empty, discover.protocol),
                (OnEmpty::Keep, ServerProtocol::Http)
            );
        }
    }

    #[test]
    fn errors_are_found() {
        for (node, expected) in [
            (node!({}), "no source of servers"),
            (node!({ "dns": "a:1", "file": "x" }), "not dns and file"),
            (node!({ "dns": "a" }), "has no port"),
            (node!({ "dns": "10.0.0.1:80" }), "not a name to resolve"),
            (node!({ "dns": "a:0" }), "not a name to resolve"),
            (node!({ "dsn": "a:1" }), "unknown key \"dsn\", did you mean \"dns\"?"),
            (node!({ "etcd": { "endpoints": "a/b", "prefix": "/" } }), "has no path"),
            (node!({ "etcd": { "endpoints": [], "prefix": "/" } }), "no member of etcd"),
            (node!({ "etcd": { "endpoints": "a", "prefix": "" } }), "the prefix is empty"),
            (
                node!({ "etcd": { "endpoints": "a", "prefix": "/", "user": "u" } }),
                "belong together",
            ),
            (node!({ "consul": { "service": "" } }), "the name of the service is empty"),
            (
                node!({ "consul": { "service": "a", "url": "http://a/v1" } }),
                "the URL of Consul has no path",
            ),
            (node!({ "consul": { "service": "a", "wait": "1h" } }), "between 1s and 10m"),
            (node!({ "consul": { "service": "a", "token": "a\nb" } }), "a header cannot have"),
            (node!({ "http": "ftp://a" }), "not ftp://"),
            (node!({ "http": { "url": "http://a", "tls": {} } }), "`tls` has no effect"),
            (node!({ "file": "x", "on_empty": "drop" }), "unknown choice \"drop\""),
            (node!({ "registration": { "ttl": "0s" } }), "between 1s and 1d"),
        ] {
            let out = read::<DiscoverSettings>(&node).unwrap_err();
            assert!(out.contains(expected), "{out}\nwanted {expected}");
        }
    }

    #[test]
    fn what_is_not_part_of_the_source_does_not_restart_it() {
        let read = |node| read::<DiscoverSettings>(&node).unwrap();
        let one = read(node!({ "file": "a" }));
        assert!(one.is_same_source(&read(node!({ "file": "a", "on_empty": "remove" }))));
        assert!(!one.is_same_source(&read(node!({ "file": "b" }))));
        assert!(!one.is_same_source(&read(node!({ "file": "a", "protocol": "h2c" }))));
    }
}
