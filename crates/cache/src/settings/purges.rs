//! `purges:`: how purges reach the other servers of a fleet.

use settings::{Duration, Node, Reader, Setting};

/// Sends each purge of a cache to all servers, and applies what the others have purged. A server
/// that was away applies what it has missed before it serves from its caches.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default, check = check)]
pub struct PurgesSettings {
    /// Where the purges are written.
    #[setting(default = "auto")]
    pub through: PurgesThrough,
    /// The name of this server among the others, with Redis: the name of the machine unless set.
    /// Two servers must not have the same. With etcd it is that of `--node`.
    #[setting(example = "web-1")]
    pub node: Option<String>,
    /// How long a server serves from its caches without reaching etcd or Redis, as it may miss
    /// purges. After that it requests everything from the origin. The others list it for so long
    /// as one that has not applied a purge.
    #[setting(default = "1h", range = "5s"..="30d")]
    pub alone: Duration,
    /// What happens to a purge that cannot be written, because etcd or Redis is not reached.
    #[setting(default = "purge")]
    pub unpublished: Unpublished,
}

fn check(settings: &PurgesSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.through == PurgesThrough::Redis {
        reader.uses_shared(node.get("through").unwrap_or(node).span);
    }
}

/// Where purges are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum PurgesThrough {
    /// To etcd if the configuration comes from there, otherwise to the Redis of `shared`.
    Auto,
    /// To etcd, under the prefix of the configuration.
    Etcd,
    /// To the Redis or Valkey of `shared`.
    Redis,
}

/// What happens to a purge that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum Unpublished {
    /// This server purges, and the response says that the others do not.
    Purge,
    /// Nothing is purged, and the response is 503.
    Refuse,
}
