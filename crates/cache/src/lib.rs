//! The filter `cache`: a shared HTTP cache (RFC 9111) in front of whatever a route ends in.
//!
//! Owns the rules (pure functions over heads, stored facts and a given time), the key, the store
//! in memory and on disk, the one fetch per variant that all who ask share, and what is derived
//! from a stored body (codings, parts, 304). Promises that nothing is served that the rules do not
//! allow, that nothing of a failed or cut answer is ever served as whole, and that a hit takes no
//! exclusive lock. Never opens a socket: it fetches through `exchange::Next`.

mod caches;
mod content_memory;
pub mod explain;
mod fill;
mod filter;
mod filter_config;
mod key;
pub mod limits;
mod metrics;
mod object;
mod parts;
mod plan;
pub mod rules;
mod serve;
mod settings;
mod single_flight;
pub mod store;
mod transcode;
mod worker_filter;

pub use caches::{Cache, Caches};
pub use filter_config::{FetchConfig, FilterConfig};
pub use key::{Key, KeyError, KeyPath, KeyQuery, KeyRules, SignificantParams};
pub use object::{Content, Object, ObjectKind, StoredResponse};
pub(crate) use parts::parts_key;
pub use parts::{Part, Parts};
pub use plan::{CachePlan, FILTER};
pub use settings::{
    BestLevels, CacheSettings, CodingName, CodingSettings, DiskSettings, FetchSettings,
    FilterSettings, HeuristicSettings, KeySettings, Levels, PathMode, PurgeSettings, QueryMode,
    SetCookieMode, StaleSettings, StatusTimes, TtlSettings,
};
