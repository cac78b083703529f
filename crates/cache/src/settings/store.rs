//! `caches:`: the stores of the process, by name.

use settings::{FilePath, Size};

settings::record! {
    /// A store for answers, that the filters `cache` of several routes may share. It outlives
    /// reloads: what is in it stays while its name does.
    pub struct CacheSettings {
        /// Memory for what is kept: bodies, heads, keys, and all that is needed to find them.
        pub memory: Size = "256MiB" { in "1MiB"..="16TiB" },
        /// A second tier on disk, which keeps what memory has no room for and survives a restart.
        pub disk: Option<DiskSettings> = null {
            example { "path": "/var/cache/tidegate", "size": "10GiB" }
        },
    }
    short: memory;
}

settings::record! {
    /// The tier on disk.
    pub struct DiskSettings {
        /// A folder of its own, made where it is missing. No two caches may share one.
        pub path: FilePath { example "/var/cache/tidegate" },
        /// How much of the disk it takes.
        pub size: Size = "10GiB" { in "16MiB"..="1024TiB" },
    }
    short: path;
}
