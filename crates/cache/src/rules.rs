//! The rules of a shared cache (RFC 9110, 9111, 5861, 9211, 9213, 9875), as pure functions.
//!
//! They decide from headers, stored facts, a policy and the time. Nothing here has a clock, a store
//! or a socket, and nothing waits.

pub mod conditions;
mod date;
mod directives;
pub mod invalidate;
mod language;
mod lifetime;
pub mod merge;
mod meta;
mod policy;
pub mod precondition;
mod reason;
pub mod request;
pub mod reuse;
pub mod search;
mod split_headers;
pub mod status;
pub mod store;
pub mod tags;
mod targeted;
pub mod validate;
pub mod vary;

pub use lifetime::Times;
pub use meta::{Flags, Meta, SearchRule, Vary};
pub use policy::{Heuristic, Policy, SetCookie, StatusCeiling};
pub use reason::{Forward, UncachedReason};
pub use request::{Disposition, RequestDirectives};
pub use reuse::Reuse;
pub use split_headers::remove_cache_fields;
pub use status::{CacheOutcome, Status};
pub use store::{FetchContext, StorableResponse};
pub use wire::cache_control::SECONDS_MAX;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
