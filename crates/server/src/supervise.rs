//! Groups of worker processes: started, watched, replaced, ended.

mod back_off;
mod group;
pub(crate) mod limits;
mod link;
mod policy;
mod running;
mod slot;
mod stats;
mod verdict;

pub(crate) use group::{Doors, Group, GroupSettings};
pub(crate) use limits::REPORT_EVERY;
pub(crate) use link::{Link, Order, Word};
pub use policy::{DevReload, Policy};
pub use stats::Stats;

#[cfg(test)]
mod tests;
