//! The rules of a shared cache (RFC 9110, 9111, 5861, 9211, 9213, 9875), as pure functions.
//!
//! Heads, stored facts, a policy and the time go in; decisions come out. Nothing here has a clock,
//! a store or a socket, and nothing here waits.

pub mod answer;
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
pub mod status;
pub mod store;
mod strip;
pub mod tags;
mod targeted;
pub mod validate;
pub mod vary;

pub use directives::SECONDS_MAX;
pub use lifetime::Times;
pub use meta::{Flags, Meta, SearchRule, Vary};
pub use policy::{Heuristic, Policy, SetCookie, StatusCeiling};
pub use reason::{Forward, Reason};
pub use request::{Asked, Way};
pub use reuse::Reuse;
pub use status::{Status, Taken};
pub use store::{Fetch, Storing};
pub use strip::remove_for_us;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
