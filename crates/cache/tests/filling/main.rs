//! How what is not stored is fetched: through the filter as routes have it, with clients and an
//! origin that do what a test says, on one worker and on two.

// Clippy knows test functions as such, and not their helpers.
#![allow(clippy::unwrap_used)]

mod allowed;
mod alone;
mod chaos;
mod codings;
mod conformance;
mod cut;
mod herd;
mod purged;
mod requesting;
mod site;
mod stale;
mod threads;
mod variants;
