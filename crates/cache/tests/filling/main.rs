//! Fetches of responses that are not stored: through the filter of a route, with clients and an
//! origin that follow a script, on one worker and on two.

// Clippy recognises test functions, but not their helper functions.
#![allow(clippy::unwrap_used)]

mod allowed;
mod alone;
mod chaos;
mod codings;
mod conformance;
mod cut;
mod herd;
mod owned;
mod purged;
mod requesting;
mod site;
mod stale;
mod threads;
mod variants;
