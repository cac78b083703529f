//! `caches:`: the stores of the process, by name.

use settings::{FilePath, Setting, Size};

/// A store for answers, that the filters `cache` of several routes may share. It outlives
/// reloads: what is in it stays while its name does.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = memory, default)]
pub struct CacheSettings {
    /// Memory for what is kept: bodies, heads, keys, and all that is needed to find them.
    #[setting(default = "256MiB", range = "1MiB"..="16TiB")]
    pub memory: Size,
    /// A second tier on disk, which keeps what memory has no room for and survives a restart.
    #[setting(example = { "path": "/var/cache/tidegate", "size": "10GiB" })]
    pub disk: Option<DiskSettings>,
}

/// The tier on disk.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = path)]
pub struct DiskSettings {
    /// A folder of its own, made where it is missing. No two caches may share one.
    #[setting(example = "/var/cache/tidegate")]
    pub path: FilePath,
    /// How much of the disk it takes.
    #[setting(default = "10GiB", range = "16MiB"..="1024TiB")]
    pub size: Size,
}
