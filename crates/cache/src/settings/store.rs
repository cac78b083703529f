//! `caches:`: the stores of the process, by name.

use settings::{FilePath, Setting, Size};

/// A store for responses, which the `cache` filters of several routes may share. It outlives
/// reloads: what is stored stays while its name does.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = memory, default)]
pub struct CacheSettings {
    /// Memory for stored responses: bodies, headers, keys, and the tables to find them.
    #[setting(default = "256MiB", range = "1MiB"..="16TiB")]
    pub memory: Size,
    /// A second tier on disk for what does not fit in memory. It survives a restart. Bodies of
    /// 64 KiB and more are sent from there and take no memory.
    #[setting(example = { "path": "/var/cache/tidegate", "size": "10GiB" })]
    pub disk: Option<DiskSettings>,
}

/// The tier on disk.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = path)]
pub struct DiskSettings {
    /// A directory of its own, created if it is missing. No two caches may share one.
    #[setting(example = "/var/cache/tidegate")]
    pub path: FilePath,
    /// How much of the disk it takes.
    #[setting(default = "10GiB", range = "16MiB"..="1024TiB")]
    pub size: Size,
}
