//! The filter `cache`: a shared HTTP cache (RFC 9111) for the handler of a route.
//!
//! Contains the rules (pure functions of headers, stored facts and the time), keys, the store in
//! memory and on disk, request coalescing, and what is derived from stored content (codings,
//! ranges, 304). Promises that nothing is served that the rules forbid, that an incomplete response
//! is never served as complete, and that a hit takes no exclusive lock. Never opens a socket: it
//! fetches through `plugin::Next`.

mod caches;
mod content_memory;
pub mod explain;
mod fill;
mod filter;
mod filter_config;
mod filter_plan;
mod key;
pub mod limits;
mod metrics;
mod object;
mod owners;
mod parts;
mod purge_request;
pub mod rules;
mod serve;
mod settings;
pub mod shared_purges;
mod single_flight;
pub mod store;
mod transcode;
mod worker_filter;

pub use caches::{Cache, Caches};
pub use filter_config::{FetchConfig, FilterConfig};
pub use filter_plan::{CachePlan, FILTER};
pub use key::{Key, KeyError, KeyPath, KeyQuery, KeyRules, SignificantParams};
pub use object::{Content, Hits, Object, ObjectKind, StoredResponse};
pub use owners::{signed_ask, signed_reply};
pub(crate) use parts::parts_key;
pub use parts::{Part, Parts};
pub use purge_request::{PurgeRequest, PurgeRequestError, PurgeWhat};
pub use settings::{
    BestLevels, CacheSettings, CodingName, CodingSettings, DiskSettings, FetchSettings,
    FilterSettings, HeuristicSettings, KeySettings, Levels, OwnersSettings, PathMode,
    PurgeSettings, PurgesSettings, PurgesThrough, QueryMode, SetCookieMode, StaleSettings,
    StatusTimes, TtlSettings, Unpublished,
};
