//! The section `shared`: where the state is that several servers share.

use std::time::Duration;

use net::tls::{CertificateName, ClientTls};
use settings::{Node, Reader, Secret, Setting, Spanned};
use tls_settings::UpstreamTlsSettings;

use crate::limits::ADDRESSES;
use store::RedisAddress;

/// Longest prefix: it is in every key.
const PREFIX_BYTES: usize = 64;

/// The state that several servers share in Redis or Valkey: filters with `shared: true` count
/// together.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct SharedSettings {
    /// Where Redis or Valkey is: `redis://HOST:PORT`, `rediss://HOST:PORT` with TLS, or
    /// `unix:PATH`. One server; with `sentinel` the Sentinels; with `cluster` some of the nodes.
    #[setting(example = ["redis://10.0.0.9"])]
    pub(crate) redis: Vec<Spanned<RedisAddress>>,
    /// The name of the primary that the Sentinels watch.
    #[setting(example = "mymaster")]
    pub(crate) sentinel: Option<String>,
    /// The servers are nodes of a Redis Cluster.
    #[setting(default = false)]
    pub(crate) cluster: bool,
    /// The user of `AUTH`; without it the default user.
    #[setting(example = "tidegate")]
    pub(crate) username: Option<String>,
    /// The password of `AUTH`.
    #[setting(example = "${REDIS_PASSWORD}")]
    pub(crate) password: Option<Secret>,
    /// The password of the Sentinels.
    #[setting(example = "${SENTINEL_PASSWORD}")]
    pub(crate) sentinel_password: Option<Secret>,
    /// The number of the database.
    #[setting(default = 0, range = 0..=65535)]
    pub(crate) database: u32,
    /// What every key begins with. Servers with the same prefix share.
    #[setting(default = "tidegate", example = "shop")]
    pub(crate) prefix: String,
    /// TLS to servers whose addresses begin with `rediss://`.
    pub(crate) tls: Option<Spanned<UpstreamTlsSettings>>,
    /// How often a server sends what it has counted and receives what others have.
    #[setting(default = "100ms", range = "10ms"..="10s")]
    pub(crate) interval: settings::Duration,
    /// The longest time for a connection, and for a reply.
    #[setting(default = "1s", range = "50ms"..="1m")]
    pub(crate) timeout: settings::Duration,
    /// How many servers share, as long as a server that has started has not reached Redis: its
    /// share is the limit divided by this number.
    #[setting(default = 1, range = 1..=10000, example = 3)]
    pub(crate) servers: u32,
}

fn check(settings: &SharedSettings, node: &Node, reader: &mut Reader<'_>) {
    let place = |key| node.get(key).map_or(node.span, |value| value.span);
    let count = settings.redis.len();
    if count == 0 || count > ADDRESSES {
        reader.error(place("redis"), format!("`redis` has 1 to {ADDRESSES} addresses"));
    }
    if settings.cluster && settings.sentinel.is_some() {
        reader.error(place("cluster"), "a Cluster has no Sentinels: write one of both");
    }
    let is_single = !settings.cluster && settings.sentinel.is_none();
    if is_single && count > 1 {
        let why = "several addresses are Sentinels or nodes of a Cluster";
        let help = "add `sentinel: NAME_OF_THE_PRIMARY` or `cluster: true`";
        reader.error(place("redis"), why).help(help);
    }
    if settings.cluster && settings.database != 0 {
        reader.error(place("database"), "a Cluster has the database 0 only");
    }
    for address in &settings.redis {
        if !is_single && matches!(address.value, RedisAddress::Unix(_)) {
            reader.error(address.span, "Sentinels and Clusters are reached over TCP");
        }
    }
    if settings.username.is_some() && settings.password.is_none() {
        reader.error(place("username"), "a user needs a `password`");
    }
    if settings.sentinel_password.is_some() && settings.sentinel.is_none() {
        let why = "`sentinel_password` has no effect without `sentinel`";
        reader.error(place("sentinel_password"), why);
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:./".contains(&byte);
    let prefix = &settings.prefix;
    if prefix.is_empty() || prefix.len() > PREFIX_BYTES || !prefix.bytes().all(fits) {
        let why = format!("the prefix is 1 to {PREFIX_BYTES} letters, digits and - _ : . /");
        reader.error(place("prefix"), why);
    }
}

/// The checked section.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisPlan {
    settings: SharedSettings,
    pub(crate) tls: Option<ClientTls>,
}

impl RedisPlan {
    /// Reads the files of the settings.
    pub fn new(settings: &Spanned<SharedSettings>, reader: &mut Reader<'_>) -> Option<RedisPlan> {
        let tls = settings.tls.as_ref();
        let secure = settings.redis.iter().find(|address| address.is_secure());
        let tls = match (secure, tls) {
            (Some(address), None) => {
                Some(UpstreamTlsSettings::default().build(&[], address.span, reader)?)
            }
            (Some(_), Some(tls)) => Some(tls.build(&[], tls.span, reader)?),
            (None, Some(tls)) => {
                reader.error(tls.span, "`tls` has no effect: no address is one of rediss://");
                None
            }
            (None, None) => None,
        };
        Some(RedisPlan { settings: settings.value.clone(), tls })
    }

    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = &RedisAddress> {
        self.settings.redis.iter().map(|address| &address.value)
    }

    pub(crate) fn sentinel(&self) -> Option<&str> {
        self.settings.sentinel.as_deref()
    }

    /// True if the keys are on several nodes, one of which may fail alone.
    pub fn is_cluster(&self) -> bool {
        self.settings.cluster
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// User and password of `AUTH`.
    pub(crate) fn credentials(&self) -> (Option<&str>, Option<&[u8]>) {
        let password = self.settings.password.as_ref().map(Secret::expose);
        (self.settings.username.as_deref(), password)
    }

    pub(crate) fn sentinel_credentials(&self) -> (Option<&str>, Option<&[u8]>) {
        (None, self.settings.sentinel_password.as_ref().map(Secret::expose))
    }

    pub fn database(&self) -> u32 {
        self.settings.database
    }

    pub(crate) fn server_name(&self) -> Option<CertificateName> {
        self.settings.tls.as_ref()?.server_name()
    }

    /// What every key begins with.
    pub fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// How often counts are exchanged.
    pub fn interval(&self) -> Duration {
        self.settings.interval.get()
    }

    /// The longest time for a connection, and for a reply.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout.get()
    }

    /// How many servers share, before Redis has been reached.
    pub fn servers(&self) -> u32 {
        self.settings.servers
    }

    /// The addresses, for messages.
    pub fn describe(&self) -> String {
        let addresses: Vec<String> = self.addresses().map(RedisAddress::to_string).collect();
        addresses.join(", ")
    }
}
