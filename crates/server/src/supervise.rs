//! Groups of worker processes: started, watched, replaced, ended.

pub(crate) mod limits;
mod link;
mod policy;
mod stats;

pub(crate) use limits::REPORT_EVERY;
pub(crate) use link::{Link, Order, Word};
pub use policy::{DevReload, Policy};
pub use stats::Stats;
