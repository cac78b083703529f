//! Configurations of other products, read into ours.
//!
//! Promises that what comes out can be checked and started, and that whatever has no counterpart
//! here is said in a comment beside the place where it would stand.

pub(crate) mod pike;
mod writer;
