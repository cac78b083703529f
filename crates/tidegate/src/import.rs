//! Converts configurations of other products.
//!
//! Promises that the result passes `check`, and that each setting without a counterpart is named in
//! a comment at its position.

pub(crate) mod nginx;
pub(crate) mod openapi;
pub(crate) mod pike;
pub(crate) mod shenyu;
mod writer;
