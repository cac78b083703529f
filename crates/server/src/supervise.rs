//! Groups of worker processes: started, watched, replaced, ended.

pub(crate) mod limits;
mod link;
mod stats;

pub(crate) use limits::REPORT_EVERY;
pub(crate) use link::{Link, Order, Word};
pub use stats::Stats;
