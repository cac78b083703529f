//! The filter `cache`: a shared HTTP cache (RFC 9111) in front of whatever a route ends in.
//!
//! Owns the rules (pure functions over heads, stored facts and a given time), the key, the store in
//! memory and on disk, the one fetch per variant that all who ask share, and what is derived from a
//! stored body (codings, parts, 304). Promises that nothing is served that the rules do not allow,
//! that nothing of a failed or cut answer is ever served as whole, and that a hit takes no exclusive
//! lock. Never opens a socket: it fetches through `exchange::Next`.

mod key;
pub mod limits;
mod object;
pub mod rules;
pub mod store;

pub use key::{Key, KeyPath, KeyQuery, KeyRules, Matter, Refusal};
pub use object::{Content, Kind, Object, Response};
