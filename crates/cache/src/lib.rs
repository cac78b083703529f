//! The filter `cache`: a shared HTTP cache (RFC 9111) in front of whatever a route ends in.
//!
//! Owns the rules (pure functions over heads, stored facts and a given time), the key, the store
//! in memory and on disk, the one fetch per variant that all who ask share, and what is derived
//! from a stored body (codings, parts, 304). Promises that nothing is served that the rules do not
//! allow, that nothing of a failed or cut answer is ever served as whole, and that a hit takes no
//! exclusive lock. Never opens a socket: it fetches through `exchange::Next`.

mod caches;
mod derive;
pub mod explain;
mod fill;
mod filter;
mod flight;
mod held;
mod key;
pub mod limits;
mod metrics;
mod object;
mod parts;
mod plan;
pub mod rules;
mod serve;
mod settings;
pub mod store;

pub use caches::{Cache, Caches};
pub use key::{Key, KeyPath, KeyQuery, KeyRules, Matter, Refusal};
pub use object::{Content, Kind, Object, Response};
pub(crate) use parts::parts_key;
pub use parts::{Part, Parts};
pub use plan::{CachePlan, FILTER, FetchTerms, Terms};
pub use settings::{
    BestLevels, CacheSettings, CodingSettings, CodingWord, DiskSettings, FetchSettings,
    FilterSettings, HeuristicSettings, KeySettings, Levels, PathWord, PurgeSettings, QueryWord,
    SetCookieWord, StaleSettings, StatusTimes, TtlSettings,
};
